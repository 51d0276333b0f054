/* SPDX-License-Identifier: Apache-2.0 */
/* On open files; reads and writes only where nothing is passed through. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/ops.h"
#include "union/request.h"

void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
	     struct fuse_file_info *info)
{
	auto_free char *data = malloc(size);
	size_t done = 0;
	ssize_t n = 1;

	(void)ino;
	atomic_fetch_add(&unionfs_of(req)->stats.reads, 1);
	if (!data) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	while (done < size && n > 0) {
		n = pread(op_file(info)->fd, data + done, size - done,
			  offset + (off_t)done);
		if (n > 0)
			done += (size_t)n;
	}
	if (n < 0 && !done)
		fuse_reply_err(req, errno);
	else
		fuse_reply_buf(req, data, done);
}

void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size,
	      off_t offset, struct fuse_file_info *info)
{
	size_t done = 0;
	ssize_t n = 1;
	int r = 0;

	(void)ino;
	atomic_fetch_add(&unionfs_of(req)->stats.writes, 1);
	if (request_current.kills_privileges)
		r = op_kill_privileges(req, ino, op_file(info)->fd);
	while (r == 0 && done < size && n > 0) {
		n = pwrite(op_file(info)->fd, data + done, size - done,
			   offset + (off_t)done);
		if (n > 0)
			done += (size_t)n;
		else if (n < 0)
			r = -errno;
	}
	if (r < 0 && !done)
		op_reply(req, r);
	else
		fuse_reply_write(req, done);
}

void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync,
	      struct fuse_file_info *info)
{
	int fd = op_file(info)->fd;

	(void)ino;
	op_reply(req, (datasync ? fdatasync(fd) : fsync(fd)) < 0 ? -errno : 0);
}

void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset,
		  off_t length, struct fuse_file_info *info)
{
	int r = fallocate(op_file(info)->fd, mode, offset, length);

	(void)ino;
	op_reply(req, r < 0 ? -errno : 0);
}

void op_copy_file_range(fuse_req_t req, fuse_ino_t from_ino, off_t from_offset,
			struct fuse_file_info *from, fuse_ino_t to_ino,
			off_t to_offset, struct fuse_file_info *to,
			size_t length, int flags)
{
	/* EXDEV, from one branch to another: the kernel copies by itself. */
	ssize_t n = copy_file_range(op_file(from)->fd, &from_offset,
				    op_file(to)->fd, &to_offset, length,
				    (unsigned)flags);

	(void)from_ino;
	(void)to_ino;
	if (n < 0)
		fuse_reply_err(req, errno);
	else
		fuse_reply_write(req, (size_t)n);
}

void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence,
	      struct fuse_file_info *info)
{
	off_t at = lseek(op_file(info)->fd, offset, whence);

	(void)ino;
	if (at < 0)
		fuse_reply_err(req, errno);
	else
		fuse_reply_lseek(req, at);
}
