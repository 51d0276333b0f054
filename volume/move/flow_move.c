/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_move(), in whichever way. Then the way of a volume that nobody has
 * attached. The record says Moving from before the first step to the one write
 * that makes the copy the split's. After that the old extent is only left over,
 * and the volume Ready.
 */
#include "volume/move/move.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/mount/local.h"
#include "volume/move/move_way.h"

#define LEASE_WAIT_MS 60000
#define LEASE_ASK_MS  500

/* ---- may it move? ---- */

static int copy_check(struct operation *op, struct error *err)
{
	const struct volume_record *record = op->record;

	for (size_t i = 0; i < record->n_attachments; i++) {
		const struct volume_attachment *a = &record->attachments[i];

		if (a->state != ATTACHMENT_PUBLISHED)
			return error_set(err, EBUSY,
					 "it is attached on node '%s'%s%s; a "
					 "split moves while nobody has its "
					 "volume attached: unmount it there "
					 "first",
					 a->node,
					 a->mount_point[0] ? " at " : "",
					 a->mount_point);
	}
	return local_check_none(op, err);
}

/*
 * The split that moves; else one that has left something; else the only one.
 * n_splits: none of these.
 */
static size_t move_open(const struct volume_record *record)
{
	size_t found = record->n_splits == 1 ? 0 : record->n_splits;

	for (size_t i = 0; i < record->n_splits; i++) {
		const struct split_move *move = &record->splits[i].move;

		if (move->node[0] && !move->left)
			return i;
		if (move->left)
			found = i;
	}
	return found;
}

/* Find the split: the one that moves, the one asked for, or the only one. */
static int move_find(struct operation *op, struct error *err)
{
	struct move *move = container_of(op, struct move, op);
	const struct volume_record *record = op->record;
	size_t wanted = move->request->split;

	if (wanted != MOVE_ANY_SPLIT && wanted >= record->n_splits)
		return error_set(err, EINVAL,
				 "it has %zu splits, numbered from 0",
				 record->n_splits);
	move->index = wanted == MOVE_ANY_SPLIT ? move_open(record) : wanted;
	if (move->index == record->n_splits)
		return error_set(err, EINVAL,
				 "it has %zu splits: say which, --split N",
				 record->n_splits);
	if (record->phase != VOLUME_MOVING || move_open(record) == move->index)
		return 0;
	return error_set(err, EBUSY,
			 "split %zu is being moved; `trib volume move %s` "
			 "finishes that, with --cancel it takes that back",
			 move_open(record), op->name);
}

static int move_check(struct operation *op, struct error *err)
{
	int r = 0;

	if (!op->record || op->record->phase != VOLUME_MOVING)
		r = operation_check_ready(op, err);
	if (r < 0)
		return r;
	assert(op->record); /* or it was not ready */
	r = operation_check_staying(op, err);
	if (r == 0 && volume_plan_is_open(op->record))
		r = error_set(err, EBUSY,
			      "it is half way through a resize; finish that by "
			      "`trib volume resize` first");
	return r < 0 ? r : move_find(op, err);
}

/* What an earlier move has left goes first; then 1, unless more is asked for.
 */
static int move_finish_earlier(struct operation *op, struct error *err)
{
	struct move *move = container_of(op, struct move, op);
	struct volume_split *split = move_split(op);
	bool left = split->move.left;
	int r = move_drop_left(op, split, err);

	if (r < 0 || !left)
		return r;
	return move->request->to.node ? 0 : 1;
}

/* ---- begin ---- */

/* The epoch that ends all users of the extent. */
static int move_raise(struct operation *op, struct error *err)
{
	uint64_t epoch;
	int r = split_check_unused(op, move_split(op), &epoch, err);

	return r < 0 ? r : volume_record_raise(op->record, epoch, err);
}

static int move_begin(struct operation *op, struct error *err)
{
	struct move *move = container_of(op, struct move, op);
	int r = copy_check(op, err);

	op->total = 5;
	if (r == 0 && move->request->rate)
		r = error_set(err, EINVAL,
			      "it is copied by block, which has no limit of "
			      "its bandwidth");
	if (r < 0 || op->record->phase == VOLUME_MOVING)
		return r;
	r = volume_plan_move(op, move->index, &move->request->to, err);
	if (r == 0)
		r = move_raise(op, err);
	if (r < 0)
		return r;
	op->record->phase = VOLUME_MOVING;
	return operation_save(op, err);
}

/* ---- the new owner ---- */

/* The split at its other place; the one it has left is to be deleted. */
static struct volume_split at_other_place(const struct volume_split *split)
{
	struct volume_split moved = move_other_place(split);

