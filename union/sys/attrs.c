/* SPDX-License-Identifier: Apache-2.0 */
#include "union/sys/attrs.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/sys/proc_path.h"

/* Get the size. A removed file capability has a name, but cannot be read. */
static ssize_t xattr_size(const char *path, const char *name)
{
	ssize_t size = getxattr(path, name, NULL, 0);

	return size < 0 && errno == EINVAL &&
			       strcmp(name, "security.capability") == 0
		       ? 0
		       : size;
}

static int copy_xattr(const char *from, const char *to, const char *name)
{
	auto_free char *value = NULL;
	ssize_t size;

	do {
		size = xattr_size(from, name);
		free(value);
		value = size < 0 ? NULL : malloc((size_t)size + 1);
		if (size >= 0 && !value)
			return -ENOMEM;
		if (size > 0)
			size = getxattr(from, name, value, (size_t)size);
	} while (size < 0 && errno == ERANGE); /* it has just grown */
	if (size < 0)
		return errno == ENODATA ? 0 : -errno;
	if (setxattr(to, name, value, (size_t)size, 0) == 0)
		return 0;
	/* ACLs must be copied; labels that this branch cannot keep need not. */
	if (errno == EOPNOTSUPP && strncmp(name, "system.posix_acl", 16) != 0)
		return 0;
	return -errno;
}

static int copy_xattrs(int from_fd, int to_fd)
{
	char from[PROC_PATH_MAX], to[PROC_PATH_MAX];
	auto_free char *names = NULL;
	ssize_t at, size;
	int r = 0;

	proc_path(from, from_fd, "");
	proc_path(to, to_fd, "");
	do {
		size = listxattr(from, NULL, 0);
		if (size <= 0)
			return size < 0 && errno != EOPNOTSUPP ? -errno : 0;
		free(names);
		names = malloc((size_t)size);
		if (!names)
			return -ENOMEM;
		size = listxattr(from, names, (size_t)size);
	} while (size < 0 && errno == ERANGE); /* there are more by now */
	if (size < 0)
		return -errno;
	for (at = 0; at < size && r == 0; at += (ssize_t)strlen(names + at) + 1)
		r = copy_xattr(from, to, names + at);
	return r;
}

int attrs_copy(int from_fd, const struct stat *from, int to_fd)
{
	char path[PROC_PATH_MAX];
	int r;

	if (fchownat(to_fd, "", from->st_uid, from->st_gid,
		     AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW) < 0)
		return -errno;
	r = copy_xattrs(from_fd, to_fd);
	if (r < 0 || S_ISLNK(from->st_mode))
		return r;
	proc_path(path, to_fd, "");
	return chmod(path, from->st_mode & 07777) < 0 ? -errno : 0;
}
