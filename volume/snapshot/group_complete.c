/* SPDX-License-Identifier: Apache-2.0 */
/* A group that is cut: followed until all of it is there, deleted. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/snapshot/snapshot_op.h"

/* ---- follow ---- */

int group_member_complete(struct snapshot_op *s, struct operation *steps,
			  const struct group_record *group, bool *ret_ready,
			  struct error *err)
{
	struct snapshot_record *record = s->record;
	int r = 0;

	*ret_ready = false;
	if (!record || strcmp(record->cut, group->cut) != 0)
		return error_set(err, EUCLEAN,
				 "snapshot '%s' of group snapshot '%s' is gone",
				 s->name, group->name);
	if (record->phase == SNAPSHOT_DELETING)
		return error_set(err, EBUSY, "snapshot '%s' is being deleted",
				 s->name);
	if (record->phase == SNAPSHOT_CREATING) {
		record->cut_s = group->cut_s;
		record->phase = SNAPSHOT_COPYING;
	} else if (record->phase == SNAPSHOT_READY) {
		*ret_ready = true;
		return 0;
	}
	r = snapshot_extents_look(steps, record, err);
	if (r == 0)
		r = snapshot_op_save(s, err);
	*ret_ready = record->phase == SNAPSHOT_READY;
	return r;
}

int group_complete_end(struct group_op *g, bool ready, struct error *err)
{
	if (!ready || g->record->phase == SNAPSHOT_READY)
		return 0;
	g->record->phase = SNAPSHOT_READY;
	return group_op_save(g, err);
}

int group_complete(struct group_op *g, struct error *err)
{
	struct operation steps;
	bool all = true;
	int r = 0;

	if (g->record->phase != SNAPSHOT_COPYING)
		return 0;
	operation_init(&steps, g->ctx, g->name);
	for (size_t i = 0; r == 0 && i < g->record->n_members; i++) {
		struct snapshot_op s;
		bool ready;

		r = snapshot_op_begin(&s, g->ctx,
				      g->record->members[i].snapshot,
				      "following snapshot", err);
		if (r < 0)
			break;
		r = group_member_complete(&s, &steps, g->record, &ready, err);
		all = all && ready;
		snapshot_op_end(&s);
	}
	operation_done(&steps);
	return r < 0 ? r : group_complete_end(g, all, err);
}

int volume_group_refresh(struct volume_context *ctx, const char *name,
			 struct group_record **ret, struct error *err)
{
	struct group_op g;
	int r = volume_group_get(ctx, name, ret, err);

	if (r < 0 || (*ret)->phase != SNAPSHOT_COPYING)
		return r;
	group_record_free(*ret);
	r = group_op_begin(&g, ctx, name, "following group snapshot", err);
	if (r < 0)
		return r;
	if (g.record)
		r = group_complete(&g, err);
	else
		r = error_set(err, ENOENT, "there is no group snapshot '%s'",
			      name);
	if (r == 0)
		*ret = take_ptr(g.record);
	group_op_end(&g);
	return r;
}

/* ---- delete ---- */

static int member_delete(struct group_op *g, const struct group_member *m,
			 struct operation *steps, struct error *err)
{
	struct snapshot_op s;
	int r = snapshot_op_begin(&s, g->ctx, m->snapshot, "deleting snapshot",
				  err);

	if (r < 0)
		return r;
	if (s.record && strcmp(s.record->group_uid, g->record->uid) == 0)
		r = snapshot_delete(&s, steps, err);
	snapshot_op_end(&s);
	return r;
}

static int delete_all(struct group_op *g, struct operation *steps,
		      struct error *err)
{
	struct error why = {0};
	int r = 0, e;

	if (g->record->phase != SNAPSHOT_DELETING) {
		g->record->phase = SNAPSHOT_DELETING;
		r = group_op_save(g, err);
	}
	if (r < 0)
		return r;
	for (size_t i = 0; i < g->record->n_members; i++) {
		e = member_delete(g, &g->record->members[i], steps, &why);
		if (e < 0 && r == 0) {
			r = e;
			if (err)
				*err = why;
		}
	}
	return r < 0 ? r : group_op_remove(g, err);
}

int volume_group_delete(struct volume_context *ctx, const char *name,
			struct error *err)
{
	struct operation steps;
	struct group_op g;
	int r = group_op_begin(&g, ctx, name, "deleting group snapshot", err);

	if (r < 0)
		return r;
	if (g.record) {
		operation_init(&steps, ctx, name);
		r = delete_all(&g, &steps, err);
		if (r == 0)
			operation_finish(&steps, "group snapshot %s is gone",
					 name);
		operation_done(&steps);
	}
	group_op_end(&g);
	return r;
}
