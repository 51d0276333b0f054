/* SPDX-License-Identifier: Apache-2.0 */
/* The part of a move that its union does, and how long it is waited for. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/size.h"
#include "volume/mount/local_union.h"
#include "volume/move/move_union.h"

#define STEPS_BEFORE 5 /* the draining */
#define ASK_MS       500
#define LOOKS_MAX    20    /* then the record learns how far it is */
#define STUCK_MS     15000 /* files cannot move, and none has moved for so long */
#define BUSY_MS      60000 /* the same, for files that somebody has open */

/* A split's branch, and the socket of its union. */
struct branch_of {
	char control[PATH_MAX];
	struct union_branch branch;
};

static void branch_find(const struct operation *op,
			const struct volume_split *split, struct branch_of *ret)
{
	local_union_control(op->ctx, op->name, ret->control);
	local_union_branch(op->ctx, op->record, split, &ret->branch);
}

/* The branch that takes files is not drained itself, as before a turn. */
static int drain_none(struct operation *op, struct error *err)
{
	struct union_drained drained;
	struct branch_of at;
	int r;

	branch_find(op, move_taker(op), &at);
	r = union_drained(op->ctx->bin_dir, at.control, at.branch.path,
			  &drained, err);
	return r == 0 && drained.mode == UNION_BRANCH_DRAINING
		       ? union_drain_stop(op->ctx->bin_dir, at.control,
					  at.branch.path, err)
		       : r;
}

static int drain_tell(struct operation *op, const struct union_drained *drained,
		      struct error *err)
{
	const struct split_move *move = &move_split(op)->move;
	char size[SIZE_TEXT_MAX];

	op->done = STEPS_BEFORE;
	op->total = MOVE_UNION_STEPS;
	return operation_step(
		op, err, "drain",
		"split %u %s node %s by its union: %" PRIu64
		" files of %s moved, %" PRIu64 " left, %" PRIu64 " in use",
		move_split(op)->index,
		move->back ? "comes back from" : "goes to", move->node,
		drained->files_moved, size_format(size, drained->bytes_moved),
		drained->files_left, drained->busy);
}

int move_union_empty(struct operation *op, struct error *err)
{
	struct move *move = container_of(op, struct move, op);
	struct split_move *at = &move_split(op)->move;
	struct union_drained drained = {.mode = UNION_BRANCH_NONE};
	struct branch_of from;
	int r = drain_none(op, err);

	branch_find(op, move_emptied(op), &from);
	if (r == 0)
		r = union_drained(op->ctx->bin_dir, from.control,
				  from.branch.path, &drained, err);
	if (r < 0 || drained.mode == UNION_BRANCH_GONE)
		return r;
	if (drained.mode == UNION_BRANCH_NONE)
		return error_set(err, EIO,
				 "its union lacks split %u: mount it anew",
				 move_emptied(op)->index);
	if (drained.mode != UNION_BRANCH_DRAINING || !move->drains)
		r = union_drain(op->ctx->bin_dir, from.control,
				from.branch.path, move->request->rate, err);
	move->drains = r == 0;
	if (r == 0 && drained.bytes_moved > at->copied &&
	    drained.bytes_moved <= move_split(op)->size) {
		at->copied = drained.bytes_moved;
		r = operation_save(op, err);
	}
	return r < 0 ? r : error_set(err, EINPROGRESS, "its union drains it");
}

/* ---- wait ---- */

struct wait {
	uint64_t files; /* moved, when last one did */
	int64_t since_ms;
};

static int look_stuck(const struct wait *wait,
		      const struct union_drained *drained, struct error *err)
{
	const int64_t for_ms = clock_ms() - wait->since_ms;

	if (drained->failed && for_ms >= STUCK_MS)
		return error_set(err, ENOSPC,
				 "%" PRIu64
				 " files or directories cannot move: %s; its "
				 "branch takes new files again",
				 drained->failed, drained->error);
	if (!drained->failed && drained->busy && for_ms >= BUSY_MS)
		return error_set(err, EBUSY,
				 "%" PRIu64 " files are open in a way that "
				 "keeps them where they are; its union moves "
				 "them when they are closed, and a repeat ends "
				 "the move then",
				 drained->busy);
	return 0;
}

/* 1: look at the record again. */
static int wait_look(struct operation *op, const struct branch_of *from,
		     struct wait *wait, struct error *err)
{
	struct union_drained drained;
	/* A union that does not answer may have been unmounted. */
	int r = union_drained(op->ctx->bin_dir, from->control,
			      from->branch.path, &drained, NULL);

	if (r < 0 || drained.mode != UNION_BRANCH_DRAINING)
		return 1;
	if (drained.files_moved != wait->files)
		*wait = (struct wait){drained.files_moved, clock_ms()};
	r = drain_tell(op, &drained, err);
	if (r == 0)
		r = look_stuck(wait, &drained, err);
	/* New files go there meanwhile, until the move is repeated. */
	if (r == -ENOSPC)
		(void)union_drain_stop(op->ctx->bin_dir, from->control,
				       from->branch.path, NULL);
	if (r == 0)
		(void)poll(NULL, 0, ASK_MS);
	return r;
}

int move_union_wait(struct operation *op, struct error *err)
{
	struct move *move = container_of(op, struct move, op);
	struct branch_of from;
	struct wait wait = {UINT64_MAX, clock_ms()};
	int r = 0;

	branch_find(op, move_emptied(op), &from);
	wait.since_ms = move->moved_ms ?: wait.since_ms;
	wait.files = move->moved_files;
	for (int i = 0; r == 0 && i < LOOKS_MAX; i++)
		r = wait_look(op, &from, &wait, err);
	move->moved_ms = wait.since_ms;
	move->moved_files = wait.files;
	return r < 0 ? r : 0;
}
