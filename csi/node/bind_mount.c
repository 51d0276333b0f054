/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/node/bind_mount.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Modes of a mount point; a mount there has modes of its own. */
#define TARGET_MODE 0750
#define FILE_MODE   0600

int bind_mount_find(const char *path, struct mount_info *ret, struct error *err)
{
	char real[PATH_MAX];
	int r = mounts_canonical(path, real, err);

	return r < 0 ? r : mounts_find(real, ret, err);
}

static int set_attributes(int tree, uint64_t set, uint64_t clear)
{
	struct mount_attr attr = {.attr_set = set, .attr_clr = clear};

	/* The kinds of access time are one choice. */
	if ((set | clear) & MOUNT_ATTR__ATIME)
		attr.attr_clr |= MOUNT_ATTR__ATIME;
	if (!set && !clear)
		return 0;
	return mount_setattr(tree, "", AT_EMPTY_PATH, &attr, sizeof(attr));
}

int bind_mount_make(const char *source, const char *target, uint64_t set,
		    uint64_t clear, struct error *err)
{
	auto_close int tree = open_tree(AT_FDCWD, source,
					OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);

	if (tree < 0)
		return error_set(err, errno, "'%s': %s", source,
				 strerror(errno));
	if (set_attributes(tree, set, clear) < 0)
		return error_set(err, errno, "attributes of the mount: %s",
				 strerror(errno));
	if (move_mount(tree, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH) < 0)
		return error_set(err, errno, "mount at '%s': %s", target,
				 strerror(errno));
	return 0;
}

/* As statvfs(3) tells of a mount. */
static const struct {
	uint64_t attribute;
	unsigned long flag;
} rows[] = {
	{MOUNT_ATTR_RDONLY, ST_RDONLY},
	{MOUNT_ATTR_NOSUID, ST_NOSUID},
	{MOUNT_ATTR_NODEV, ST_NODEV},
	{MOUNT_ATTR_NOEXEC, ST_NOEXEC},
	{MOUNT_ATTR_NOATIME, ST_NOATIME},
	{MOUNT_ATTR_NODIRATIME, ST_NODIRATIME},
};

bool bind_mount_is_made(const char *source, const char *target,
			uint64_t attributes)
{
	struct mount_info from, to;
	struct statvfs vfs;

	if (bind_mount_find(source, &from, NULL) < 0 ||
	    bind_mount_find(target, &to, NULL) < 0 ||
	    from.device != to.device || statvfs(target, &vfs) < 0)
		return false;
	for (size_t i = 0; i < array_size(rows); i++)
		if (attributes & rows[i].attribute &&
		    !(vfs.f_flag & rows[i].flag))
			return false;
	return true;
}

static int check_empty(const char *target, struct error *err)
{
	int fd = open(target, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	bool empty = true;

	if (!dir) {
		int code = errno == ELOOP ? ENOTDIR : errno;

		fd_close(fd);
		return error_set(err, code, "'%s': %s", target, strerror(code));
	}
	while (empty && (entry = readdir(dir)))
		empty = strcmp(entry->d_name, ".") == 0 ||
			strcmp(entry->d_name, "..") == 0;
	(void)closedir(dir);
	return empty ? 0
		     : error_set(err, ENOTEMPTY, "'%s' is not empty", target);
}

int bind_mount_target_make(const char *target, struct error *err)
{
	if (mkdir(target, TARGET_MODE) == 0)
		return 0;
	if (errno != EEXIST)
		return error_set(err, errno, "make '%s': %s", target,
				 strerror(errno));
	return check_empty(target, err);
}

static bool is_empty_file(const char *target)
{
	struct stat st;

	return lstat(target, &st) == 0 && S_ISREG(st.st_mode) &&
	       st.st_size == 0;
}

int bind_mount_target_make_file(const char *target, struct error *err)
{
	auto_close int fd = open(
		target, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);

	if (fd >= 0 || (errno == EEXIST && is_empty_file(target)))
		return 0;
	if (errno == EEXIST)
		return error_set(err, ENOTEMPTY,
				 "'%s' is there and no empty file", target);
	return error_set(err, errno, "make '%s': %s", target, strerror(errno));
}

int bind_mount_target_remove(const char *target, struct error *err)
{
	if (rmdir(target) == 0 || errno == ENOENT)
		return 0;
	if (errno == ENOTDIR && is_empty_file(target) &&
	    (unlink(target) == 0 || errno == ENOENT))
		return 0;
	return error_set(err, errno, "remove '%s': %s", target,
			 strerror(errno));
}
