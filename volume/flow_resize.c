/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_resize(): plan and write the plan down, make the extents larger,
 * then, where the volume is mounted on this machine, devices and file
 * systems. An extent that has grown stays so: what follows an error is a
 * record that says how large each is.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "volume/branch_fs.h"
#include "volume/context.h"
#include "volume/local.h"
#include "volume/mounts.h"
#include "volume/parallel.h"
#include "volume/planner.h"
#include "volume/split.h"

#define ASKED_AT_ONCE 16
#define PLANS_MAX     2 /* the first, and one when room was taken meanwhile */

/* ---- the plan ---- */

struct room {
	struct volume_context *ctx;
	struct name_list nodes; /* of the volume, each once */
	struct answer {
		struct node_pool *pools; /* owned */
		size_t n;
		int r;
		struct error err;
	} * answers;                /* owned, one a node */
	struct planner_pool *pools; /* owned; of all nodes */
	size_t n_pools;
};

static void ask_node(void *room_, size_t index)
{
	struct room *room = room_;
	struct answer *answer = &room->answers[index];
	struct node_client *client = NULL;

	answer->r = context_client(room->ctx, room->nodes.items[index], &client,
				   &answer->err);
	if (answer->r == 0)
		answer->r = node_client_list_pools(client, &answer->pools,
						   &answer->n, &answer->err);
}

static void room_done(struct room *room)
{
	for (size_t i = 0; room->answers && i < room->nodes.count; i++)
		free(room->answers[i].pools);
	free(room->answers);
	free(room->pools);
	name_list_done(&room->nodes);
}

static int room_collect(struct room *room, struct error *err)
{
	size_t n = 0;

	for (size_t i = 0; i < room->nodes.count; i++) {
		if (room->answers[i].r < 0) {
			if (err)
				*err = room->answers[i].err;
			return room->answers[i].r;
		}
		n += room->answers[i].n;
	}
	room->pools = calloc(n + 1, sizeof(*room->pools));
	if (!room->pools)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < room->nodes.count; i++) {
		for (size_t k = 0; k < room->answers[i].n; k++) {
			const struct node_pool *p = &room->answers[i].pools[k];

			room->pools[room->n_pools++] = (struct planner_pool){
				.node = room->nodes.items[i],
				.pool = p->name,
				.available = p->available,
				.online = strcmp(p->state, "online") == 0,
			};
		}
	}
	return 0;
}

/* Ask the volume's own nodes; all of them have to answer. */
static int room_ask(struct room *room, const struct volume_record *record,
		    struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < record->n_splits; i++)
		r = name_list_add(&room->nodes, record->splits[i].node, err);
	if (r < 0)
		return r;
	room->answers = calloc(room->nodes.count + 1, sizeof(*room->answers));
	if (!room->answers)
		return error_set(err, ENOMEM, "out of memory");
	parallel_run(room->nodes.count, ASKED_AT_ONCE, ask_node, room);
	return room_collect(room, err);
}

static int pool_of(const struct room *room, const struct volume_split *split,
		   size_t *ret, struct error *err)
{
	for (size_t i = 0; i < room->n_pools; i++) {
		if (strcmp(room->pools[i].node, split->node) == 0 &&
		    strcmp(room->pools[i].pool, split->pool) == 0) {
			*ret = i;
			return 0;
		}
	}
	return error_set(err, ENOENT, "node '%s' has no pool '%s' any more",
			 split->node, split->pool);
}

/* Set grow_to of each split that has to grow. */
static int plan_with(struct operation *op, const struct room *room,
		     uint64_t capacity, struct error *err)
{
	struct volume_record *record = op->record;
	auto_free struct planner_split *splits = calloc(record->n_splits + 1,
							sizeof(*splits));
	auto_free uint64_t *sizes = calloc(record->n_splits + 1,
					   sizeof(*sizes));
	int r = 0;

	if (!splits || !sizes)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < record->n_splits; i++) {
		splits[i].size = record->splits[i].size;
		r = pool_of(room, &record->splits[i], &splits[i].pool, err);
	}
	if (r == 0)
		r = planner_grow(splits, record->n_splits, room->pools,
				 room->n_pools, record->spec.max_extent,
				 capacity, sizes, err);
	for (size_t i = 0; r == 0 && i < record->n_splits; i++) {
		if (sizes[i] > record->splits[i].size)
			record->splits[i].grow_to = sizes[i];
	}
	return r;
}

