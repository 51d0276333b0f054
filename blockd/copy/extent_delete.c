/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "blockd/copy/copy_job.h"
#include "blockd/copy/cut_intent.h"
#include "blockd/copy/pull_job.h"
#include "blockd/extent/extent_internal.h"

static int check_deletable(const struct extent *extent, const char *id,
			   struct error *err)
{
	const struct extent_record *record = &extent->record;

	if (extent->damage)
		return error_set(err, EIO,
				 "extent '%s' is damaged (%s) and nothing of "
				 "it is removed: look at '%s/extents/%s.*', "
				 "move them away by hand and restart blockd",
				 record->name, extent->damage,
				 extent->pool->known.path, record->name);
	return extent_check_id(extent, id, err);
}

/* Say durably that it is going: a crash from here on finishes the delete. */
static int mark_deleting(struct extent *extent, struct error *err)
{
	struct pool *pool = extent->pool->pool;
	int r;

	if (extent->record.state == EXTENT_DELETING)
		return 0;
	r = pool->ops->begin_delete(pool, extent->record.name, err);
	if (r < 0)
		return r;
	pthread_mutex_lock(&extent->node->tables);
	extent->record.state = EXTENT_DELETING;
	extent->record.export.active = false;
	pthread_mutex_unlock(&extent->node->tables);
	return 0;
}

static int delete_locked(struct extent *extent, const char *id,
			 struct error *err)
{
	const struct extent_users *users = &extent->node->users;
	struct pool *pool = extent->pool->pool;
	int r = check_deletable(extent, id, err);

	if (r == 0)
		pull_job_stop(extent);
	if (r == 0)
		r = extent_check_not_copied(extent, "it is deleted", err);
	if (r == 0 && users->check_idle)
		r = users->check_idle(users->context, extent, "it is deleted",
				      err);
	if (r == 0 && extent->record.origin.cut[0])
		cut_intent_taken_apart(extent->node, extent->record.origin.cut);
	if (r == 0)
		r = mark_deleting(extent, err);
	if (r == 0 && users->drop)
		r = users->drop(users->context, extent, err);
	if (r == 0)
		r = pool->ops->erase(pool, extent->record.name, err);
	if (r < 0)
		return r;
	node_release(extent->node, extent->pool, extent->bytes);
	extent_take_out(extent);
	return 0;
}

int extent_delete(struct node *node, const char *name, const char *id,
		  struct error *err)
{
	struct extent *extent;
	int r = 0;

	if (extent_find(node, name, &extent, NULL) < 0)
		return 0;
	pthread_mutex_lock(&extent->op);
	while (r == 0 && !extent->gone &&
	       extent->record.state == EXTENT_COPYING) {
		r = check_deletable(extent, id, err);
		pthread_mutex_unlock(&extent->op);
		if (r == 0)
			copy_job_stop(extent);
		pthread_mutex_lock(&extent->op);
	}
	if (r == 0 && !extent->gone)
		r = delete_locked(extent, id, err);
	pthread_mutex_unlock(&extent->op);
	extent_unref(extent);
	return r;
}
