/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/pool_raw.h"

#include <blkid/blkid.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/fs.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "blockd/local_hold.h"
#include "blockd/raw_dev.h"
#include "blockd/raw_store.h"

#define DOOMED "deleting " /* then the name */

struct pool_raw {
	struct pool pool;
	int fd; /* locked while the pool is open */
	uint64_t device;
	struct raw_file_medium medium;
	struct raw_store *store;
	struct raw_users *users;
	pthread_mutex_t ids; /* a new object's number is taken under it */
};

static struct pool_raw *raw_of(struct pool *pool)
{
	return container_of(pool, struct pool_raw, pool);
}

/* ---- the medium ---- */

static int medium_size(int fd, const char *path, uint64_t *ret,
		       struct error *err)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return error_set(err, errno, "'%s': %s", path, strerror(errno));
	*ret = (uint64_t)st.st_size;
	if (S_ISBLK(st.st_mode) && ioctl(fd, BLKGETSIZE64, ret) < 0)
		return error_set(err, errno, "size of '%s': %s", path,
				 strerror(errno));
	return 0;
}

/* A loop device over a file can't be told by opening the file. */
static int check_no_loop(int fd, const char *path, struct error *err)
{
	struct local_holds holds;
	const char *holder;
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0 || S_ISBLK(st.st_mode))
		return 0; /* O_EXCL has told */
	r = local_holds_scan(&holds, err);
	if (r < 0)
		return r;
	holder = local_holds_find(&holds, st.st_dev, st.st_ino, false);
	if (holder)
		r = error_set(err, EBUSY, "'%s' is in use by /dev/%s", path,
			      holder);
	local_holds_done(&holds);
	return r;
}

/*
 * Exclusively: the kernel refuses O_EXCL for a block device that is mounted
 * or held by anything; the lock keeps other blockds away. O_DIRECT where the
 * file system has it.
 */
static int open_exclusive(const char *path, int *ret_fd, bool *ret_direct,
			  struct error *err)
{
	struct stat st;
	int flags = O_RDWR | O_CLOEXEC | O_NOCTTY;
	auto_close int fd = -1;
	int r;

	if (stat(path, &st) == 0 && S_ISBLK(st.st_mode))
		flags |= O_EXCL;
	fd = open(path, flags | O_DIRECT);
	*ret_direct = fd >= 0;
	if (fd < 0 && errno == EINVAL)
		fd = open(path, flags);
	if (fd < 0 && errno == EBUSY)
		return error_set(err, EBUSY,
				 "'%s' is in use: mounted, or held by another "
				 "device or program",
				 path);
	if (fd < 0)
		return error_set(err, errno, "open '%s': %s", path,
				 strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		return error_set(err, EBUSY, "'%s' is in use by another blockd",
				 path);
	r = check_no_loop(fd, path, err);
	if (r == 0)
		*ret_fd = take_fd(&fd);
	return r;
}

/* ---- what is there ---- */

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

/* "an ext4 file system", "a partition table": what libblkid knows. */
static int find_other(int fd, const char *path, enum pool_content *ret,
		      struct error *err)
{
	blkid_probe probe = blkid_new_probe();
	const char *type = NULL;
	bool known = false;
	int found = -1;

	if (probe && blkid_probe_set_device(probe, fd, 0, 0) == 0) {
		(void)blkid_probe_enable_superblocks(probe, 1);
		(void)blkid_probe_set_superblocks_flags(probe,
							BLKID_SUBLKS_TYPE);
		(void)blkid_probe_enable_partitions(probe, 1);
		found = blkid_do_safeprobe(probe);
		/* Of a partition it also tells what partition it is. */
		known = blkid_probe_lookup_value(probe, "TYPE", &type, NULL) ==
				0 ||
			blkid_probe_has_value(probe, "PTTYPE");
	}
	/* 1: nothing; 0: something; -2: several; -1: it could not be read. */
	known = known || found < 0;
	*ret = known ? POOL_CONTENT_OTHER : POOL_CONTENT_EMPTY;
	if (known)
		(void)error_set(err, ENOTEMPTY, "'%s' holds %s", path,
				found == -1 ? "what can't be read"
				: type      ? type
					    : "a partition table");
	blkid_free_probe(probe);
	return found == -1 ? -EIO : 0;
}

/* The log is not replayed: the pool's record is in the checkpoint. */
static int inspect(int fd, const char *path, enum pool_content *ret_content,
		   struct pool_record *ret_record, struct error *err)
{
	struct raw_file_medium file;
	char *text = NULL;
	size_t length;
	uint64_t size = 0;
	int r = medium_size(fd, path, &size, err);

