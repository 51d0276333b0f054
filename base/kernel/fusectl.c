/* SPDX-License-Identifier: Apache-2.0 */
#include "base/kernel/fusectl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/cleanup.h"

/* Mount fusectl for a moment: it need not be mounted anywhere. */
static int open_fusectl(void)
{
	auto_close int context = fsopen("fusectl", FSOPEN_CLOEXEC);
	int fd;

	if (context < 0 ||
	    fsconfig(context, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	fd = fsmount(context, FSMOUNT_CLOEXEC, 0);
	return fd < 0 ? -errno : fd;
}

int fusectl_open(unsigned number)
{
	auto_close int fusectl = open_fusectl();
	char name[32];
	int fd;

	if (fusectl < 0)
		return fusectl;
	(void)snprintf(name, sizeof(name), "%u/abort", number); /* fits */
	fd = openat(fusectl, name, O_WRONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

int fusectl_abort(int fd)
{
	return write(fd, "1", 1) < 0 ? -errno : 0;
}
