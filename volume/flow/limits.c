/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/flow/limits.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/op/split.h"
#include "volume/snapshot/snapshot.h"

#define CONDITION "Limited"

static int limit_one(struct operation *op, struct volume_split *split,
		     const void *context, struct error *err)
{
	const struct node_limits limits = split_limits(op->record, split);
	struct node_client *client = NULL;
	int r = operation_step(
		op, err, "limit", "limiting extent %u of %zu on node %s",
		split->index + 1, op->record->n_splits, split->node);

	(void)context;
	if (r == 0)
		r = context_client(op->ctx, split->node, &client, err);
	return r < 0 ? r
		     : node_client_set_limits(client, split->extent, &limits,
					      NULL, err);
}

int limits_apply(struct operation *op, struct error *err)
{
	static const struct split_work work = {.each = limit_one};

	return split_foreach(op, &work, NULL, err);
}

/* ---- volume_limit() ---- */

static bool limits_differ(const struct volume_limits *a,
			  const struct volume_limits *b)
{
	return a->iops != b->iops || a->bytes_per_second != b->bytes_per_second;
}

/*
 * Say in the record that the limits are not all in force. A repeat brings them
 * there.
 */
static int limit_keep(struct operation *op, int r, struct error *err)
{
	(void)volume_record_condition(op->record, CONDITION, false,
				      "Unfinished", error_text(err));
	(void)operation_save(op, NULL); /* the limits in it suffice */
	(void)error_prefix(err,
			   "the limits of volume '%s' are not all in force "
			   "(repeat the command to finish): ",
			   op->name);
	return r;
}

static int set_back(struct operation *op, const struct volume_limits *before,
		    int r, struct error *err)
{
	struct error why = {0};
	int e;

	op->record->spec.limits = *before;
	op->undoing = true;
	e = limits_apply(op, &why);
	if (e == 0)
		e = operation_save(op, &why);
	if (e == 0)
		return r;
	(void)error_prefix(err,
			   "%s; and to undo it failed: ", error_text(&why));
	return limit_keep(op, -EHOSTUNREACH, err);
}

/* A condition that is there only after something went wrong. */
static void condition_clear(struct volume_record *record)
{
	for (size_t i = 0; i < record->n_conditions; i++) {
		if (strcmp(record->conditions[i].type, CONDITION) == 0)
			(void)volume_record_condition(record, CONDITION, true,
						      "Done",
						      "all extents have "
						      "their limits");
	}
}

static int limit(struct operation *op, const struct volume_limits *limits,
		 struct error *err)
{
	struct volume_limits before;
	int r = operation_check_ready(op, err);

	if (r < 0)
		return r;
	before = op->record->spec.limits;
	op->total = (unsigned)op->record->n_splits;
	if (limits_differ(&before, limits)) {
		op->record->spec.limits = *limits;
		r = operation_save(op, err);
	}
	if (r < 0)
		return r;
	r = limits_apply(op, err);
	if (r < 0)
		return error_is_open(r) ? limit_keep(op, r, err)
					: set_back(op, &before, r, err);
	condition_clear(op->record);
	r = operation_save(op, err);
	if (r == 0)
		operation_finish(op, "volume %s has its limits", op->name);
	return r;
}

int volume_limit(struct volume_context *ctx, const char *name,
		 const struct volume_limits *limits, struct volume_record **ret,
		 struct error *err)
{
	struct operation op;
	int r;

	if (limits->iops > VOLUME_LIMIT_MAX ||
	    limits->bytes_per_second > VOLUME_LIMIT_MAX)
		return error_set(err, EINVAL, "a limit is at most 2^60");
	r = operation_begin_id(&op, ctx, name, "limiting volume", err);
	if (r < 0)
		return r;
	r = limit(&op, limits, err);
	if (r == 0 && ret)
		*ret = take_ptr(op.record);
	operation_end(&op);
	return r;
}
