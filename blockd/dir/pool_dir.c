/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/dir/pool_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "blockd/dir/file_map.h"
#include "blockd/dir/pool_dir_internal.h"
#include "blockd/dir/pool_dir_load.h"

#define SPARE_SIZE (256 << 10) /* bytes; a record takes a block or a few */

static int dir_load(struct pool *pool, const struct pool_visitor *visitor,
		    struct error *err)
{
	return pool_dir_load(pool_dir_of(pool)->extents_fd, pool->record.id,
			     visitor, err);
}

static int dir_measure(struct pool *pool, struct space_medium *ret,
		       struct error *err)
{
	int fd = pool_dir_of(pool)->extents_fd;
	auto_cleanup(pool_dir_stream_end) DIR *dir = pool_dir_stream(fd);
	struct space_medium medium = {0};
	const struct dirent *entry;
	struct statvfs vfs;
	uint64_t used;
	struct stat st;

	if (!dir || fstatvfs(fd, &vfs) < 0 || fstat(fd, &st) < 0)
		return error_set(err, errno, "measure pool '%s' at '%s': %s",
				 pool->record.name, pool->path,
				 strerror(errno));
	medium.size = (uint64_t)vfs.f_blocks * vfs.f_frsize;
	medium.free = (uint64_t)vfs.f_bavail * vfs.f_frsize;
	medium.device = st.st_dev;
	while ((entry = readdir(dir))) {
		/* Gone since: deleted by another thread. */
		if (pool_dir_is_dots(entry->d_name) ||
		    fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		medium.allocated += (uint64_t)st.st_blocks * 512; /* stat(2) */
	}
	/*
	 * Blocks that files share were counted with each of them: it is not
	 * more than the file system has given away.
	 */
	used = (uint64_t)(vfs.f_blocks - vfs.f_bfree) * vfs.f_frsize;
	if (pool_dir_of(pool)->method == POOL_COPY_REFLINK &&
	    medium.allocated > used)
		medium.allocated = used;
	*ret = medium;
	return 0;
}

static void dir_keep_free(struct pool *pool, uint64_t bytes)
{
	space_floor_set(pool_dir_of(pool)->floor, bytes);
}

static uint64_t dir_footprint(struct pool *pool, uint64_t size)
{
	(void)pool;
	return size;
}

int pool_dir_fail(struct pool *pool, const char *what, const char *name,
		  struct error *err)
{
	int code = errno;

