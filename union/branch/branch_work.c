/* SPDX-License-Identifier: Apache-2.0 */
#include "union/branch/branch_work.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/dir_fd.h"

static int make_work_dir(int root_fd)
{
	struct stat root;

	if (fstat(root_fd, &root) < 0)
		return -errno;
	if (mkdirat(root_fd, BRANCH_WORK_DIR, 0700) < 0)
		return errno == EEXIST ? 0 : -errno;
	/*
	 * Nobody sees the directory, so keep the times. A wrong time is no
	 * harm.
	 */
	(void)futimens(root_fd,
		       (struct timespec[]){root.st_atim, root.st_mtim});
	return 0;
}

static int open_work_dir(int root_fd)
{
	int fd = openat(root_fd, BRANCH_WORK_DIR,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? -errno : fd;
}

int branch_work_dir_at(int root, bool make)
{
	int r, fd = open_work_dir(root);

	if (fd != -ENOENT || !make)
		return fd;
	dir_fd_changes_begin();
	r = make_work_dir(root);
	dir_fd_changes_end();
	return r < 0 ? r : open_work_dir(root);
}

int branch_work_dir(const struct branch *branch)
{
	return branch_work_dir_at(branch->root_fd, true);
}

void branch_work_sweep(const struct branch *branch, const char *prefix)
{
	int fd = openat(branch->root_fd, BRANCH_WORK_DIR,
			O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;

	if (!dir) {
		fd_close(fd);
		return;
	}
	/* A name that stays is no harm. */
	while ((entry = readdir(dir)))
		if (strncmp(entry->d_name, prefix, strlen(prefix)) == 0 &&
		    unlinkat(fd, entry->d_name, 0) < 0)
			(void)unlinkat(fd, entry->d_name, AT_REMOVEDIR);
	(void)closedir(dir);
}