	moved.move = (struct split_move){.left = true};
	memcpy(moved.move.node, split->node, sizeof(moved.move.node));
	memcpy(moved.move.pool, split->pool, sizeof(moved.move.pool));
	memcpy(moved.move.extent, split->extent, sizeof(moved.move.extent));
	memcpy(moved.move.extent_id, split->extent_id,
	       sizeof(moved.move.extent_id));
	return moved;
}

static int move_switch(struct operation *op, struct error *err)
{
	struct volume_split *split = move_split(op);
	const struct volume_split before = *split;
	int r = move_check_copy(op, err);

	if (r == 0)
		r = operation_step(op, err, "record",
				   "split %u is on node %s from now on",
				   split->index, split->move.node);
	if (r < 0)
		return r;
	*split = at_other_place(&before);
	op->record->phase = VOLUME_READY;
	r = operation_save(op, err);
	if (r == 0)
		return 0;
	/* The store may have written the record: nothing is undone. */
	*split = before;
	op->record->phase = VOLUME_MOVING;
	if (err)
		err->code = EAGAIN;
	return -EAGAIN;
}

static int move_end(struct operation *op, struct error *err)
{
	int r = move_drop_left(op, move_split(op), err);

	if (r == 0)
		operation_finish(op, "split %u of volume %s is on node %s",
				 move_split(op)->index, op->name,
				 move_split(op)->node);
	return r;
}

/* ---- undo ---- */

static int move_take_back(struct operation *op, struct volume_split *split,
			  struct error *err)
{
	int r = move_drop_other(op, split, err);

	if (r < 0)
		return r;
	move_unexport(op, split);
	split->move = (struct split_move){0};
	op->record->phase = VOLUME_READY;
	return operation_save(op, err);
}

static int move_undo(struct operation *op, int r, struct error *err)
{
	return error_is_open(r) || r == -ECANCELED
		       ? 1
		       : move_take_back(op, move_split(op), err);
}

static int move_keep(struct operation *op, int r, struct error *err)
{
	(void)operation_save(op, NULL); /* a repeat finds out how far it is */
	return error_prefix(err, r,
			    "it is not moved yet (repeat the command to go "
			    "on, or take it back with --cancel): ");
}

static const struct flow_phase copy_phases[] = {
	{move_begin, FLOW_LEAVE}, {move_export, FLOW_UNDO},
	{move_make, FLOW_UNDO},   {move_copy, FLOW_UNDO},
	{move_switch, FLOW_UNDO}, {move_end, FLOW_LEAVE},
	{NULL, FLOW_LEAVE},
};
static const struct flow copy_flow = {
	.phases = copy_phases,
	.undo = move_undo,
	.keep = move_keep,
};

/*
 * The node that has the copy does not answer. The volume need not wait for it:
 * the copy is only left over, and nobody's.
 */
static int cancel_later(struct operation *op, struct volume_split *split,
			struct error *err)
{
	move_unexport(op, split);
	split->move.left = split->move.extent_id[0];
	split->move.copied = 0;
	if (!split->move.left)
		split->move = (struct split_move){0};
	op->record->phase = VOLUME_READY;
	return operation_save(op, err);
}

static int copy_cancel(struct operation *op, struct error *err)
{
	struct volume_split *split = move_split(op);
	int r = move_take_back(op, split, err);

	return r < 0 && error_is_open(r) ? cancel_later(op, split, err) : r;
}

const struct move_way move_way_copy = {
	.way = SPLIT_MOVE_COPY,
	.check = copy_check,
	.flow = &copy_flow,
	.cancel = copy_cancel,
};

/* ---- any way ---- */

/* In the order in which they are tried for a new move. */
static const struct move_way *const move_ways[] = {
	&move_way_copy,
	&move_way_union,
};

static const struct move_way *way_of(const struct volume_split *split)
{
	for (size_t i = 0; i < array_size(move_ways); i++)
		if (move_ways[i]->way == split->move.way)
			return move_ways[i];
	return NULL;
}

/*
 * Choose the way that is begun, else the first that takes it. Why the last one
 * with a reason does not is told.
 */
static int move_choose(struct operation *op, struct error *err)
{
	struct move *move = container_of(op, struct move, op);
	int r = -EOPNOTSUPP;

	if (op->record->phase == VOLUME_MOVING) {
		move->way = way_of(move_split(op));
		return move->way ? 0
				 : error_set(err, EOPNOTSUPP,
					     "it moves in the way '%s', which "
					     "this version does not know",
					     split_move_way_name(
						     move_split(op)->move.way));
	}
	for (size_t i = 0; r < 0 && i < array_size(move_ways); i++) {
		struct error why = {0};
		int e = move_ways[i]->check(op, &why);

		if (e == 0)
			move->way = move_ways[i];
		if (e == -EOPNOTSUPP)
			continue;
		r = e;
		if (err)
			*err = why;
	}
	return r;
}

