/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/extent.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/size.h"
#include "blockd/node.h"

struct extent *extent_new(struct node *node)
{
	struct extent *extent = calloc(1, sizeof(*extent));

	if (!extent)
		return NULL;
	atomic_init(&extent->refs, 1);
	extent->node = node;
	(void)pthread_mutex_init(&extent->op, NULL); /* can't fail on Linux */
	return extent;
}

struct extent *extent_ref(struct extent *extent)
{
	atomic_fetch_add_explicit(&extent->refs, 1, memory_order_relaxed);
	return extent;
}

void extent_unref(struct extent *extent)
{
	if (!extent || atomic_fetch_sub_explicit(&extent->refs, 1,
						 memory_order_acq_rel) != 1)
		return;
	extent_record_done(&extent->record);
	free(extent->damage);
	(void)pthread_mutex_destroy(&extent->op); /* nobody has it */
	free(extent);
}

uint64_t extent_promise(struct pool *pool, const struct extent_record *record)
{
	if (record->kind == EXTENT_KIND_SNAPSHOT)
		return record->reserved;
	return pool->ops->footprint(pool, record->size);
}

int extent_find(struct node *node, const char *name, struct extent **ret,
		struct error *err)
{
	struct extent *extent;

	pthread_mutex_lock(&node->tables);
	extent = node_find_extent(node, name);
	if (extent)
		*ret = extent_ref(extent);
	pthread_mutex_unlock(&node->tables);
	if (!extent)
		return error_set(err, ENOENT,
				 "there is no extent '%.64s' on this node",
				 name);
	return 0;
}

static int damaged_error(const struct extent *extent, struct error *err)
{
	return error_set(err, EIO, "extent '%s' in '%s' is damaged: %s",
			 extent->record.name, extent->pool->known.path,
			 extent->damage);
}

int extent_begin(struct extent *extent, struct error *err)
{
	int r = 0;

	pthread_mutex_lock(&extent->op);
	if (extent->gone)
		r = error_set(err, ENOENT,
			      "there is no extent '%s' on this node",
			      extent->record.name);
	else if (extent->damage)
		r = damaged_error(extent, err);
	else if (extent->record.state == EXTENT_DELETING)
		r = error_set(err, EBUSY,
			      "extent '%s' is being deleted; repeat the delete",
			      extent->record.name);
	if (r < 0)
		pthread_mutex_unlock(&extent->op);
	return r;
}

void extent_end(struct extent *extent)
{
	pthread_mutex_unlock(&extent->op);
}

/* Make @record, and what it owns, the extent's. */
static void publish(struct extent *extent, const struct extent_record *record)
{
	struct extent_record old;

	pthread_mutex_lock(&extent->node->tables);
	old = extent->record;
	extent->record = *record;
	pthread_mutex_unlock(&extent->node->tables);
	extent_record_done(&old);
}

int extent_save(struct extent *extent, struct extent_record *changed,
		struct error *err)
{
	struct pool *pool = extent->pool->pool;
	int r = pool->ops->save(pool, changed, err);

	if (r < 0) {
		extent_record_done(changed);
		return r;
	}
	publish(extent, changed);
	return 0;
}

int extent_copy_record(struct extent *extent, struct extent_record *ret)
{
	int r;

	pthread_mutex_lock(&extent->node->tables);
	r = extent_record_copy(ret, &extent->record);
	pthread_mutex_unlock(&extent->node->tables);
	return r;
}

int extent_usage(struct extent *extent, struct extent_usage *ret,
		 struct error *err)
{
	struct pool *pool = extent->pool->pool;

	return pool->ops->usage(pool, extent->record.name, ret, err);
}

int extent_open(struct extent *extent, unsigned flags, struct loop *loop,
		struct blockdev **ret, struct error *err)
{
	struct pool *pool = extent->pool->pool;
	uint64_t size;

	pthread_mutex_lock(&extent->node->tables);
	size = extent->record.size;
	pthread_mutex_unlock(&extent->node->tables);
	return pool->ops->open(pool, extent->record.name, size, flags, loop,
			       ret, err);
}

/* ---- create ---- */

/* The record that a request asks for, but for the pool. */
static int fill_record(const struct extent_request *request,
		       struct extent_record *ret, struct error *err)
{
	struct extent_record record = {0};
	int r = name_check("extent", request->name, err);

