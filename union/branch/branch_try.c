/* SPDX-License-Identifier: Apache-2.0 */
#include "union/branch/branch_try.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "union/branch/branch_failed.h"

#define BLOCK 4096 /* bytes; a multiple of what any device reads */

/* Does the file system answer, and not its cache alone? */
static int try_root(int root)
{
	struct statx st;

	return statx(root, "", AT_EMPTY_PATH | AT_STATX_FORCE_SYNC,
		     STATX_BASIC_STATS, &st) < 0
		       ? -errno
		       : 0;
}

/* Get the source of the mount with this id, owned; NULL: not found. */
static char *source_of(int mount_id)
{
	FILE *table = fopen("/proc/self/mountinfo", "re");
	auto_free char *line = NULL;
	char *source = NULL, *end;
	size_t size = 0;
	int id;

	while (table && !source && getline(&line, &size, table) > 0) {
		end = strstr(line, " - ");
		if (!end || sscanf(line, "%d", &id) != 1 || id != mount_id)
			continue;
		if (sscanf(end, " - %*s %ms", &source) != 1)
			break;
	}
	if (table)
		(void)fclose(table);
	return source;
}

static int open_device(int root)
{
	auto_free char *source = NULL;
	auto_close int fd = -1;
	struct handle handle;
	struct stat st;
	int mount_id;

	if (handle_get_on(root, "", &handle, &mount_id) == 0)
		source = source_of(mount_id);
	if (!source || *source != '/' || stat(source, &st) < 0 ||
	    !S_ISBLK(st.st_mode))
		return -ENOTBLK;
	fd = open(source, O_RDONLY | O_DIRECT | O_CLOEXEC);
	return fd < 0 ? -errno : take_fd(&fd);
}

/* Read one block past the page cache; 0 also if that is not possible. */
static int try_device(int root)
{
	auto_close int fd = open_device(root);
	auto_free void *block = NULL;

	if (fd < 0)
		return fd == -ENXIO || fd == -EIO || fd == -ENODEV ? fd : 0;
	if (posix_memalign(&block, BLOCK, BLOCK) != 0)
		return 0;
	if (pread(fd, block, BLOCK, 0) >= 0 || errno == EINVAL)
		return 0;
	return -errno;
}

/* Write a file. 1: done; -errno: also for want of room. */
static int try_write(int root)
{
	auto_close int fd = -1;

	/* The directory is missing if there was no room for it before. */
	if (mkdirat(root, BRANCH_WORK_DIR, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(root, BRANCH_WORK_DIR "/.", O_TMPFILE | O_RDWR | O_CLOEXEC,
		    0600);
	return fd < 0 || write(fd, "", 1) < 0 || fsync(fd) < 0 ? -errno : 1;
}

int branch_try_root(int root, bool writes)
{
	int r = try_root(root), written;

	if (r < 0)
		return r;
	written = writes ? try_write(root) : 0;
	if (branch_is_failure(written))
		return written;
	/* fsync() tells a file system that was shut down, too. */
	if (written != 1 && fsync(root) < 0 && branch_is_failure(-errno))
		return -errno;
	if (written != 1)
		r = try_device(root);
	return r == 0 && written == -EROFS ? written : r;
}

int branch_try(struct branch *branch)
{
	int64_t met_ns = clock_ns(), now_ns;
	int r = 0;

	pthread_mutex_lock(&branch->try_lock);
	now_ns = clock_ns();
	if (!branch_usable(branch->id)) {
		r = -EIO;
	} else if (branch->well_ns <= met_ns) {
		r = branch_try_root(branch->root_fd,
				    !(branch->flags & BRANCH_RO));
		branch->well_ns = r < 0 ? 0 : now_ns;
	}
	pthread_mutex_unlock(&branch->try_lock);
	return r;
}
