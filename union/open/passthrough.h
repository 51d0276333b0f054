/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FUSE passthrough: reads, writes and mmap of an open file go from the
 * kernel to the branch without us (Linux 6.9+). libfuse knows of it from 3.17
 * on. With any version (3.14 and later) all replies go by our own function,
 * fuse_session_custom_io(), which notes them and says there what libfuse does
 * not; the numbers are those of linux/fuse.h, protocol 7.40.
 *
 * Rules of the kernel (fs/fuse/iomode.c, 6.18): all open files of an inode are
 * passed through, or none (but for direct I/O); they all name the same backing
 * id; KEEP_CACHE is not set. Breaking one is EIO to the caller.
 */
#ifndef UNION_PASSTHROUGH_H
#define UNION_PASSTHROUGH_H

#include "union/view/unionfs.h"

/*
 * Talk to the kernel by @fd (taken). After the session's mount, before its
 * first request. 0 or -errno.
 */
int passthrough_setup(struct unionfs *fs, int fd);

/* In the session's init: is it offered, and wanted? */
void passthrough_init(struct unionfs *fs);

/*
 * Name @fd (O_PATH will do) to the kernel. @ret > 0. -ELOOP, -EPERM,
 * -EOPNOTSUPP: not for this file system.
 */
int passthrough_open(struct unionfs *fs, int fd, int32_t *ret);

/* Files open by it go on. */
void passthrough_close(struct unionfs *fs, int32_t backing_id);

/*
 * fuse_reply_open() and, with an @entry, fuse_reply_create() for a file that
 * is passed through to @backing_id, or is not (0).
 */
int passthrough_reply(fuse_req_t req, const struct fuse_entry_param *entry,
		      struct fuse_file_info *info, int32_t backing_id);

#endif