static int plan(struct operation *op, uint64_t capacity, struct error *err)
{
	struct room room = {.ctx = op->ctx};
	int r = operation_step(op, err, "plan",
			       "asking its nodes for their room");

	if (r == 0)
		r = room_ask(&room, op->record, err);
	if (r == 0)
		r = plan_with(op, &room, capacity, err);
	if (r == 0)
		r = operation_save(op, err);
	room_done(&room);
	return r;
}

/* ---- the extents ---- */

static bool is_growing(const struct volume_record *record)
{
	for (size_t i = 0; i < record->n_splits; i++) {
		if (record->splits[i].grow_to)
			return true;
	}
	return false;
}

/*
 * Give up what was planned: the record says how large each extent is. One
 * whose node is silent keeps its plan, and -EHOSTUNREACH is returned.
 */
static int settle(struct operation *op, struct error *err)
{
	struct error why = {0};
	int r = 0, e;

	if (!is_growing(op->record))
		return 0;
	op->undoing = true;
	for (size_t i = 0; i < op->record->n_splits; i++) {
		struct volume_split *split = &op->record->splits[i];

		e = split->grow_to ? split_settle(op, split, &why) : 0;
		if (e < 0 && r == 0) {
			r = e;
			if (err)
				*err = why;
		}
	}
	op->undoing = false;
	e = operation_save(op, &why);
	if (e < 0 && r == 0) {
		r = e;
		if (err)
			*err = why;
	}
	return r;
}

static int extents_grow(struct operation *op, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < op->record->n_splits; i++) {
		if (op->record->splits[i].grow_to)
			r = split_grow(op, &op->record->splits[i], err);
	}
	return r;
}

/* The plan stays in the record. */
static int keep_unfinished(struct operation *op, int r, struct error *err)
{
	char size[SIZE_TEXT_MAX];

	(void)error_prefix(
		err,
		"it is not finished (repeat `trib volume resize %s --size "
		"%llu`, which is %s, to finish it): ",
		op->name, (unsigned long long)volume_record_target(op->record),
		size_format(size, volume_record_target(op->record)));
	return r;
}

/* After a final error: the record has to tell the truth. */
static int give_up(struct operation *op, int r, uint64_t before,
		   struct error *err)
{
	char size[SIZE_TEXT_MAX];
	struct error why = {0};
	int e = settle(op, &why);

	if (e < 0 && error_is_open(e)) {
		(void)error_prefix(err,
				   "%s; and before that: ", error_text(&why));
		return keep_unfinished(op, e, err);
	}
	if (op->record->spec.capacity > before)
		(void)error_prefix(
			err, "it has grown to %s, no further: ",
			size_format(size, op->record->spec.capacity));
	return r;
}

/* Until the record has @capacity bytes, all of them in extents. */
static int grow(struct operation *op, uint64_t capacity, struct error *err)
{
	uint64_t before = op->record->spec.capacity;
	int r = 0;

	for (int plans = is_growing(op->record) ? 1 : 0; plans < PLANS_MAX;) {
		if (!is_growing(op->record)) {
			if (capacity <= op->record->spec.capacity)
				return 0;
			plans++;
			r = plan(op, capacity, err);
			if (r < 0)
				break;
		}
		op->total = op->done + 3 * (unsigned)op->record->n_splits;
		r = extents_grow(op, err);
		if (r == 0)
			return 0;
		/* Somebody took the room: see what there is, plan anew. */
		if (r != -ENOSPC || plans == PLANS_MAX || settle(op, NULL) < 0)
			break;
	}
	if (!error_is_open(r))
		return give_up(op, r, before, err);
	return is_growing(op->record) ? keep_unfinished(op, r, err) : r;
}

/* ---- devices and file systems of this machine ---- */

static int check_branch(const struct volume_split *split, const char *dir,
			const char *branch, struct initiator_device *ret,
			struct error *err)
{
	const char *problem = "its file system is not mounted";
	struct mount_info info;
	struct stat st;
	int r = initiator_get(dir, split->extent, ret, err);

