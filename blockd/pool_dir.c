/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/pool_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "blockd/lock_file.h"
#include "blockd/pool_dir_load.h"
#include "blockd/record_text.h"

#define LOCK    "lock"
#define EXTENTS "extents"
#define SPARE   "spare"

#define SPARE_SIZE (256 << 10) /* bytes; a record takes a block or a few */

struct pool_dir {
	struct pool pool;
	int fd;         /* the directory */
	int lock_fd;    /* held while the pool is open */
	int extents_fd; /* its extents */
};

static struct pool_dir *pool_dir_of(struct pool *pool)
{
	return container_of(pool, struct pool_dir, pool);
}

static void cleanup_dir(DIR **dir)
{
	if (*dir)
		(void)closedir(*dir); /* was only read */
}

/* A stream over a directory that is already open; the descriptor stays. */
static DIR *dir_stream(int fd)
{
	int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = copy < 0 ? NULL : fdopendir(copy);

	if (!dir)
		fd_close(copy);
	return dir;
}

static bool is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static bool has_prefix(const char *text, const char *prefix)
{
	return strncmp(text, prefix, strlen(prefix)) == 0;
}

/* ---- what is in a directory ---- */

/* A subdirectory with nothing in it; unreadable counts as not. */
static bool is_empty_dir(int dirfd, const char *name)
{
	auto_close int fd = openat(
		dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	auto_cleanup(cleanup_dir) DIR *dir = fd < 0 ? NULL : dir_stream(fd);
	const struct dirent *entry;

	if (!dir)
		return false;
	while ((entry = readdir(dir)))
		if (!is_dots(entry->d_name))
			return false;
	return true;
}

/* May be in a directory that counts as empty. */
static bool is_harmless(int dirfd, const char *name)
{
	return is_dots(name) || strcmp(name, "lost+found") == 0 ||
	       strcmp(name, LOCK) == 0 || strcmp(name, SPARE) == 0 ||
	       has_prefix(name, FILE_TEMPORARY_PREFIX) ||
	       (strcmp(name, EXTENTS) == 0 && is_empty_dir(dirfd, name));
}

static int inspect_files(int fd, const char *path,
			 enum pool_content *ret_content, struct error *err)
{
	auto_cleanup(cleanup_dir) DIR *dir = dir_stream(fd);
	const struct dirent *entry;

	if (!dir)
		return error_set(err, errno, "read directory '%s': %s", path,
				 strerror(errno));
	*ret_content = POOL_CONTENT_EMPTY;
	while ((entry = readdir(dir)))
		if (!is_harmless(fd, entry->d_name))
			*ret_content = POOL_CONTENT_OTHER;
	if (*ret_content == POOL_CONTENT_OTHER)
		(void)error_set(err, ENOTEMPTY,
				"'%s' holds other files; choose an empty "
				"directory",
				path);
	return 0;
}

/* 0, -ENOENT: no identity, -EBADMSG: damaged. */
static int identity_read(int fd, const char *path, struct pool_record *ret,
			 struct error *err)
{
	auto_free char *data = NULL;
	size_t length;
	int r = file_read(fd, POOL_DIR_IDENTITY, RECORD_TEXT_MAX, &data,
			  &length, err);

	if (r == 0)
		r = pool_record_decode(data, length, ret, err);
	else if (r == -EFBIG)
		r = -EBADMSG;
	if (r < 0)
		(void)error_prefix(err, "%s/%s: ", path, POOL_DIR_IDENTITY);
	return r;
}

static int open_dir(const char *path, int *ret_fd, struct error *err)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return error_set(err, errno, "open directory '%s': %s", path,
				 strerror(errno));
	*ret_fd = fd;
	return 0;
}

int pool_dir_inspect(const char *path, enum pool_content *ret_content,
		     struct pool_record *ret_record, struct error *err)
{
	auto_close int fd = -1;
	struct error why = {0};
	int r = open_dir(path, &fd, err);

	if (r < 0)
		return r;
	r = identity_read(fd, path, ret_record, &why);
	if (r == -ENOENT)
		return inspect_files(fd, path, ret_content, err);
	if (r < 0 && r != -EBADMSG)
		return error_set(err, -r, "%s", why.msg);
	*ret_content = r == 0 ? POOL_CONTENT_POOL : POOL_CONTENT_DAMAGED;
	if (r < 0)
		(void)error_set(err, EBADMSG, "%s", why.msg);
	return 0;
}

