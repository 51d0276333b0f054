/* SPDX-License-Identifier: Apache-2.0 */
/* Is the file system of a dir pool well, and is it still there? By trying. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "blockd/dir/pool_dir.h"
#include "blockd/dir/pool_dir_internal.h"
#include "blockd/pool/record_text.h"

#define BLOCK    4096 /* bytes; a multiple of what any device reads */
#define TRY_FILE FILE_TEMPORARY_PREFIX "try"

/* -ENODEV has a meaning of its own here. */
static int fail(const struct pool *pool, const char *what, struct error *err)
{
	int code = errno;

	return error_set(err, code == ENODEV ? ENXIO : code, "%s in '%s': %s",
			 what, pool->path, strerror(code));
}

/*
 * Check that the path still leads to the directory opened first: nothing was
 * unmounted.
 */
static int pool_try_place(struct pool *pool, struct error *err)
{
	struct stat ours, there;

	if (fstat(pool_dir_of(pool)->fd, &ours) < 0)
		return fail(pool, "stat", err);
	if (stat(pool->path, &there) == 0)
		return there.st_dev == ours.st_dev &&
				       there.st_ino == ours.st_ino
			       ? 0
			       : error_set(
					 err, ENODEV,
					 "another directory is at '%s': its file system is no "
					 "longer mounted there",
					 pool->path);
	if (errno == ENOENT || errno == ENOTDIR)
		return error_set(err, ENODEV, "'%s' is gone", pool->path);
	return fail(pool, "stat", err);
}

/* Past the page cache, where the file system can. */
static int read_medium(struct pool *pool, struct error *err)
{
	auto_close int fd = openat(pool_dir_of(pool)->fd, POOL_DIR_IDENTITY,
				   O_RDONLY | O_DIRECT | O_CLOEXEC |
					   O_NOFOLLOW);
	auto_free void *block = NULL;

	if (fd < 0)
		return errno == EINVAL
			       ? 0
			       : fail(pool, "open '" POOL_DIR_IDENTITY "'",
				      err);
	if (posix_memalign(&block, BLOCK, BLOCK) != 0)
		return 0; /* another time */
	if (pread(fd, block, BLOCK, 0) < 0 && errno != EINVAL)
		return fail(pool, "read '" POOL_DIR_IDENTITY "'", err);
	return 0;
}

static int pool_try_identity(struct pool *pool, struct error *err)
{
	struct pool_record record;
	int r = read_medium(pool, err);

	if (r == 0)
		r = pool_dir_identity(pool_dir_of(pool)->fd, pool->path,
				      &record, err);
	if (r == 0 && strcmp(record.id, pool->record.id) != 0)
		r = error_set(err, EBADMSG, "'%s' is another pool now",
			      pool->path);
	return r;
}

/* Open a file, without a name where the file system can. */
static int pool_try_open_file(int dirfd)
{
	int fd = openat(dirfd, ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, 0600);

	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
		return fd;
	fd = openat(dirfd, TRY_FILE,
		    O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW,
		    0600);
	if (fd >= 0)
		(void)unlinkat(dirfd, TRY_FILE, 0); /* load() does */
	return fd;
}

static bool lacks_room(int code)
{
	return code == ENOSPC || code == EDQUOT;
}

static int write_medium(struct pool *pool, struct error *err)
{
	const int dirfd = pool_dir_of(pool)->fd;
	auto_close int fd = pool_try_open_file(dirfd);
	static const char block[BLOCK];

	if (fd >= 0 && write(fd, block, sizeof(block)) >= 0 && fsync(fd) == 0)
		return 0;
	if (!lacks_room(errno))
		return fail(pool, "write", err);
	/* A file system that was shut down says so here, too. */
	return fsync(dirfd) < 0 ? fail(pool, "sync", err) : 0;
}

int pool_dir_try(struct pool *pool, struct error *err)
{
	int r = pool_try_place(pool, err);

	if (r == 0)
		r = pool_try_identity(pool, err);
	return r < 0 ? r : write_medium(pool, err);
}

int pool_dir_renew(struct pool *pool, struct error *err)
{
	struct pool_record record = pool->record;

	(void)uuid_make(record.incarnation);
	return pool_dir_put_record(pool, &record, err);
}

int pool_dir_put_record(struct pool *pool, const struct pool_record *record,
			struct error *err)
{
	auto_free char *data = NULL;
	size_t length;
	int r = pool_record_encode(record, &data, &length, err);

	if (r == 0)
		r = file_replace(pool_dir_of(pool)->fd, POOL_DIR_IDENTITY, data,
				 length, 0600, err);
	if (r == 0)
		pool->record = *record;
	return r;
}
