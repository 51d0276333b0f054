/* SPDX-License-Identifier: Apache-2.0 */
/* Making extents: of zeroes, or with the content of another. */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "blockd/copy/copy_guard.h"
#include "blockd/copy/copy_job.h"
#include "blockd/extent/extent_internal.h"

int extent_fresh(struct node *node, const char *name,
		 const struct extent_label *labels, size_t n_labels,
		 struct extent **ret, struct error *err)
{
	struct extent *extent;
	int r = name_check("extent", name, err);

	if (r < 0)
		return r;
	extent = extent_new(node);
	if (!extent)
		return error_set(err, ENOMEM, "out of memory");
	r = extent_record_set_labels(&extent->record, labels, n_labels, err);
	if (r < 0) {
		extent_unref(extent);
		return r;
	}
	memcpy(extent->record.name, name, strlen(name) + 1);
	(void)uuid_make(extent->record.id);
	extent->record.created_s = (uint64_t)clock_wall_s();
	extent->record.state = EXTENT_CREATING;
	*ret = extent;
	return 0;
}

void extent_lock_fresh(struct extent *extent)
{
	/* Never waits, so it has no place in the order of the locks. */
	int r = pthread_mutex_trylock(&extent->op);

	assert(r == 0);
	(void)r;
}

static bool has_source(const struct extent_request *request)
{
	return request->source && request->source[0];
}

/* What a request asks for, not in the table, without a pool. */
static int make_fresh(struct node *node, const struct extent_request *request,
		      struct extent **ret, struct error *err)
{
	struct extent *extent = NULL;
	int r = extent_size_check(request->size, err);

	if (r == 0)
		r = extent_limits_check(&request->limits, err);
	if (r == 0)
		r = extent_fresh(node, request->name, request->labels,
				 request->n_labels, &extent, err);
	if (r < 0)
		return error_prefix(err, r,
				    "create extent '%.64s': ", request->name);
	extent->record.size = request->size;
	extent->record.blank = true;
	extent->record.thick = request->thick;
	extent->record.limits = request->limits;
	gate_set_limits(&extent->gate, &request->limits);
	*ret = extent;
	return 0;
}

static int compare_source(const struct extent_record *have,
			  const struct extent_request *request,
			  struct error *err)
{
	const struct extent_origin *origin = &have->origin;
	const char *source = has_source(request) ? request->source : "";
	const char *id = request->source_id ? request->source_id : "";

	if (strcmp(source, origin->name) == 0 &&
	    (!id[0] || strcmp(id, origin->id) == 0))
		return 0;
	if (!origin->name[0])
		return error_set(err, EEXIST,
				 "extent '%s' exists and was made from nothing",
				 have->name);
	return error_set(err, EEXIST,
			 "extent '%s' exists and was made from '%s' (id %s)",
			 have->name, origin->name, origin->id);
}

/* Compare the kind, thick or thin, and the source. */
static int compare_making(const struct extent_record *have,
			  const struct extent_request *request,
			  struct error *err)
{
	if (have->kind != EXTENT_KIND_EXTENT)
		return error_set(err, EEXIST,
				 "the name '%s' belongs to a snapshot",
				 have->name);
	if (have->thick != request->thick)
		return error_set(err, EEXIST, "extent '%s' exists and is %s",
				 have->name, have->thick ? "thick" : "thin");
	return compare_source(have, request, err);
}

/* Tell whether the extent of that name is the one asked for. Op is held. */
static int extent_check_same(const struct extent *extent,
			     const struct extent_record *wanted,
			     const struct extent_request *request,
			     struct error *err)
{
	const struct extent_record *have = &extent->record;
	const char *at = extent->pool->known.name;
	const char *pool = request->pool ? request->pool : "";

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
	return compare_making(have, request, err);
}

/* Tables are held. The pool by name, if it can take an extent. */
static int find_room(struct node *node, const char *name,
		     struct node_pool **ret, struct error *err)
{
	struct node_pool *pool = node_find_pool(node, name);

