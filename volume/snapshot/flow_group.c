/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Several volumes cut at one instant. The group's record decides: its members'
 * snapshots count from the moment when it says that it is cut. Snapshots found
 * before that are deleted, unfinished ones found after that are finished.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/op/flow.h"
#include "volume/snapshot/snapshot_op.h"

/* A group with all that its cut needs: everything is leased. */
struct group_work {
	struct volume_context *ctx;
	struct group_op g;
	struct operation *volumes;        /* owned, by name */
	struct snapshot_op *members;      /* owned, in the same order */
	struct snapshot_record **records; /* owned; those of the members */
	size_t n;
	size_t n_volumes, n_members; /* that are begun */
	struct operation steps;
	enum snapshot_left left;
};

static struct group_work *work_of(struct operation *steps)
{
	return container_of(steps, struct group_work, steps);
}

/* ---- begin and end ---- */

static int volume_by_name(const void *a, const void *b)
{
	char names[2][RECORD_NAME_SIZE];

	(void)id_split(*(const char *const *)a, names[0]);
	(void)id_split(*(const char *const *)b, names[1]);
	return strcmp(names[0], names[1]);
}

/* In order, so that it is one group however they are given. Owned. */
static int names_sort(const struct group_create_request *request,
		      const char ***ret, struct error *err)
{
	size_t n = request->n_volumes;
	const char **names;
	int r = 0;

	if (n == 0 || n > SNAPSHOT_MEMBERS_MAX)
		return error_set(err, EINVAL, "a group has 1 to %d volumes",
				 SNAPSHOT_MEMBERS_MAX);
	names = calloc(n, sizeof(*names));
	if (!names)
		return error_set(err, ENOMEM, "out of memory");
	memcpy(names, request->volumes, n * sizeof(*names));
	qsort(names, n, sizeof(*names), volume_by_name);
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (i > 0 && volume_by_name(&names[i - 1], &names[i]) == 0)
			r = error_set(err, EINVAL, "volume '%s' is given twice",
				      names[i]);
	}
	if (r < 0)
		free(names);
	else
		*ret = names;
	return r;
}

static void member_name(const struct group_op *g, size_t index, char *ret)
{
	(void)snprintf(ret, RECORD_NAME_SIZE, "%.59s-%hhu", g->name,
		       (unsigned char)index);
}

/* The lease on each volume and each member. */
static int work_begin(struct group_work *w, const char *const *names, size_t n,
		      struct error *err)
{
	char name[RECORD_NAME_SIZE];
	int r = 0;

	w->volumes = calloc(n, sizeof(*w->volumes));
	w->members = calloc(n, sizeof(*w->members));
	w->records = calloc(n, sizeof(struct snapshot_record *));
	w->n = n;
	if (!w->volumes || !w->members || !w->records)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = operation_begin_id(&w->volumes[i], w->ctx, names[i],
				       "snapshotting volume", err);
		w->n_volumes += r == 0;
		if (r == 0)
			r = operation_check_ready(&w->volumes[i], err);
	}
	for (size_t i = 0; r == 0 && i < n; i++) {
		member_name(&w->g, i, name);
		r = snapshot_op_begin(&w->members[i], w->ctx, name,
				      "making snapshot", err);
		w->n_members += r == 0;
	}
	return r;
}

static void work_end(struct group_work *w)
{
	while (w->n_members > 0)
		snapshot_op_end(&w->members[--w->n_members]);
	while (w->n_volumes > 0)
		operation_end(&w->volumes[--w->n_volumes]);
	free(w->members);
	free(w->volumes);
	free(w->records);
}

/* ---- the records ---- */

static int member_new(struct group_work *w, size_t i, struct error *err)
{
	struct group_record *group = w->g.record;
	struct snapshot_op *s = &w->members[i];
	struct snapshot_record *record = s->record;

	if (record && strcmp(record->group_uid, group->uid) != 0)
		return error_set(err, EEXIST,
				 "there is another snapshot '%s': the members "
				 "of group snapshot '%s' can't be called "
				 "'%s-INDEX'",
				 s->name, w->g.name, w->g.name);
	if (record)
		return 0;
	record = snapshot_record_new();
	if (!record)
		return error_set(err, ENOMEM, "out of memory");
	s->record = record;
	memcpy(record->name, s->name, sizeof(record->name));
	memcpy(record->uid, group->members[i].snapshot_uid,
	       sizeof(record->uid));
	memcpy(record->group, group->name, sizeof(record->group));
	memcpy(record->group_uid, group->uid, sizeof(record->group_uid));
	record->created_s = clock_wall_s();
	record->phase = SNAPSHOT_CREATING;
	return labels_copy(&group->labels, &record->labels, err);
}

