/* SPDX-License-Identifier: Apache-2.0 */
#include "union/fuse_mount.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/file.h"

#define FDINFO_MAX 4096 /* bytes */

/* It is the minor number of the file system's device; -1: not known. */
static long connection_of(int fuse_fd)
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

bool fuse_mount_is(int fuse_fd, const char *mountpoint)
{
	long connection = connection_of(fuse_fd);
	struct statx st;

	return connection >= 0 &&
	       statx(AT_FDCWD, mountpoint,
		     AT_STATX_DONT_SYNC | AT_SYMLINK_NOFOLLOW |
			     AT_NO_AUTOMOUNT,
		     0, &st) == 0 &&
	       st.stx_dev_major == 0 && (long)st.stx_dev_minor == connection;
}
