/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/pool/lock_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>

#include "base/cleanup.h"

static int in_use(int fd, const char *what, struct error *err)
{
	char pid[16] = "";
	ssize_t n = pread(fd, pid, sizeof(pid) - 1, 0);

	pid[n > 0 ? strspn(pid, "0123456789") : 0] = '\0';
	return error_set(err, EBUSY, "%s is in use by another blockd (pid %s)",
			 what, pid[0] ? pid : "unknown");
}

int lock_file_take(int dirfd, const char *name, const char *what, int *ret_fd,
		   struct error *err)
{
	auto_close int fd = openat(
		dirfd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	bool writes = fd >= 0;
	char pid[16];
	int length;

	/*
	 * On a read-only file system the file is a lock, too, but does not say
	 * whose.
	 */
	if (fd < 0 && errno == EROFS)
		fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return error_set(err, errno, "%s: open '%s': %s", what, name,
				 strerror(errno));
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		if (errno == EWOULDBLOCK)
			return in_use(fd, what, err);
		return error_set(err, errno, "%s: lock '%s': %s", what, name,
				 strerror(errno));
	}
	length = snprintf(pid, sizeof(pid), "%d\n", (int)getpid());
	if (writes &&
	    (ftruncate(fd, 0) < 0 || pwrite(fd, pid, (size_t)length, 0) < 0))
		return error_set(err, errno, "%s: write '%s': %s", what, name,
				 strerror(errno));
	*ret_fd = take_fd(&fd);
	return 0;
}
