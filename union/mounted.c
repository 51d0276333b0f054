/* SPDX-License-Identifier: Apache-2.0 */
#include "union/mounted.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

#define TABLE "/proc/self/mountinfo"

int mounted_handle_get(const struct branch *branch, int dirfd, const char *name,
		       struct handle *ret)
{
	struct handle handle, own;
	int mount, own_mount;
	int r = handle_get_on(dirfd, name, &handle, &mount);

	/* All of the branch has handles: it is another file system. */
	if (*name && (r == -EOPNOTSUPP || r == -EOVERFLOW))
		return -EXDEV;
	if (r < 0)
		return r;
	/* Not the branch's: or @dirfd is of before it failed and came back. */
	if (*name && mount != atomic_load(&branch->mount_id) &&
	    handle_get_on(dirfd, "", &own, &own_mount) == 0 &&
	    own_mount != mount)
		return -EXDEV;
	*ret = handle;
	return 0;
}

bool mounted_is_on(int dirfd, const char *name)
{
	struct handle handle;
	int mount, own_mount, r;

	if (strcmp(name, "..") == 0)
		return false; /* of the branch's root it is on another mount */
	r = handle_get_on(dirfd, name, &handle, &mount);
	if (r == -EOPNOTSUPP || r == -EOVERFLOW)
		return true;
	return r == 0 && handle_get_on(dirfd, "", &handle, &own_mount) == 0 &&
	       mount != own_mount;
}

static int open_none(int dirfd, const char *path, int flags, mode_t mode)
{
	struct open_how how = {
		.flags = (uint64_t)(flags | O_CLOEXEC),
		.mode = mode,
		.resolve = RESOLVE_NO_XDEV,
	};
	long fd = syscall(SYS_openat2, dirfd, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

int mounted_open_none(int dirfd, const char *path, int flags)
{
	return open_none(dirfd, path, flags, 0);
}

int mounted_create_none(int dirfd, const char *name, int flags, mode_t mode)
{
	return open_none(dirfd, name, flags | O_CREAT, mode);
}

/* The kernel says when its table changes. */
static struct {
	pthread_mutex_t lock;
	int fd; /* -1: not open */
	unsigned changes;
	struct looked {
		unsigned changes; /* 0: never */
		int mount_id;
		bool inside;
	} branches[BRANCH_MAX];
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

/* A path in the table: a space is \040 there, and so on. */
static void unescape(char *path)
{
	char *to = path;
	unsigned byte;

	for (; *path; path++) {
		if (*path == '\\' && sscanf(path + 1, "%3o", &byte) == 1) {
			*to++ = (char)byte;
			path += 3;
		} else {
			*to++ = *path;
		}
	}
	*to = '\0';
}

/* Is the mount of this line of the table on a name in @branch? */
static bool is_line_inside(const char *line, const struct branch *branch)
{
	auto_free char *path = NULL;
	int parent;

	if (sscanf(line, "%*d %d %*s %*s %ms", &parent, &path) != 2 ||
	    parent != atomic_load(&branch->mount_id))
		return false;
	unescape(path);
	return strcmp(path, branch->path) != 0 &&
	       branch_path_is_below(path, branch->path);
}

static bool read_table(const struct branch *branch)
{
	FILE *file = fopen(TABLE, "re");
	auto_free char *line = NULL;
	bool inside = !file;
	size_t size = 0;

	while (!inside && getline(&line, &size, file) > 0)
		inside = is_line_inside(line, branch);
	if (file)
		(void)fclose(file);
	return inside;
}

/* With the lock: what was looked at before a change counts no more. */
static void note_changes(void)
{
	struct pollfd poll_fd = {.events = POLLPRI};

	if (table.fd < 0)
		table.fd = open(TABLE, O_RDONLY | O_CLOEXEC);
	poll_fd.fd = table.fd;
	if (table.fd < 0 || !table.changes || poll(&poll_fd, 1, 0) != 0)
		table.changes++;
}

bool mounted_inside(struct branch *branch)
{
	struct looked *looked = &table.branches[branch->id];
	int mount_id = atomic_load(&branch->mount_id);
	bool inside;

	pthread_mutex_lock(&table.lock);
	note_changes();
	if (looked->changes != table.changes || looked->mount_id != mount_id)
		*looked = (struct looked){table.changes, mount_id,
					  read_table(branch)};
	inside = looked->inside;
	pthread_mutex_unlock(&table.lock);
	return inside;
}
