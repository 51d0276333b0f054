/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_create(): plan, write the plan down, make the extents. Of a clone the
 * record is written first, without a plan, then its source is cut.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/size.h"
#include "volume/op/context.h"
#include "volume/op/split.h"
#include "volume/snapshot/clone_source.h"
#include "volume/space/capacity.h"

#define PLANS_MAX                                                  \
	2 /* the first, and one more when room was taken meanwhile \
	   */

/* ---- the plan ---- */

/* The nodes that are asked for have to be known. */
static int check_nodes(const struct volume_spec *spec,
		       const struct capacity *capacity, struct error *err)
{
	if (capacity->n_states == 0)
		return error_set(err, ENOSPC,
				 "no nodes are known; `trib node add` makes "
				 "them known");
	for (size_t i = 0; i < spec->nodes.count; i++) {
		if (!capacity_node(capacity, spec->nodes.items[i]))
			return error_set(err, ENOENT,
					 "no node '%s' is known; `trib node "
					 "list` shows those that are",
					 spec->nodes.items[i]);
	}
	return 0;
}

static int splits_set(struct volume_record *record,
		      const struct capacity *capacity,
		      const struct planner_split *plan, size_t n,
		      struct error *err)
{
	struct volume_split *splits = calloc(n, sizeof(*splits));
	int r = 0;

	if (!splits)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < n; i++)
		r = capacity_split(record, i, &capacity->pools[plan[i].pool],
				   plan[i].size, &splits[i], err);
	if (r < 0) {
		free(splits);
		return r;
	}
	free(record->splits);
	record->splits = splits;
	record->n_splits = n;
	return 0;
}

static int plan_new(struct operation *op, struct error *err)
{
	auto_free struct planner_split *splits = NULL;
	struct capacity capacity = {0};
	size_t count = 0;
	int r = capacity_ask(op->ctx, &capacity, err);

	if (r == 0)
		r = check_nodes(&op->record->spec, &capacity, err);
	if (r == 0) {
		r = planner_place(&op->record->spec, capacity.pools,
				  capacity.n_pools, &splits, &count, err);
		if (r == -ENOSPC)
			capacity_name_silent(&capacity, err);
	}
	if (r == 0)
		r = splits_set(op->record, &capacity, splits, count, err);
	capacity_done(&capacity);
	return r;
}

static int plan(struct operation *op, struct error *err)
{
	return op->record->spec.source.kind == VOLUME_SOURCE_NONE
		       ? plan_new(op, err)
		       : clone_source_plan(op, err);
}

/* ---- the extents ---- */

static int extent_delete(struct operation *op, struct volume_split *split,
			 const void *context, struct error *err)
{
	(void)context;
	return split_delete(op, split, err);
}

/* Undo: delete every extent that may have been made. */
static int extents_delete(struct operation *op, struct error *err)
{
	static const struct split_work work = {.each = extent_delete};
	int r;

	op->undoing = true;
	r = split_foreach(op, &work, NULL, err);
	op->undoing = false;
	return r;
}

static int extent_make(struct operation *op, struct volume_split *split,
		       const void *context, struct error *err)
{
	(void)context;
	return split->state == SPLIT_PLANNED ? split_create(op, split, err) : 0;
}

static int extents_make(struct operation *op, struct error *err)
{
	static const struct split_work work = {.each = extent_make,
					       .stop_at_first = true};

	return split_foreach(op, &work, NULL, err);
}

/* What was begun stays, and the record says so. */
static int keep_unfinished(struct operation *op, int r, struct error *err)
{
	(void)volume_record_condition(op->record, "Created", false,
				      "Unfinished", error_text(err));
	(void)operation_save(op, NULL); /* the plan in the record suffices */
	(void)error_prefix(err,
			   "volume '%s' is not finished (repeat the command to "
			   "finish it, `trib volume delete %s` to undo it): ",
			   op->name, op->name);
	return r;
}

/* Undo all, and forget the volume. Returns @r, or that it can't be undone. */
static int undo(struct operation *op, int r, struct error *err)
{
	struct error why = {0};
	int e = extents_delete(op, &why);

	if (e == 0)
		e = clone_source_drop(op, &why);
	if (e == 0)
		e = operation_remove(op, &why);
	if (e == 0)
		return r;
	(void)error_prefix(err,
			   "%s; and to undo it failed: ", error_text(&why));
	return keep_unfinished(op, -EHOSTUNREACH, err);
}

static int finish(struct operation *op, struct error *err)
{
	int r = operation_step(op, err, "record", "writing the record");

	if (r < 0)
		return r;
	op->record->phase = VOLUME_READY;
	r = volume_record_condition(op->record, "Created", true, "Done",
				    "all extents are there");
	if (r < 0)
		return error_set(err, -r, "the record has no room");
	r = operation_save(op, err);
	if (r == 0)
		operation_finish(op, "volume %s is ready", op->name);
	return r;
}

