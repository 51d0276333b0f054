/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/mount/mounts.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libmount/libmount.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"

#define STACKED_MAX 64 /* mounts on one another at one place */
#define USERS_MAX   4

#define BUSY_PATIENCE_MS 2000
#define BUSY_PAUSE_MS    20

static int table_read(struct libmnt_table **ret, struct error *err)
{
	struct libmnt_table *table = mnt_new_table_from_file(
		"/proc/self/mountinfo");

	if (!table)
		return error_set(err, EIO, "read /proc/self/mountinfo: %s",
				 strerror(errno));
	*ret = table;
	return 0;
}

static void copy_text(char *ret, size_t size, const char *text)
{
	(void)snprintf(ret, size, "%s", text ? text : "");
}

static bool has_option(const char *options, const char *name)
{
	char *value;
	size_t size;

	return options &&
	       mnt_optstr_get_option(options, name, &value, &size) == 0;
}

static void info_fill(struct libmnt_fs *fs, struct mount_info *ret)
{
	unsigned long flags = 0;
	const char *options = mnt_fs_get_vfs_options(fs);

	*ret = (struct mount_info){.device = mnt_fs_get_devno(fs)};
	copy_text(ret->target, sizeof(ret->target), mnt_fs_get_target(fs));
	copy_text(ret->source, sizeof(ret->source), mnt_fs_get_source(fs));
	copy_text(ret->fs_type, sizeof(ret->fs_type), mnt_fs_get_fstype(fs));
	if (options &&
	    mnt_optstr_get_flags(options, &flags,
				 mnt_get_builtin_optmap(MNT_LINUX_MAP)) == 0)
		ret->read_only = flags & MS_RDONLY;
	options = mnt_fs_get_fs_options(fs);
	ret->failed = has_option(options, "emergency_ro") ||
		      has_option(options, "shutdown") ||
		      (!ret->read_only && has_option(options, "ro"));
}

/* XFS that has shut down looks as ever in the mount table. */
static bool has_shut_down(const struct mount_info *info)
{
	struct stat st;

	return strcmp(info->fs_type, "xfs") == 0 &&
	       stat(info->target, &st) < 0 && errno == EIO;
}

int mounts_find(const char *target, struct mount_info *ret, struct error *err)
{
	struct mount_info *all;
	size_t n;
	int r = mounts_below(target, &all, &n, err);

	if (r < 0)
		return r;
	r = -ENOENT;
	for (size_t i = n; i-- > 0 && r < 0;) {
		if (strcmp(all[i].target, target) == 0) {
			*ret = all[i];
			r = 0;
		}
	}
	free(all);
	if (r < 0)
		return error_set(err, ENOENT, "nothing is mounted at '%s'",
				 target);
	ret->failed = ret->failed || has_shut_down(ret);
	return 0;
}

static bool is_below(const char *path, const char *prefix)
{
	size_t length = strlen(prefix);

	return path && strncmp(path, prefix, length) == 0 &&
	       (path[length] == '\0' || path[length] == '/');
}

int mounts_below(const char *prefix, struct mount_info **ret, size_t *ret_count,
		 struct error *err)
{
	struct libmnt_table *table = NULL;
	struct libmnt_iter *iter;
	struct libmnt_fs *fs;
	struct mount_info *items = NULL, *more;
	size_t n = 0;
	int r = table_read(&table, err);

	if (r < 0)
		return r;
	iter = mnt_new_iter(MNT_ITER_FORWARD);
	while (iter && mnt_table_next_fs(table, iter, &fs) == 0) {
		if (!is_below(mnt_fs_get_target(fs), prefix))
			continue;
		more = reallocarray(items, n + 1, sizeof(*items));
		if (!more) {
			r = error_set(err, ENOMEM, "out of memory");
			break;
		}
		items = more;
		info_fill(fs, &items[n++]);
	}
	mnt_free_iter(iter);
	mnt_unref_table(table);
	if (r < 0) {
		free(items);
		return r;
	}
	*ret = items;
	*ret_count = n;
	return 0;
}

int mounts_canonical(const char *path, char *ret, struct error *err)
{
	char parent[PATH_MAX], real[PATH_MAX];
	const char *name;
	char *slash;
	size_t length = strlen(path);

	if (path[0] != '/' || length >= sizeof(parent))
		return error_set(err, EINVAL, "'%s' has to be an absolute path",
				 path);
	if (realpath(path, ret))
		return 0;
	/* ENOTCONN, EIO, ESTALE: there, but the mount at it is dead. */
	if (errno == ENOENT || errno == ENOTDIR || errno == EACCES ||
	    errno == ELOOP || errno == ENAMETOOLONG)
		return error_set(err, errno, "'%s': %s", path, strerror(errno));
	memcpy(parent, path, length + 1);
	while (length > 1 && parent[length - 1] == '/')
		parent[--length] = '\0';
	slash = strrchr(parent, '/');
	*slash = '\0';
	name = slash + 1;
	if (!realpath(parent[0] ? parent : "/", real) ||
	    snprintf(ret, PATH_MAX, "%s/%s", strcmp(real, "/") ? real : "",
		     name) >= PATH_MAX)
		return error_set(err, errno ? errno : ENAMETOOLONG, "'%s': %s",
				 path, strerror(errno));
	return 0;
}

