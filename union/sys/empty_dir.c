/* SPDX-License-Identifier: Apache-2.0 */
#include "union/sys/empty_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>

#include "base/cleanup.h"

int empty_dir_check(int dirfd, const char *name)
{
	int fd = openat(dirfd, name,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NOATIME |
				O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	int n = 0, r;

	if (!dir) {
		r = -errno;
		fd_close(fd);
		return r;
	}
	errno = 0;
	while ((entry = readdir(dir)))
		n += !name_is_dot(entry->d_name);
	r = n ? -ENOTEMPTY : -errno;
	(void)closedir(dir);
	return r;
}