	if (r == 0 && !ret->healthy)
		problem = ret->problem;
	else if (r == 0 && mounts_find(branch, &info, NULL) == 0 &&
		 !info.failed && stat(ret->device, &st) == 0 &&
		 st.st_rdev == info.device)
		return 0;
	return error_set(err, EIO,
			 "its extents are as large as asked for, but split %u "
			 "is broken here (%s): `trib mount` repairs it, and "
			 "its file system follows then",
			 split->index, r < 0 ? error_text(err) : problem);
}

static int grow_here(struct operation *op, struct volume_split *split,
		     struct error *err)
{
	char dir[PATH_MAX], branch[PATH_MAX];
	struct initiator_device device;
	int r;

	context_initiator_dir(op->ctx, dir);
	local_branch_dir(op->ctx, op->name, split->index, branch);
	r = check_branch(split, dir, branch, &device, err);
	if (r == 0)
		r = operation_step(
			op, err, "device", "growing %s of split %u of %zu",
			device.device, split->index + 1, op->record->n_splits);
	if (r == 0)
		r = initiator_resize(dir, split->extent, split->size, err);
	if (r == 0)
		r = split_grow_fs(op, split, device.device, branch, err);
	return r;
}

/* Not attached here, or half, or read-only: the next attach does it. */
static bool grows_here(const struct operation *op)
{
	const struct volume_attachment *a = volume_record_attachment(
		op->record, op->ctx->node);

	return a && a->state == ATTACHMENT_ATTACHED && !a->read_only;
}

static int file_systems_grow(struct operation *op, struct error *err)
{
	int r = 0;

	if (!grows_here(op))
		return 0;
	for (size_t i = 0; r == 0 && i < op->record->n_splits; i++) {
		if (op->record->splits[i].fs_behind)
			r = grow_here(op, &op->record->splits[i], err);
	}
	return r;
}

/* Find that out before anything is larger than its file system can be. */
static int check_allowed(const struct operation *op, uint64_t capacity,
			 struct error *err)
{
	if (!grows_here(op) ||
	    branch_fs_grows_mounted(op->record->spec.fs_type) ||
	    (capacity == op->record->spec.capacity &&
	     !volume_record_fs_behind(op->record)))
		return 0;
	return error_set(err, EPERM,
			 "a mounted %s grows only for a process with "
			 "CAP_SYS_RESOURCE, which this one lacks; unmount the "
			 "volume first",
			 op->record->spec.fs_type);
}

/* ---- begin ---- */

static int check_capacity(const struct operation *op, uint64_t capacity,
			  struct error *err)
{
	char size[2][SIZE_TEXT_MAX];

	if (capacity > VOLUME_CAPACITY_MAX)
		return error_set(err, ERANGE, "a volume has at most %s",
				 size_format(size[0], VOLUME_CAPACITY_MAX));
	if (capacity < op->record->spec.capacity)
		return error_set(
			err, ERANGE, "it has %s and cannot shrink to %s",
			size_format(size[0], op->record->spec.capacity),
			size_format(size[1], capacity));
	return 0;
}

static int resize(struct operation *op, uint64_t capacity, struct error *err)
{
	uint64_t target;
	int r = operation_check_ready(op, err);

	if (r < 0)
		return r;
	target = volume_record_target(op->record);
	if (capacity == 0)
		capacity = target;
	r = check_capacity(op, capacity, err);
	if (r == 0)
		r = check_allowed(op, capacity, err);
	/* Another size than the one that was begun: how far did that come? */
	if (r == 0 && capacity != target && is_growing(op->record)) {
		r = settle(op, err);
		if (r == 0)
			r = check_capacity(op, capacity, err);
	}
	if (r == 0)
		r = grow(op, capacity, err);
	if (r == 0)
		r = file_systems_grow(op, err);
	if (r == 0)
		operation_finish(op, "volume %s has grown", op->name);
	return r;
}

int volume_resize(struct volume_context *ctx, const char *name,
		  uint64_t capacity, struct volume_record **ret,
		  struct error *err)
{
	struct operation op;
	int r;

	if (size_round_up(capacity, RECORD_SIZE_UNIT, &capacity) < 0)
		capacity = UINT64_MAX; /* refused for that */
	r = operation_begin(&op, ctx, name, "resizing volume", err);
	if (r < 0)
		return r;
	op.total = 2;
	r = resize(&op, capacity, err);
	if (r == 0 && ret)
		*ret = take_ptr(op.record);
	operation_end(&op);
	if (r < 0)
		(void)error_prefix(err, "resize volume '%s': ", name);
	return r;
}
