/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The way by the union: the volume is mounted here, and is used meanwhile.
 *
 * - begin: the record says Moving, and has a further split, the successor,
 *   without an extent.
 * - make: the extent; its id is in the record.
 * - join: the successor is attached, formatted and mounted; its note says whose
 *   place it has; the record says that it has joined; the union takes it.
 * - drain: the union moves each file from the old branch, to the successor as
 *   far as that has room; the empty branch leaves.
 * - settle: the old branch and device are taken down here; one write of the
 *   record makes the successor's place the split's.
 * - end: the old extent is deleted.
 *
 * Each phase finds out what is done, so a repeat goes on after any kill. A
 * cancelled move goes the same way back: the successor is drained, and leaves.
 * While files are in both, both are splits of the volume: each attach exports,
 * fences and mounts both, and the union goes on draining by its own note.
 *
 * The lease of the volume is not held while the union drains. So it can be
 * unmounted meanwhile. Then it has to be mounted again for its move to end.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/mount/local.h"
#include "volume/mount/local_union.h"
#include "volume/move/move_union.h"
#include "volume/plan/volume_plan.h"

/* ---- may it begin? ---- */

static int refuse_move(const struct volume_attachment *a, const char *why,
		       struct error *err)
{
	return error_set(err, EBUSY, "it is attached on node '%s'%s%s, %s",
			 a->node, a->mount_point[0] ? " at " : "",
			 a->mount_point, why);
}

/* The attachment whose union moves its files. */
static int union_find_here(struct operation *op,
			   const struct volume_attachment **ret,
			   struct error *err)
{
	const struct volume_attachment *found = NULL;

	for (size_t i = 0; i < op->record->n_attachments; i++)
		if (op->record->attachments[i].state != ATTACHMENT_PUBLISHED)
			found = &op->record->attachments[i];
	if (!found)
		return error_set(err, EBUSY,
				 "its union moves it, and it is mounted "
				 "nowhere: mount it, and repeat this there");
	if (strcmp(found->node, op->ctx->node) != 0)
		return refuse_move(found,
				   "whose union moves it: run this there", err);
	if (found->read_only)
		return refuse_move(
			found, "for reading only: unmount it there first", err);
	if (found->state != ATTACHMENT_ATTACHED || !found->mount_point[0])
		return refuse_move(
			found, "but not whole: `trib mount` repairs it", err);
	*ret = found;
	return 0;
}

bool move_may_be_live(const struct volume_context *ctx,
		      const struct volume_record *record)
{
	bool here = false;

	for (size_t i = 0; i < record->n_attachments; i++) {
		const struct volume_attachment *a = &record->attachments[i];

		if (a->state == ATTACHMENT_PUBLISHED)
			continue;
		if (strcmp(a->node, ctx->node) != 0 || a->read_only ||
		    a->state != ATTACHMENT_ATTACHED)
			return false;
		here = true;
	}
	return here && !volume_spec_is_device(&record->spec);
}

static int union_check(struct operation *op, struct error *err)
{
	const struct volume_record *record = op->record;
	const struct volume_split *split = move_split(op);
	const struct volume_attachment *a = NULL;
	bool attached = false;
	int r;

	for (size_t i = 0; i < record->n_attachments; i++)
		attached = attached ||
			   record->attachments[i].state != ATTACHMENT_PUBLISHED;
	if (!attached || volume_spec_is_device(&record->spec))
		return -EOPNOTSUPP;
	r = union_find_here(op, &a, err);
	if (r < 0)
		return r;
	if (record->n_splits == VOLUME_SPLITS_MAX)
		return refuse_move(a,
				   "and has as many splits as a union takes: "
				   "unmount it there first",
				   err);
	if (split->state != SPLIT_READY || split->suspect || split->copying ||
	    !local_union_has(op->ctx, a->mount_point, record, record->n_splits))
		return refuse_move(a, "but not whole: `trib mount` repairs it",
				   err);
	return 0;
}

/* ---- begin ---- */