char *pool_dir_above(const char *path)
{
	char *above = strdup(path);

	while (above && above[1]) {
		char *slash = strrchr(above, '/');
		char identity[PATH_MAX + sizeof(POOL_DIR_IDENTITY) + 1];

		slash[slash == above] = '\0';
		(void)snprintf(identity, sizeof(identity), "%s/%s", above,
			       POOL_DIR_IDENTITY);
		if (access(identity, F_OK) == 0)
			return above;
	}
	free(above);
	return NULL;
}

static int lock(int fd, const char *path, int *ret_fd, struct error *err)
{
	char what[PATH_MAX + 16];

	(void)snprintf(what, sizeof(what), "pool at '%s'", path);
	return lock_file_take(fd, LOCK, what, ret_fd, err);
}

/* ---- format ---- */

static int format_locked(int fd, const char *path,
			 const struct pool_record *record, struct error *err)
{
	enum pool_content content;
	struct pool_record other;
	auto_free char *data = NULL;
	size_t length;
	int r = pool_dir_inspect(path, &content, &other, err);

	if (r < 0)
		return r;
	if (content == POOL_CONTENT_POOL)
		(void)error_set(err, ENOTEMPTY, "'%s' holds pool '%s'", path,
				other.name);
	if (content != POOL_CONTENT_EMPTY)
		return -ENOTEMPTY;
	if (fchmod(fd, 0700) < 0 ||
	    (mkdirat(fd, EXTENTS, 0700) < 0 && errno != EEXIST))
		return error_set(err, errno, "make '%s/%s': %s", path, EXTENTS,
				 strerror(errno));
	r = pool_record_encode(record, &data, &length, err);
	if (r < 0)
		return r;
	/* Last: its fsync of the directory covers the rest. */
	return file_replace(fd, POOL_DIR_IDENTITY, data, length, 0600, err);
}

int pool_dir_format(const char *path, const struct pool_record *record,
		    struct error *err)
{
	auto_close int fd = -1, lock_fd = -1;
	enum pool_content content;
	int r = open_dir(path, &fd, err);

	/* Somebody else's directory does not even get a lock file. */
	if (r == 0)
		r = inspect_files(fd, path, &content, err);
	if (r < 0)
		return r;
	if (content == POOL_CONTENT_OTHER)
		return -ENOTEMPTY;
	r = lock(fd, path, &lock_fd, err);
	return r < 0 ? r : format_locked(fd, path, record, err);
}

/* ---- operations ---- */

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
	auto_cleanup(cleanup_dir) DIR *dir = dir_stream(fd);
	struct space_medium medium = {0};
	const struct dirent *entry;
	struct statvfs vfs;
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
		if (is_dots(entry->d_name) ||
		    fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		medium.allocated += (uint64_t)st.st_blocks * 512; /* stat(2) */
	}
	*ret = medium;
	return 0;
}

static uint64_t dir_footprint(struct pool *pool, uint64_t size)
{
	(void)pool;
	return size;
}

static int fail(struct pool *pool, const char *what, const char *name,
		struct error *err)
{
	int code = errno;

	return error_set(err, code, "%s '%s/%s/%s': %s", what, pool->path,
			 EXTENTS, name, strerror(code));
}

/*
 * Others may fill the file system to the last block, and then an extent must
 * still be fenced and detached: that takes room for one record, which is
 * kept here. Where there is none to keep, there is nothing to do about it.
 */
