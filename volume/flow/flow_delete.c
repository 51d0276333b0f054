/* SPDX-License-Identifier: Apache-2.0 */
/* volume_delete(). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "volume/mount/local.h"
#include "volume/move/move.h"
#include "volume/op/flow.h"
#include "volume/op/split.h"
#include "volume/snapshot/clone_source.h"

static int delete_check_unused(struct operation *op, struct error *err)
{
	const struct volume_attachment *a = op->record->attachments;

	if (op->record->n_attachments > 0 && a->state == ATTACHMENT_PUBLISHED)
		return error_set(err, EBUSY,
				 "volume '%s' is published to node '%s'; `trib "
				 "volume unpublish %s` takes that back",
				 op->name, a->node, op->name);
	if (op->record->n_attachments > 0)
		return error_set(err, EBUSY,
				 "volume '%s' is attached on node '%s'%s%s; "
				 "unmount it there first",
				 op->name, a->node,
				 a->mount_point[0] ? " at " : "",
				 a->mount_point);
	/* Fenced here, but not yet taken down: the devices would stay. */
	return local_check_none(op, err);
}

static int delete_extent(struct operation *op, struct volume_split *split,
			 const void *context, struct error *err)
{
	(void)context;
	return split->state == SPLIT_DELETED ? 0 : split_delete(op, split, err);
}

/* Every extent that can be; the first problem is returned. */
static int delete_extents(struct operation *op, struct error *err)
{
	static const struct split_work work = {.each = delete_extent};

	return split_foreach(op, &work, NULL, err);
}

/* Look for users by other records, before anything is changed. */
static int delete_look(struct operation *op, struct error *err)
{
	return splits_look(op, SPLITS_HELD | SPLITS_FOUND, NULL, err);
}

static int delete_mark(struct operation *op, struct error *err)
{
	op->total = (unsigned)op->record->n_splits + 1;
	if (op->record->phase == VOLUME_DELETING)
		return 0;
	op->record->phase = VOLUME_DELETING;
	return operation_save(op, err);
}

static int delete_record(struct operation *op, struct error *err)
{
	int r = operation_step(op, err, "record", "removing the record");

	if (r == 0)
		r = operation_remove(op, err);
	if (r == 0)
		operation_finish(op, "volume %s is gone", op->name);
	return r;
}

static int delete_keep(struct operation *op, int r, struct error *err)
{
	(void)volume_record_condition(op->record, "Deleted", false,
				      "Unfinished", error_text(err));
	(void)operation_save(op, NULL); /* a repeat finds out again */
	return error_prefix(
		err, r,
		"volume '%s' is not yet deleted (repeat the command "
		"to finish): ",
		op->name);
}

static const struct flow_phase delete_phases[] = {
	{delete_check_unused, FLOW_LEAVE},
	{delete_look, FLOW_LEAVE},
	{delete_mark, FLOW_LEAVE},
	{move_drop_all, FLOW_KEEP},
	{delete_extents, FLOW_KEEP},
	/* The clone's source may have been left half made. */
	{clone_source_drop, FLOW_KEEP},
	{delete_record, FLOW_LEAVE},
	{NULL, FLOW_LEAVE},
};
static const struct flow delete_flow = {.phases = delete_phases,
					.keep = delete_keep};

int volume_delete(struct volume_context *ctx, const char *name,
		  struct error *err)
{
	struct operation op;
	int r = operation_begin_id(&op, ctx, name, "deleting volume", err);

	if (r < 0)
		return r;
	if (op.record)
		r = flow_run(&delete_flow, &op, err);
	operation_end(&op);
	return r;
}