	if (r < 0)
		return r;
	raw_file_medium_init(&file, fd, size);
	r = raw_store_peek(&file.medium, &text, &length, err);
	if (r == -ENODATA)
		return find_other(fd, path, ret_content, err);
	if (r == 0)
		r = pool_record_decode(text, length, ret_record, err);
	free(text);
	if (r < 0 && r != -EBADMSG && r != -EPROTONOSUPPORT)
		return r;
	*ret_content = r == 0 ? POOL_CONTENT_POOL : POOL_CONTENT_DAMAGED;
	return 0;
}

int pool_raw_inspect(const char *path, enum pool_content *ret_content,
		     struct pool_record *ret_record, struct error *err)
{
	auto_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

	if (fd < 0)
		return error_set(err, errno, "open '%s': %s", path,
				 strerror(errno));
	return inspect(fd, path, ret_content, ret_record, err);
}

/* ---- format ---- */

/* A pool promises its space: a file has to have it. */
static int preallocate(int fd, const char *path, uint64_t from, uint64_t end,
		       struct error *err)
{
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0 || S_ISBLK(st.st_mode) || end <= from)
		return 0;
	r = posix_fallocate(fd, (off_t)from, (off_t)(end - from));
	return r ? error_set(err, r, "preallocate '%s': %s", path, strerror(r))
		 : 0;
}

/* By a descriptor of its own: libblkid does not read directly. */
static int check_empty(const char *path, bool force, struct error *err)
{
	enum pool_content content;
	struct pool_record other;
	int r;

	if (force)
		return 0;
	r = pool_raw_inspect(path, &content, &other, err);
	if (r < 0)
		return r;
	if (content == POOL_CONTENT_POOL)
		(void)error_set(err, ENOTEMPTY, "'%s' holds pool '%s'", path,
				other.name);
	return content == POOL_CONTENT_EMPTY ? 0 : -ENOTEMPTY;
}

int pool_raw_format(const char *path, bool force,
		    const struct pool_record *record, struct error *err)
{
	struct raw_format_options options = {.pool_id = record->id};
	struct raw_file_medium file;
	auto_close int fd = -1;
	auto_free char *text = NULL;
	uint64_t size = 0;
	bool direct;
	int r = open_exclusive(path, &fd, &direct, err);

	if (r == 0)
		r = check_empty(path, force, err);
	if (r == 0)
		r = medium_size(fd, path, &size, err);
	if (r == 0)
		r = preallocate(fd, path, 0, size, err);
	if (r == 0)
		r = pool_record_encode(record, &text, &options.text_length,
				       err);
	if (r < 0)
		return r;
	options.text = text;
	raw_file_medium_init(&file, fd, size);
	r = raw_store_format(&file.medium, &options, err);
	if (r < 0)
		(void)error_prefix(err, "'%s': ", path);
	return r;
}

/* ---- objects by name ---- */

/* The record of an object, or NULL with what is wrong. */
static int object_record(const struct raw_object *object,
			 struct extent_record *ret, struct error *err)
{
	return extent_record_decode(object->text, object->text_length, ret,
				    err);
}

static bool object_is(const struct raw_object *object, const char *name)
{
	struct extent_record record;
	bool same;

	if (strncmp(object->text, DOOMED, strlen(DOOMED)) == 0)
		return strcmp(object->text + strlen(DOOMED), name) == 0;
	if (object_record(object, &record, NULL) < 0)
		return false;
	same = strcmp(record.name, name) == 0;
	extent_record_done(&record);
	return same;
}

/* 0: there is none. */
static uint32_t find_object(struct pool_raw *raw, const char *name,
			    uint64_t *ret_clusters)
{
	const struct raw_state *state = raw_store_lock(raw->store);
	uint32_t id = 0;

	for (uint32_t i = 1; !id && i <= state->n_slots; i++) {
		const struct raw_object *object = raw_state_object(state, i);

		if (!object || !object_is(object, name))
			continue;
		id = i;
		if (ret_clusters)
			*ret_clusters = raw_map_clusters(&object->map);
	}
	raw_store_unlock(raw->store);
	return id;
}

static bool object_hurt(struct pool_raw *raw, uint32_t id)
{
	const struct raw_state *state = raw_store_lock(raw->store);
	const struct raw_object *object = raw_state_object(state, id);
	bool hurt = !object || object->hurt;

	raw_store_unlock(raw->store);
	return hurt;
}