	if (r == 0)
		r = extent_size_check(request->size, err);
	if (r == 0)
		r = extent_record_set_labels(&record, request->labels,
					     request->n_labels, err);
	if (r < 0) {
		(void)error_prefix(err,
				   "create extent '%.64s': ", request->name);
		return r;
	}
	memcpy(record.name, request->name, strlen(request->name) + 1);
	(void)uuid_make(record.id);
	record.size = request->size;
	record.created_s = (uint64_t)clock_wall_s();
	record.state = EXTENT_CREATING;
	record.blank = true;
	*ret = record;
	return 0;
}

/* One of the name is there: is it the one asked for? Op is held. */
static int compare(const struct extent *extent,
		   const struct extent_record *wanted, const char *pool,
		   struct error *err)
{
	const struct extent_record *have = &extent->record;
	const char *at = extent->pool->known.name;

	if (extent->damage)
		return error_set(err, EEXIST,
				 "the name '%s' belongs to a damaged extent "
				 "in pool '%s': %s",
				 have->name, at, extent->damage);
	if (have->state == EXTENT_DELETING)
		return error_set(err, EAGAIN,
				 "extent '%s' is being deleted; repeat the "
				 "delete",
				 have->name);
	if (have->size != wanted->size)
		return error_set(err, EEXIST,
				 "extent '%s' exists with %" PRIu64
				 " bytes, not %" PRIu64,
				 have->name, have->size, wanted->size);
	if (pool[0] && strcmp(pool, at) != 0)
		return error_set(err, EEXIST,
				 "extent '%s' exists in pool '%s', not '%s'",
				 have->name, at, pool);
	if (!extent_record_same_labels(have, wanted))
		return error_set(err, EEXIST,
				 "extent '%s' exists with other labels",
				 have->name);
	return 0;
}

/* Tables are held. The pool by name, if it can take an extent. */
static int find_room(struct node *node, const char *name,
		     struct node_pool **ret, struct error *err)
{
	struct node_pool *pool = node_find_pool(node, name);

	if (!pool || pool->leaving)
		return error_set(err, ENOENT,
				 "there is no pool '%.64s' on this node", name);
	if (!pool->pool)
		return error_set(
			err, ENODEV, "pool '%s' is %s: %s", pool->known.name,
			node_pool_state_name(pool->state), pool->message);
	*ret = pool;
	return 0;
}

/*
 * Find the extent of that name, or put a new one into the table, with its op
 * lock held. Returns 1 for a new one.
 */
static int find_or_insert(struct node *node, const char *pool_name,
			  struct extent *fresh, struct extent **ret,
			  struct error *err)
{
	int r;

	pthread_mutex_lock(&fresh->op);
	pthread_mutex_lock(&node->tables);
	*ret = node_find_extent(node, fresh->record.name);
	if (*ret) {
		(void)extent_ref(*ret);
		r = 0;
	} else {
		r = find_room(node, pool_name, &fresh->pool, err);
		if (r == 0) {
			memcpy(fresh->record.pool_id,
			       fresh->pool->pool->record.id, UUID_TEXT_SIZE);
			node_insert_extent(node, fresh);
			*ret = extent_ref(fresh);
			r = 1;
		}
	}
	pthread_mutex_unlock(&node->tables);
	if (r != 1)
		pthread_mutex_unlock(&fresh->op);
	return r;
}

static void take_out(struct extent *extent)
{
	pthread_mutex_lock(&extent->node->tables);
	node_remove_extent(extent->node, extent);
	pthread_mutex_unlock(&extent->node->tables);
	extent->gone = true;
}

/* The new extent is in the table and locked: give it space and data. */
static int make(struct extent *extent, struct error *err)
{
	struct extent_record made = extent->record; /* borrows what it owns */
	struct node_pool *in = extent->pool;
	struct pool *pool = in->pool;
	uint64_t bytes = pool->ops->footprint(pool, made.size);
	int r = node_reserve(extent->node, in, bytes, err);

	made.state = EXTENT_OK;
	if (r == 0) {
		r = pool->ops->create(pool, &made, err);
		if (r < 0)
			node_release(extent->node, in, bytes);
	}
	if (r < 0) {
		take_out(extent);
		return r;
	}
	extent->bytes = bytes;
	pthread_mutex_lock(&extent->node->tables);
	extent->record.state = EXTENT_OK;
	pthread_mutex_unlock(&extent->node->tables);
	return 0;
}