static int successor_add(struct operation *op, struct error *err)
{
	struct move *move = container_of(op, struct move, op);
	struct volume_record *record = op->record;
	struct volume_split *splits = reallocarray(
		record->splits, record->n_splits + 1, sizeof(*splits));
	struct volume_split *successor;

	if (!splits)
		return error_set(err, ENOMEM, "out of memory");
	record->splits = splits;
	move_split(op)->move.way = SPLIT_MOVE_UNION;
	successor = &splits[record->n_splits];
	*successor = move_other_place(&splits[move->index]);
	successor->index = (unsigned)record->n_splits++;
	successor->state = SPLIT_PLANNED;
	successor->fs_behind = false;
	successor->move = (struct split_move){0};
	(void)uuid_make(successor->fs_uuid);
	return 0;
}

static int union_begin(struct operation *op, struct error *err)
{
	struct move *move = container_of(op, struct move, op);
	int r;

	op->total = MOVE_UNION_STEPS;
	if (op->record->phase == VOLUME_MOVING)
		return 0;
	r = volume_plan_move(op, move->index, &move->request->to, err);
	if (r == 0) {
		volume_plan_move_apart(op->record, move_split(op));
		r = successor_add(op, err);
	}
	if (r < 0)
		return r;
	op->record->phase = VOLUME_MOVING;
	return operation_save(op, err);
}

/* ---- the end, either way ---- */

/* The successor is none any more; what @left says is to be deleted. */
static int union_over(struct operation *op, const struct split_move *left,
		      struct error *err)
{
	struct volume_split *leaving = move_split(op);
	const struct split_move before = leaving->move;
	int r;

	leaving->move = *left;
	op->record->n_splits--;
	op->record->phase = VOLUME_READY;
	r = operation_save(op, err);
	if (r == 0)
		return 0;
	/* The store may have written the record: nothing is undone. */
	leaving->move = before;
	op->record->n_splits++;
	op->record->phase = VOLUME_MOVING;
	if (err)
		err->code = EAGAIN;
	return -EAGAIN;
}

static int union_forward(struct operation *op, struct error *err)
{
	struct volume_split *leaving = move_split(op);
	const struct volume_split before = *leaving;
	struct split_move left = {.left = true};
	int r = operation_step(op, err, "record",
			       "split %u is on node %s from now on",
			       leaving->index, leaving->move.node);

	if (r < 0)
		return r;
	memcpy(left.node, before.node, sizeof(left.node));
	memcpy(left.pool, before.pool, sizeof(left.pool));
	memcpy(left.extent, before.extent, sizeof(left.extent));
	memcpy(left.extent_id, before.extent_id, sizeof(left.extent_id));
	*leaving = *volume_record_successor(op->record);
	leaving->index = before.index;
	leaving->move = before.move;
	r = union_over(op, &left, err);
	if (r < 0)
		*leaving = before;
	return r;
}

static int union_backward(struct operation *op, struct error *err)
{
	struct split_move left = move_split(op)->move;
	int r = operation_step(op, err, "record", "split %u stays on node %s",
			       move_split(op)->index, move_split(op)->node);

	left.way = SPLIT_MOVE_COPY;
	left.left = true;
	left.joined = left.back = false;
	left.copied = 0;
	if (!left.extent_id[0])
		left = (struct split_move){0};
	return r < 0 ? r : union_over(op, &left, err);
}

/* ---- the direction ---- */

/* 1: taken back, nothing had gone there. */
static int union_turn(struct operation *op, struct error *err)
{
	struct move *move = container_of(op, struct move, op);
	struct split_move *at = &move_split(op)->move;
	const struct split_move nothing = {0};
	int r;

	if (at->joined) {
		if (at->back == move->cancels)
			return 0;
		at->back = move->cancels;
		at->copied = 0;
		return operation_save(op, err);
	}
	if (!move->cancels)
		return 0;
	if (at->extent_id[0])
		r = union_backward(op, err);
	else
		r = move_drop_other(op, move_split(op), err);
	if (r == 0 && !move_split(op)->move.left)
		r = op->record->phase == VOLUME_MOVING
			    ? union_over(op, &nothing, err)
			    : 0;
	return r < 0 ? r : 1;
}

/* ---- the successor ---- */

static int union_make(struct operation *op, struct error *err)
{
	struct volume_split *leaving = move_split(op), *successor, made;
	int r;

	successor = volume_record_successor(op->record);
	if (leaving->move.extent_id[0])
		return 0;
	made = *successor;
	made.index = leaving->index; /* what its labels say */
	r = move_make_blank(op, &made, err);
	if (r < 0)
		return r;
	memcpy(successor->extent_id, made.extent_id,
	       sizeof(successor->extent_id));
	successor->state = SPLIT_CREATED;
	memcpy(leaving->move.extent_id, made.extent_id,
	       sizeof(leaving->move.extent_id));
	return operation_save(op, err);
}

