/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/node/pool_seat.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct seat {
	struct pool pool;
	struct pool_ops ops;   /* pool.ops: what @inner can, by its kind */
	pthread_rwlock_t lock; /* guards @inner; held by each call */
	struct pool *inner;    /* owned; NULL: gone */
};

static struct seat *seat_of(struct pool *pool)
{
	return container_of(pool, struct seat, pool);
}

/* The pool under it, until leave(); NULL: -ENODEV, and there is no leave(). */
static struct pool *enter(struct pool *pool, struct error *err)
{
	struct seat *seat = seat_of(pool);

	(void)pthread_rwlock_rdlock(&seat->lock);
	if (seat->inner)
		return seat->inner;
	(void)pthread_rwlock_unlock(&seat->lock);
	(void)error_set(err, ENODEV, "the medium of pool '%s' is gone",
			pool->record.name);
	return NULL;
}

/* What a call came to: what may be the medium's fault is told of. */
static int leave(struct pool *pool, int r)
{
	if (r < 0 && blockdev_is_fault(r))
		pool_fault(seat_of(pool)->inner);
	(void)pthread_rwlock_unlock(&seat_of(pool)->lock);
	return r;
}

/* A member that only hands on. */
#define CALL(pool, err, ...)                                  \
	({                                                    \
		struct pool *inner = enter((pool), err);      \
		inner ? leave((pool), __VA_ARGS__) : -ENODEV; \
	})

static int seat_measure(struct pool *pool, struct space_medium *ret,
			struct error *err)
{
	return CALL(pool, err, inner->ops->measure(inner, ret, err));
}

static void seat_keep_free(struct pool *pool, uint64_t bytes)
{
	struct pool *inner = enter(pool, NULL);

	if (!inner)
		return; /* told again when it is back */
	inner->ops->keep_free(inner, bytes);
	(void)leave(pool, 0);
}

static uint64_t seat_footprint(struct pool *pool, uint64_t size)
{
	struct pool *inner = enter(pool, NULL);
	uint64_t bytes = inner ? inner->ops->footprint(inner, size) : size;

	if (inner)
		(void)leave(pool, 0);
	return bytes;
}

static int seat_create(struct pool *pool, const struct extent_record *record,
		       struct error *err)
{
	return CALL(pool, err, inner->ops->create(inner, record, err));
}

static int seat_save(struct pool *pool, const struct extent_record *record,
		     struct error *err)
{
	return CALL(pool, err, inner->ops->save(inner, record, err));
}

static int seat_grow(struct pool *pool, const struct extent_record *record,
		     struct error *err)
{
	return CALL(pool, err, inner->ops->grow(inner, record, err));
}

static int seat_doom(struct pool *pool, const char *name, struct error *err)
{
	return CALL(pool, err, inner->ops->doom(inner, name, err));
}

static int seat_erase(struct pool *pool, const char *name, struct error *err)
{
	return CALL(pool, err, inner->ops->erase(inner, name, err));
}

static int seat_usage(struct pool *pool, const char *name,
		      struct extent_usage *ret, struct error *err)
{
	return CALL(pool, err, inner->ops->usage(inner, name, ret, err));
}

static char *seat_path(struct pool *pool, const char *name)
{
	struct pool *inner = enter(pool, NULL);
	char *path = inner ? inner->ops->path(inner, name) : strdup("");

	if (inner)
		(void)leave(pool, 0);
	return path;
}

static int seat_open(struct pool *pool, const char *name, uint64_t size,
		     unsigned flags, struct loop *loop, struct blockdev **ret,
		     struct error *err)
{
	return CALL(pool, err,
		    inner->ops->open(inner, name, size, flags, loop, ret, err));
}

static int seat_share(struct pool *pool, const char *name,
		      struct space_share **ret, struct error *err)
{
	return CALL(pool, err, inner->ops->share(inner, name, ret, err));
}

static int seat_sharing(struct pool *pool, const char *const *snapshots,
			size_t n, struct pool_sharing *ret, struct error *err)
{
	return CALL(pool, err,
		    inner->ops->sharing(inner, snapshots, n, ret, err));
}

static enum pool_copy_method seat_copy_method(struct pool *pool)
{
	struct pool *inner = enter(pool, NULL);
	enum pool_copy_method method = POOL_COPY_NONE;

	if (inner)
		method = inner->ops->copy_method(inner);
	if (inner)
		(void)leave(pool, 0);
	return method;
}

static int seat_copy(struct pool *pool, const struct pool_copy *copies,
		     size_t n, pool_copied copied, void *context,
		     struct error *err)
{
	return CALL(pool, err,
		    inner->ops->copy(inner, copies, n, copied, context, err));
}

static int seat_revert(struct pool *pool, const struct extent_record *record,
		       const char *from, struct error *err)
{
	return CALL(pool, err, inner->ops->revert(inner, record, from, err));
}

