/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One snapshot: made, followed, deleted. The record says Creating from before
 * the first extent is made until all are known to be of one instant. Extents
 * found in that phase are of no instant, and are deleted.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/op/flow.h"
#include "volume/snapshot/snapshot_op.h"

#define UNFINISHED "Unfinished" /* the reason of a condition */

/* ---- make ---- */

struct snapshot_make {
	struct operation op; /* on the volume */
	struct snapshot_op *s;
	enum snapshot_left left;
};

static struct snapshot_make *make_of(struct operation *op)
{
	return container_of(op, struct snapshot_make, op);
}

/* Delete extents of an instant that came to nothing. */
static int snapshot_clear(struct operation *op, struct error *err)
{
	struct snapshot_record *record = make_of(op)->s->record;

	op->total = op->done + 3;
	return record->resource_version[0]
		       ? snapshot_extents_delete(op, record,
						 SNAPSHOT_SPLIT_PLANNED, err)
		       : 0;
}

/* A new instant: written down first. */
static int snapshot_plan_new(struct operation *op, struct error *err)
{
	struct snapshot_op *s = make_of(op)->s;
	int r = snapshot_plan(op, s->record, err);

	if (r < 0)
		return r;
	(void)uuid_make(s->record->cut);
	return snapshot_op_save(s, err);
}

static int snapshot_cut(struct operation *op, struct error *err)
{
	struct snapshot_make *make = make_of(op);

	return snapshot_take(op, op, &make->s->record, 1, &make->left, err);
}

/* Killed, or stopped, here: it is cut anew. */
static int snapshot_finish(struct operation *op, struct error *err)
{
	struct snapshot_op *s = make_of(op)->s;
	struct snapshot_record *record = s->record;
	int r = operation_step(op, err, "record", "writing the record");

	if (r < 0)
		return r;
	record->cut_s = clock_wall_s();
	record->phase = SNAPSHOT_COPYING;
	for (size_t i = 0; i < record->n_conditions; i++)
		if (strcmp(record->conditions[i].reason, UNFINISHED) == 0)
			record->conditions[i].status = true;
	r = snapshot_extents_look(op, record, NULL);
	(void)r; /* how far it is can be asked later */
	r = snapshot_op_save(s, err);
	if (r == 0)
		operation_finish(op, "snapshot %s is there", s->name);
	return r;
}

static bool snapshot_again(struct operation *op, int r, unsigned runs)
{
	return snapshot_cuts_again(r, runs, make_of(op)->left);
}

/* Undo all, and forget the snapshot. */
static int snapshot_undo(struct operation *op, int failed, struct error *err)
{
	const struct snapshot_make *make = make_of(op);
	int r = 0;

	(void)failed;
	if (make->left != SNAPSHOT_LEFT_NONE)
		r = snapshot_extents_delete(op, make->s->record,
					    SNAPSHOT_SPLIT_PLANNED, err);
	if (r < 0)
		return r;
	return make->left == SNAPSHOT_LEFT_COMING
		       ? 1
		       : snapshot_op_remove(make->s, err);
}

static int snapshot_keep(struct operation *op, int r, struct error *err)
{
	struct snapshot_op *s = make_of(op)->s;

	(void)snapshot_record_condition(s->record, "Cut", false, UNFINISHED,
					error_text(err));
	(void)snapshot_op_save(s, NULL); /* that it is planned suffices */
	return error_prefix(err, r,
			    "snapshot '%s' is not made (repeat the command to "
			    "try again, `trib snapshot delete %s` to forget "
			    "it): ",
			    s->name, s->name);
}

static const struct flow_phase make_phases[] = {
	{snapshot_clear, FLOW_KEEP}, {snapshot_plan_new, FLOW_UNDO},
	{snapshot_cut, FLOW_UNDO},   {snapshot_finish, FLOW_LEAVE},
	{NULL, FLOW_LEAVE},
};
static const struct flow make_flow = {
	.phases = make_phases,
	.again = snapshot_again,
	.undo = snapshot_undo,
	.keep = snapshot_keep,
};