/* One round: 0, an error, or 1: the one of that name went, try again. */
static int create_once(struct node *node, struct extent *fresh,
		       const char *pool, struct extent **ret, bool *ret_made,
		       struct error *err)
{
	char chosen[POOL_NAME_SIZE] = "";
	struct extent *extent = NULL;
	int r;

	if (!pool[0]) {
		/* One that is there already needs no pool. */
		if (extent_find(node, fresh->record.name, &extent, NULL) < 0) {
			r = node_choose_pool(node, chosen, err);
			if (r < 0)
				return r;
		}
		extent_unref(extent);
	}
	r = find_or_insert(node, pool[0] ? pool : chosen, fresh, &extent, err);
	if (r < 0)
		return r;
	*ret_made = r == 1;
	if (r == 1) {
		r = make(extent, err);
	} else {
		pthread_mutex_lock(&extent->op);
		if (extent->gone)
			r = 1;
		else
			r = compare(extent, &fresh->record, pool, err);
	}
	pthread_mutex_unlock(&extent->op);
	if (r == 0)
		*ret = extent;
	else
		extent_unref(extent);
	return r;
}

int extent_create(struct node *node, const struct extent_request *request,
		  struct extent **ret, bool *ret_made, struct error *err)
{
	const char *pool = request->pool ? request->pool : "";
	struct extent *fresh = extent_new(node);
	bool made = false;
	int r;

	if (!fresh)
		return error_set(err, ENOMEM, "out of memory");
	r = fill_record(request, &fresh->record, err);
	if (r == 0)
		do
			r = create_once(node, fresh, pool, ret, &made, err);
		while (r == 1);
	/* Ours; the analyzer does not count the table's and the caller's. */
	extent_unref(fresh); /* NOLINT(clang-analyzer-unix.Malloc) */
	if (r == 0 && ret_made)
		*ret_made = made;
	return r;
}

/* ---- resize ---- */

static int grow(struct extent *extent, uint64_t size, struct error *err)
{
	struct pool *pool = extent->pool->pool;
	uint64_t bytes = pool->ops->footprint(pool, size);
	uint64_t more = bytes - extent->bytes;
	struct extent_record record;
	int r;

	if (extent_copy_record(extent, &record) < 0)
		return error_set(err, ENOMEM, "out of memory");
	record.size = size;
	r = node_reserve(extent->node, extent->pool, more, err);
	if (r == 0) {
		r = pool->ops->grow(pool, &record, err);
		if (r < 0)
			node_release(extent->node, extent->pool, more);
	}
	if (r < 0) {
		extent_record_done(&record);
		return r;
	}
	extent->bytes = bytes;
	publish(extent, &record);
	return 0;
}

int extent_resize(struct extent *extent, uint64_t size, struct error *err)
{
	const struct extent_users *users = &extent->node->users;
	int r = extent_begin(extent, err);

	if (r < 0)
		return r;
	r = extent_size_check(size, err);
	if (r == 0 && size < extent->record.size)
		r = error_set(err, ERANGE,
			      "extent '%s' has %" PRIu64
			      " bytes and can't shrink to %" PRIu64,
			      extent->record.name, extent->record.size, size);
	else if (r == 0 && size > extent->record.size)
		r = grow(extent, size, err);
	if (r == 0 && users->grown)
		users->grown(users->context, extent);
	extent_end(extent);
	return r;
}

/* ---- delete ---- */

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
	if (id && id[0] && strcmp(id, record->id) != 0)
		return error_set(err, ESTALE,
				 "extent '%s' has the id %s, not %.40s",
				 record->name, record->id, id);
	return 0;
}

/* Say durably that it is going: a crash from here on finishes the delete. */
static int mark_deleting(struct extent *extent, struct error *err)
{
	struct pool *pool = extent->pool->pool;
	int r;

	if (extent->record.state == EXTENT_DELETING)
		return 0;
	r = pool->ops->doom(pool, extent->record.name, err);
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

	if (r == 0 && users->check_idle)
		r = users->check_idle(users->context, extent, err);
	if (r == 0)
		r = mark_deleting(extent, err);
	if (r == 0 && users->drop)
		r = users->drop(users->context, extent, err);
	if (r == 0)
		r = pool->ops->erase(pool, extent->record.name, err);
	if (r < 0)
		return r;
	node_release(extent->node, extent->pool, extent->bytes);
	take_out(extent);
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
	if (!extent->gone)
		r = delete_locked(extent, id, err);
	pthread_mutex_unlock(&extent->op);
	extent_unref(extent);
	return r;
}