static void spare_keep(int fd)
{
	auto_close int spare = openat(
		fd, SPARE, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (spare >= 0 && fallocate(spare, 0, 0, SPARE_SIZE) < 0)
		(void)unlinkat(fd, SPARE, 0);
}

static int save_once(struct pool *pool, const char *file, const char *data,
		     size_t length, struct error *err)
{
	return file_replace(pool_dir_of(pool)->extents_fd, file, data, length,
			    0600, err);
}

static int dir_save(struct pool *pool, const struct extent_record *record,
		    struct error *err)
{
	char file[POOL_DIR_FILE_SIZE];
	auto_free char *data = NULL;
	int fd = pool_dir_of(pool)->fd;
	size_t length;
	int r = extent_record_encode(record, &data, &length, err);

	if (r < 0)
		return r;
	(void)pool_dir_file(file, record->name, POOL_DIR_RECORD);
	r = save_once(pool, file, data, length, err);
	if (r == -ENOSPC && file_remove(fd, SPARE, NULL) == 0) {
		r = save_once(pool, file, data, length, err);
		spare_keep(fd);
	}
	if (r < 0)
		(void)error_prefix(err, "pool '%s': ", pool->record.name);
	return r;
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
		return fail(pool, "open", file, err);
	if (ftruncate(fd, (off_t)record->size) < 0)
		return fail(pool, "set the length of", file, err);
	if (fsync(fd) < 0)
		return fail(pool, "sync", file, err);
	return 0;
}

static int dir_doom(struct pool *pool, const char *name, struct error *err)
{
	char from[POOL_DIR_FILE_SIZE], to[POOL_DIR_FILE_SIZE];
	int fd = pool_dir_of(pool)->extents_fd;

	(void)pool_dir_file(from, name, POOL_DIR_RECORD);
	(void)pool_dir_file(to, name, POOL_DIR_DOOMED);
	if (renameat(fd, from, fd, to) < 0)
		return fail(pool, "rename", from, err);
	if (fsync(fd) < 0)
		return fail(pool, "sync the directory of", to, err);
	return 0;
}

static int dir_erase(struct pool *pool, const char *name, struct error *err)
{
	int r = pool_dir_erase(pool_dir_of(pool)->extents_fd, name,
			       POOL_DIR_DOOMED, err);

	if (r < 0)
		(void)error_prefix(err, "pool '%s': ", pool->record.name);
	return r;
}

static int dir_create(struct pool *pool, const struct extent_record *record,
		      struct error *err)
{
	struct extent_record creating = *record; /* borrows what it owns */
	char file[POOL_DIR_FILE_SIZE];
	struct stat st;
	int r;

	/* Before the record says that recovery may remove it. */
	if (fstatat(pool_dir_of(pool)->extents_fd,
		    pool_dir_file(file, record->name, POOL_DIR_DATA), &st,
		    AT_SYMLINK_NOFOLLOW) == 0)
		return error_set(err, EEXIST,
				 "'%s/%s/%s' is in the way: a data file "
				 "without a record",
				 pool->path, EXTENTS, file);
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

static int dir_usage(struct pool *pool, const char *name,
		     struct extent_usage *ret, struct error *err)
{
	char file[POOL_DIR_FILE_SIZE];
	struct stat st;

	if (fstatat(pool_dir_of(pool)->extents_fd,
		    pool_dir_file(file, name, POOL_DIR_DATA), &st,
		    AT_SYMLINK_NOFOLLOW) < 0)
		return fail(pool, "stat", file, err);
	ret->allocated = (uint64_t)st.st_blocks * 512; /* stat(2) */
	ret->device = st.st_dev;
	ret->inode = st.st_ino;
	return 0;
}

static char *dir_path(struct pool *pool, const char *name)
{
	char file[POOL_DIR_FILE_SIZE];
	char *path;

	if (asprintf(&path, "%s/%s/%s", pool->path, EXTENTS,
		     pool_dir_file(file, name, POOL_DIR_DATA)) < 0)
		return NULL;
	return path;
}

static int dir_open(struct pool *pool, const char *name, uint64_t size,
		    unsigned flags, struct loop *loop, struct blockdev **ret,
		    struct error *err)
{
	auto_free char *path = dir_path(pool, name);

	if (!path)
		return error_set(err, ENOMEM, "out of memory");
	return blockdev_file_open(loop, path, size, flags, ret, err);
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
	(void)unlinkat(fd, EXTENTS, AT_REMOVEDIR);
	(void)unlinkat(fd, SPARE, 0);
	(void)unlinkat(fd, LOCK, 0);
	return 0;
}

static void dir_close(struct pool *pool)
{
	struct pool_dir *dir = pool_dir_of(pool);

	fd_close(dir->extents_fd);
	fd_close(dir->fd);
	fd_close(dir->lock_fd);
	free(pool->path);
	free(dir);
}

static const struct pool_ops dir_ops = {
	.kind = POOL_DIR_KIND,
	.load = dir_load,
	.measure = dir_measure,
	.footprint = dir_footprint,
	.create = dir_create,
	.save = dir_save,
	.grow = dir_grow,
	.doom = dir_doom,
	.erase = dir_erase,
	.usage = dir_usage,
	.path = dir_path,
	.open = dir_open,
	.destroy = dir_destroy,
	.close = dir_close,
};

/* ---- open ---- */

static int check_identity(const struct pool_record *record, const char *path,
			  const char *name, const char *id, struct error *err)
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
	int r = open_dir(pool->path, &dir->fd, err);

	if (r == 0)
		r = identity_read(dir->fd, pool->path, &pool->record, err);
	if (r == 0)
		r = check_identity(&pool->record, pool->path, name, id, err);
	if (r == 0)
		r = lock(dir->fd, pool->path, &dir->lock_fd, err);
	if (r < 0)
		return r;
	dir->extents_fd = openat(dir->fd, EXTENTS,
				 O_RDONLY | O_DIRECTORY | O_CLOEXEC |
					 O_NOFOLLOW);
	if (dir->extents_fd < 0)
		return error_set(err, EBADMSG, "open '%s/%s': %s", pool->path,
				 EXTENTS, strerror(errno));
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
