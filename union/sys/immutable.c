/* SPDX-License-Identifier: Apache-2.0 */
#include "union/sys/immutable.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/stat.h>

#define STEADY (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)

/* Returns 0 for a file that cannot be asked: the change of it fails, too. */
static uint64_t inode_attributes_of(int dirfd, const char *name)
{
	struct statx st;

	if (statx(dirfd, name,
		  AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, 0,
		  &st) < 0)
		return 0;
	return st.stx_attributes;
}

bool immutable_is(int fd)
{
	return inode_attributes_of(fd, "") & STATX_ATTR_IMMUTABLE;
}

int immutable_check(int fd, bool now)
{
	uint64_t denied = now ? STATX_ATTR_IMMUTABLE : STEADY;

	return inode_attributes_of(fd, "") & denied ? -EPERM : 0;
}

int immutable_check_name(int dirfd, const char *name)
{
	return (inode_attributes_of(dirfd, "") |
		inode_attributes_of(dirfd, name)) &
			       STEADY
		       ? -EPERM
		       : 0;
}