static int need_object(struct pool_raw *raw, const char *name, uint32_t *ret_id,
		       uint64_t *ret_clusters, struct error *err)
{
	*ret_id = find_object(raw, name, ret_clusters);
	return *ret_id ? 0
		       : error_set(err, ENOENT,
				   "pool '%s' has no extent '%.64s'",
				   raw->pool.record.name, name);
}

static uint64_t cluster_size(const struct pool_raw *raw)
{
	return UINT64_C(1) << raw_store_super(raw->store)->cluster_shift;
}

static uint64_t clusters_for(const struct pool_raw *raw, uint64_t size)
{
	return (size + cluster_size(raw) - 1) / cluster_size(raw);
}

/* One change, durably. */
static int change(struct pool_raw *raw, const struct raw_record *record,
		  struct error *err)
{
	uint64_t ticket;
	int r = raw_store_change(raw->store, record, 1, &ticket, err);

	if (r == 0)
		r = raw_store_commit(raw->store, ticket, err);
	if (r < 0)
		(void)error_prefix(err, "pool '%s': ", raw->pool.record.name);
	return r;
}

/* ---- operations ---- */

static int raw_create(struct pool *pool, const struct extent_record *record,
		      struct error *err)
{
	struct pool_raw *raw = raw_of(pool);
	struct raw_record object = {
		.type = RAW_OBJECT,
		.clusters = clusters_for(raw, record->size),
	};
	auto_free char *text = NULL;
	size_t length;
	int r = extent_record_encode(record, &text, &length, err);

	if (r < 0)
		return r;
	object.text = text;
	object.text_length = (uint32_t)length;
	(void)pthread_mutex_lock(&raw->ids);
	object.object = raw_state_new_id(raw_store_lock(raw->store));
	raw_store_unlock(raw->store);
	r = object.object
		    ? change(raw, &object, err)
		    : error_set(err, ENOSPC, "pool '%s' has %u extents already",
				pool->record.name, RAW_OBJECTS_MAX);
	(void)pthread_mutex_unlock(&raw->ids);
	return r;
}

/* Text, and perhaps a greater length. */
static int raw_save(struct pool *pool, const struct extent_record *record,
		    struct error *err)
{
	struct pool_raw *raw = raw_of(pool);
	struct raw_record object = {.type = RAW_OBJECT};
	auto_free char *text = NULL;
	size_t length;
	int r = need_object(raw, record->name, &object.object, &object.clusters,
			    err);

	if (r == 0)
		r = extent_record_encode(record, &text, &length, err);
	if (r < 0)
		return r;
	object.text = text;
	object.text_length = (uint32_t)length;
	if (object.clusters < clusters_for(raw, record->size))
		object.clusters = clusters_for(raw, record->size);
	return change(raw, &object, err);
}

static int raw_doom(struct pool *pool, const char *name, struct error *err)
{
	struct pool_raw *raw = raw_of(pool);
	struct raw_record object = {.type = RAW_OBJECT};
	char text[sizeof(DOOMED) + EXTENT_NAME_SIZE];
	int r = need_object(raw, name, &object.object, &object.clusters, err);

	if (r < 0)
		return r;
	object.text = text;
	object.text_length = (uint32_t)snprintf(text, sizeof(text), DOOMED "%s",
						name);
	return change(raw, &object, err);
}

static int drop(struct pool_raw *raw, uint32_t id, struct error *err)
{
	struct raw_record record = {.type = RAW_DROP, .object = id};
	int r = change(raw, &record, err);

	/* Its clusters are free for the next extent when this returns. */
	return r < 0 ? r : raw_users_clean_now(raw->users, err);
}

static int raw_erase(struct pool *pool, const char *name, struct error *err)
{
	struct pool_raw *raw = raw_of(pool);
	uint32_t id = find_object(raw, name, NULL);

	return id ? drop(raw, id, err) : 0;
}

static int raw_measure(struct pool *pool, struct space_medium *ret,
		       struct error *err)
{
	struct pool_raw *raw = raw_of(pool);
	const struct raw_state *state;
	uint64_t used, all, size = cluster_size(raw);

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

static uint64_t raw_footprint(struct pool *pool, uint64_t size)
{
	struct pool_raw *raw = raw_of(pool);

	return clusters_for(raw, size) * cluster_size(raw);
}

static int raw_usage(struct pool *pool, const char *name,
		     struct extent_usage *ret, struct error *err)
{
	struct pool_raw *raw = raw_of(pool);
	const struct raw_state *state;
	uint32_t id;
	int r = need_object(raw, name, &id, NULL, err);