	if (!pool || pool->leaving)
		return error_set(err, ENOENT,
				 "there is no pool '%.64s' on this node", name);
	if (!node_pool_online(pool))
		return error_set(
			err, ENODEV, "pool '%s' is %s: %s", pool->known.name,
			node_pool_state_name(pool->state), pool->message);
	*ret = pool;
	return 0;
}

/*
 * Put a new one into the table, with its op lock held. 1: another of its name
 * is there.
 */
static int insert(struct node *node, const char *pool_name,
		  struct extent *fresh, struct error *err)
{
	int r;

	extent_lock_fresh(fresh);
	pthread_mutex_lock(&node->tables);
	r = node_find_extent(node, fresh->record.name) ? 1 : 0;
	if (r == 0)
		r = find_room(node, pool_name, &fresh->pool, err);
	if (r == 0) {
		memcpy(fresh->record.pool_id, fresh->pool->pool->record.id,
		       UUID_TEXT_SIZE);
		node_insert_extent(node, fresh);
	}
	pthread_mutex_unlock(&node->tables);
	if (r != 0)
		pthread_mutex_unlock(&fresh->op);
	return r;
}

bool extent_undo_data(struct extent *extent)
{
	struct pool *pool = extent->pool->pool;
	const char *name = extent->record.name;
	struct error err = {0};
	int r = pool->ops->begin_delete(pool, name, &err);

	if (r == 0)
		r = pool->ops->erase(pool, name, &err);
	if (r < 0)
		log_write(LOG_LEVEL_ERROR,
			  "extent %s could not be undone and may be there "
			  "again after a restart: %s",
			  name, error_text(&err));
	return r == 0;
}

int extent_copy_method(const struct extent *extent, enum pool_copy_method *ret,
		       struct error *err)
{
	struct pool *pool = extent->pool->pool;
	enum pool_copy_method method = POOL_COPY_NONE;

	if (pool->ops->copy && pool->ops->copy_method)
		method = pool->ops->copy_method(pool);
	if (method == POOL_COPY_NONE)
		return error_set(err, EOPNOTSUPP,
				 "pool '%s' is of kind '%s', which has no "
				 "snapshots and copies here",
				 extent->pool->known.name, pool->record.kind);
	*ret = method;
	return 0;
}

struct extent_origin extent_origin_of(const struct extent *extent,
				      enum pool_copy_method method)
{
	struct extent_origin origin = {.method = method};

	memcpy(origin.name, extent->record.name, sizeof(origin.name));
	memcpy(origin.id, extent->record.id, sizeof(origin.id));
	return origin;
}

/* ---- from nothing ---- */

static int make_data(struct extent *extent, struct error *err)
{
	struct extent_record made = extent->record; /* borrows what it owns */
	struct pool *pool = extent->pool->pool;

	made.state = EXTENT_OK;
	return pool->ops->create(pool, &made, err);
}

/* ---- from a source ---- */

/* Its op lock is held. */
static int check_source(const struct extent *source,
			const struct extent_request *request, struct error *err)
{
	const char *at = source->pool->known.name;
	int r = extent_check_id(source, request->source_id, err);

	if (r < 0)
		return r;
	if (request->pool && request->pool[0] && strcmp(request->pool, at) != 0)
		return error_set(
			err, EINVAL,
			"'%s' is in pool '%s', so a copy of it cannot be in '%s'",
			source->record.name, at, request->pool);
	if (request->size < source->record.size)
		return error_set(err, ERANGE,
				 "'%s' has %" PRIu64
				 " bytes, more than the %" PRIu64
				 " of its copy",
				 source->record.name, source->record.size,
				 request->size);
	return 0;
}

/* @extent is in the table, its space reserved; both op locks are held. */
static int extent_copy_data(struct extent *extent, struct extent *source,
			    enum pool_copy_method method, struct error *err)
{
	struct copy_guard guard;
	int r = copy_guard_begin(&guard, &source, &method, 1, NULL, err);

