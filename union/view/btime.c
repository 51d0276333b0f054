/* SPDX-License-Identifier: Apache-2.0 */
#include "union/view/btime.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/xattr.h>

#include "base/cleanup.h"
#include "union/branch/dir_fd.h"
#include "union/sys/proc_path.h"

#define SECOND_NS 1000000000

struct wire {
	uint64_t seconds;
	uint32_t nanoseconds;
} __attribute__((packed));

static_assert(sizeof(struct wire) == 12, "");

static int read_kept(int fd, struct timespec *ret)
{
	char path[PROC_PATH_MAX];
	struct wire wire;

	proc_path(path, fd, "");
	if (getxattr(path, BIRTH_XATTR, &wire, sizeof(wire)) != sizeof(wire) ||
	    le32toh(wire.nanoseconds) >= SECOND_NS)
		return -ENODATA;
	ret->tv_sec = (time_t)le64toh(wire.seconds);
	ret->tv_nsec = le32toh(wire.nanoseconds);
	return 0;
}

int btime_read(int fd, struct timespec *ret)
{
	struct statx x;

	if (read_kept(fd, ret) == 0)
		return 0;
	if (statx(fd, "", AT_EMPTY_PATH, STATX_BTIME, &x) < 0)
		return -errno;
	if (!(x.stx_mask & STATX_BTIME))
		return -ENODATA;
	ret->tv_sec = x.stx_btime.tv_sec;
	ret->tv_nsec = x.stx_btime.tv_nsec;
	return 0;
}

int btime_write(int fd, const struct timespec *birth)
{
	const struct wire wire = {
		.seconds = htole64((uint64_t)birth->tv_sec),
		.nanoseconds = htole32((uint32_t)birth->tv_nsec),
	};
	char path[PROC_PATH_MAX];

	proc_path(path, fd, "");
	return setxattr(path, BIRTH_XATTR, &wire, sizeof(wire), 0) < 0 ? -errno
								       : 0;
}

static bool earlier(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec != b->tv_sec ? a->tv_sec < b->tv_sec
				      : a->tv_nsec < b->tv_nsec;
}

/* Find the oldest time of the copies that can be asked. */
static int birth_of_dir(struct unionfs *fs, struct node *node,
			struct timespec *ret)
{
	int removed = atomic_load(&node->orphan_fd);
	struct copy *copy = node_first(node);
	struct timespec first = {0}, one = {0};
	bool known = false;

	if (!copy)
		return removed < 0 ? -ESTALE : btime_read(removed, ret);
	for (; copy; copy = copy_next(copy)) {
		auto_dir_fd struct dir_fd *dir = NULL;

		if (unionfs_dir_fd(fs, copy, &dir) < 0 ||
		    btime_read(dir->fd, &one) < 0)
			continue;
		if (!known || earlier(&one, &first))
			first = one;
		known = true;
	}
	if (known)
		*ret = first;
	return known ? 0 : -ENODATA;
}

int btime_of(struct unionfs *fs, struct node *node, struct timespec *ret)
{
	auto_close int fd = -1;

	if (S_ISDIR(node->type))
		return birth_of_dir(fs, node, ret);
	fd = unionfs_open(fs, node, O_PATH | O_NOFOLLOW);
	return fd < 0 ? fd : btime_read(fd, ret);
}