/* From a record that is written: make what it plans. */
static int make(struct operation *op, struct error *err)
{
	int r = 0;

	for (int plans = 1;; plans++) {
		op->total = op->done + (unsigned)op->record->n_splits + 1;
		r = extents_make(op, err);
		if (r == 0)
			r = clone_source_wait(op, err);
		if (r == 0)
			r = clone_source_drop(op, err);
		if (r == 0)
			return finish(op, err);
		if (r != -ENOSPC || plans == PLANS_MAX)
			break;
		/* Somebody took the room: all back, and plan anew. */
		if (extents_delete(op, NULL) < 0)
			break;
		if (plan(op, err) < 0)
			break;
		r = operation_save(op, err);
		if (r < 0)
			return r;
	}
	if (error_is_open(r))
		return keep_unfinished(op, r, err);
	return undo(op, r, err);
}

/* ---- begin ---- */

static int check_same(const struct operation *op,
		      const struct volume_spec *spec,
		      const struct labels *labels, struct error *err)
{
	const struct volume_record *record = op->record;
	char size[SIZE_TEXT_MAX];

	if (record->phase == VOLUME_DELETING)
		return error_set(err, EBUSY,
				 "volume '%s' is being deleted; `trib volume "
				 "delete %s` finishes that",
				 op->name, op->name);
	if (volume_spec_equal(&record->spec, spec) &&
	    labels_equal(&record->labels, labels))
		return 0;
	return error_set(err, EEXIST,
			 "volume '%s' is there already, with other properties "
			 "(%s, %s)",
			 op->name, size_format(size, record->spec.capacity),
			 record->spec.fs_type);
}

static int begin_new(struct operation *op, const struct volume_spec *spec,
		     const struct labels *labels, struct error *err)
{
	int r;

	op->record = volume_record_new();
	if (!op->record)
		return error_set(err, ENOMEM, "out of memory");
	memcpy(op->record->name, op->name, sizeof(op->name));
	(void)uuid_make(op->record->uid);
	op->record->created_s = clock_wall_s();
	op->record->phase = VOLUME_CREATING;
	r = volume_spec_copy(spec, &op->record->spec, err);
	if (r == 0)
		r = labels_copy(labels, &op->record->labels, err);
	if (r == 0)
		r = operation_step(op, err, "plan",
				   "asking the nodes for their room");
	/* A clone is cut first, under a name that is found again. */
	if (r == 0 && spec->source.kind == VOLUME_SOURCE_VOLUME)
		return operation_save(op, err);
	if (r == 0)
		r = plan(op, err);
	if (r == 0)
		r = operation_save(op, err);
	return r;
}

/* The splits of a clone, when its source is cut. */
static int plan_clone(struct operation *op, struct error *err)
{
	int r = plan(op, err);

	if (r == 0)
		r = operation_save(op, err);
	if (r == 0)
		return 0;
	return error_is_open(r) ? keep_unfinished(op, r, err)
				: undo(op, r, err);
}

static int create(struct operation *op, const struct volume_spec *spec,
		  const struct labels *labels, struct error *err)
{
	int r;

	if (op->record) {
		r = check_same(op, spec, labels, err);
		if (r < 0 || op->record->phase == VOLUME_READY)
			return r;
	} else {
		r = begin_new(op, spec, labels, err);
		if (r < 0)
			return r;
	}
	if (op->record->n_splits == 0) {
		r = plan_clone(op, err);
		if (r < 0)
			return r;
	}
	return make(op, err);
}

static int check_name(const char *name, struct error *err)
{
	int r = name_check("volume", name, err);

	if (r == 0 && strlen(name) > VOLUME_NAME_MAX)
		r = error_set(err, EINVAL,
			      "the volume name '%s' is longer than %d bytes",
			      name, VOLUME_NAME_MAX);
	return r;
}

static int create_checked(struct operation *op,
			  const struct volume_create_request *request,
			  struct volume_spec *spec, struct error *err)
{
	static const struct labels none;
	int r = clone_source_resolve(op->ctx, spec, op->record, err);

	if (r == 0)
		r = volume_spec_check(spec, err);
	if (r < 0)
		return r;
	op->total = 3; /* until the plan is known */
	return create(op, spec, request->labels ? request->labels : &none, err);
}

int volume_create(struct volume_context *ctx,
		  const struct volume_create_request *request,
		  struct volume_record **ret, struct error *err)
{
	struct volume_spec spec = {0};
	struct operation op;
	int r = check_name(request->name, err);

	if (r == 0)
		r = volume_spec_copy(request->spec, &spec, err);
	/* Without a source nothing need be asked to know that it is wrong. */
	if (r == 0 && spec.source.kind == VOLUME_SOURCE_NONE)
		r = volume_spec_check(&spec, err);
	if (r == 0)
		r = operation_begin(&op, ctx, request->name, "creating volume",
				    err);
	if (r == 0) {
		r = create_checked(&op, request, &spec, err);
		if (r == 0 && ret)
			*ret = take_ptr(op.record);
		operation_end(&op);
	}
	volume_spec_done(&spec);
	return r;
}
