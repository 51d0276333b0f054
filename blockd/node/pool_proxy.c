/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/node/pool_proxy.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

struct proxy {
	struct pool pool;
	struct pool_ops ops;   /* pool.ops: what @inner can, by its kind */
	pthread_rwlock_t lock; /* guards @inner; held by each call */
	struct pool *inner;    /* owned; NULL: gone */
};

static struct proxy *proxy_of(struct pool *pool)
{
	return container_of(pool, struct proxy, pool);
}

/* The pool under it, until proxy_leave(); NULL: -ENODEV, and there is no
 * proxy_leave(). */
static struct pool *proxy_enter(struct pool *pool, struct error *err)
{
	struct proxy *proxy = proxy_of(pool);

	(void)pthread_rwlock_rdlock(&proxy->lock);
	if (proxy->inner)
		return proxy->inner;
	(void)pthread_rwlock_unlock(&proxy->lock);
	(void)error_set(err, ENODEV, "the medium of pool '%s' is gone",
			pool->record.name);
	return NULL;
}

/* End a call: report an error that may be the medium's fault. */
static int proxy_leave(struct pool *pool, int r)
{
	if (r < 0 && blockdev_is_fault(r))
		pool_fault(proxy_of(pool)->inner);
	(void)pthread_rwlock_unlock(&proxy_of(pool)->lock);
	return r;
}

/* A member that only hands on. */
#define CALL(pool, err, ...)                                        \
	({                                                          \
		struct pool *inner = proxy_enter((pool), err);      \
		inner ? proxy_leave((pool), __VA_ARGS__) : -ENODEV; \
	})

static int proxy_measure(struct pool *pool, struct space_medium *ret,
			 struct error *err)
{
	return CALL(pool, err, inner->ops->measure(inner, ret, err));
}

static void proxy_keep_free(struct pool *pool, uint64_t bytes)
{
	struct pool *inner = proxy_enter(pool, NULL);

	if (!inner)
		return; /* told again when it is back */
	inner->ops->keep_free(inner, bytes);
	(void)proxy_leave(pool, 0);
}

static uint64_t proxy_footprint(struct pool *pool, uint64_t size)
{
	struct pool *inner = proxy_enter(pool, NULL);
	uint64_t bytes = inner ? inner->ops->footprint(inner, size) : size;

	if (inner)
		(void)proxy_leave(pool, 0);
	return bytes;
}

static int proxy_create(struct pool *pool, const struct extent_record *record,
			struct error *err)
{
	return CALL(pool, err, inner->ops->create(inner, record, err));
}

static int proxy_save(struct pool *pool, const struct extent_record *record,
		      struct error *err)
{
	return CALL(pool, err, inner->ops->save(inner, record, err));
}

static int proxy_grow(struct pool *pool, const struct extent_record *record,
		      struct error *err)
{
	return CALL(pool, err, inner->ops->grow(inner, record, err));
}

static int proxy_begin_delete(struct pool *pool, const char *name,
			      struct error *err)
{
	return CALL(pool, err, inner->ops->begin_delete(inner, name, err));
}

static int proxy_erase(struct pool *pool, const char *name, struct error *err)
{
	return CALL(pool, err, inner->ops->erase(inner, name, err));
}

static int proxy_usage(struct pool *pool, const char *name,
		       struct extent_usage *ret, struct error *err)
{
	return CALL(pool, err, inner->ops->usage(inner, name, ret, err));
}

static char *proxy_path(struct pool *pool, const char *name)
{
	struct pool *inner = proxy_enter(pool, NULL);
	char *path = inner ? inner->ops->path(inner, name) : strdup("");

	if (inner)
		(void)proxy_leave(pool, 0);
	return path;
}

static int proxy_open(struct pool *pool, const char *name, uint64_t size,
		      unsigned flags, struct loop *loop, struct blockdev **ret,
		      struct error *err)
{
	return CALL(pool, err,
		    inner->ops->open(inner, name, size, flags, loop, ret, err));
}