	if (r < 0)
		return r;
	*ret = (struct extent_usage){0};
	state = raw_store_lock(raw->store);
	if (raw_state_object(state, id))
		ret->allocated = raw_map_mapped(
					 &raw_state_object(state, id)->map) *
				 cluster_size(raw);
	raw_store_unlock(raw->store);
	return 0;
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
	struct pool_raw *raw = raw_of(pool);
	uint32_t id;
	int r = need_object(raw, name, &id, NULL, err);

	if (r == 0 && object_hurt(raw, id))
		r = error_set(err, EIO, "extent '%.64s' is damaged", name);
	return r < 0 ? r
		     : raw_dev_open(raw->users, id, size,
				    flags & BLOCKDEV_FILE_READ_ONLY, loop, ret,
				    err);
}

/* ---- growing ---- */

static int raw_extend(struct pool *pool, struct error *err)
{
	struct pool_raw *raw = raw_of(pool);
	uint64_t size = 0;
	int r = medium_size(raw->fd, pool->path, &size, err);

	/* What the pool has it has already: only the rest is given space. */
	if (r == 0)
		r = preallocate(raw->fd, pool->path,
				raw_store_super(raw->store)->medium_size, size,
				err);
	if (r < 0)
		return r;
	raw_users_grown(raw->users, size);
	r = raw_store_extend(raw->store, size, err);
	if (r < 0)
		(void)error_prefix(err, "pool '%s': ", pool->record.name);
	return r;
}

/* ---- load ---- */

static int check_object(const struct pool_raw *raw,
			const struct raw_object *object,
			const struct extent_record *record, struct error *err)
{
	if (strcmp(record->pool_id, raw->pool.record.id) != 0)
		return error_set(err, EBADMSG,
				 "its record is of another pool (%s)",
				 record->pool_id);
	if (clusters_for(raw, record->size) > raw_map_clusters(&object->map))
		return error_set(err, EBADMSG,
				 "it is shorter than its record says");
	return 0;
}

static void visit_object(struct pool_raw *raw, const struct raw_object *object,
			 const struct pool_visitor *visitor)
{
	struct extent_record record = {0};
	struct pool_found found = {.name = "?"};
	struct error err = {0};
	char name[32];
	int r = object_record(object, &record, &err);

	if (r == 0) {
		found.name = record.name;
		found.record = &record;
		r = check_object(raw, object, &record, &err);
		if (object->hurt)
			r = error_set(&err, EIO,
				      "part of its map on '%s' is "
				      "damaged, in both copies",
				      raw->pool.path);
	} else {
		(void)snprintf(name, sizeof(name), "object-%u", object->id);
		found.name = name;
		found.bytes = raw_map_clusters(&object->map) *
			      cluster_size(raw);
	}
	if (r < 0)
		found.damage = error_text(&err);
	visitor->extent(visitor->context, &found);
	extent_record_done(&record);
}

/* Deletes that a crash cut short. */
static int finish_deletes(struct pool_raw *raw,
			  const struct pool_visitor *visitor, struct error *err)
{
	struct raw_state *state = raw_store_lock(raw->store);
	uint32_t n = state->n_slots;
	int r = 0;

	raw_store_unlock(raw->store);
	if (raw_store_broken(raw->store, NULL))
		return 0; /* it takes no changes; then another time */
	for (uint32_t id = 1; r == 0 && id <= n; id++) {
		const struct raw_object *object = raw_state_object(state, id);
		char text[EXTENT_NAME_SIZE + 64];

		if (!object ||
		    strncmp(object->text, DOOMED, strlen(DOOMED)) != 0)
			continue;
		(void)snprintf(text, sizeof(text),
			       "the delete of extent '%.64s' is finished",
			       object->text + strlen(DOOMED));
		r = drop(raw, id, err);
		if (r == 0)
			visitor->note(visitor->context, text);
	}
	return r;
}

static int raw_load(struct pool *pool, const struct pool_visitor *visitor,
		    struct error *err)
{
	struct pool_raw *raw = raw_of(pool);
	const struct raw_state *state;
	int r = finish_deletes(raw, visitor, err);

