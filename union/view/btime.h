/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a file was made, as statx(2) has it: what its branch says, but for one
 * that moved from another branch and carries it in an attribute. A directory
 * was made when the first of its copies was.
 */
#ifndef UNION_BTIME_H
#define UNION_BTIME_H

#include <time.h>

#include "union/view/unionfs.h"

/* 12 bytes, little endian: seconds since 1970, signed; nanoseconds. */
#define BIRTH_XATTR "trusted.tributary.birth"

/* Of the inode @fd, which may be O_PATH. -ENODATA: nobody knows; or -errno. */
int btime_read(int fd, struct timespec *ret);

/* Give the inode @fd (may be O_PATH) that attribute. 0 or -errno. */
int btime_write(int fd, const struct timespec *birth);

/* Of @node. -ENODATA or another -errno. */
int btime_of(struct unionfs *fs, struct node *node, struct timespec *ret);

#endif
