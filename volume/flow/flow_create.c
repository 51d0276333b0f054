/* SPDX-License-Identifier: Apache-2.0 */
/*
 * volume_create(): the phases of a volume until it is ready (volume/op/flow.h).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/size.h"
#include "volume/op/flow.h"
#include "volume/op/split.h"
#include "volume/plan/volume_plan.h"
#include "volume/snapshot/clone_source.h"

#define COPIES_NAMED 4 /* in a sentence for a person */

/* A clone's record comes first: its source is cut under a name made of it. */
static int create_clone_record(struct operation *op, struct error *err)
{
	return op->record->spec.source.kind != VOLUME_SOURCE_VOLUME ||
			       op->record->resource_version[0]
		       ? 0
		       : operation_save(op, err);
}

/* A plan whose extents were all deleted again is none. */
static bool create_is_planned(const struct volume_record *record)
{
	for (size_t i = 0; i < record->n_splits; i++) {
		if (record->splits[i].state != SPLIT_DELETED)
			return true;
	}
	return false;
}

static int create_plan(struct operation *op, struct error *err)
{
	int r;

	if (create_is_planned(op->record))
		return 0;
	op->total = op->done + 3; /* until the plan is known */
	r = operation_step(op, err, "plan", "choosing pools");
	if (r == 0)
		r = op->record->spec.source.kind == VOLUME_SOURCE_NONE
			    ? volume_plan_new(op, err)
			    : clone_source_plan(op, err);
	return r < 0 ? r : operation_save(op, err);
}

static int create_extent(struct operation *op, struct volume_split *split,
			 const void *context, struct error *err)
{
	(void)context;
	return split->state == SPLIT_PLANNED || split->state == SPLIT_DELETED
		       ? split_create(op, split, err)
		       : 0;
}

static int create_extents(struct operation *op, struct error *err)
{
	static const struct split_work work = {.each = create_extent,
					       .stop_at_first = true};

	op->total = op->done + (unsigned)op->record->n_splits + 1;
	return split_foreach(op, &work, NULL, err);
}

/* Say which splits were copied, from where to where. */
static void create_tell_copies(struct operation *op, char *ret, size_t size)
{
	size_t n = 0, at = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < op->record->n_splits; i++) {
		const struct volume_split *s = &op->record->splits[i];

		if (!s->source_node[0] || n++ >= COPIES_NAMED)
			continue;
		at += (size_t)snprintf(ret + at, size - at,
				       "%ssplit %u copied from node %s to pool "
				       "%s of node %s",
				       at ? ", " : "", s->index, s->source_node,
				       s->pool, s->node);
	}
	if (n > COPIES_NAMED)
		(void)snprintf(ret + at, size - at, " and %zu more",
			       n - COPIES_NAMED);
	if (n > 0)
		(void)store_tell(op->ctx->store, RECORD_KIND_VOLUME, op->name,
				 false, "Copied", NULL, "%s%s", ret,
				 n < op->record->n_splits
					 ? "; the others share their pools' "
					   "data"
					 : "");
}

static int create_finish(struct operation *op, struct error *err)
{
	char copies[COPIES_NAMED * 320 + 64];
	int r = operation_step(op, err, "record", "writing the record");

	if (r < 0)
		return r;
	op->record->phase = VOLUME_READY;
	r = volume_record_condition(op->record, "Created", true, "Done",
				    "all extents are there");
	if (r < 0)
		return error_set(err, -r, "the record has no room");
	r = operation_save(op, err);
	if (r < 0)
		return r;
	create_tell_copies(op, copies, sizeof(copies));
	operation_finish(op, "volume %s is ready%s%s", op->name,
			 copies[0] ? ": " : "", copies);
	return 0;
}

/* ---- undo ---- */

static int undo_extent(struct operation *op, struct volume_split *split,
		       const void *context, struct error *err)
{
	(void)context;
	return split_delete(op, split, err);
}

/* Delete every extent that may have been made. */
static int undo_extents(struct operation *op, struct error *err)
{
	static const struct split_work work = {.each = undo_extent};

	return split_foreach(op, &work, NULL, err);
}

