/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_revert(): nobody uses the volume and all that is needed is there;
 * then the record says Reverting, until every extent has the old content. A
 * revert that was cut short is finished, or begun again to another snapshot.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/mount/local.h"
#include "volume/op/flow.h"
#include "volume/op/split.h"
#include "volume/plan/volume_plan.h"
#include "volume/snapshot/snapshot_op.h"

struct revert {
	struct operation op;
	const struct snapshot_record *snapshot; /* borrowed */
};

static const struct snapshot_record *snapshot_of(struct operation *op)
{
	return container_of(op, struct revert, op)->snapshot;
}

static int revert_check_unused(struct operation *op, struct error *err)
{
	const struct volume_attachment *a = op->record->attachments;

	if (op->record->n_attachments > 0)
		return error_set(
			err, EBUSY,
			"volume '%s' is %s node '%s'; only an unused volume can be "
			"reverted",
			op->name,
			a->state == ATTACHMENT_PUBLISHED ? "published to"
							 : "attached on",
			a->node);
	return local_check_none(op, err);
}

/* The snapshot's splits are the volume's. */
static int check_splits(const struct operation *op,
			const struct snapshot_record *snapshot,
			struct error *err)
{
	const struct volume_record *record = op->record;
	bool same = record->n_splits == snapshot->n_splits;

	if (strcmp(record->uid, snapshot->volume_uid) != 0)
		return error_set(err, EINVAL,
				 "snapshot '%s' is not one of volume '%s'",
				 snapshot->name, op->name);
	for (size_t i = 0; same && i < record->n_splits; i++)
		same = strcmp(record->splits[i].extent_id,
			      snapshot->splits[i].origin_id) == 0;
	if (same)
		return 0;
	return error_set(
		err, EINVAL,
		"volume '%s' has other extents than when snapshot '%s' "
		"was cut; `trib snapshot restore %s NAME` makes a new "
		"volume of it",
		op->name, snapshot->name, snapshot->name);
}

static int revert_check(struct operation *op, struct error *err)
{
	const struct snapshot_record *snapshot = snapshot_of(op);
	int r = 0;

	if (!op->record || op->record->phase != VOLUME_REVERTING)
		r = operation_check_ready(op, err);
	if (r < 0 || !op->record)
		return r;
	r = operation_check_staying(op, err);
	if (r == 0)
		r = revert_check_unused(op, err);
	if (r == 0 && volume_plan_is_open(op->record))
		r = error_set(err, EBUSY,
			      "volume '%s' is half way through a resize; "
			      "finish that by `trib volume resize` first",
			      op->name);
	if (r == 0)
		r = snapshot_check_whole(snapshot, err);
	if (r == 0 && snapshot->phase != SNAPSHOT_READY)
		r = error_set(err,
			      snapshot->phase == SNAPSHOT_DELETING ? EBUSY
								   : EAGAIN,
			      "snapshot '%s' is %s", snapshot->name,
			      snapshot_phase_name(snapshot->phase));
	return r < 0 ? r : check_splits(op, snapshot, err);
}

/* ---- one split ---- */

static int check_snapshot(const struct snapshot_record *snapshot,
			  const struct snapshot_split *from,
			  struct node_client *client, struct error *err)
{
	struct node_extent extent = {0};
	int r = node_client_get_extent(client, from->extent, &extent, err);

	if (r == -ENOENT ||
	    (r == 0 && !snapshot_split_is(snapshot, from, &extent)))
		r = error_set(err, EIO,
			      "extent '%s' of snapshot '%s' is missing on node "
			      "'%s'",
			      from->extent, snapshot->name, from->node);
	node_extent_done(&extent);
	return r;
}

/* Before anything is done: afterwards there is no way back. */
static int revert_check_split(struct operation *op, struct volume_split *split,
			      const void *snapshot_, struct error *err)
{
	const struct snapshot_record *snapshot = snapshot_;
	struct node_client *client = NULL;
	uint64_t epoch;
	int r = context_client(op->ctx, split->node, &client, err);

	if (r == 0)
		r = check_snapshot(snapshot, &snapshot->splits[split->index],
				   client, err);
	return r < 0 ? r : split_check_unused(op, split, &epoch, err);
}

