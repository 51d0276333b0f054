/* SPDX-License-Identifier: Apache-2.0 */
#include "base/kernel/fusectl.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/cleanup.h"

unsigned fusectl_number(const char *mount_point)
{
	auto_fclose FILE *f = fopen("/proc/self/mountinfo", "re");
	auto_free char *line = NULL;
	unsigned major, minor, found = 0;
	size_t space = 0;
	int at;

	while (f && getline(&line, &space, f) > 0) {
		if (sscanf(line, "%*u %*u %u:%u %*s %n", &major, &minor, &at) !=
		    2)
			continue;
		line[at + (int)strcspn(line + at, " \n")] = 0;
		if (!strcmp(line + at, mount_point))
			found = minor; /* of several, the last is on top */
	}
	return found;
}

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
