/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/fuse_connection.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/kernel/fusectl.h"

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

int fuse_connection_abort(int fuse_fd)
{
	long number = number_of(fuse_fd);
	auto_close int fd = number < 0 ? -EOPNOTSUPP
				       : fusectl_open((unsigned)number);

	return fd < 0 ? fd : fusectl_abort(fd);
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
