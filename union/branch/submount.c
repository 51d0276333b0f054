/* SPDX-License-Identifier: Apache-2.0 */
#include "union/branch/submount.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/openat2.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/branch/branch_path.h"
#include "union/sys/named.h"

#define TABLE "/proc/self/mountinfo"

static void name_subvolume(int dirfd, const char *name,
			   const struct handle *handle)
{
	static struct named named = {.lock = PTHREAD_MUTEX_INITIALIZER};
	char path[PATH_MAX];

	if (!named_before(&named, handle))
		log_warning("subvolume '%s/%s' is no part of the union: list "
			    "it as a branch of its own",
			    named_path(dirfd, path), name);
}

int submount_handle_get(const struct branch *branch, int dirfd,
			const char *name, struct handle *ret)
{
	struct handle handle, own;
	int mount, own_mount;
	int r = handle_get_on(dirfd, name, &handle, &mount);

	/* The whole branch has handles: this is another file system. */
	if (*name && (r == -EOPNOTSUPP || r == -EOVERFLOW))
		return -EXDEV;
	if (r < 0)
		return r;
	/*
	 * The name is not on the branch, or @dirfd is from before a failure of
	 * it.
	 */
	if (*name && mount != atomic_load(&branch->mount_id) &&
	    handle_get_on(dirfd, "", &own, &own_mount) == 0 &&
	    own_mount != mount)
		return -EXDEV;
	if (!handle_same_tree(&handle, &branch->identity.root)) {
		if (*name)
			name_subvolume(dirfd, name, &handle);
		return -EXDEV;
	}
	*ret = handle;
	return 0;
}

bool submount_is_on(int dirfd, const char *name)
{
	struct handle handle, own;
	int mount, own_mount, r;

	if (strcmp(name, "..") == 0)
		return false; /* of the branch's root it is on another mount */
	r = handle_get_on(dirfd, name, &handle, &mount);
	if (r == -EOPNOTSUPP || r == -EOVERFLOW)
		return true;
	if (r < 0 || handle_get_on(dirfd, "", &own, &own_mount) < 0)
		return false;
	if (mount != own_mount)
		return true;
	if (handle_same_tree(&handle, &own))
		return false;
	name_subvolume(dirfd, name, &handle);
	return true;
}

bool submount_hides(enum mounted inside, int dirfd, const char *name,
		    unsigned char type)
{
	return (inside == SUBMOUNT_ANYWHERE ||
		(inside == SUBMOUNT_ON_DIRS && type == DT_DIR)) &&
	       submount_is_on(dirfd, name);
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

int submount_open_none(int dirfd, const char *path, int flags)
{
	int fd = open_none(dirfd, path, flags, 0);
	struct handle handle, own;

	if (fd >= 0 && handle_get(fd, "", &handle) == 0 &&
	    handle_get(dirfd, "", &own) == 0 &&
	    !handle_same_tree(&handle, &own)) {
		fd_close(fd);
		return -EXDEV;
	}
	return fd;
}

int submount_create_none(int dirfd, const char *name, int flags, mode_t mode)
{
	return open_none(dirfd, name, flags | O_CREAT, mode);
}

struct seen_mount {
	int parent; /* id of the mount that it is on */
	char *path; /* owned */
};

/*
 * The kernel tells when its table changes. The table is read once then, for any
 * number of branches.
 */
static struct {
	pthread_mutex_t lock;
	int fd; /* -1: not open */
	unsigned changes;
	unsigned read; /* changes when mounts[] was read; 0: it is not */
	struct seen_mount *mounts;
	size_t count, size;
	struct looked {
		unsigned changes; /* 0: never */
		int mount_id;
		bool inside;
	} branches[BRANCH_MAX];
} table = {.lock = PTHREAD_MUTEX_INITIALIZER, .fd = -1};

void submount_unescape(char *path)
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

/* Below, with the lock. */

static void forget_mounts(void)
{
	while (table.count)
		free(table.mounts[--table.count].path);
	table.read = 0;
}

/* Takes @path. */
static bool keep_mount(int parent, char *path)
{
	size_t size = table.size ? table.size * 2 : 64;
	struct seen_mount *bigger;

	if (table.count == table.size) {
		bigger = reallocarray(table.mounts, size, sizeof(*bigger));
		if (!bigger) {
			free(path);
			return false;
		}
		table.mounts = bigger;
		table.size = size;
	}
	table.mounts[table.count++] = (struct seen_mount){parent, path};
	return true;
}

/* Keep a line; a line that is not as in proc(5) is left out. */
static bool keep_line(const char *line)
{
	char *path = NULL;
	int parent;

	if (sscanf(line, "%*d %d %*s %*s %ms", &parent, &path) != 2)
		return true;
	submount_unescape(path);
	return keep_mount(parent, path);
}

static void read_table(void)
{
	FILE *file = fopen(TABLE, "re");
	auto_free char *line = NULL;
	bool good = file;
	size_t size = 0;

	forget_mounts();
	while (good && getline(&line, &size, file) > 0)
		good = keep_line(line);
	if (file)
		(void)fclose(file);
	table.read = good ? table.changes : 0;
}

/* Is any mount on a name in @branch? */
static bool has_mount(const struct branch *branch, int mount_id)
{
	const struct seen_mount *mount;
	bool inside = false;
	size_t i;

	for (i = 0; i < table.count && !inside; i++) {
		mount = &table.mounts[i];
		inside = mount->parent == mount_id &&
			 strcmp(mount->path, branch->path) != 0 &&
			 branch_path_is_below(mount->path, branch->path);
	}
	return inside;
}

/* Drop results that are older than a change of the table of mounts. */
static void note_changes(void)
{
	struct pollfd poll_fd = {.events = POLLPRI};

	if (table.fd < 0)
		table.fd = open(TABLE, O_RDONLY | O_CLOEXEC);
	poll_fd.fd = table.fd;
	if (table.fd < 0 || !table.changes || poll(&poll_fd, 1, 0) != 0)
		table.changes++;
}

/* Look for mounts; without the table there may be any. */
static bool look_for_mount(const struct branch *branch, int mount_id)
{
	if (table.read != table.changes)
		read_table();
	return !table.read || has_mount(branch, mount_id);
}

enum mounted submount_inside(struct branch *branch)
{
	struct looked *looked = &table.branches[branch->id];
	int mount_id = atomic_load(&branch->mount_id);
	bool inside, trees = handle_is_of_btrfs(&branch->identity.root);

	pthread_mutex_lock(&table.lock);
	note_changes();
	if (looked->changes != table.changes || looked->mount_id != mount_id)
		*looked = (struct looked){table.changes, mount_id,
					  look_for_mount(branch, mount_id)};
	inside = looked->inside;
	pthread_mutex_unlock(&table.lock);
	if (inside)
		return SUBMOUNT_ANYWHERE;
	return trees ? SUBMOUNT_ON_DIRS : SUBMOUNT_NOWHERE;
}
