/* SPDX-License-Identifier: Apache-2.0 */
/* Calls on open files that move no data. */
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "tests/union/op.h"

static void do_open(const struct op *op, int *slot)
{
	char buf[OP_FULL_PATH_MAX];
	int fd = open(op_path(op->path, buf), op->flags, op->mode & 06777);

	say_result(fd < 0 ? -1 : 0);
	if (fd < 0)
		return;
	fd_close(*slot);
	*slot = fd;
}

#define EXTENTS 64

/* Tell whether the file has extents that were allocated, and not written. */
static bool has_unwritten(int fd)
{
	char memory[sizeof(struct fiemap) +
		    EXTENTS * sizeof(struct fiemap_extent)] = {0};
	struct fiemap *map = (struct fiemap *)memory;
	unsigned i;

	map->fm_length = FIEMAP_MAX_OFFSET;
	map->fm_extent_count = EXTENTS;
	if (ioctl(fd, FS_IOC_FIEMAP, map) < 0)
		return false;
	for (i = 0; i < map->fm_mapped_extents; i++)
		if (map->fm_extents[i].fe_flags & FIEMAP_EXTENT_UNWRITTEN)
			return true;
	return false;
}

/* Only where it may be read so. */
static bool has_data(int fd, off_t at, off_t end)
{
	static char data[4096];
	ssize_t n, i;

	for (; at < end; at += n) {
		off_t left = end - at;

		n = pread(fd, data,
			  left < (off_t)sizeof(data) ? (size_t)left
						     : sizeof(data),
			  at);
		if (n <= 0)
			return false;
		for (i = 0; i < n; i++)
			if (data[i])
				return true;
	}
	return false;
}

/*
 * Seek holes. An answer that is OP_SEEK_WRONG passes over data or calls data a
 * hole. Then go back to the position of both trees.
 */
static void do_seek_hole(const struct op *op, int fd, off_t size)
{
	off_t at = lseek(fd, op->offset, op->flags), end = at < 0 ? size : at;

	say_result(at < 0 ? -1 : 0);
	if (at >= 0)
		say(" %lld", (long long)at);
	if (at >= 0 && lseek(fd, 0, SEEK_CUR) != at)
		say(OP_SEEK_WRONG);
	if (op->flags == SEEK_DATA ? has_data(fd, op->offset, end)
				   : at >= 0 && has_data(fd, at, at + 1))
		say(OP_SEEK_WRONG);
	if (has_unwritten(fd))
		say(OP_SEEK_UNWRITTEN);
	(void)lseek(fd, op->offset, SEEK_SET); /* it is no pipe */
}

static void do_seek(const struct op *op, int fd)
{
	struct stat st;
	off_t at;

	if (fstat(fd, &st) == 0 && S_ISDIR(st.st_mode))
		return; /* offsets differ by right */
	if (op->flags == SEEK_DATA || op->flags == SEEK_HOLE) {
		do_seek_hole(op, fd, st.st_size);
		return;
	}
	at = lseek(fd, op->offset, op->flags);
	say_result(at < 0 ? -1 : 0);
	if (at >= 0)
		say(" %lld", (long long)at);
}

static void do_sync(const struct op *op, int fd)
{
	switch (op->way % 4) {
	case 0: say_result(fsync(fd)); break;
	case 1: say_result(fdatasync(fd)); break;
	case 2:
		say_result(sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WRITE));
		break;
	default: say_result(posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED));
	}
}

static void do_lock(const struct op *op, int fd)
{
	static const int flocks[] = {LOCK_SH, LOCK_EX, LOCK_UN};
	static const short types[] = {F_RDLCK, F_WRLCK, F_UNLCK};
	struct flock lock = {.l_type = types[op->slot2 % 3],
			     .l_whence = SEEK_SET,
			     .l_start = op->offset,
			     .l_len = op->length};
	int r;

	switch (op->way % 5) {
	case 0: say_result(flock(fd, flocks[op->slot2 % 3] | LOCK_NB)); break;
	case 1: say_result(fcntl(fd, F_OFD_SETLK, &lock)); break;
	case 2: say_result(fcntl(fd, F_SETLK, &lock)); break;
	default:
		r = fcntl(fd, op->way % 5 == 3 ? F_GETLK : F_OFD_GETLK, &lock);
		say_result(r);
		if (r == 0)
			say(" type=%d start=%lld length=%lld", lock.l_type,
			    (long long)lock.l_start, (long long)lock.l_len);
	}
}

/*
 * Set flags. A file that is passed through keeps O_DIRECT and O_APPEND as they
 * were at open(), but O_APPEND can be added.
 */
static void do_flags(const struct op *op, int fd)
{
	static const int sets[] = {0, O_APPEND, O_NOATIME, O_NONBLOCK};
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0) {
		say_result(-1);
		return;
	}
	say(" %o", (unsigned)flags);
	flags = (flags & (O_DIRECT | O_APPEND)) |
		sets[(unsigned)op->way % array_size(sets)];
	say_result(fcntl(fd, F_SETFL, flags));
}

static void do_fstat(int fd)
{
	struct stat st;
	int r = fstat(fd, &st);

	say_result(r);
	if (r == 0)
		say_stat(&st);
}

void op_do_file(const struct op *op, int *fds)
{
	char buf[OP_FULL_PATH_MAX];
	int *slot = &fds[op->slot], fd = *slot;

	switch (op->kind) {
	case OP_OPEN: do_open(op, slot); break;
	case OP_CLOSE:
		*slot = -1;
		say_result(close(fd));
		break;
	case OP_SEEK: do_seek(op, fd); break;
	case OP_TRUNCATE:
		say_result(truncate(op_path(op->path, buf), op->offset));
		break;
	case OP_FTRUNCATE: say_result(ftruncate(fd, op->offset)); break;
	case OP_FALLOCATE:
		if (op_is_nameless(op, fd))
			break;
		say_result(fallocate(fd, op->flags, op->offset, op->length));
		break;
	case OP_SYNC: do_sync(op, fd); break;
	case OP_LOCK: do_lock(op, fd); break;
	case OP_FLAGS: do_flags(op, fd); break;
	default: do_fstat(fd); break;
	}
}