static const struct flow_phase move_phases[] = {
	{move_check, FLOW_LEAVE},
	{move_finish_earlier, FLOW_LEAVE},
	{move_choose, FLOW_LEAVE},
	{NULL, FLOW_LEAVE},
};
static const struct flow move_flow = {.phases = move_phases};

/* ---- to the end ---- */

static int cancel_run(struct operation *op, struct error *err)
{
	struct move *move = container_of(op, struct move, op);

	if (!op->record)
		return error_set(err, ENOENT, "there is no volume '%s'",
				 op->name);
	move->index = move_open(op->record);
	return op->record->phase == VOLUME_MOVING ? move_choose(op, err) : 0;
}

/* Somebody else has ended the move that was waited for. */
static int move_ended(struct operation *op, struct error *err)
{
	struct move *move = container_of(op, struct move, op);
	struct volume_split *split = move_split(op);
	int r = move_drop_left(op, split, err);

	if (r < 0 || move->cancels ||
	    strcmp(split->extent_id, move->waited_for) == 0)
		return r;
	return error_set(err, EBUSY, "it was taken back meanwhile");
}

/* One call of the way, under the lease. */
static int move_once(struct move *move, struct error *err)
{
	struct operation *op = &move->op;
	int r;

	if (move->waited_for[0] && op->record &&
	    op->record->phase == VOLUME_READY &&
	    move->index < op->record->n_splits)
		return move_ended(op, err);
	r = move->cancels ? cancel_run(op, err) : flow_run(&move_flow, op, err);
	if (r < 0 || !move->way)
		return r;
	return move->cancels ? move->way->cancel(op, err)
			     : flow_run(move->way->flow, op, err);
}

/* Wait with the record as it was, and without the lease. */
static int move_wait(struct move *move, struct volume_record *record,
		     struct error *err)
{
	struct volume_context *ctx = move->op.ctx;
	char name[RECORD_NAME_SIZE];
	int r;

	memcpy(name, move->op.name, sizeof(name));
	operation_init(&move->op, ctx, name);
	move->op.record = record;
	memcpy(move->waited_for, move_split(&move->op)->move.extent_id,
	       sizeof(move->waited_for));
	r = move->way->wait(&move->op, err);
	move->op.record = NULL;
	operation_done(&move->op);
	return r < 0 ? error_prefix(err, r,
				    "it is not moved yet (repeat the command "
				    "to go on, or take it back with "
				    "--cancel): ")
		     : 0;
}

/* Somebody may have the volume for a moment, as to unmount it. */
static int move_begin_again(struct move *move, const char *doing,
			    struct error *err)
{
	struct volume_context *ctx = move->op.ctx;
	const int64_t until_ms = clock_ms() + LEASE_WAIT_MS;
	int r;

	do
		r = operation_begin_id(&move->op, ctx, move->request->name,
				       doing, err);
	while (r == -EAGAIN && move->way && clock_ms() < until_ms &&
	       poll(NULL, 0, LEASE_ASK_MS) == 0);
	return r;
}

static int move_run(struct move *move, const char *doing,
		    struct volume_split *ret_split, struct error *err)
{
	struct volume_context *ctx = move->op.ctx;
	int r;

	do {
		struct volume_record *record = NULL;

		move->op.ctx = ctx;
		r = move_begin_again(move, doing, err);
		if (r < 0)
			return r;
		r = move_once(move, err);
		if (r == 0 && ret_split) {
			*ret_split = *move_split(&move->op);
			ret_split->move.way = move->way ? move->way->way
							: SPLIT_MOVE_COPY;
		}
		if (r == -EINPROGRESS)
			record = take_ptr(move->op.record);
		operation_end(&move->op);
		if (r == -EINPROGRESS) {
			r = move_wait(move, record, err);
			r = r < 0 ? r : -EINPROGRESS;
		}
		volume_record_free(record);
	} while (r == -EINPROGRESS);
	return r < 0 ? error_prefix(err, r, "move volume '%s': ", move->op.name)
		     : 0;
}

int volume_move(struct volume_context *ctx,
		const struct volume_move_request *request,
		struct volume_split *ret_split, struct error *err)
{
	struct move move = {.op = {.ctx = ctx}, .request = request};

	return move_run(&move, "moving a split of volume", ret_split, err);
}

int volume_move_cancel(struct volume_context *ctx, const char *name,
		       struct error *err)
{
	const struct volume_move_request request = {.name = name,
						    .split = MOVE_ANY_SPLIT};
	struct move move = {
		.op = {.ctx = ctx}, .request = &request, .cancels = true};

	return move_run(&move, "taking back a move of volume", NULL, err);
}
