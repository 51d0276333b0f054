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
#include "volume/snapshot/snapshot_op.h"

#define CUTS_MAX 3 /* tries, when nodes could not hold for long enough */

/* ---- make ---- */

/* Keep what was begun, and say so in the record. */
static int snapshot_keep(struct snapshot_op *s, int r, struct error *err)
{
	(void)snapshot_record_condition(s->record, "Cut", false, "Unfinished",
					error_text(err));
	(void)snapshot_op_save(s, NULL); /* that it is planned suffices */
	(void)error_prefix(err,
			   "snapshot '%s' is not made (repeat the command to "
			   "try again, `trib snapshot delete %s` to forget "
			   "it): ",
			   s->name, s->name);
	return r;
}

/* Undo all, and forget the snapshot. Returns @r, or that it can't be undone. */
static int snapshot_undo(struct snapshot_op *s, struct operation *op,
			 enum snapshot_left left, int r, struct error *err)
{
	struct error why = {0};
	int e = 0;

	op->undoing = true;
	if (left != SNAPSHOT_LEFT_NONE)
		e = snapshot_extents_delete(op, s->record,
					    SNAPSHOT_SPLIT_PLANNED, &why);
	if (e == 0 && left == SNAPSHOT_LEFT_COMING)
		return snapshot_keep(s, r, err);
	if (e == 0)
		e = snapshot_op_remove(s, &why);
	if (e == 0)
		return r;
	(void)error_prefix(err,
			   "%s; and to undo it failed: ", error_text(&why));
	return snapshot_keep(s, -EHOSTUNREACH, err);
}

/* A new instant: written down first. */
static int snapshot_plan_new(struct snapshot_op *s, struct operation *op,
			     struct error *err)
{
	int r = snapshot_plan(op, s->record, err);

	if (r < 0)
		return r;
	(void)uuid_make(s->record->cut);
	return snapshot_op_save(s, err);
}

static int snapshot_cut(struct snapshot_op *s, struct operation *op,
			enum snapshot_left *ret_left, struct error *err)
{
	int r;

	for (int tries = 1;; tries++) {
		r = snapshot_plan_new(s, op, err);
		if (r == 0)
			r = snapshot_take(op, &s->record, 1, ret_left, err);
		if (r != -ESTALE || tries == CUTS_MAX ||
		    *ret_left == SNAPSHOT_LEFT_COMING)
			return r;
		r = snapshot_extents_delete(op, s->record,
					    SNAPSHOT_SPLIT_PLANNED, err);
		if (r < 0)
			return r;
	}
}

static int snapshot_finish(struct snapshot_op *s, struct operation *op,
			   struct error *err)
{
	struct snapshot_record *record = s->record;
	int r;

	record->cut_s = clock_wall_s();
	record->phase = SNAPSHOT_COPYING;
	for (size_t i = 0; i < record->n_conditions; i++)
		record->conditions[i].status = true;
	r = snapshot_extents_look(op, record, NULL);
	(void)r; /* how far it is can be asked later */
	return snapshot_op_save(s, err);
}

/* From a record that has no instant yet. */
static int snapshot_make(struct snapshot_op *s, struct operation *op,
			 struct error *err)
{
	enum snapshot_left left = SNAPSHOT_LEFT_NONE;
	int r = 0;

	op->total = op->done + 3;
	if (s->record->resource_version[0])
		r = snapshot_extents_delete(op, s->record,
					    SNAPSHOT_SPLIT_PLANNED, err);
	if (r < 0)
		return snapshot_keep(s, r, err);
	r = snapshot_cut(s, op, &left, err);
	if (r < 0)
		return snapshot_undo(s, op, left, r, err);
	r = operation_step(op, err, "record", "writing the record");
	if (r == 0)
		r = snapshot_finish(s, op, err);
	/* Killed, or stopped, here: it is cut anew. */
	if (r == 0)
		operation_finish(op, "snapshot %s is there", s->name);
	return r;
}

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
	struct operation op;
	int r = 0;

	if (s->record) {
		r = snapshot_check_same(s, request, err);
		if (r < 0)
			return r;
		if (snapshot_record_is_cut(s->record)) {
			operation_init(&op, s->ctx, s->name);
			r = snapshot_follow(s, &op, err);
			operation_done(&op);
			return r;
		}
	}
	r = operation_begin_id(&op, s->ctx, request->volume,
			       "snapshotting volume", err);
	if (r < 0)
		return r;
	if (!s->record)
		r = snapshot_begin_new(s, request, temporary_for, err);
	if (r == 0)
		r = snapshot_make(s, &op, err);
	operation_end(&op);
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
						"Unfinished", error_text(err));
		(void)snapshot_op_save(s, NULL); /* a repeat finds out again */
		(void)error_prefix(err,
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

	while (r == 0 && (*record)->phase == SNAPSHOT_COPYING) {
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
	return r;
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