	return error_set(err, code, "%s '%s/%s/%s': %s", what, pool->path,
			 POOL_DIR_EXTENTS, name, strerror(code));
}

/*
 * Others may fill the file system to the last block, and then an extent must
 * still be fenced and detached: that takes room for one record, which is
 * kept here. Where there is none to keep, there is nothing to do about it.
 */
static void spare_keep(int fd)
{
	auto_close int spare = openat(
		fd, POOL_DIR_SPARE, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
		0600);

	if (spare >= 0 && fallocate(spare, 0, 0, SPARE_SIZE) < 0)
		(void)unlinkat(fd, POOL_DIR_SPARE, 0);
}

static int save_once(struct pool *pool, const char *file, const char *data,
		     size_t length, struct error *err)
{
	return file_replace(pool_dir_of(pool)->extents_fd, file, data, length,
			    0600, err);
}

int pool_dir_save(struct pool *pool, const struct extent_record *record,
		  const char *suffix, struct error *err)
{
	char file[POOL_DIR_FILE_SIZE];
	auto_free char *data = NULL;
	int fd = pool_dir_of(pool)->fd;
	size_t length;
	int r = extent_record_encode(record, &data, &length, err);

	if (r < 0)
		return r;
	(void)pool_dir_file(file, record->name, suffix);
	r = save_once(pool, file, data, length, err);
	if (r == -ENOSPC && file_remove(fd, POOL_DIR_SPARE, NULL) == 0) {
		r = save_once(pool, file, data, length, err);
		spare_keep(fd);
	}
	if (r < 0)
		(void)error_prefix(err, r, "pool '%s': ", pool->record.name);
	return r;
}

static int dir_save(struct pool *pool, const struct extent_record *record,
		    struct error *err)
{
	return pool_dir_save(pool, record, POOL_DIR_RECORD, err);
}

/* Of a thick one all blocks are there before anybody writes to them. */
static int allocate(const struct pool_dir *dir, int fd,
		    const struct extent_record *record)
{
	if (!record->thick)
		return 0;
	return pool_dir_allocate(dir, fd, record->size);
}

/* Set the length of the data file, durably. */
static int set_length(struct pool *pool, const struct extent_record *record,
		      int flags, struct error *err)
{
	char file[POOL_DIR_FILE_SIZE];
	auto_close int fd = openat(
		pool_dir_of(pool)->extents_fd,
		pool_dir_file(file, record->name, POOL_DIR_DATA),
		flags | O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return pool_dir_fail(pool, "open", file, err);
	if (ftruncate(fd, (off_t)record->size) < 0)
		return pool_dir_fail(pool, "set the length of", file, err);
	if (allocate(pool_dir_of(pool), fd, record) < 0)
		return pool_dir_fail(pool, "allocate", file, err);
	if (fsync(fd) < 0)
		return pool_dir_fail(pool, "sync", file, err);
	return 0;
}

static int dir_begin_delete(struct pool *pool, const char *name,
			    struct error *err)
{
	char from[POOL_DIR_FILE_SIZE], to[POOL_DIR_FILE_SIZE];
	int fd = pool_dir_of(pool)->extents_fd;

	(void)pool_dir_file(from, name, POOL_DIR_RECORD);
	(void)pool_dir_file(to, name, POOL_DIR_DOOMED);
	if (renameat(fd, from, fd, to) < 0)
		return pool_dir_fail(pool, "rename", from, err);
	if (fsync(fd) < 0)
		return pool_dir_fail(pool, "sync the directory of", to, err);
	return 0;
}

/* Afterwards; also by what failed, which may have done some of it. */
static void changed(struct pool *pool)
{
	atomic_fetch_add(&pool_dir_of(pool)->changes, 1);
}

static int dir_erase(struct pool *pool, const char *name, struct error *err)
{
	int r = pool_dir_erase(pool_dir_of(pool)->extents_fd, name,
			       POOL_DIR_DOOMED, err);

	changed(pool);
	if (r < 0)
		(void)error_prefix(err, r, "pool '%s': ", pool->record.name);
	return r;
}

int pool_dir_check_unused(struct pool *pool, const char *name,
			  struct error *err)
{
	char file[POOL_DIR_FILE_SIZE];
	struct stat st;

	if (fstatat(pool_dir_of(pool)->extents_fd,
		    pool_dir_file(file, name, POOL_DIR_DATA), &st,
		    AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	return error_set(err, EEXIST,
			 "'%s/%s/%s' is in the way: a data file without a "
			 "record",
			 pool->path, POOL_DIR_EXTENTS, file);
}

static int dir_create(struct pool *pool, const struct extent_record *record,
		      struct error *err)
{
	struct extent_record creating = *record; /* borrows what it owns */
	int r;

	/* Before the record says that recovery may remove it. */
	r = pool_dir_check_unused(pool, record->name, err);
	if (r < 0)
		return r;
	creating.state = EXTENT_CREATING;
	r = dir_save(pool, &creating, err);
	if (r < 0)
		return r;
	r = set_length(pool, record, O_CREAT | O_EXCL, err);
	if (r == 0)
		r = dir_save(pool, record, err);
	if (r < 0) {
		/* What can't be undone now is undone by the next load. */
		(void)pool_dir_erase(pool_dir_of(pool)->extents_fd,
				     record->name, POOL_DIR_RECORD, NULL);
		return r;
	}
	return 0;
}

static int dir_grow(struct pool *pool, const struct extent_record *record,
		    struct error *err)
{
	int r = set_length(pool, record, 0, err);

	return r < 0 ? r : dir_save(pool, record, err);
}

static int dir_copy(struct pool *pool, const struct pool_copy *copies, size_t n,
		    pool_copied copied, void *context, struct error *err)
{
	int r = pool_dir_copy(pool, copies, n, copied, context, err);

	changed(pool);
	return r;
}

static int dir_revert(struct pool *pool, const struct extent_record *record,
		      const char *from, struct error *err)
{
	int r = pool_dir_revert(pool, record, from, err);

	changed(pool);
	return r;
}

static int dir_usage(struct pool *pool, const char *name,
		     struct extent_usage *ret, struct error *err)
{
	char file[POOL_DIR_FILE_SIZE];
	struct stat st;

	if (fstatat(pool_dir_of(pool)->extents_fd,
		    pool_dir_file(file, name, POOL_DIR_DATA), &st,
		    AT_SYMLINK_NOFOLLOW) < 0)
		return pool_dir_fail(pool, "stat", file, err);
	ret->allocated = (uint64_t)st.st_blocks * 512; /* stat(2) */
	ret->shared = 0;
	pool_dir_usage_shared(pool, name, ret);
	ret->device = st.st_dev;
	ret->inode = st.st_ino;
	return 0;
}

static char *dir_path(struct pool *pool, const char *name)
{
	char file[POOL_DIR_FILE_SIZE];
	char *path;

	if (asprintf(&path, "%s/%s/%s", pool->path, POOL_DIR_EXTENTS,
		     pool_dir_file(file, name, POOL_DIR_DATA)) < 0)
		return NULL;
	return path;
}

static int dir_open(struct pool *pool, const char *name, uint64_t size,
		    unsigned flags, struct loop *loop, struct blockdev **ret,
		    struct error *err)
{
	auto_free char *path = dir_path(pool, name);
	int r;

	if (!path)
		return error_set(err, ENOMEM, "out of memory");
	r = blockdev_file_open(loop, path, size, flags, ret, err);
	if (r < 0)
		return r;
	(*ret)->fault = pool->fault;
	(*ret)->fault_context = pool->fault_context;
	return 0;
}

static int dir_flush(struct pool *pool, const char *name, struct error *err)
{
	char file[POOL_DIR_FILE_SIZE];
	auto_close int fd = openat(pool_dir_of(pool)->extents_fd,
				   pool_dir_file(file, name, POOL_DIR_DATA),
				   O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return pool_dir_fail(pool, "open", file, err);
	return fdatasync(fd) < 0 ? pool_dir_fail(pool, "flush", file, err) : 0;
}

static int dir_share(struct pool *pool, const char *name,
		     struct space_share **ret, struct error *err)
{
	const struct pool_dir *dir = pool_dir_of(pool);
	char file[POOL_DIR_FILE_SIZE];
	int fd = openat(dir->extents_fd,
			pool_dir_file(file, name, POOL_DIR_DATA),
			O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0)
		return pool_dir_fail(pool, "open", file, err);
	*ret = space_share_new(dir->floor, fd);
	return *ret ? 0 : error_set(err, ENOMEM, "out of memory");
}

static enum pool_copy_method dir_copy_method(struct pool *pool)
{
	return pool_dir_of(pool)->method;
}

static int dir_destroy(struct pool *pool, struct error *err)
{
	int fd = pool_dir_of(pool)->fd;

	/*
	 * From here on it is an empty directory; the lock file and extents/
	 * do not matter to the next format(). One with strangers in it stays.
	 */
	int r = file_remove(fd, POOL_DIR_IDENTITY, err);

	if (r < 0)
		return r;
	(void)unlinkat(fd, POOL_DIR_EXTENTS, AT_REMOVEDIR);
	(void)unlinkat(fd, POOL_DIR_SPARE, 0);
	(void)unlinkat(fd, POOL_DIR_LOCK, 0);
	return 0;
}

static void dir_close(struct pool *pool)
{
	struct pool_dir *dir = pool_dir_of(pool);

	fd_close(dir->extents_fd);
	fd_close(dir->fd);
	fd_close(dir->lock_fd);
	space_floor_unref(dir->floor);
	(void)pthread_mutex_destroy(&dir->counted.lock); /* nobody has it */
	free(pool->path);
	free(dir);
}

static const struct space_floor_ops floor_ops = {
	.free_bytes = space_free_bytes,
	.missing = file_map_missing,
};

static const struct pool_ops dir_ops = {
	.kind = POOL_DIR_KIND,
	.load = dir_load,
	.measure = dir_measure,
	.keep_free = dir_keep_free,
	.footprint = dir_footprint,
	.create = dir_create,
	.save = dir_save,
	.grow = dir_grow,
	.begin_delete = dir_begin_delete,
	.erase = dir_erase,
	.usage = dir_usage,
	.path = dir_path,
	.open = dir_open,
	.flush = dir_flush,
	.share = dir_share,
	.sharing = pool_dir_sharing,
	.copy_method = dir_copy_method,
	.copy = dir_copy,
	.revert = dir_revert,
	.ranges = pool_dir_ranges,
	.try = pool_dir_try,
	.renew = pool_dir_renew,
	.put_record = pool_dir_put_record,
	.destroy = dir_destroy,
	.close = dir_close,
};

/* ---- open ---- */

static int pool_dir_check_identity(const struct pool_record *record,
				   const char *path, const char *name,
				   const char *id, struct error *err)
{
	if (strcmp(record->name, name) != 0)
		return error_set(err, ESTALE, "'%s' holds pool '%s', not '%s'",
				 path, record->name, name);
	if (id && strcmp(record->id, id) != 0)
		return error_set(err, ESTALE,
				 "'%s' holds another pool of that name (id "
				 "%s, not %s)",
				 path, record->id, id);
	if (strcmp(record->kind, dir_ops.kind) != 0)
		return error_set(err, ESTALE, "'%s' holds a pool of kind '%s'",
				 path, record->kind);
	return 0;
}

static int open_parts(struct pool_dir *dir, const char *name, const char *id,
		      struct error *err)
{
	struct pool *pool = &dir->pool;
	int r = pool_dir_open_at(pool->path, &dir->fd, err);

	if (r == 0)
		r = pool_dir_identity(dir->fd, pool->path, &pool->record, err);
	if (r == 0)
		r = pool_dir_check_identity(&pool->record, pool->path, name, id,
					    err);
	if (r == 0)
		r = pool_dir_lock(dir->fd, pool->path, &dir->lock_fd, err);
	if (r < 0)
		return r;
	dir->extents_fd = openat(dir->fd, POOL_DIR_EXTENTS,
				 O_RDONLY | O_DIRECTORY | O_CLOEXEC |
					 O_NOFOLLOW);
	if (dir->extents_fd < 0)
		return error_set(err, EBADMSG, "open '%s/%s': %s", pool->path,
				 POOL_DIR_EXTENTS, strerror(errno));
	dir->floor = space_floor_new(dir->extents_fd, &floor_ops);
	if (!dir->floor)
		return error_set(err, ENOMEM, "out of memory");
	dir->method = pool_dir_probe(dir->extents_fd);
	spare_keep(dir->fd);
	return 0;
}

int pool_dir_open(const char *path, const char *name, const char *id,
		  struct pool **ret, struct error *err)
{
	struct pool_dir *dir = calloc(1, sizeof(*dir));
	int r;

	if (!dir)
		return error_set(err, ENOMEM, "out of memory");
	dir->fd = dir->lock_fd = dir->extents_fd = -1;
	(void)pthread_mutex_init(&dir->counted.lock, NULL);
	dir->pool.ops = &dir_ops;
	dir->pool.path = realpath(path, NULL);
	if (!dir->pool.path)
		r = error_set(err, errno, "open directory '%s': %s", path,
			      strerror(errno));
	else
		r = open_parts(dir, name, id, err);
	if (r < 0) {
		dir_close(&dir->pool);
		return r;
	}
	*ret = &dir->pool;
	return 0;
}
