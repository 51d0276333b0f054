/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/raw/pool_raw.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "blockd/raw/pool_raw_internal.h"
#include "blockd/raw/raw_medium_open.h"

/* ---- operations ---- */

static int raw_measure(struct pool *pool, struct space_medium *ret,
		       struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	const struct raw_state *state;
	uint64_t used, all, size = pool_raw_cluster(raw);

	state = raw_store_lock(raw->store);
	used = state->alloc.used;
	all = state->alloc.clusters;
	raw_store_unlock(raw->store);
	*ret = (struct space_medium){
		.size = all * size,
		.free = raw_store_available(raw->store) * size,
		.allocated = used * size,
		.device = raw->device,
	};
	return raw_store_broken(raw->store, err);
}

static void raw_keep_free(struct pool *pool, uint64_t bytes)
{
	struct pool_raw *raw = pool_raw_of(pool);
	uint64_t clusters = bytes / pool_raw_cluster(raw);

	raw_store_keep(raw->store, clusters < RAW_CLUSTERS_MAX
					   ? (uint32_t)clusters
					   : RAW_CLUSTERS_MAX);
}

static uint64_t raw_footprint(struct pool *pool, uint64_t size)
{
	struct pool_raw *raw = pool_raw_of(pool);

	return pool_raw_clusters(raw, size) * pool_raw_cluster(raw);
}

static enum pool_copy_method raw_copy_method(struct pool *pool)
{
	(void)pool;
	return POOL_COPY_SHARED;
}

static char *raw_path(struct pool *pool, const char *name)
{
	(void)pool;
	(void)name;
	return strdup("");
}

static int raw_open(struct pool *pool, const char *name, uint64_t size,
		    unsigned flags, struct loop *loop, struct blockdev **ret,
		    struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	unsigned how = flags & BLOCKDEV_FILE_READ_ONLY ? RAW_DEV_READ_ONLY : 0;
	uint64_t recorded;
	bool thick = false;
	uint32_t id;
	int r = pool_raw_need(raw, name, &id, NULL, err);

	if (r == 0 && pool_raw_is_damaged(raw, id))
		r = error_set(err, EIO, "extent '%.64s' is damaged", name);
	if (r == 0)
		r = pool_raw_size(raw, id, &recorded, &thick, err);
	if (thick)
		how |= RAW_DEV_THICK;
	return r < 0 ? r
		     : raw_dev_open(raw->users, id, size, how, loop, ret, err);
}

/* The log is the pool's: it has the changes of all extents. */
static int pool_raw_flush(struct pool *pool, const char *name,
			  struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	struct raw_medium *medium = &raw->medium.medium;
	int r;

	(void)name;
	if (raw_store_pending(raw->store))
		return raw_store_commit(raw->store,
					raw_store_newest(raw->store), err);
	r = medium->ops->flush(medium);
	return r < 0 ? error_set(err, -r, "flush '%s': %s", pool->path,
				 strerror(-r))
		     : 0;
}

/* ---- growing ---- */

static int raw_extend(struct pool *pool, struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	uint64_t size = 0;
	int r = raw_medium_size(raw->fd, pool->path, &size, err);

	/* What the pool has it has already: only the rest is given space. */
	if (r == 0)
		r = raw_medium_reserve(raw->fd, pool->path,
				       raw_store_size(raw->store), size, err);
	if (r < 0)
		return r;
	raw->medium.medium.size = size;
	r = raw_store_extend(raw->store, size, err);
	if (r < 0)
		(void)error_prefix(err, r, "pool '%s': ", pool->record.name);
	return r;
}

/* The pool's record of an open store; -EBADMSG. */
static int store_record(struct raw_store *store, struct pool_record *ret,
			struct error *err)
{
	const struct raw_state *state = raw_store_lock(store);
	int r = state->pool_text
			? pool_record_decode(state->pool_text,
					     state->pool_text_length, ret, err)
			: error_set(err, EBADMSG, "the pool has no record");

	raw_store_unlock(store);
	return r;
}

/* ---- a medium that goes, and comes back ---- */

static int raw_lost(struct pool *pool, struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	int r = raw_medium_gone(raw->fd, pool->path, raw_store_size(raw->store),
				err);

	/* Otherwise a write could make it look like a pool once more. */
	if (r == -ENODEV)
		raw_store_stop(raw->store, err);
	return r;
}

/* Which of its ends says that it is read-only depends on the kernel. */
static int try_result(struct pool *pool, int r, struct error *err)
{
	if (r < 0 && raw_medium_read_only(pool_raw_of(pool)->fd))
		r = error_set(err, EROFS, "device '%s' is read-only",
			      pool->path);
	return r;
}