static int snapshot_begin_new(struct snapshot_op *s,
			      const struct snapshot_create_request *request,
			      const char *temporary_for, struct error *err)
{
	struct snapshot_record *record = snapshot_record_new();

	if (!record)
		return error_set(err, ENOMEM, "out of memory");
	s->record = record;
	memcpy(record->name, s->name, sizeof(record->name));
	(void)uuid_make(record->uid);
	(void)snprintf(record->temporary_for, sizeof(record->temporary_for),
		       "%s", temporary_for);
	record->created_s = clock_wall_s();
	record->phase = SNAPSHOT_CREATING;
	return labels_copy(request->labels, &record->labels, err);
}

static int snapshot_check_same(const struct snapshot_op *s,
			       const struct snapshot_create_request *request,
			       struct error *err)
{
	const struct snapshot_record *record = s->record;

	if (record->phase == SNAPSHOT_DELETING || record->deleting)
		return error_set(err, EBUSY,
				 "snapshot '%s' is being deleted; `trib "
				 "snapshot delete %s` finishes that",
				 s->name, s->name);
	if (!id_means(request->volume, record->volume, record->volume_uid))
		return error_set(err, EEXIST,
				 "snapshot '%s' is there already, of volume "
				 "'%s'",
				 s->name, record->volume);
	if (record->group[0])
		return error_set(err, EEXIST,
				 "snapshot '%s' is there already, a member of "
				 "group snapshot '%s'",
				 s->name, record->group);
	if (!labels_equal(&record->labels, request->labels))
		return error_set(err, EEXIST,
				 "snapshot '%s' is there already, with other "
				 "labels",
				 s->name);
	return 0;
}

/* Ask how far copying is by now. */
static int snapshot_follow(struct snapshot_op *s, struct operation *op,
			   struct error *err)
{
	int r;

	if (s->record->phase != SNAPSHOT_COPYING)
		return 0;
	r = snapshot_extents_look(op, s->record, err);
	return r < 0 ? r : snapshot_op_save(s, err);
}

static int snapshot_create(struct snapshot_op *s,
			   const struct snapshot_create_request *request,
			   const char *temporary_for, struct error *err)
{
	struct snapshot_make make = {.s = s};
	int r = 0;

	if (s->record) {
		r = snapshot_check_same(s, request, err);
		if (r < 0)
			return r;
		if (snapshot_record_is_cut(s->record)) {
			operation_init(&make.op, s->ctx, s->name);
			r = snapshot_follow(s, &make.op, err);
			operation_done(&make.op);
			return r;
		}
	}
	r = operation_begin_id(&make.op, s->ctx, request->volume,
			       "snapshotting volume", err);
	if (r < 0)
		return r;
	if (!s->record)
		r = snapshot_begin_new(s, request, temporary_for, err);
	if (r == 0)
		r = flow_run(&make_flow, &make.op, err);
	operation_end(&make.op);
	return r;
}

static int create_named(struct volume_context *ctx,
			const struct snapshot_create_request *request,
			const char *temporary_for, struct snapshot_record **ret,
			struct error *err)
{
	static const struct labels none;
	struct snapshot_create_request with = *request;
	struct snapshot_op s;
	int r = snapshot_op_begin(&s, ctx, request->name, "making snapshot",
				  err);

	if (r < 0)
		return r;
	if (!with.labels)
		with.labels = &none;
	r = snapshot_create(&s, &with, temporary_for, err);
	if (r == 0 && ret)
		*ret = take_ptr(s.record);
	snapshot_op_end(&s);
	return r;
}

int volume_snapshot_create(struct volume_context *ctx,
			   const struct snapshot_create_request *request,
			   struct snapshot_record **ret, struct error *err)
{
	int r = snapshot_name_check("snapshot", request->name, err);

	return r < 0 ? r : create_named(ctx, request, "", ret, err);
}

int volume_snapshot_refresh(struct volume_context *ctx, const char *name,
			    struct snapshot_record **ret, struct error *err)
{
	struct operation op;
	struct snapshot_op s;
	int r = volume_snapshot_get(ctx, name, ret, err);

	if (r < 0 || (*ret)->phase != SNAPSHOT_COPYING)
		return r;
	snapshot_record_free(*ret);
	r = snapshot_op_begin(&s, ctx, name, "following snapshot", err);
	if (r < 0)
		return r;
	operation_init(&op, ctx, name);
	if (s.record)
		r = snapshot_follow(&s, &op, err);
	else
		r = error_set(err, ENOENT, "there is no snapshot '%s'", name);
	if (r == 0)
		*ret = take_ptr(s.record);
	operation_done(&op);
	snapshot_op_end(&s);
	return r;
}