static int seat_ranges(struct pool *pool, const char *name, const char *base,
		       uint64_t start, pool_range visit, void *context,
		       struct error *err)
{
	return CALL(pool, err,
		    inner->ops->ranges(inner, name, base, start, visit, context,
				       err));
}

static int seat_check(struct pool *pool, bool repair,
		      void (*finding)(void *context, const char *text,
				      bool repaired),
		      void *context, struct error *err)
{
	return CALL(pool, err,
		    inner->ops->check(inner, repair, finding, context, err));
}

static int seat_extend(struct pool *pool, struct error *err)
{
	return CALL(pool, err, inner->ops->extend(inner, err));
}

/* What it tells of is what it was asked for. */
static int seat_try(struct pool *pool, struct error *err)
{
	struct pool *inner = enter(pool, err);
	int r = inner ? inner->ops->try(inner, err) : -ENODEV;

	if (inner)
		(void)leave(pool, 0);
	return r;
}

static int seat_lost(struct pool *pool, struct error *err)
{
	return CALL(pool, err, inner->ops->lost(inner, err));
}

static int seat_retry(struct pool *pool, struct error *err)
{
	struct pool *inner = enter(pool, err);
	int r = inner ? inner->ops->retry(inner, err) : -ENODEV;

	if (inner)
		(void)leave(pool, 0);
	return r;
}

static int seat_renew(struct pool *pool, struct error *err)
{
	return CALL(pool, err, inner->ops->renew(inner, err));
}

/* Who reads the seat's own record has locks for it: the caller does that. */
static int seat_put_record(struct pool *pool, const struct pool_record *record,
			   struct error *err)
{
	return CALL(pool, err, inner->ops->put_record(inner, record, err));
}

static int seat_destroy(struct pool *pool, struct error *err)
{
	return CALL(pool, err, inner->ops->destroy(inner, err));
}

static void seat_close(struct pool *pool)
{
	struct seat *seat = seat_of(pool);

	pool_seat_clear(pool);
	(void)pthread_rwlock_destroy(&seat->lock);
	free(pool->path);
	free(seat);
}

/* load() is called before it is seated. */
static void set_ops(struct pool_ops *ops, const struct pool_ops *inner)
{
	*ops = (struct pool_ops){
		.kind = inner->kind,
		.measure = seat_measure,
		.keep_free = inner->keep_free ? seat_keep_free : NULL,
		.footprint = seat_footprint,
		.create = seat_create,
		.save = seat_save,
		.grow = seat_grow,
		.doom = seat_doom,
		.erase = seat_erase,
		.usage = seat_usage,
		.path = seat_path,
		.open = seat_open,
		.share = inner->share ? seat_share : NULL,
		.sharing = inner->sharing ? seat_sharing : NULL,
		.copy_method = inner->copy_method ? seat_copy_method : NULL,
		.copy = inner->copy ? seat_copy : NULL,
		.revert = inner->revert ? seat_revert : NULL,
		.ranges = inner->ranges ? seat_ranges : NULL,
		.check = inner->check ? seat_check : NULL,
		.extend = inner->extend ? seat_extend : NULL,
		.try = seat_try,
		.lost = inner->lost ? seat_lost : NULL,
		.retry = inner->retry ? seat_retry : NULL,
		.renew = inner->renew ? seat_renew : NULL,
		.put_record = seat_put_record,
		.destroy = seat_destroy,
		.close = seat_close,
	};
}

int pool_seat_new(struct pool *inner, struct pool **ret, struct error *err)
{
	struct seat *seat = calloc(1, sizeof(*seat));
	char *path = strdup(inner->path);

	if (!seat || !path) {
		free(seat);
		free(path);
		return error_set(err, ENOMEM, "out of memory");
	}
	(void)pthread_rwlock_init(&seat->lock, NULL);
	set_ops(&seat->ops, inner->ops);
	seat->pool = (struct pool){
		.ops = &seat->ops,
		.record = inner->record,
		.path = path,
		.cluster_size = inner->cluster_size,
	};
	seat->inner = inner;
	*ret = &seat->pool;
	return 0;
}

void pool_seat_fill(struct pool *pool, struct pool *inner)
{
	struct seat *seat = seat_of(pool);

	(void)pthread_rwlock_wrlock(&seat->lock);
	assert(!seat->inner);
	seat->inner = inner;
	(void)pthread_rwlock_unlock(&seat->lock);
}

void pool_seat_clear(struct pool *pool)
{
	struct seat *seat = seat_of(pool);
	struct pool *inner;

	(void)pthread_rwlock_wrlock(&seat->lock);
	inner = seat->inner;
	seat->inner = NULL;
	(void)pthread_rwlock_unlock(&seat->lock);
	pool_close(inner);
}