static int raw_try(struct pool *pool, struct error *err)
{
	int r = raw_lost(pool, err);

	if (r < 0)
		return r;
	r = raw_store_try(pool_raw_of(pool)->store, pool->record.id, err);
	if (r == -ENODEV) /* it is there, and says so */
		r = -ENXIO;
	return try_result(pool, r, err);
}

/* Have a pool opened anew, for writing, once its device takes writes. */
static int retry_read_only(struct pool *pool, struct error *err)
{
	int r = raw_lost(pool, err);

	if (r == 0)
		r = raw_medium_check_writable(pool_raw_of(pool)->fd, pool->path,
					      err);
	if (r < 0)
		return r;
	(void)error_set(err, EROFS, "device '%s' was read-only", pool->path);
	return 1;
}

static int raw_retry(struct pool *pool, struct error *err)
{
	struct raw_store *store = pool_raw_of(pool)->store;
	int r;

	if (pool_raw_of(pool)->read_only)
		return retry_read_only(pool, err);
	r = raw_store_retry(store, err);
	if (r != 0) /* why it has to, which says more than why it can't */
		(void)raw_store_broken(store, err);
	return try_result(pool, r, err);
}

static int raw_put_record(struct pool *pool, const struct pool_record *record,
			  struct error *err)
{
	struct raw_record change = {.type = RAW_POOL};
	auto_free char *text = NULL;
	size_t length;
	int r = pool_record_encode(record, &text, &length, err);

	if (r < 0)
		return r;
	change.text = text;
	change.text_length = (uint32_t)length;
	r = pool_raw_change(pool_raw_of(pool), &change, err);
	if (r == 0)
		pool->record = *record;
	return r;
}

static int raw_renew(struct pool *pool, struct error *err)
{
	struct pool_record record = pool->record;

	if (raw_store_broken(pool_raw_of(pool)->store, NULL))
		return 0; /* as it is: it takes no changes */
	(void)uuid_make(record.incarnation);
	return raw_put_record(pool, &record, err);
}

static void fault(void *context)
{
	const struct pool_raw *raw = context;

	if (raw->pool.fault)
		raw->pool.fault(raw->pool.fault_context);
}

/* ---- life ---- */

static int raw_destroy(struct pool *pool, struct error *err)
{
	return raw_store_erase(pool_raw_of(pool)->store, err);
}

static void pool_raw_close(struct pool *pool)
{
	struct pool_raw *raw = pool_raw_of(pool);
	struct error err;

	direct_free(raw->direct);
	raw_users_free(raw->users);
	/* Only so that the next open has less to read. */
	if (raw->store && !raw_store_broken(raw->store, NULL) &&
	    raw_store_checkpoint(raw->store, &err) < 0)
		log_warning("pool %s: no checkpoint at its end: %s",
			    pool->record.name, error_text(&err));
	raw_store_close(raw->store);
	fd_close(raw->fd);
	disk_lock_end(&raw->lock);
	(void)pthread_mutex_destroy(&raw->ids);
	(void)pthread_mutex_destroy(&raw->checks);
	(void)pthread_mutex_destroy(&raw->counting);
	free(pool->path);
	free(raw);
}

static const struct pool_ops raw_pool_ops = {
	.kind = POOL_RAW_KIND,
	.load = pool_raw_load,
	.measure = raw_measure,
	.keep_free = raw_keep_free,
	.footprint = raw_footprint,
	.create = pool_raw_create,
	.save = pool_raw_save,
	.grow = pool_raw_grow,
	.begin_delete = pool_raw_begin_delete,
	.erase = pool_raw_erase,
	.usage = pool_raw_usage,
	.sharing = pool_raw_sharing,
	.path = raw_path,
	.open = raw_open,
	.flush = pool_raw_flush,
	.check = pool_raw_check_open,
	.copy_method = raw_copy_method,
	.copy = pool_raw_copy,
	.prepare = pool_raw_prepare,
	.hold = pool_raw_hold,
	.release = pool_raw_release,
	.direct_attach = pool_raw_direct_attach,
	.direct_detach = pool_raw_direct_detach,
	.direct_count = pool_raw_direct_count,
	.revert = pool_raw_revert,
	.ranges = pool_raw_ranges,
	.extend = raw_extend,
	.try = raw_try,
	.lost = raw_lost,
	.retry = raw_retry,
	.renew = raw_renew,
	.put_record = raw_put_record,
	.destroy = raw_destroy,
	.close = pool_raw_close,
};

/* Report a fault. The receiver finds out why, and says it once. */
static void broken(void *context, const struct error *err)
{
	(void)err;
	fault(context);
}

