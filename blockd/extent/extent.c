/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/extent/extent.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/size.h"
#include "blockd/extent/extent_dev.h"
#include "blockd/extent/extent_internal.h"

struct extent *extent_new(struct node *node)
{
	struct extent *extent = calloc(1, sizeof(*extent));

	if (!extent)
		return NULL;
	atomic_init(&extent->refs, 1);
	extent->node = node;
	(void)pthread_mutex_init(&extent->op, NULL); /* can't fail on Linux */
	gate_init(&extent->gate);
	atomic_init(&extent->copied_from, 0);
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
	free(extent->pulled);
	gate_done(&extent->gate);
	(void)pthread_mutex_destroy(&extent->op); /* nobody has it */
	free(extent);
}

uint64_t extent_promise(struct pool *pool, const struct extent_record *record)
{
	if (record->kind == EXTENT_KIND_SNAPSHOT)
		return record->reserved;
	return pool->ops->footprint(pool, record->size);
}

uint64_t extent_reserved(struct extent *extent)
{
	uint64_t bytes;

	pthread_mutex_lock(&extent->node->tables);
	bytes = extent->bytes;
	pthread_mutex_unlock(&extent->node->tables);
	return bytes;
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
	else if (extent->record.state == EXTENT_COPYING)
		r = error_set(err, EBUSY,
			      "the content of extent '%s' is still being "
			      "copied",
			      extent->record.name);
	if (r < 0)
		pthread_mutex_unlock(&extent->op);
	return r;
}

void extent_end(struct extent *extent)
{
	pthread_mutex_unlock(&extent->op);
}

void extent_publish(struct extent *extent, const struct extent_record *record)
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
	extent_publish(extent, changed);
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
	uint64_t size;

	pthread_mutex_lock(&extent->node->tables);
	size = extent->record.size;
	pthread_mutex_unlock(&extent->node->tables);
	if (extent->record.kind == EXTENT_KIND_SNAPSHOT)
		flags |= BLOCKDEV_FILE_READ_ONLY;
	return extent_dev_open(&extent->gate, extent->pool->pool,
			       extent->record.name, size, flags, loop, ret,
			       err);
}

void extent_set_state(struct extent *extent, enum extent_state state)
{
	pthread_mutex_lock(&extent->node->tables);
	extent->record.state = state;
	pthread_mutex_unlock(&extent->node->tables);
}

void extent_take_out(struct extent *extent)
{
	pthread_mutex_lock(&extent->node->tables);
	node_remove_extent(extent->node, extent);
	pthread_mutex_unlock(&extent->node->tables);
	extent->gone = true;
}

int extents_begin(struct extent *const *extents, size_t n, struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		int r = extent_begin(extents[i], err);

		if (r < 0) {
			extents_end(extents, i);
			return r;
		}
	}
	return 0;
}

void extents_end(struct extent *const *extents, size_t n)
{
	while (n > 0)
		extent_end(extents[--n]);
}

int extent_direct_end(struct extent *extent, struct error *err)
{
	struct pool *pool = extent->pool->pool;
	int r = pool->ops->direct_detach
			? pool->ops->direct_detach(pool, extent->record.name,
						   err)
			: 0;

	return r < 0 ? error_prefix(err, r, "the direct runs of extent '%s': ",
				    extent->record.name)
		     : 0;
}

int extent_flush(struct extent *extent, struct error *err)
{
	struct pool *pool = extent->pool->pool;

	return pool->ops->flush(pool, extent->record.name, err);
}

int extent_check_id(const struct extent *extent, const char *id,
		    struct error *err)
{
	if (id && id[0] && strcmp(id, extent->record.id) != 0)
		return error_set(err, ESTALE,
				 "extent '%s' has the id %s, not %.40s",
				 extent->record.name, extent->record.id, id);
	return 0;
}

int extent_check_not_copied(const struct extent *extent, const char *before,
			    struct error *err)
{
	bool pulls;

	if (atomic_load(&extent->copied_from))
		return error_set(err, EBUSY,
				 "extent '%s' is being copied: wait for the "
				 "copy, or delete it, before %s",
				 extent->record.name, before);
	pthread_mutex_lock(&extent->node->tables);
	pulls = extent->pulling;
	pthread_mutex_unlock(&extent->node->tables);
	if (pulls)
		return error_set(err, EBUSY,
				 "extent '%s' is pulling its content: wait for "
				 "that, or delete it, before %s",
				 extent->record.name, before);
	return 0;
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
	pthread_mutex_lock(&extent->node->tables);
	extent->bytes = bytes;
	pthread_mutex_unlock(&extent->node->tables);
	extent_publish(extent, &record);
	return 0;
}

static int check_growable(const struct extent *extent, struct error *err)
{
	if (extent->record.kind == EXTENT_KIND_SNAPSHOT)
		return error_set(err, EINVAL,
				 "'%s' is a snapshot and never changes: make "
				 "an extent from it, which may be larger",
				 extent->record.name);
	return extent_check_not_copied(extent, "it grows", err);
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
	if (r == 0 && size > extent->record.size)
		r = check_growable(extent, err);
	if (r == 0 && size > extent->record.size)
		r = grow(extent, size, err);
	if (r == 0 && users->grown)
		users->grown(users->context, extent);
	extent_end(extent);
	return r;
}
