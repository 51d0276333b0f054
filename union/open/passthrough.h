/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FUSE passthrough (Linux 6.9+): the kernel reads, writes and maps the branch's
 * file itself, without us. libfuse knows of passthrough from 3.17 on. With any
 * version (3.14 and later) all replies go by our own function,
 * fuse_session_custom_io(). That function notes them, and sets in them what
 * libfuse does not. Numbers are those of linux/fuse.h, protocol 7.40.
 *
 * Rules of the kernel (fs/fuse/iomode.c, 6.18): all open files of an inode are
 * passed through, or none (but for direct I/O). All of them name the same
 * backing id. KEEP_CACHE is not set. Breaking a rule is EIO to the caller.
 */
#ifndef UNION_PASSTHROUGH_H
#define UNION_PASSTHROUGH_H

#include "union/view/unionfs.h"

/*
 * Talk to the kernel by @fd (taken). After the session's mount, before its
 * first request. 0 or -errno.
 */
int passthrough_setup(struct unionfs *fs, int fd);

/* Learn, in the session's init, whether passthrough is offered and wanted. */
void passthrough_init(struct unionfs *fs);

/*
 * Name @fd (O_PATH will do) to the kernel. @ret > 0. -ELOOP, -EPERM,
 * -EOPNOTSUPP: not for this file system.
 */
int passthrough_open(struct unionfs *fs, int fd, int32_t *ret);

/* Give back @backing_id; files open by it go on. */
void passthrough_close(struct unionfs *fs, int32_t backing_id);

/*
 * Reply as fuse_reply_open() does, or with an @entry as fuse_reply_create(),
 * for a file that is passed through to @backing_id, or is not (0).
 */
int passthrough_reply(fuse_req_t req, const struct fuse_entry_param *entry,
		      struct fuse_file_info *info, int32_t backing_id);

#endif