static int pool_raw_check_identity(const struct pool_raw *raw, const char *name,
				   const char *id, struct error *err)
{
	const struct pool_record *record = &raw->pool.record;

	if (strcmp(record->name, name) != 0)
		return error_set(err, ESTALE, "'%s' holds pool '%s', not '%s'",
				 raw->pool.path, record->name, name);
	if (id && strcmp(record->id, id) != 0)
		return error_set(err, ESTALE,
				 "'%s' holds another pool of that name (id "
				 "%s, not %s)",
				 raw->pool.path, record->id, id);
	return 0;
}

static void raw_report_log(const struct pool_raw *raw,
			   const struct raw_report *report)
{
	const char *name = raw->pool.record.name;
	const bool left = raw->read_only || raw_report_lost(report);
	struct error err;

	if (report->super_damaged)
		log_warning("pool %s: a copy of its superblock was damaged; %s",
			    name,
			    left ? "it is left as it is"
				 : "it was written anew");
	if (report->copies_damaged)
		log_warning("pool %s: in %" PRIu64 " places of its metadata "
			    "one of two copies was damaged; %s",
			    name, report->copies_damaged,
			    left ? "they are left as they are"
				 : "they were written anew");
	if ((!raw->read_only || raw_report_lost(report)) &&
	    raw_store_broken(raw->store, &err))
		log_write(LOG_LEVEL_ERROR, "pool %s: %s", name,
			  error_text(&err));
	if (report->log_torn)
		log_info("pool %s: its log ended in a torn batch, of which "
			 "nothing had been acknowledged",
			 name);
}

static int open_store(struct pool_raw *raw, const char *name, const char *id,
		      struct error *err)
{
	/* This medium, whatever is at its path later. */
	char same[32];
	struct raw_users_options options = {
		.path = same,
		.broken = broken,
		.fault = fault,
		.context = raw,
	};
	struct raw_report report;
	const struct direct_system *system = direct_system();
	uint64_t size = 0;
	int r = raw_medium_open_shared(raw->pool.path,
				       system && system->enabled, &raw->lock,
				       &raw->fd, &raw->uncached, err);

	if (r == 0)
		r = raw_medium_size(raw->fd, raw->pool.path, &size, err);
	if (r < 0)
		return r;
	raw_file_medium_init(&raw->medium, raw->fd, size);
	/* The log of one that is read-only is replayed in memory alone. */
	raw->read_only = (fcntl(raw->fd, F_GETFL) & O_ACCMODE) == O_RDONLY;
	if (raw->read_only) {
		r = raw_store_look(&raw->medium.medium, &raw->store, &report,
				   err);
		options.flags |= BLOCKDEV_FILE_READ_ONLY;
	} else {
		r = raw_store_open(&raw->medium.medium, &raw->store, &report,
				   err);
	}
	if (r == -ENODATA) /* nothing of ours: as an empty directory has */
		r = error_set(err, ENOENT, "there is no pool on '%s'",
			      raw->pool.path);
	if (r == 0)
		r = store_record(raw->store, &raw->pool.record, err);
	if (r == 0)
		r = pool_raw_check_identity(raw, name, id, err);
	if (r < 0)
		return r;
	raw_report_log(raw, &report);
	raw->pool.cluster_size = pool_raw_cluster(raw);
	(void)snprintf(same, sizeof(same), "/proc/self/fd/%d", raw->fd);
	raw_store_on_failed(raw->store, fault, raw);
	options.store = raw->store;
	options.flags |= raw->uncached ? BLOCKDEV_FILE_DIRECT : 0;
	r = raw_users_new(&options, &raw->users, err);
	return r < 0 ? r : pool_raw_direct_begin(raw, err);
}

int pool_raw_open(const char *path, const char *name, const char *id,
		  struct pool **ret, struct error *err)
{
	struct pool_raw *raw = calloc(1, sizeof(*raw));
	int r;

	if (!raw)
		return error_set(err, ENOMEM, "out of memory");
	raw->fd = -1;
	raw->lock.fd = -1;
	raw->pool.ops = &raw_pool_ops;
	(void)pthread_mutex_init(&raw->ids, NULL);
	(void)pthread_mutex_init(&raw->checks, NULL);
	(void)pthread_mutex_init(&raw->counting, NULL);
	raw->pool.path = realpath(path, NULL);
	if (!raw->pool.path)
		r = error_set(err, errno, "'%s': %s", path, strerror(errno));
	else
		r = open_store(raw, name, id, err);
	if (r < 0) {
		/* Not as it was found: leave the medium as it is. */
		direct_free(raw->direct);
		raw->direct = NULL;
		raw_users_free(raw->users);
		raw->users = NULL;
		raw_store_close(raw->store);
		raw->store = NULL;
		pool_raw_close(&raw->pool);
		return r;
	}
	raw->device = raw_medium_number(raw->fd);
	*ret = &raw->pool;
	return 0;
}