static int group_new(struct group_work *w,
		     const struct group_create_request *request,
		     struct error *err)
{
	struct group_record *record = group_record_new();
	int r;

	if (!record)
		return error_set(err, ENOMEM, "out of memory");
	w->g.record = record;
	memcpy(record->name, w->g.name, sizeof(record->name));
	(void)uuid_make(record->uid);
	record->created_s = clock_wall_s();
	record->phase = SNAPSHOT_CREATING;
	record->members = calloc(w->n, sizeof(*record->members));
	if (!record->members)
		return error_set(err, ENOMEM, "out of memory");
	record->n_members = w->n;
	for (size_t i = 0; i < w->n; i++) {
		struct group_member *m = &record->members[i];

		memcpy(m->volume, w->volumes[i].name, sizeof(m->volume));
		memcpy(m->volume_uid, w->volumes[i].record->uid,
		       sizeof(m->volume_uid));
		member_name(&w->g, i, m->snapshot);
		(void)uuid_make(m->snapshot_uid);
	}
	r = labels_copy(request->labels, &record->labels, err);
	return r < 0 ? r
		     : labels_copy(request->parameters, &record->parameters,
				   err);
}

static int group_check_volumes(struct operation *steps, struct error *err)
{
	const struct group_work *w = work_of(steps);

	for (size_t i = 0; i < w->n; i++) {
		if (strcmp(w->volumes[i].record->uid,
			   w->g.record->members[i].volume_uid) != 0)
			return error_set(err, EEXIST,
					 "group snapshot '%s' is there "
					 "already, of another volume '%s'",
					 w->g.name, w->volumes[i].name);
	}
	return 0;
}

/* ---- cut ---- */

static int group_delete_extents(struct operation *steps, struct error *err)
{
	struct group_work *w = work_of(steps);
	int r = 0;

	steps->total = steps->done + 3;
	for (size_t i = 0; i < w->n_members; i++) {
		struct snapshot_record *record = w->members[i].record;
		struct error why = {0};
		int e = 0;

		if (record && record->phase == SNAPSHOT_CREATING &&
		    strcmp(record->group_uid, w->g.record->uid) == 0)
			e = snapshot_extents_delete(
				steps, record, SNAPSHOT_SPLIT_PLANNED, &why);
		if (e < 0 && r == 0) {
			r = e;
			if (err)
				*err = why;
		}
	}
	return r;
}

/* The group first: members without one are nobody's. */
static int group_plan(struct operation *steps, struct error *err)
{
	struct group_work *w = work_of(steps);
	int r;

	(void)uuid_make(w->g.record->cut);
	r = group_op_save(&w->g, err);
	for (size_t i = 0; r == 0 && i < w->n; i++) {
		struct snapshot_op *s = &w->members[i];

		r = member_new(w, i, err);
		if (r == 0)
			r = snapshot_plan(&w->volumes[i], s->record, err);
		if (r < 0)
			break;
		memcpy(s->record->cut, w->g.record->cut,
		       sizeof(s->record->cut));
		w->records[i] = s->record;
		r = snapshot_op_save(s, err);
	}
	return r;
}

static int group_cut(struct operation *steps, struct error *err)
{
	struct group_work *w = work_of(steps);

	return snapshot_take(steps, w->volumes, w->records, w->n, &w->left,
			     err);
}

/* ---- after the cut ---- */

/*
 * Save each member's record with its extents, then the group's, which makes
 * them count.
 */
static int group_commit(struct operation *steps, struct error *err)
{
	struct group_work *w = work_of(steps);
	bool all = true, ready;
	int r = operation_step(steps, err, "record", "writing %zu records",
			       w->n + 1);

	for (size_t i = 0; r == 0 && i < w->n; i++)
		r = snapshot_op_save(&w->members[i], err);
	if (r < 0)
		return r;
	w->g.record->cut_s = clock_wall_s();
	w->g.record->phase = SNAPSHOT_COPYING;
	for (size_t i = 0; i < w->g.record->n_conditions; i++)
		w->g.record->conditions[i].status = true;
	r = group_op_save(&w->g, err);
	for (size_t i = 0; r == 0 && i < w->n; i++) {
		r = group_member_complete(&w->members[i], steps, w->g.record,
					  &ready, err);
		all = all && ready;
	}
	if (r == 0)
		r = group_complete_end(&w->g, all, err);
	if (r == 0)
		operation_finish(steps, "group snapshot %s is there",
				 w->g.name);
	return r;
}