static int proxy_flush(struct pool *pool, const char *name, struct error *err)
{
	return CALL(pool, err, inner->ops->flush(inner, name, err));
}

static int proxy_share(struct pool *pool, const char *name,
		       struct space_share **ret, struct error *err)
{
	return CALL(pool, err, inner->ops->share(inner, name, ret, err));
}

static int proxy_sharing(struct pool *pool, const char *const *snapshots,
			 size_t n, struct pool_sharing *ret, struct error *err)
{
	return CALL(pool, err,
		    inner->ops->sharing(inner, snapshots, n, ret, err));
}

static enum pool_copy_method proxy_copy_method(struct pool *pool)
{
	struct pool *inner = proxy_enter(pool, NULL);
	enum pool_copy_method method = POOL_COPY_NONE;

	if (inner)
		method = inner->ops->copy_method(inner);
	if (inner)
		(void)proxy_leave(pool, 0);
	return method;
}

static int proxy_copy(struct pool *pool, const struct pool_copy *copies,
		      size_t n, pool_copied copied, void *context,
		      struct error *err)
{
	return CALL(pool, err,
		    inner->ops->copy(inner, copies, n, copied, context, err));
}

static int proxy_revert(struct pool *pool, const struct extent_record *record,
			const char *from, struct error *err)
{
	return CALL(pool, err, inner->ops->revert(inner, record, from, err));
}

static int proxy_prepare(struct pool *pool, const char *name, struct error *err)
{
	return CALL(pool, err, inner->ops->prepare(inner, name, err));
}

static int proxy_hold(struct pool *pool, const char *name, struct error *err)
{
	return CALL(pool, err, inner->ops->hold(inner, name, err));
}

static int proxy_release(struct pool *pool, const char *name)
{
	return CALL(pool, NULL, inner->ops->release(inner, name));
}

static int proxy_direct_attach(struct pool *pool, const char *name,
			       const char *uuid, uint64_t epoch,
			       struct error *err)
{
	return CALL(pool, err,
		    inner->ops->direct_attach(inner, name, uuid, epoch, err));
}

static int proxy_direct_detach(struct pool *pool, const char *name,
			       struct error *err)
{
	return CALL(pool, err, inner->ops->direct_detach(inner, name, err));
}

static int proxy_direct_count(struct pool *pool, const char *name,
			      struct pool_direct *ret, struct error *err)
{
	return CALL(pool, err, inner->ops->direct_count(inner, name, ret, err));
}

static int proxy_ranges(struct pool *pool, const char *name, const char *base,
			uint64_t start, pool_range visit, void *context,
			struct error *err)
{
	return CALL(pool, err,
		    inner->ops->ranges(inner, name, base, start, visit, context,
				       err));
}

static int proxy_check(struct pool *pool, bool repair,
		       void (*finding)(void *context, const char *text,
				       bool repaired),
		       void *context, struct error *err)
{
	return CALL(pool, err,
		    inner->ops->check(inner, repair, finding, context, err));
}

static int proxy_extend(struct pool *pool, struct error *err)
{
	return CALL(pool, err, inner->ops->extend(inner, err));
}

/* Errors of a try are its answer, so they are not reported as a fault. */
static int proxy_try(struct pool *pool, struct error *err)
{
	struct pool *inner = proxy_enter(pool, err);
	int r = inner ? inner->ops->try(inner, err) : -ENODEV;

	if (inner)
		(void)proxy_leave(pool, 0);
	return r;
}

static int proxy_lost(struct pool *pool, struct error *err)
{
	return CALL(pool, err, inner->ops->lost(inner, err));
}

static int proxy_retry(struct pool *pool, struct error *err)
{
	struct pool *inner = proxy_enter(pool, err);
	int r = inner ? inner->ops->retry(inner, err) : -ENODEV;

	if (inner)
		(void)proxy_leave(pool, 0);
	return r;
}

static int proxy_renew(struct pool *pool, struct error *err)
{
	return CALL(pool, err, inner->ops->renew(inner, err));
}

