/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/fuse_connection.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

#define FDINFO_MAX 4096 /* bytes */

/* Get the name of its folder in fusectl; -1: the kernel does not tell it. */
static long number_of(int fuse_fd)
{
	static const char key[] = "\nfuse_connection:\t";
	auto_free char *text = NULL;
	const char *at;
	char path[48];
	size_t length;

	(void)snprintf(path, sizeof(path), "/proc/self/fdinfo/%d",
		       fuse_fd); /* fits */
	if (file_read(AT_FDCWD, path, FDINFO_MAX, &text, &length, NULL) < 0)
		return -1;
	at = strstr(text, key);
	return at ? strtol(at + sizeof(key) - 1, NULL, 10) : -1;
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

int fuse_connection_abort(int fuse_fd)
{
	auto_close int fusectl = -1, fd = -1;
	long number = number_of(fuse_fd);
	char name[32];

	if (number < 0)
		return -EOPNOTSUPP;
	fusectl = open_fusectl();
	if (fusectl < 0)
		return fusectl;
	(void)snprintf(name, sizeof(name), "%ld/abort", number); /* fits */
	fd = openat(fusectl, name, O_WRONLY | O_CLOEXEC);
	return fd < 0 || write(fd, "1", 1) < 0 ? -errno : 0;
}

void fuse_connection_answer(int fuse_fd, uint64_t unique, int error)
{
	const struct fuse_out_header header = {
		.len = sizeof(header),
		.error = error,
		.unique = unique,
	};

	(void)!write(fuse_fd, &header, sizeof(header));
}
