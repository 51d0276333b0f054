/* SPDX-License-Identifier: Apache-2.0 */
#include "union/sys/file_in_use.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>

static int try_lease(int fd, int type)
{
	/*
	 * The lease ends at once, so its signal is of no use: SIGURG is
	 * ignored.
	 */
	if (fcntl(fd, F_SETSIG, SIGURG) < 0)
		return -errno;
	if (fcntl(fd, F_SETLEASE, type) < 0)
		return errno == EAGAIN ? -EBUSY : -errno;
	(void)fcntl(fd, F_SETLEASE, F_UNLCK); /* the lease is ours */
	return 0;
}

/* A lease to write is given only if no other open file has the file. */
int file_in_use(int fd)
{
	return try_lease(fd, F_WRLCK);
}

/* A lease to read is given only while nobody writes. */
int file_is_written(int fd)
{
	return try_lease(fd, F_RDLCK);
}