static int revert_one(struct operation *op, struct volume_split *split,
		      const void *snapshot_, struct error *err)
{
	const struct snapshot_record *snapshot = snapshot_;
	const struct snapshot_split *from = &snapshot->splits[split->index];
	struct node_client *client = NULL;
	struct split_grants grants;
	int r = operation_step(
		op, err, "revert", "reverting extent %u of %zu on node %s",
		split->index + 1, op->record->n_splits, split->node);

	if (r == 0)
		r = context_client(op->ctx, split->node, &client, err);
	/*
	 * By the record nobody has the extent; users that the export knows are
	 * cut off.
	 */
	split_grants_of(op->record, &grants);
	if (r == 0)
		r = node_client_remove_export(client, split->extent, 0,
					      grants.items, grants.n, err);
	if (r == 0)
		r = node_client_revert_extent(client, split->extent,
					      split->extent_id, from->extent,
					      NULL, err);
	if (r < 0)
		return r;
	operation_lock(op);
	split->state = from->content;
	memcpy(split->fs_uuid, from->fs_uuid, sizeof(split->fs_uuid));
	split->fs_behind = from->content == SPLIT_READY &&
			   (from->fs_behind || split->size > from->size);
	operation_unlock(op);
	return 0;
}

/* ---- the whole ---- */

static int revert_begin(struct operation *op, struct error *err)
{
	const struct snapshot_record *snapshot = snapshot_of(op);
	const struct split_work look = {.each = revert_check_split,
					.context = snapshot};
	int r;

	op->total = (unsigned)op->record->n_splits + 2;
	r = operation_step(op, err, "check", "asking the nodes");
	if (r == 0)
		r = split_foreach(op, &look, NULL, err);
	if (r < 0)
		return r;
	op->record->phase = VOLUME_REVERTING;
	memcpy(op->record->reverted, snapshot->name,
	       sizeof(op->record->reverted));
	memcpy(op->record->reverted_uid, snapshot->uid,
	       sizeof(op->record->reverted_uid));
	return operation_save(op, err);
}

static int revert_extents(struct operation *op, struct error *err)
{
	const struct split_work work = {.each = revert_one,
					.context = snapshot_of(op)};
	int r = split_foreach(op, &work, NULL, err);

	return r < 0 ? r
		     : operation_step(op, err, "record", "writing the record");
}

static int revert_finish(struct operation *op, struct error *err)
{
	int r;

	op->record->phase = VOLUME_READY;
	r = operation_save(op, err);
	if (r == 0)
		operation_finish(op, "volume %s is as it was in snapshot %s",
				 op->name, snapshot_of(op)->name);
	return r;
}

static int revert_keep(struct operation *op, int r, struct error *err)
{
	(void)operation_save(op, NULL); /* a repeat does it again */
	return error_prefix(err, r,
			    "volume '%s' is not yet reverted (repeat the "
			    "command to finish): ",
			    op->name);
}

static const struct flow_phase revert_phases[] = {
	{revert_check, FLOW_LEAVE},  {revert_begin, FLOW_LEAVE},
	{revert_extents, FLOW_KEEP}, {revert_finish, FLOW_LEAVE},
	{NULL, FLOW_LEAVE},
};
static const struct flow revert_flow = {.phases = revert_phases,
					.keep = revert_keep};

int volume_revert(struct volume_context *ctx, const char *volume,
		  const char *snapshot, struct error *err)
{
	struct revert revert = {0};
	struct snapshot_op s;
	int r = snapshot_op_begin(&s, ctx, snapshot, "reverting to snapshot",
				  err);

	if (r < 0)
		return r;
	if (!s.record)
		r = error_set(err, ENOENT, "there is no snapshot '%s'",
			      snapshot);
	if (r == 0)
		r = operation_begin_id(&revert.op, ctx, volume,
				       "reverting volume", err);
	if (r == 0) {
		revert.snapshot = s.record;
		r = flow_run(&revert_flow, &revert.op, err);
		operation_end(&revert.op);
	}
	snapshot_op_end(&s);
	return r;
}