/*
 * Unmount with patience: a program that asks for the free space, say, has the
 * mount in use for a moment. So has a child of a thread of this process, until
 * it becomes another program.
 */
static int unmount_one(const char *target, bool lazy, struct error *err)
{
	const struct timespec pause = {.tv_nsec = BUSY_PAUSE_MS * 1000000L};
	int64_t end_ms = clock_ms() + BUSY_PATIENCE_MS;
	char users[256];

	while (umount2(target, UMOUNT_NOFOLLOW | (lazy ? MNT_DETACH : 0)) < 0) {
		if (errno != EBUSY)
			return error_set(err, errno, "unmount '%s': %s", target,
					 strerror(errno));
		if (clock_ms() < end_ms) {
			(void)nanosleep(&pause, NULL);
			continue;
		}
		mounts_users(target, users, sizeof(users));
		return error_set(err, EBUSY, "'%s' is in use%s%s", target,
				 users[0] ? " by " : "", users);
	}
	return 0;
}

int mounts_remove(const char *target, bool lazy, struct error *err)
{
	struct mount_info info;

	for (int i = 0; i < STACKED_MAX; i++) {
		int r = mounts_find(target, &info, err);

		if (r == -ENOENT)
			return 0;
		if (r == 0)
			r = unmount_one(target, lazy, err);
		if (r < 0)
			return r;
	}
	return error_set(err, EBUSY, "more than %d mounts at '%s'", STACKED_MAX,
			 target);
}

/* ---- who uses it ---- */

static bool link_is_below(int dir, const char *name, const char *prefix)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir, name, target, sizeof(target) - 1);

	if (n <= 0)
		return false;
	target[n] = '\0';
	return is_below(target, prefix);
}

/* Any link in the directory @name of a process. */
static bool links_are_below(int process, const char *name, const char *prefix)
{
	int fd = openat(process, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	bool found = false;

	if (!dir) {
		fd_close(fd);
		return false;
	}
	while (!found && (entry = readdir(dir)))
		found = link_is_below(fd, entry->d_name, prefix);
	(void)closedir(dir);
	return found;
}

static bool process_uses(int process, const char *prefix)
{
	return link_is_below(process, "cwd", prefix) ||
	       link_is_below(process, "root", prefix) ||
	       link_is_below(process, "exe", prefix) ||
	       links_are_below(process, "fd", prefix) ||
	       links_are_below(process, "map_files", prefix);
}

static void process_name(int process, char *ret, size_t size)
{
	auto_free char *text = NULL;
	size_t length;

	copy_text(ret, size, "?");
	if (file_read(process, "comm", 64, &text, &length, NULL) < 0)
		return;
	text[strcspn(text, "\n")] = '\0';
	copy_text(ret, size, text);
}

const char *mounts_users(const char *target, char *ret, size_t size)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	size_t at = 0;
	int n = 0;

	ret[0] = '\0';
	while (dir && n < USERS_MAX && (entry = readdir(dir))) {
		auto_close int process = -1;
		char name[32];

		if (!isdigit((unsigned char)entry->d_name[0]))
			continue;
		process = openat(dirfd(dir), entry->d_name,
				 O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (process < 0 || !process_uses(process, target))
			continue;
		process_name(process, name, sizeof(name));
		at += (size_t)snprintf(ret + at, size - at, "%s%s (%.10s)",
				       n++ ? ", " : "", name, entry->d_name);
		if (at >= size)
			break;
	}
	if (dir)
		(void)closedir(dir);
	return ret;
}

int mounts_space(const char *target, uint64_t *ret_size, uint64_t *ret_free,
		 uint64_t *ret_used)
{
	struct statvfs vfs;

	if (statvfs(target, &vfs) < 0)
		return -errno;
	*ret_size = (uint64_t)vfs.f_blocks * vfs.f_frsize;
	*ret_free = (uint64_t)vfs.f_bavail * vfs.f_frsize;
	*ret_used = (uint64_t)(vfs.f_blocks - vfs.f_bfree) * vfs.f_frsize;
	return 0;
}