/* ---- make ---- */

static bool group_again(struct operation *steps, int r, unsigned runs)
{
	return snapshot_cuts_again(r, runs, work_of(steps)->left);
}

/* Undo all, and forget the group. */
static int group_undo(struct operation *steps, int failed, struct error *err)
{
	struct group_work *w = work_of(steps);
	int r = w->left != SNAPSHOT_LEFT_NONE ? group_delete_extents(steps, err)
					      : 0;

	(void)failed;
	if (r == 0 && w->left == SNAPSHOT_LEFT_COMING)
		return 1;
	for (size_t i = 0; r == 0 && i < w->n_members; i++) {
		struct snapshot_record *record = w->members[i].record;

		if (record && strcmp(record->group_uid, w->g.record->uid) == 0)
			r = snapshot_op_remove(&w->members[i], err);
	}
	return r < 0 ? r : group_op_remove(&w->g, err);
}

static int group_keep(struct operation *steps, int r, struct error *err)
{
	struct group_op *g = &work_of(steps)->g;

	(void)group_record_condition(g->record, "Cut", false, "Unfinished",
				     error_text(err));
	(void)group_op_save(g, NULL); /* that it is planned suffices */
	return error_prefix(err, r,
			    "group snapshot '%s' is not made (repeat the "
			    "command to try again, `trib snapshot group delete "
			    "%s` to forget it): ",
			    g->name, g->name);
}

static const struct flow_phase group_phases[] = {
	{group_check_volumes, FLOW_LEAVE}, {group_delete_extents, FLOW_KEEP},
	{group_plan, FLOW_UNDO},           {group_cut, FLOW_UNDO},
	{group_commit, FLOW_LEAVE},        {NULL, FLOW_LEAVE},
};
static const struct flow group_flow = {
	.phases = group_phases,
	.again = group_again,
	.undo = group_undo,
	.keep = group_keep,
};

static int group_check_same(const struct group_op *g,
			    const struct group_create_request *request,
			    const char *const *names, struct error *err)
{
	const struct group_record *record = g->record;
	bool same = record->n_members == request->n_volumes &&
		    labels_equal(&record->parameters, request->parameters);

	if (record->phase == SNAPSHOT_DELETING || record->deleting)
		return error_set(err, EBUSY,
				 "group snapshot '%s' is being deleted; `trib "
				 "snapshot group delete %s` finishes that",
				 g->name, g->name);
	for (size_t i = 0; same && i < record->n_members; i++)
		same = id_means(names[i], record->members[i].volume,
				record->members[i].volume_uid);
	if (same)
		return 0;
	return error_set(err, EEXIST,
			 "group snapshot '%s' is there already, with other "
			 "volumes or parameters",
			 g->name);
}

static int group_create(struct group_work *w,
			const struct group_create_request *request,
			const char *const *names, struct error *err)
{
	int r = 0;

	if (w->g.record) {
		r = group_check_same(&w->g, request, names, err);
		if (r < 0)
			return r;
		if (w->g.record->phase != SNAPSHOT_CREATING)
			return group_complete(&w->g, err);
	}
	r = work_begin(w, names, request->n_volumes, err);
	if (r == 0 && !w->g.record)
		r = group_new(w, request, err);
	if (r == 0)
		r = flow_run(&group_flow, &w->steps, err);
	work_end(w);
	return r;
}

int volume_group_create(struct volume_context *ctx,
			const struct group_create_request *request,
			struct group_record **ret, struct error *err)
{
	static const struct labels none;
	struct group_create_request with = *request;
	struct group_work w = {.ctx = ctx};
	const char **names = NULL;
	int r = snapshot_name_check("group snapshot", request->name, err);

	if (r == 0)
		r = names_sort(request, &names, err);
	if (r < 0 || !names)
		return r;
	with.labels = with.labels ? with.labels : &none;
	with.parameters = with.parameters ? with.parameters : &none;
	r = group_op_begin(&w.g, ctx, request->name, "making group snapshot",
			   err);
	if (r == 0) {
		operation_init(&w.steps, ctx, request->name);
		r = group_create(&w, &with, names, err);
		if (r == 0 && ret)
			*ret = take_ptr(w.g.record);
		operation_done(&w.steps);
		group_op_end(&w.g);
	}
	free(names);
	return r;
}