	if (r < 0)
		return r;
	state = raw_store_lock(raw->store);
	for (uint32_t id = 1; id <= state->n_slots; id++) {
		const struct raw_object *object = raw_state_object(state, id);

		if (object)
			visit_object(raw, object, visitor);
	}
	raw_store_unlock(raw->store);
	return 0;
}

/* ---- life ---- */

static int raw_destroy(struct pool *pool, struct error *err)
{
	return raw_store_erase(raw_of(pool)->store, err);
}

static void raw_close(struct pool *pool)
{
	struct pool_raw *raw = raw_of(pool);
	struct error err;

	raw_users_free(raw->users);
	/* Only so that the next open has less to read. */
	if (raw->store && !raw_store_broken(raw->store, NULL) &&
	    raw_store_checkpoint(raw->store, &err) < 0)
		log_warning("pool %s: no checkpoint at its end: %s",
			    pool->record.name, error_text(&err));
	raw_store_close(raw->store);
	fd_close(raw->fd);
	(void)pthread_mutex_destroy(&raw->ids);
	free(pool->path);
	free(raw);
}

static const struct pool_ops raw_pool_ops = {
	.kind = POOL_RAW_KIND,
	.load = raw_load,
	.measure = raw_measure,
	.footprint = raw_footprint,
	.create = raw_create,
	.save = raw_save,
	.grow = raw_save,
	.doom = raw_doom,
	.erase = raw_erase,
	.usage = raw_usage,
	.path = raw_path,
	.open = raw_open,
	.extend = raw_extend,
	.destroy = raw_destroy,
	.close = raw_close,
};

static void broken(void *context, const struct error *err)
{
	const struct pool_raw *raw = context;

	log_write(LOG_LEVEL_ERROR,
		  "pool %s at %s: %s; writes that need new space fail until "
		  "blockd is started again",
		  raw->pool.record.name, raw->pool.path, error_text(err));
}

static int check_identity(const struct pool_raw *raw, const char *name,
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

static void tell(const struct pool_raw *raw, const struct raw_report *report)
{
	const char *name = raw->pool.record.name;
	struct error err;

	if (report->super_damaged)
		log_warning("pool %s: a copy of its superblock was damaged; "
			    "it was written anew",
			    name);
	if (report->copies_damaged)
		log_warning("pool %s: in %" PRIu64 " places of its metadata "
			    "one of two copies was damaged; %s",
			    name, report->copies_damaged,
			    raw_report_lost(report)
				    ? "they are left as they are"
				    : "they were written anew");
	if (raw_store_broken(raw->store, &err))
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
		.context = raw,
	};
	struct raw_report report;
	uint64_t size = 0;
	bool direct;
	int r = open_exclusive(raw->pool.path, &raw->fd, &direct, err);

	if (r == 0)
		r = medium_size(raw->fd, raw->pool.path, &size, err);
	if (r < 0)
		return r;
	raw_file_medium_init(&raw->medium, raw->fd, size);
	r = raw_store_open(&raw->medium.medium, &raw->store, &report, err);
	if (r == -ENODATA) /* nothing of ours: as an empty directory has */
		r = error_set(err, ENOENT, "there is no pool on '%s'",
			      raw->pool.path);
	if (r == 0)
		r = store_record(raw->store, &raw->pool.record, err);
	if (r == 0)
		r = check_identity(raw, name, id, err);
	if (r < 0)
		return r;
	tell(raw, &report);
	(void)snprintf(same, sizeof(same), "/proc/self/fd/%d", raw->fd);
	options.store = raw->store;
	options.flags = direct ? BLOCKDEV_FILE_DIRECT : 0;
	return raw_users_new(&options, &raw->users, err);
}

/* Two pools on one medium do not exist: any number that no other has. */
static uint64_t medium_number(int fd)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return 0;
	if (S_ISBLK(st.st_mode))
		return UINT64_MAX - st.st_rdev;
	return UINT64_MAX - (st.st_ino << 20) - st.st_dev;
}

int pool_raw_open(const char *path, const char *name, const char *id,
		  struct pool **ret, struct error *err)
{
	struct pool_raw *raw = calloc(1, sizeof(*raw));
	int r;

	if (!raw)
		return error_set(err, ENOMEM, "out of memory");
	raw->fd = -1;
	raw->pool.ops = &raw_pool_ops;
	(void)pthread_mutex_init(&raw->ids, NULL);
	raw->pool.path = realpath(path, NULL);
	if (!raw->pool.path)
		r = error_set(err, errno, "'%s': %s", path, strerror(errno));
	else
		r = open_store(raw, name, id, err);
	if (r < 0) {
		/* Not as it was found: leave the medium as it is. */
		raw_store_close(raw->store);
		raw->store = NULL;
		raw_close(&raw->pool);
		return r;
	}
	raw->device = medium_number(raw->fd);
	*ret = &raw->pool;
	return 0;
}