/* ---- delete ---- */

static int check_single(struct snapshot_op *s, struct error *err)
{
	struct group_record *group = NULL;
	bool member;
	int r;

	if (!s->record->group[0])
		return 0;
	r = volume_group_get(s->ctx, s->record->group, &group, err);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return r;
	member = strcmp(group->uid, s->record->group_uid) == 0;
	group_record_free(group);
	if (!member)
		return 0;
	return error_set(err, EPERM,
			 "snapshot '%s' is a member of group snapshot '%s', "
			 "and goes with it",
			 s->name, s->record->group);
}

int snapshot_delete(struct snapshot_op *s, struct operation *op,
		    struct error *err)
{
	int r = 0;

	if (s->record->phase != SNAPSHOT_DELETING) {
		s->record->phase = SNAPSHOT_DELETING;
		r = snapshot_op_save(s, err);
	}
	if (r < 0)
		return r;
	r = snapshot_extents_delete(op, s->record, SNAPSHOT_SPLIT_DELETED, err);
	if (r < 0) {
		(void)snapshot_record_condition(s->record, "Deleted", false,
						UNFINISHED, error_text(err));
		(void)snapshot_op_save(s, NULL); /* a repeat finds out again */
		(void)error_prefix(err, r,
				   "snapshot '%s' is not yet deleted (repeat "
				   "the command to finish): ",
				   s->name);
		return r;
	}
	return snapshot_op_remove(s, err);
}

static int delete_named(struct volume_context *ctx, const char *name,
			bool may_be_member, struct error *err)
{
	struct snapshot_op s;
	struct operation op;
	int r = snapshot_op_begin(&s, ctx, name, "deleting snapshot", err);

	if (r < 0)
		return r;
	if (s.record) {
		operation_init(&op, ctx, name);
		op.total = (unsigned)s.record->n_splits;
		r = may_be_member ? 0 : check_single(&s, err);
		if (r == 0)
			r = snapshot_delete(&s, &op, err);
		if (r == 0)
			operation_finish(&op, "snapshot %s is gone", name);
		operation_done(&op);
	}
	snapshot_op_end(&s);
	return r;
}

int volume_snapshot_delete(struct volume_context *ctx, const char *name,
			   struct error *err)
{
	return delete_named(ctx, name, false, err);
}

/* ---- a copy for a moment ---- */

static void temporary_name(const struct operation *op, char *ret)
{
	(void)snprintf(ret, RECORD_NAME_SIZE, "clone.%s", op->record->uid);
}

static int wait_ready(struct operation *op, const char *name,
		      struct snapshot_record **record, struct error *err)
{
	const struct timespec while_s = {.tv_sec = 1};
	int r = 0;

	while (r == 0 && (*record)->phase == SNAPSHOT_COPYING &&
	       !snapshot_record_lost(*record)) {
		r = operation_step(
			op, err, "copy", "copying the source, %d%% done",
			(int)((double)snapshot_record_copied(*record) * 100 /
			      (double)(*record)->spec.capacity));
		if (r < 0)
			break;
		(void)nanosleep(&while_s, NULL);
		snapshot_record_free(*record);
		*record = NULL;
		r = volume_snapshot_refresh(op->ctx, name, record, err);
	}
	return r < 0 ? r : snapshot_check_whole(*record, err);
}

int snapshot_temporary(struct operation *op, const struct volume_source *source,
		       struct snapshot_record **ret, struct error *err)
{
	struct snapshot_record *record = NULL;
	char name[RECORD_NAME_SIZE];
	const struct snapshot_create_request request = {.name = name,
							.volume = source->name};
	int r;

	temporary_name(op, name);
	r = create_named(op->ctx, &request, op->record->uid, &record, err);
	if (r == 0 && strcmp(record->volume_uid, source->uid) != 0)
		r = error_set(err, ENOENT,
			      "volume '%s' is another one than it was",
			      source->name);
	if (r == 0)
		r = wait_ready(op, name, &record, err);
	if (r < 0)
		snapshot_record_free(record);
	else
		*ret = record;
	return r;
}

int snapshot_temporary_delete(struct operation *op, struct error *err)
{
	char name[RECORD_NAME_SIZE];

	temporary_name(op, name);
	return delete_named(op->ctx, name, true, err);
}