struct volume_split *move_emptied(struct operation *op)
{
	return move_split(op)->move.back ? volume_record_successor(op->record)
					 : move_split(op);
}

struct volume_split *move_taker(struct operation *op)
{
	return move_split(op)->move.back ? move_split(op)
					 : volume_record_successor(op->record);
}

static int taker_attach(struct operation *op, struct volume_split *taker,
			const struct volume_attachment *a, struct error *err)
{
	const struct volume_spec *spec = &op->record->spec;
	char kept[MOUNT_OPTIONS_MAX];
	struct mount_options options;
	const struct split_attach how = {
		.epoch = a->epoch,
		.transport = spec->transport,
		.options = &options,
	};
	int r;

	local_options_load(op->ctx, op->name, kept);
	r = mount_options_parse(kept, spec->fs_type, &options, err);
	if (r == 0)
		r = split_attach(op, taker, &how, err);
	return r < 0 ? r : local_union_note_place(op, taker, err);
}

static int union_join(struct operation *op, struct error *err)
{
	const struct volume_attachment *a = NULL;
	struct split_move *at = &move_split(op)->move;
	int r = union_find_here(op, &a, err);

	if (r == 0)
		r = taker_attach(op, move_taker(op), a, err);
	if (r == 0 && !at->joined) {
		at->joined = true;
		r = operation_save(op, err);
	}
	return r < 0 ? r
		     : local_union_follow_one(op, a->mount_point,
					      move_taker(op), err);
}

/* ---- settle ---- */

static int union_settle(struct operation *op, struct error *err)
{
	int r = local_split_remove(op, move_emptied(op), err);

	if (r < 0)
		return r;
	return move_split(op)->move.back ? union_backward(op, err)
					 : union_forward(op, err);
}

static int union_end(struct operation *op, struct error *err)
{
	int r = move_drop_left(op, move_split(op), err);

	if (r == 0)
		operation_finish(op, "split %u of volume %s is on node %s",
				 move_split(op)->index, op->name,
				 move_split(op)->node);
	return r;
}

/* ---- the flow ---- */

/* Before the successor has joined, there is nothing to be kept. */
static int union_undo(struct operation *op, int r, struct error *err)
{
	struct move *move = container_of(op, struct move, op);

	if (error_is_open(r) || r == -ECANCELED || r == -EINPROGRESS ||
	    move_split(op)->move.joined)
		return 1;
	move->cancels = true;
	r = local_split_remove(op, volume_record_successor(op->record), err);
	if (r == 0)
		r = union_turn(op, err);
	if (r >= 0)
		r = move_drop_left(op, move_split(op), err);
	return r;
}

static int union_keep(struct operation *op, int r, struct error *err)
{
	(void)op;
	if (r == -EINPROGRESS)
		return r;
	return error_prefix(err, r,
			    "it is not moved yet (repeat the command to go "
			    "on, or take it back with --cancel): ");
}

static const struct flow_phase union_phases[] = {
	{union_begin, FLOW_LEAVE},     {union_turn, FLOW_KEEP},
	{union_make, FLOW_UNDO},       {union_join, FLOW_UNDO},
	{move_union_empty, FLOW_KEEP}, {union_settle, FLOW_KEEP},
	{union_end, FLOW_LEAVE},       {NULL, FLOW_LEAVE},
};
static const struct flow union_flow = {
	.phases = union_phases,
	.undo = union_undo,
	.keep = union_keep,
};

static int union_cancel(struct operation *op, struct error *err)
{
	int r;

	container_of(op, struct move, op)->cancels = true;
	if (move_split(op)->move.joined)
		return flow_run(&union_flow, op, err);
	/* A device that a killed join has left. */
	r = local_split_remove(op, volume_record_successor(op->record), err);
	if (r == 0)
		r = union_turn(op, err);
	return r < 0 ? r : move_drop_left(op, move_split(op), err);
}

const struct move_way move_way_union = {
	.way = SPLIT_MOVE_UNION,
	.check = union_check,
	.flow = &union_flow,
	.cancel = union_cancel,
	.wait = move_union_wait,
};
