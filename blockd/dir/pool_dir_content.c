/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>

#include "blockd/dir/file_map.h"
#include "blockd/dir/pool_dir_internal.h"

/* bytes, of one read and write; progress comes after each */
#define PIECE (UINT64_C(4) << 20)
/* bytes; O_DIRECT wants it of memory and of ranges */
#define ALIGN UINT64_C(4096)

/* ---- which way ---- */

static int nameless_file(int dirfd)
{
	return openat(dirfd, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
}

enum pool_copy_method pool_dir_probe(int extents_fd)
{
	auto_close int from = nameless_file(extents_fd);
	auto_close int to = nameless_file(extents_fd);
	static const char block[ALIGN] = "reflink?";

	if (from < 0 || to < 0)
		return POOL_COPY_BYTES;
	/* On a full file system nothing is written, and an empty file asks
	 * the same question. */
	(void)!pwrite(from, block, sizeof(block), 0);
	return ioctl(to, FICLONE, from) == 0 ? POOL_COPY_REFLINK
					     : POOL_COPY_BYTES;
}

/* ---- above the floor ---- */

/* Check that there is room for a write of the range; -1 with errno. */
static int need_room(const struct pool_dir *dir, int fd, uint64_t offset,
		     uint64_t length)
{
	uint64_t bytes = file_map_missing(fd, offset, length);
	int r = bytes ? space_floor_check(dir->floor, bytes) : 0;

	if (r < 0)
		errno = -r;
	return r < 0 ? -1 : 0;
}

/* Allocate space for all of the file. Shared blocks stay shared. */
int pool_dir_allocate(const struct pool_dir *dir, int fd, uint64_t size)
{
	if (need_room(dir, fd, 0, size) < 0)
		return -1;
	return fallocate(fd, 0, 0, (off_t)size);
}

/* ---- byte by byte ---- */

struct content {
	struct pool *pool;
	const char *to_name;
	int from, to;
	void *buffer; /* PIECE bytes */
	bool thick;
	struct pool_dir_progress *progress;
	struct error *err;
};

static int failed(const struct content *c, const char *what)
{
	return pool_dir_fail(c->pool, what, c->to_name, c->err);
}

static int content_report(const struct content *c, uint64_t bytes)
{
	struct pool_dir_progress *p = c->progress;
	int r;

	p->done += bytes;
	r = p->copied ? p->copied(p->context, p->done, p->total) : 0;
	if (r < 0)
		return error_set(c->err, -r, "the copy was stopped: %s",
				 strerror(-r));
	return 0;
}

/* -EIO: the file ended. */
static int read_all(const struct content *c, uint64_t length, uint64_t offset)
{
	uint64_t done = 0;

	while (done < length) {
		ssize_t n = pread(c->from, (char *)c->buffer + done,
				  length - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			errno = EIO;
		if (n <= 0)
			return failed(c, "read the source of");
		done += (uint64_t)n;
	}
	return 0;
}

static int write_all(const struct content *c, uint64_t length, uint64_t offset)
{
	uint64_t done = 0;

	if (need_room(pool_dir_of(c->pool), c->to, offset, length) < 0)
		return failed(c, "write");
	while (done < length) {
		ssize_t n = pwrite(c->to, (char *)c->buffer + done,
				   length - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return failed(c, "write");
		done += (uint64_t)n;
	}
	return 0;
}

static int content_copy_range(const struct content *c, uint64_t start,
			      uint64_t end)
{
	int r = 0;

	while (r == 0 && start < end) {
		uint64_t length = end - start < PIECE ? end - start : PIECE;

		r = read_all(c, length, start);
		if (r == 0)
			r = write_all(c, length, start);
		if (r == 0)
			r = content_report(c, length);
		start += length;
	}
	return r;
}

/* The next data at or after @start; false: there is none before @size. */
static bool next_data(int fd, uint64_t start, uint64_t size,
		      uint64_t *ret_start, uint64_t *ret_end)
{
	off_t data = lseek(fd, (off_t)start, SEEK_DATA), hole;

	*ret_start = start;
	*ret_end = size;
	if (data < 0)
		return errno != ENXIO; /* can't tell: all of it */
	hole = lseek(fd, data, SEEK_HOLE);
	*ret_start = (uint64_t)data & ~(ALIGN - 1);
	if (*ret_start < start)
		*ret_start = start;
	if (hole >= 0 && (uint64_t)hole < size)
		*ret_end = ((uint64_t)hole + ALIGN - 1) & ~(ALIGN - 1);
	if (*ret_end > size)
		*ret_end = size;
	return *ret_start < size;
}

/* Data is copied, holes stay holes. */
static int content_copy(const struct content *c, uint64_t size)
{
	uint64_t at = 0, start, end;
	int r = 0;

	while (r == 0 && at < size &&
	       next_data(c->from, at, size, &start, &end)) {
		r = content_report(c, start - at);
		if (r == 0)
			r = content_copy_range(c, start, end);
		at = end;
	}
	return r < 0 || at >= size ? r : content_report(c, size - at);
}

/* ---- either way ---- */

/* Past the page cache where the file system can. */
static int content_open_file(int dirfd, const char *name, int flags)
{
	int fd = openat(dirfd, name, flags | O_DIRECT | O_CLOEXEC | O_NOFOLLOW,
			0600);

	if (fd < 0 && errno == EINVAL)
		fd = openat(dirfd, name, flags | O_CLOEXEC | O_NOFOLLOW, 0600);
	return fd;
}

static int content_fill(struct content *c, uint64_t size)
{
	struct stat st;
	int r = 0;

	/* Data that is in memory only is content too. */
	if (fsync(c->from) < 0 || fstat(c->from, &st) < 0)
		return failed(c, "sync the source of");
	if (pool_dir_of(c->pool)->method == POOL_COPY_REFLINK) {
		if (ioctl(c->to, FICLONE, c->from) < 0)
			return failed(c, "share the blocks of");
		r = content_report(c, (uint64_t)st.st_size);
	} else {
		r = content_copy(c, (uint64_t)st.st_size);
	}
	if (r < 0)
		return r;
	if (ftruncate(c->to, (off_t)size) < 0)
		return failed(c, "set the length of");
	/* Blocks that the file shares stay shared: their space is promised. */
	if (c->thick &&
	    pool_dir_allocate(pool_dir_of(c->pool), c->to, size) < 0)
		return failed(c, "allocate");
	return fsync(c->to) < 0 ? failed(c, "sync") : 0;
}

int pool_dir_content_copy(struct pool *pool, const char *from, const char *to,
			  uint64_t size, bool thick,
			  struct pool_dir_progress *progress, struct error *err)
{
	int dirfd = pool_dir_of(pool)->extents_fd, r;
	auto_free void *buffer = NULL;
	auto_close int from_fd = -1, to_fd = -1;
	struct content c = {
		.pool = pool,
		.to_name = to,
		.thick = thick,
		.progress = progress,
		.err = err,
	};

	if (posix_memalign(&buffer, ALIGN, PIECE) != 0)
		return error_set(err, ENOMEM, "out of memory");
	from_fd = content_open_file(dirfd, from, O_RDONLY);
	if (from_fd < 0)
		return pool_dir_fail(pool, "open", from, err);
	to_fd = content_open_file(dirfd, to, O_RDWR | O_CREAT | O_EXCL);
	if (to_fd < 0)
		return pool_dir_fail(pool, "make", to, err);
	c.buffer = buffer;
	c.from = from_fd;
	c.to = to_fd;
	r = content_fill(&c, size);
	if (r < 0)
		(void)unlinkat(dirfd, to, 0); /* else the next load does */
	return r;
}
