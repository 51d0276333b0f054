/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a connection to the kernel is of what is mounted somewhere. */
#ifndef UNION_FUSE_MOUNT_H
#define UNION_FUSE_MOUNT_H

#include <stdbool.h>

/*
 * Is the file system at @mountpoint that of the descriptor @fuse_fd of
 * /dev/fuse? Nobody who serves it is asked. False, too, where the kernel does
 * not say (it does as "fuse_connection" in /proc/self/fdinfo).
 */
bool fuse_mount_is(int fuse_fd, const char *mountpoint);

#endif
