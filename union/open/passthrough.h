/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FUSE passthrough (Linux 6.9+): the kernel reads, writes and maps the branch's
 * file itself, without us. libfuse knows of passthrough from 3.17 on. With any
 * version (3.14 and later) ops/reply.h sets in replies what libfuse does not.
 *
 * Rules of the kernel (fs/fuse/iomode.c, 6.18): all open files of an inode are
 * passed through, or none (but for direct I/O). All of them name the same
 * backing id. KEEP_CACHE is not set. Breaking a rule is EIO to the caller.
 */
#ifndef UNION_PASSTHROUGH_H
#define UNION_PASSTHROUGH_H

#include "union/view/unionfs.h"

/* Learn from the flags of FUSE_INIT whether passthrough is wanted and offered.
 */
void passthrough_init(struct unionfs *fs, uint64_t offered);

/*
 * Name @fd (O_PATH will do) to the kernel. @ret > 0. -ELOOP, -EPERM,
 * -EOPNOTSUPP: not for this file system.
 */
int passthrough_open(struct unionfs *fs, int fd, int32_t *ret);

/* Give back @backing_id; files open by it go on. */
void passthrough_close(struct unionfs *fs, int32_t backing_id);

#endif
