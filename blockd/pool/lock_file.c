/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/pool/lock_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file_lock.h"

int lock_file_take(int dirfd, const char *name, const char *what, int *ret_fd,
		   struct error *err)
{
	auto_close int fd = openat(
		dirfd, name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	bool writes = fd >= 0;
	char who[FILE_LOCK_WHO_MAX];
	int r;

	/*
	 * On a read-only file system the file is a lock, too, but does not say
	 * whose.
	 */
	if (fd < 0 && errno == EROFS)
		fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return error_set(err, errno, "%s: open '%s': %s", what, name,
				 strerror(errno));
	r = file_lock_take(fd, who);
	if (r == -EBUSY)
		return error_set(err, EBUSY, "%s is in use by %s", what, who);
	if (r < 0)
		return error_set(err, -r, "%s: lock '%s': %s", what, name,
				 strerror(-r));
	r = writes ? file_lock_sign(fd) : 0;
	if (r < 0)
		return error_set(err, -r, "%s: write '%s': %s", what, name,
				 strerror(-r));
	*ret_fd = take_fd(&fd);
	return 0;
}