/* Say in the record that it is not finished. */
static int create_keep(struct operation *op, int r, struct error *err)
{
	(void)volume_record_condition(op->record, "Created", false,
				      "Unfinished", error_text(err));
	(void)operation_save(op, NULL); /* the plan in the record suffices */
	return error_prefix(
		err, r,
		"volume '%s' is not finished (repeat the command to "
		"finish it, `trib volume delete %s` to undo it): ",
		op->name, op->name);
}

/* Nothing was begun before the record was written. */
static int create_undo(struct operation *op, int r, struct error *err)
{
	int e = 0;

	if (!op->record->resource_version[0])
		return 0;
	if (error_is_open(r))
		return 1;
	e = undo_extents(op, err);
	if (e == 0)
		e = clone_source_drop(op, err);
	return e < 0 ? e : operation_remove(op, err);
}

/* Another volume took the room meanwhile: once more, by a new plan. */
static bool create_again(struct operation *op, int r, unsigned runs)
{
	return r == -ENOSPC && runs == 1 && create_is_planned(op->record) &&
	       undo_extents(op, NULL) == 0;
}

static const struct flow_phase create_phases[] = {
	{create_clone_record, FLOW_UNDO},
	{create_plan, FLOW_UNDO},
	{create_extents, FLOW_UNDO},
	{clone_source_wait, FLOW_UNDO},
	{clone_source_drop, FLOW_UNDO},
	{create_finish, FLOW_UNDO},
	{NULL, FLOW_LEAVE},
};
static const struct flow create_flow = {
	.phases = create_phases,
	.again = create_again,
	.undo = create_undo,
	.keep = create_keep,
};

/* ---- the call ---- */

static int create_check_same(const struct operation *op,
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

static int create_new_record(struct operation *op,
			     const struct volume_spec *spec,
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
	return r < 0 ? r : labels_copy(labels, &op->record->labels, err);
}

/* @spec is complete. */
static int create_run(struct operation *op, const struct volume_spec *spec,
		      const struct labels *labels, struct error *err)
{
	int r = op->record ? create_check_same(op, spec, labels, err)
			   : create_new_record(op, spec, labels, err);

	if (r < 0 || op->record->phase == VOLUME_READY)
		return r;
	return flow_run(&create_flow, op, err);
}

static int create_check_name(const char *name, struct error *err)
{
	int r = name_check("volume", name, err);

	if (r == 0 && strlen(name) > VOLUME_NAME_MAX)
		r = error_set(err, EINVAL,
			      "the volume name '%s' is longer than %d bytes",
			      name, VOLUME_NAME_MAX);
	return r;
}

/* Check the spec, with open properties of a clone filled in from its source. */
static int create_check_spec(struct operation *op, struct volume_spec *spec,
			     struct error *err)
{
	int r;

	if (spec->source.kind == VOLUME_SOURCE_NONE)
		return 0; /* checked before any node was asked */
	r = clone_source_resolve(op->ctx, spec, op->record, err);
	return r < 0 ? r : volume_spec_check(spec, err);
}

int volume_create(struct volume_context *ctx,
		  const struct volume_create_request *request,
		  struct volume_record **ret, struct error *err)
{
	static const struct labels none;
	struct volume_spec spec = {0};
	struct operation op;
	int r = create_check_name(request->name, err);

	if (r == 0)
		r = volume_spec_copy(request->spec, &spec, err);
	if (r == 0 && spec.source.kind == VOLUME_SOURCE_NONE)
		r = volume_spec_check(&spec, err);
	if (r == 0)
		r = operation_begin(&op, ctx, request->name, "creating volume",
				    err);
	if (r == 0) {
		r = create_check_spec(&op, &spec, err);
		if (r == 0)
			r = create_run(
				&op, &spec,
				request->labels ? request->labels : &none, err);
		if (r == 0 && ret)
			*ret = take_ptr(op.record);
		operation_end(&op);
	}
	volume_spec_done(&spec);
	return r;
}
