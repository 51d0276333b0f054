/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_resize(): plan, write the plan down, make extents larger and new ones.
 * Then, where the volume is attached on this machine, make their file systems
 * larger. An extent that has grown stays so: after an error the record says how
 * large each is.
 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "volume/flow/limits.h"
#include "volume/flow/resize_extents.h"
#include "volume/flow/resize_here.h"
#include "volume/mount/branch_fs.h"
#include "volume/op/context.h"
#include "volume/plan/volume_plan.h"

#define PLANS_MAX 2 /* the first, and one when room was taken meanwhile */

/* ---- the extents ---- */

/* The plan stays in the record. */
static int resize_keep(struct operation *op, int r, struct error *err)
{
	char size[SIZE_TEXT_MAX];

	(void)error_prefix(
		err, r,
		"it is not finished (repeat `trib volume resize %s --size "
		"%llu`, which is %s, to finish it): ",
		op->name, (unsigned long long)volume_record_target(op->record),
		size_format(size, volume_record_target(op->record)));
	return r;
}

/* After a final error: the record has to tell the truth. */
static int resize_give_up(struct operation *op, int r, uint64_t before,
			  struct error *err)
{
	char size[SIZE_TEXT_MAX];
	struct error why = {0};
	int e = resize_settle(op, &why);

	if (e < 0 && error_is_open(e)) {
		(void)error_prefix(err, r,
				   "%s; and before that: ", error_text(&why));
		return resize_keep(op, e, err);
	}
	if (op->record->spec.capacity > before)
		(void)error_prefix(
			err, r, "it has grown to %s, no further: ",
			size_format(size, op->record->spec.capacity));
	return r;
}

/* Until the record has @capacity bytes, all of them in extents. */
static int resize_grow(struct operation *op, uint64_t capacity,
		       struct error *err)
{
	uint64_t before = op->record->spec.capacity;
	int r = 0;

	for (int plans = volume_plan_is_open(op->record) ? 1 : 0;
	     plans < PLANS_MAX;) {
		if (!volume_plan_is_open(op->record)) {
			if (capacity <= op->record->spec.capacity)
				return 0;
			plans++;
			r = volume_plan_grow(op, capacity, err);
			if (r < 0)
				break;
		}
		op->total = op->done + 3 * (unsigned)op->record->n_splits;
		r = resize_extents(op, err);
		if (r == 0)
			return 0;
		/* Somebody took the room: see the present sizes, plan anew. */
		if (r != -ENOSPC || plans == PLANS_MAX ||
		    resize_settle(op, NULL) < 0)
			break;
	}
	if (!error_is_open(r))
		return resize_give_up(op, r, before, err);
	return volume_plan_is_open(op->record) ? resize_keep(op, r, err) : r;
}

/* ---- begin ---- */

static bool file_systems_grow(const struct operation *op, uint64_t capacity)
{
	bool behind = capacity > op->record->spec.capacity;

	for (size_t i = 0; i < op->record->n_splits; i++)
		behind = behind || op->record->splits[i].fs_behind;
	return behind && resize_is_here(op);
}

/* Find that out before anything is larger than its file system can be. */
static int check_allowed(const struct operation *op, uint64_t capacity,
			 struct error *err)
{
	if (!file_systems_grow(op, capacity) ||
	    branch_fs_grows_mounted(op->record->spec.fs_type))
		return 0;
	return error_set(err, EPERM,
			 "a mounted %s grows only for a process with "
			 "CAP_SYS_RESOURCE, which this one lacks; unmount the "
			 "volume first",
			 op->record->spec.fs_type);
}

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

static int resize_run(struct operation *op, uint64_t capacity,
		      struct error *err)
{
	uint64_t target;
	int r = operation_check_ready(op, err);

	if (r < 0)
		return r;
	target = volume_record_target(op->record);
	if (capacity == 0)
		capacity = target;
	if (size_round_up(capacity, volume_spec_unit(&op->record->spec),
			  &capacity) < 0)
		capacity = UINT64_MAX; /* refused for that */
	r = check_capacity(op, capacity, err);
	if (r == 0)
		r = check_allowed(op, capacity, err);
	/* Another size than the one that was begun: how far did that come? */
	if (r == 0 && capacity != target && volume_plan_is_open(op->record)) {
		r = resize_settle(op, err);
		if (r == 0)
			r = check_capacity(op, capacity, err);
	}
	if (r == 0)
		r = resize_grow(op, capacity, err);
	/* Each extent's part of the whole is another one now. */
	if (r == 0 && (op->record->spec.limits.iops ||
		       op->record->spec.limits.bytes_per_second))
		r = limits_apply(op, err);
	if (r == 0)
		r = resize_here(op, err);
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
	r = operation_begin_id(&op, ctx, name, "resizing volume", err);
	if (r < 0)
		return r;
	op.total = 2;
	r = resize_run(&op, capacity, err);
	if (r == 0 && ret)
		*ret = take_ptr(op.record);
	operation_end(&op);
	if (r < 0)
		(void)error_prefix(err, r, "resize volume '%s': ", op.name);
	return r;
}
