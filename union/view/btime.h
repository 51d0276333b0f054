/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time of birth of a file, as in statx(2). The branch tells it, but a file
 * that moved from another branch carries it in an attribute. A directory is as
 * old as the oldest of its copies.
 */
#ifndef UNION_BTIME_H
#define UNION_BTIME_H

#include <time.h>

#include "union/view/unionfs.h"

/* 12 bytes, little endian: seconds since 1970, signed; nanoseconds. */
#define BIRTH_XATTR "trusted.tributary.birth"

/*
 * Read it of the inode @fd, which may be O_PATH. -ENODATA: it is not known; or
 * -errno.
 */
int btime_read(int fd, struct timespec *ret);

/* Give the inode @fd (may be O_PATH) that attribute. 0 or -errno. */
int btime_write(int fd, const struct timespec *birth);

/* Read it of @node. -ENODATA or another -errno. */
int btime_of(struct unionfs *fs, struct node *node, struct timespec *ret);

#endif