/* The caller changes the proxy's own record, under the locks of its readers. */
static int proxy_put_record(struct pool *pool, const struct pool_record *record,
			    struct error *err)
{
	return CALL(pool, err, inner->ops->put_record(inner, record, err));
}

static int proxy_destroy(struct pool *pool, struct error *err)
{
	return CALL(pool, err, inner->ops->destroy(inner, err));
}

static void proxy_close(struct pool *pool)
{
	struct proxy *proxy = proxy_of(pool);

	pool_proxy_clear(pool);
	(void)pthread_rwlock_destroy(&proxy->lock);
	free(pool->path);
	free(proxy);
}

/* load() is called before it is seated. */
static void set_ops(struct pool_ops *ops, const struct pool_ops *inner)
{
	*ops = (struct pool_ops){
		.kind = inner->kind,
		.measure = proxy_measure,
		.keep_free = inner->keep_free ? proxy_keep_free : NULL,
		.footprint = proxy_footprint,
		.create = proxy_create,
		.save = proxy_save,
		.grow = proxy_grow,
		.begin_delete = proxy_begin_delete,
		.erase = proxy_erase,
		.usage = proxy_usage,
		.path = proxy_path,
		.open = proxy_open,
		.flush = proxy_flush,
		.share = inner->share ? proxy_share : NULL,
		.sharing = inner->sharing ? proxy_sharing : NULL,
		.copy_method = inner->copy_method ? proxy_copy_method : NULL,
		.copy = inner->copy ? proxy_copy : NULL,
		.revert = inner->revert ? proxy_revert : NULL,
		.ranges = inner->ranges ? proxy_ranges : NULL,
		.prepare = inner->prepare ? proxy_prepare : NULL,
		.hold = inner->hold ? proxy_hold : NULL,
		.release = inner->release ? proxy_release : NULL,
		.direct_attach = inner->direct_attach ? proxy_direct_attach
						      : NULL,
		.direct_detach = inner->direct_detach ? proxy_direct_detach
						      : NULL,
		.direct_count = inner->direct_count ? proxy_direct_count : NULL,
		.check = inner->check ? proxy_check : NULL,
		.extend = inner->extend ? proxy_extend : NULL,
		.try = proxy_try,
		.lost = inner->lost ? proxy_lost : NULL,
		.retry = inner->retry ? proxy_retry : NULL,
		.renew = inner->renew ? proxy_renew : NULL,
		.put_record = proxy_put_record,
		.destroy = proxy_destroy,
		.close = proxy_close,
	};
}

int pool_proxy_new(struct pool *inner, struct pool **ret, struct error *err)
{
	struct proxy *proxy = calloc(1, sizeof(*proxy));
	char *path = strdup(inner->path);

	if (!proxy || !path) {
		free(proxy);
		free(path);
		return error_set(err, ENOMEM, "out of memory");
	}
	(void)pthread_rwlock_init(&proxy->lock, NULL);
	set_ops(&proxy->ops, inner->ops);
	proxy->pool = (struct pool){
		.ops = &proxy->ops,
		.record = inner->record,
		.path = path,
		.cluster_size = inner->cluster_size,
	};
	proxy->inner = inner;
	*ret = &proxy->pool;
	return 0;
}

void pool_proxy_fill(struct pool *pool, struct pool *inner)
{
	struct proxy *proxy = proxy_of(pool);

	(void)pthread_rwlock_wrlock(&proxy->lock);
	assert(!proxy->inner);
	proxy->inner = inner;
	(void)pthread_rwlock_unlock(&proxy->lock);
}

void pool_proxy_clear(struct pool *pool)
{
	struct proxy *proxy = proxy_of(pool);
	struct pool *inner;

	(void)pthread_rwlock_wrlock(&proxy->lock);
	inner = proxy->inner;
	proxy->inner = NULL;
	(void)pthread_rwlock_unlock(&proxy->lock);
	pool_close(inner);
}
