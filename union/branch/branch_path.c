/* SPDX-License-Identifier: Apache-2.0 */
#include "union/branch/branch_path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/sys/handle.h"
#include "union/sys/proc_path.h"

static int read_link(int fd, char *buf, size_t size)
{
	char path[PROC_PATH_MAX];
	ssize_t n = readlink(proc_path(path, fd, ""), buf, size - 1);

	if (n < 0)
		return -errno;
	if ((size_t)n == size - 1)
		return -ENAMETOOLONG;
	buf[n] = '\0';
	return 0;
}

bool branch_path_is_below(const char *path, const char *dir)
{
	size_t n = strcmp(dir, "/") == 0 ? 0 : strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '/' || !path[n]);
}

/*
 * Is the directory @fd below @dir, on the mount of @dir_fd? Also when it is
 * known by the path of another mount.
 */
static bool is_below(int fd, int dir_fd, const char *dir)
{
	auto_close int same = -1;
	struct handle handle;
	char path[PATH_MAX];

	if (handle_get(fd, "", &handle) < 0)
		return false;
	same = handle_open(dir_fd, &handle, O_PATH);
	return same >= 0 && read_link(same, path, sizeof(path)) == 0 &&
	       branch_path_is_below(path, dir);
}

bool branch_overlaps(const struct branch *branch, int fd, const char *path)
{
	struct stat st;

	return fstat(fd, &st) == 0 && st.st_dev == branch->device &&
	       (is_below(fd, branch->root_fd, branch->path) ||
		is_below(branch->root_fd, fd, path));
}

int branch_path_of(const struct branch *branch, int fd, char *ret)
{
	char root[PATH_MAX], path[PATH_MAX];
	size_t length;
	struct stat st;
	int r = read_link(branch->root_fd, root, sizeof(root));

	if (r == 0)
		r = read_link(fd, path, sizeof(path));
	if (r)
		return r;
	if (fstat(fd, &st) < 0)
		return -errno;
	if (!st.st_nlink)
		return -ENOENT; /* removed: the path says " (deleted)" */
	length = strcmp(root, "/") == 0 ? 0 : strlen(root);
	if (strcmp(path, root) == 0) {
		*ret = '\0';
		return 0;
	}
	if (strncmp(path, root, length) != 0 || path[length] != '/')
		return -ENOENT; /* moved out of the branch by somebody */
	memcpy(ret, path + length + 1, strlen(path + length + 1) + 1);
	return 0;
}
