/* SPDX-License-Identifier: Apache-2.0 */
#include "union/sys/file_in_use.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

static int try_lease(int fd, int type)
{
	/* To who opens it meanwhile we answer at once: the signal, one that
	 * is ignored, is of no use. */
	if (fcntl(fd, F_SETSIG, SIGURG) < 0)
		return -errno;
	if (fcntl(fd, F_SETLEASE, type) < 0)
		return errno == EAGAIN ? -EBUSY : -errno;
	(void)fcntl(fd, F_SETLEASE, F_UNLCK); /* it is ours */
	return 0;
}

/* A lease to write is given only to who has the file alone. */
int file_in_use(int fd)
{
	return try_lease(fd, F_WRLCK);
}

/* One to read only while nobody writes. */
int file_is_written(int fd)
{
	return try_lease(fd, F_RDLCK);
}