	if (r < 0)
		return r;
	extent->record.origin = extent_origin_of(source, method);
	extent->record.blank = source->record.blank;
	r = copy_job_run(&source, &extent, 1, method, err);
	if (copy_guard_end(&guard, r < 0 ? NULL : err) < 0 && r == 0) {
		(void)extent_undo_data(extent); /* it is logged */
		r = -ESTALE;
	}
	return r;
}

/* ---- both ---- */

/* The new one is in the table and locked: give it space and data. */
static int make(struct extent *extent, struct extent *source,
		enum pool_copy_method method, struct error *err)
{
	struct node_pool *in = extent->pool;
	struct pool *pool = in->pool;
	uint64_t bytes = pool->ops->footprint(pool, extent->record.size);
	int r = node_reserve(extent->node, in, bytes, err);

	if (r == 0) {
		extent->bytes = bytes;
		r = source ? extent_copy_data(extent, source, method, err)
			   : make_data(extent, err);
		if (r < 0)
			node_release(extent->node, in, bytes);
	}
	if (r < 0) {
		extent_take_out(extent);
		return r;
	}
	if (extent->record.state == EXTENT_CREATING)
		extent_set_state(extent, EXTENT_OK);
	return 0;
}

/* 1: another of the name came first. */
static int make_new(struct extent *fresh, const struct extent_request *request,
		    struct error *err)
{
	char chosen[POOL_NAME_SIZE] = "";
	const char *pool = request->pool ? request->pool : "";
	int r = 0;

	if (!pool[0]) {
		r = node_choose_pool(fresh->node, chosen, err);
		pool = chosen;
	}
	if (r == 0)
		r = insert(fresh->node, pool, fresh, err);
	if (r == 0) {
		r = make(fresh, NULL, POOL_COPY_NONE, err);
		pthread_mutex_unlock(&fresh->op);
	}
	return r;
}

static int make_from(struct extent *fresh, struct extent *source,
		     const struct extent_request *request, struct error *err)
{
	enum pool_copy_method method;
	int r = extent_begin(source, err);

	if (r < 0)
		return r;
	r = check_source(source, request, err);
	if (r == 0)
		r = extent_copy_method(source, &method, err);
	if (r == 0)
		r = insert(fresh->node, source->pool->known.name, fresh, err);
	if (r == 0) {
		r = make(fresh, source, method, err);
		pthread_mutex_unlock(&fresh->op);
	}
	extent_end(source);
	return r;
}

/* One round: 0, an error, or 1: try again. */
static int create_once(struct extent *fresh,
		       const struct extent_request *request,
		       struct extent **ret, bool *ret_made, struct error *err)
{
	struct node *node = fresh->node;
	struct extent *other = NULL;
	int r;

	if (extent_find(node, fresh->record.name, &other, NULL) == 0) {
		pthread_mutex_lock(&other->op);
		r = other->gone ? 1
				: extent_check_same(other, &fresh->record,
						    request, err);
		pthread_mutex_unlock(&other->op);
		if (r == 0)
			*ret = extent_ref(other);
		*ret_made = false;
	} else if (has_source(request)) {
		r = extent_find(node, request->source, &other, err);
		if (r == 0)
			r = make_from(fresh, other, request, err);
		*ret_made = true;
	} else {
		r = make_new(fresh, request, err);
		*ret_made = true;
	}
	if (r == 0 && *ret_made)
		*ret = extent_ref(fresh);
	extent_unref(other);
	return r;
}

int extent_create(struct node *node, const struct extent_request *request,
		  struct extent **ret, bool *ret_made, struct error *err)
{
	struct extent *fresh = NULL;
	bool made = false;
	int r = make_fresh(node, request, &fresh, err);

	if (r < 0)
		return r;
	do
		r = create_once(fresh, request, ret, &made, err);
	while (r == 1);
	/* Ours; the analyzer does not count the table's and the caller's. */
	extent_unref(fresh); /* NOLINT(clang-analyzer-unix.Malloc) */
	if (r == 0 && ret_made)
		*ret_made = made;
	return r;
}
