/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_forget_lost(). A lost split with a move is being replaced: the move's
 * place is the new extent's.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/flow/forget_lost.h"
#include "volume/flow/resize_here.h"
#include "volume/mount/local.h"
#include "volume/mount/local_union.h"
#include "volume/move/move_copy.h"
#include "volume/op/flow.h"

struct forget {
	struct operation op;
	struct volume_forgotten sum;
};

/* Call @each for every lost split, to the first error. */
static int lost_foreach(struct operation *op,
			int (*each)(struct operation *op,
				    struct volume_split *split,
				    struct error *err),
			struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < op->record->n_splits; i++)
		if (op->record->splits[i].lost)
			r = each(op, &op->record->splits[i], err);
	return r;
}

/* ---- may it be done? ---- */

static int refuse_mounted(const struct operation *op,
			  const struct volume_attachment *a, const char *why,
			  struct error *err)
{
	return error_set(err, EBUSY,
			 "volume '%s' is mounted on node '%s' at '%s'%s: "
			 "unmount it there first",
			 op->name, a->node, a->mount_point, why);
}

/* A union takes the new branches only at places that it has kept for them. */
static int check_mounted(const struct operation *op,
			 const struct volume_attachment *a, struct error *err)
{
	if (a->state == ATTACHMENT_PUBLISHED)
		return 0;
	if (strcmp(a->node, op->ctx->node) != 0)
		return refuse_mounted(op, a, "", err);
	if (!resize_is_here(op))
		return refuse_mounted(op, a, ", but not whole, or read-only",
				      err);
	if (!local_union_keeps_places(a->mount_point, op->record))
		return refuse_mounted(op, a, " since before the split was lost",
				      err);
	return 0;
}

/* A split that was moving by its union is the one that is not lost. */
static int forget_moving(struct operation *op, struct error *err)
{
	if (!op->record || volume_record_lost(op->record) == 0 ||
	    !volume_record_leaving(op->record))
		return 0;
	for (size_t i = 0; i < op->record->n_attachments; i++)
		if (op->record->attachments[i].state != ATTACHMENT_PUBLISHED)
			return refuse_mounted(op, &op->record->attachments[i],
					      "", err);
	return volume_record_end_lost(op->record) ? operation_save(op, err) : 0;
}

static int forget_check(struct operation *op, struct error *err)
{
	const size_t lost = op->record ? volume_record_lost(op->record) : 0;
	int r = operation_check_made(op, err);

	if (r < 0 || lost == 0)
		return r;
	if (volume_spec_is_device(&op->record->spec) ||
	    lost == op->record->n_splits)
		return operation_refuse_lost(op, err);
	r = operation_check_staying(op, err);
	for (size_t i = 0; r == 0 && i < op->record->n_attachments; i++)
		r = check_mounted(op, &op->record->attachments[i], err);
	if (r == 0 && op->record->n_attachments == 0)
		r = local_check_none(op, err);
	return r;
}

/* ---- the new extents ---- */

/* The node that a split moved to may be there, with a part of a copy. */
static int forget_drop(struct operation *op, struct error *err)
{
	op->total = 2 * (unsigned)volume_record_lost(op->record) + 2;
	return lost_foreach(op, move_drop_left, err);
}

/* The file system is another one: nobody takes it for the lost one's. */
static int plan_one(struct operation *op, struct volume_split *split,
		    struct error *err)
{
	static const struct volume_place any;

	if (split->move.node[0])
		return 0;
	(void)uuid_make(split->fs_uuid);
	split->source[0] = '\0';
	return volume_plan_move(op, split->index, &any, err);
}

static int forget_plan(struct operation *op, struct error *err)
{
	int r = lost_foreach(op, plan_one, err);

	return r == 0 && volume_record_lost(op->record) > 0
		       ? operation_save(op, err)
		       : r;
}

static int make_one(struct operation *op, struct volume_split *split,
		    struct error *err)
{
	return move_make_extent(op, split, err);
}

static int forget_make(struct operation *op, struct error *err)
{
	return lost_foreach(op, make_one, err);
}

/* ---- the new splits ---- */

static int switch_one(struct operation *op, struct volume_split *split,
		      struct error *err)
{
	struct forget *forget = container_of(op, struct forget, op);

	(void)err;
	volume_record_give_up(op->record, split->node, split->extent,
			      split->extent_id);
	*split = move_other_place(split);
	split->lost = false;
	split->state = SPLIT_CREATED;
	split->move = (struct split_move){0};
	forget->sum.splits++;
	forget->sum.size += split->size;
	return 0;
}

static int forget_switch(struct operation *op, struct error *err)
{
	struct forget *forget = container_of(op, struct forget, op);
	int r = 0;

	if (volume_record_lost(op->record) == 0)
		return 0;
	r = operation_step(op, err, "record",
			   "the new splits of %s are in the place of lost ones",
			   op->name);
	if (r < 0)
		return r;
	(void)lost_foreach(op, switch_one, NULL);
	r = operation_save(op, err);
	if (r < 0)
		return r;
	/* The error of an event is no reason to stop half way. */
	(void)store_tell(op->ctx->store, RECORD_KIND_VOLUME, op->name, true,
			 "LostForgotten", NULL,
			 "%zu lost splits have new, empty ones in their place",
			 forget->sum.splits);
	return 0;
}

static int forget_here(struct operation *op, struct error *err)
{
	int r = resize_here(op, err);

	if (r < 0)
		return error_prefix(err, r,
				    "the new splits are there, and join the "
				    "union when this is repeated, or at the "
				    "next mount: ");
	operation_finish(op, "volume %s has all its splits", op->name);
	return 0;
}

/* ---- undo ---- */

static int forget_undo_one(struct operation *op, struct volume_split *split,
			   struct error *err)
{
	int r = split->move.node[0] ? move_drop_other(op, split, err) : 0;

	if (r == 0)
		split->move = (struct split_move){0};
	return r;
}

static int forget_undo(struct operation *op, int r, struct error *err)
{
	if (error_is_open(r) || r == -ECANCELED)
		return 1;
	r = lost_foreach(op, forget_undo_one, err);
	return r < 0 ? r : operation_save(op, err);
}

static int forget_keep(struct operation *op, int r, struct error *err)
{
	(void)operation_save(op, NULL); /* a repeat finds out how far it is */
	return error_prefix(err, r,
			    "it is not repaired yet (repeat the command to go "
			    "on): ");
}

static const struct flow_phase forget_phases[] = {
	{forget_moving, FLOW_LEAVE}, {forget_check, FLOW_LEAVE},
	{forget_drop, FLOW_LEAVE},   {forget_plan, FLOW_LEAVE},
	{forget_make, FLOW_UNDO},    {forget_switch, FLOW_LEAVE},
	{forget_here, FLOW_LEAVE},   {NULL, FLOW_LEAVE},
};
static const struct flow forget_flow = {
	.phases = forget_phases,
	.undo = forget_undo,
	.keep = forget_keep,
};

int volume_forget_lost(struct volume_context *ctx, const char *name,
		       struct volume_forgotten *ret, struct error *err)
{
	struct forget forget = {0};
	int r = operation_begin_id(&forget.op, ctx, name,
				   "replacing lost splits of volume", err);

	if (r < 0)
		return r;
	r = flow_run(&forget_flow, &forget.op, err);
	if (ret)
		*ret = forget.sum;
	operation_end(&forget.op);
	return r < 0 ? error_prefix(err, r,
				    "repair volume '%s': ", forget.op.name)
		     : 0;
}
