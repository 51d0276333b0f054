/* SPDX-License-Identifier: Apache-2.0 */
#include "union/inode_number.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <sys/xattr.h>

#include "union/proc_path.h"

#define BRANCH_SHIFT 56
#define NUMBER_MASK  ((UINT64_C(1) << BRANCH_SHIFT) - 1)

/* The finalizer of MurmurHash3, which mixes every bit into every other. */
static uint64_t mix(uint64_t x)
{
	x ^= x >> 33;
	x *= UINT64_C(0xff51afd7ed558ccd);
	x ^= x >> 33;
	x *= UINT64_C(0xc4ceb9fe1a85ec53);
	return x ^ x >> 33;
}

uint64_t inode_number(unsigned branch, uint64_t ino)
{
	assert(branch < 256);
	if (ino > NUMBER_MASK)
		ino = mix(ino) & NUMBER_MASK;
	return (uint64_t)branch << BRANCH_SHIFT | ino;
}

int inode_number_read(int dirfd, const char *name, uint64_t *ret)
{
	char path[PROC_PATH_MAX];
	uint64_t wire;
	ssize_t n;

	/* Only a name needs care: the last part must not be followed. */
	proc_path(path, dirfd, name);
	n = *name ? lgetxattr(path, INODE_NUMBER_XATTR, &wire, sizeof(wire))
		  : getxattr(path, INODE_NUMBER_XATTR, &wire, sizeof(wire));
	if (n < 0)
		return errno == EOPNOTSUPP || errno == ERANGE ? -ENODATA
							      : -errno;
	if (n != sizeof(wire))
		return -ENODATA;
	*ret = le64toh(wire);
	return 0;
}

int inode_number_write(int fd, uint64_t number)
{
	char path[PROC_PATH_MAX];
	uint64_t wire = htole64(number);

	proc_path(path, fd, "");
	return setxattr(path, INODE_NUMBER_XATTR, &wire, sizeof(wire), 0) < 0
		       ? -errno
		       : 0;
}
