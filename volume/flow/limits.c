/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/flow/limits.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/op/flow.h"
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

struct limit {
	struct operation op;
	const struct volume_limits *wanted; /* borrowed */
	struct volume_limits before;
};

/*
 * Say in the record that the limits are not all in force. A repeat brings them
 * there.
 */
static int limit_keep(struct operation *op, int r, struct error *err)
{
	(void)volume_record_condition(op->record, CONDITION, false,
				      "Unfinished", error_text(err));
	(void)operation_save(op, NULL); /* the limits in it suffice */
	return error_prefix(err, r,
			    "the limits of volume '%s' are not all in force "
			    "(repeat the command to finish): ",
			    op->name);
}

static int limit_undo(struct operation *op, int failed, struct error *err)
{
	int r;

	if (error_is_open(failed))
		return 1;
	op->record->spec.limits = container_of(op, struct limit, op)->before;
	r = limits_apply(op, err);
	return r < 0 ? r : operation_save(op, err);
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

static int limit_record(struct operation *op, struct error *err)
{
	struct limit *limit = container_of(op, struct limit, op);
	int r = operation_check_ready(op, err);

	if (r < 0)
		return r;
	limit->before = op->record->spec.limits;
	op->total = (unsigned)op->record->n_splits;
	if (!limits_differ(&limit->before, limit->wanted))
		return 0;
	op->record->spec.limits = *limit->wanted;
	return operation_save(op, err);
}

static int limit_finish(struct operation *op, struct error *err)
{
	int r;

	condition_clear(op->record);
	r = operation_save(op, err);
	if (r == 0)
		operation_finish(op, "volume %s has its limits", op->name);
	return r;
}

static const struct flow_phase limit_phases[] = {
	{limit_record, FLOW_LEAVE},
	{limits_apply, FLOW_UNDO},
	{limit_finish, FLOW_LEAVE},
	{NULL, FLOW_LEAVE},
};
static const struct flow limit_flow = {
	.phases = limit_phases,
	.undo = limit_undo,
	.keep = limit_keep,
};

int volume_limit(struct volume_context *ctx, const char *name,
		 const struct volume_limits *limits, struct volume_record **ret,
		 struct error *err)
{
	struct limit limit = {.wanted = limits};
	int r;

	if (limits->iops > VOLUME_LIMIT_MAX ||
	    limits->bytes_per_second > VOLUME_LIMIT_MAX)
		return error_set(err, EINVAL, "a limit is at most 2^60");
	r = operation_begin_id(&limit.op, ctx, name, "limiting volume", err);
	if (r < 0)
		return r;
	r = flow_run(&limit_flow, &limit.op, err);
	if (r == 0 && ret)
		*ret = take_ptr(limit.op.record);
	operation_end(&limit.op);
	return r;
}
