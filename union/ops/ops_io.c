/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests for open files; reads and writes only where nothing is passed
 * through.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/change/act_as.h"
#include "union/change/caller.h"
#include "union/live/remounted.h"
#include "union/open/branch_full.h"
#include "union/open/durable.h"
#include "union/open/open_file.h"
#include "union/ops/ops.h"
#include "union/ops/trim.h"
#include "union/state/request.h"
#include "union/state/state.h"

/*
 * The thread of a read may still be the user of its last write: see
 * act_as_kept().
 */
void op_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t offset,
	     struct fuse_file_info *info)
{
	struct request *request = request_of(req);
	struct unionfs *fs = request->fs;
	struct node *node = op_node(request, ino);
	auto_free char *data = malloc(size);
	size_t done = 0;
	ssize_t n = 1;
	int fd;

	if (!node)
		return;
	atomic_fetch_add(&fs->stats->reads, 1);
	fd = data ? open_file_fd(fs, request, node, info) : -ENOMEM;
	if (fd < 0) {
		op_reply(request, fd);
		return;
	}
	while (done < size && n > 0) {
		n = pread(fd, data + done, size - done, offset + (off_t)done);
		if (n > 0)
			done += (size_t)n;
	}
	if (n < 0 && !done)
		fuse_reply_err(request->req, errno);
	else
		fuse_reply_buf(request->req, data, done);
}

/* Write the data from @done on. 0, or -errno where the writing ended. */
static int write_rest(int fd, const char *data, size_t size, off_t offset,
		      size_t *done)
{
	ssize_t n = 1;

	while (*done < size && n > 0) {
		n = pwrite(fd, data + *done, size - *done,
			   offset + (off_t)*done);
		if (n > 0)
			*done += (size_t)n;
	}
	return n < 0 ? -errno : 0;
}

/*
 * Write as the caller. Pages of a mapping come without a caller: then the user
 * that opened the file decides.
 */
static int write_as_caller(struct request *request,
			   const struct fuse_file_info *info, int fd,
			   const char *data, size_t size, off_t offset,
			   size_t *done)
{
	const struct open_file *file = open_file_of(request->fs, info);
	bool nobody = request->of_cache &&
		      (!file || !(file->item.flags & STATE_OPEN_ROOT));
	int r;

	if (request->of_cache && file && file->item.flags & STATE_OPEN_APPENDS)
		return -EPERM; /* the data does not go to the end */
	if (nobody)
		act_as_nobody();
	else
		act_as_spender(request);
	do
		r = write_rest(fd, data, size, offset, done);
	while (!nobody && act_as_unlimited(request, r));
	if (r < 0)
		act_as_root();
	else
		act_as_kept();
	return r;
}

/* Write likewise. */
void op_write(fuse_req_t req, fuse_ino_t ino, const char *data, size_t size,
	      off_t offset, struct fuse_file_info *info)
{
	struct request *request = request_of(req);
	struct unionfs *fs = request->fs;
	struct node *node = op_node(request, ino);
	size_t done = 0;
	int fd, r, durable = 0;

	if (!node)
		return;
	atomic_fetch_add(&fs->stats->writes, 1);
	r = fd = open_file_fd(fs, request, node, info);
	if (r >= 0)
		r = request->kills_privileges
			    ? op_kill_privileges(request, ino, fd, OP_GROUP_NOW)
			    : 0;
	if (r == 0 && branch_full_must_leave(fs, node, size) &&
	    branch_full_help(
		    fs, request,
		    &(struct branch_full_wish){.ino = ino,
					       .info = *info,
					       .data = data,
					       .size = size,
					       .offset = offset,
					       .mapped = request->of_cache,
					       .leaves = true}))
		return;
	if (r == 0)
		r = write_as_caller(request, info, fd, data, size, offset,
				    &done);
	if (done)
		open_file_changed(fs, node, offset, (off_t)done);
	if (branch_full_can_help(fs, node, r, size - done) &&
	    branch_full_help(
		    fs, request,
		    &(struct branch_full_wish){.ino = ino,
					       .info = *info,
					       .data = data,
					       .size = size,
					       .done = done,
					       .mapped = request->of_cache,
					       .offset = offset}))
		return;
	if (done)
		durable = durable_data(fs, fd);
	if (durable < 0)
		op_reply(request, durable);
	else if (r < 0 && !done)
		op_reply(request, r);
	else
		fuse_reply_write(request->req, done);
}

void op_fsync(fuse_req_t req, fuse_ino_t ino, int datasync,
	      struct fuse_file_info *info)
{
	struct request *request = request_of(req);
	struct node *node = op_node(request, ino);
	int fd;

	if (!node)
		return;
	fd = open_file_fd(request->fs, request, node, info);
	if (fd >= 0 && (datasync ? fdatasync(fd) : fsync(fd)) < 0)
		fd = -errno;
	op_reply(request, fd);
}

static int allocate_as_caller(struct request *request, int fd, int mode,
			      off_t offset, off_t length)
{
	int r;

	act_as_spender(request);
	do
		r = fallocate(fd, mode, offset, length) < 0 ? -errno : 0;
	while (act_as_unlimited(request, r));
	act_as_root();
	return r;
}

void op_fallocate(fuse_req_t req, fuse_ino_t ino, int mode, off_t offset,
		  off_t length, struct fuse_file_info *info)
{
	struct request *request = request_of(req);
	struct unionfs *fs = request->fs;
	struct node *node = op_node(request, ino);
	int fd, r;

	if (!node)
		return;
	r = fd = open_file_fd(fs, request, node, info);
	if (r >= 0)
		r = allocate_as_caller(request, fd, mode, offset, length);
	if (r == 0)
		r = durable_data(fs, fd);
	open_file_changed(fs, node, offset, length);
	if (branch_full_can_help(fs, node, r, (uint64_t)length) &&
	    branch_full_help(fs, request,
			     &(struct branch_full_wish){.ino = ino,
							.info = *info,
							.mode = mode,
							.offset = offset,
							.length = length}))
		return;
	op_reply(request, r);
}

void op_copy_file_range(fuse_req_t req, fuse_ino_t from_ino, off_t from_offset,
			struct fuse_file_info *from, fuse_ino_t to_ino,
			off_t to_offset, struct fuse_file_info *to,
			size_t length, int flags)
{
	struct request *request = request_of(req);
	struct unionfs *fs = request->fs;
	struct node *from_node = op_node(request, from_ino), *to_node;
	off_t to_start = to_offset;
	ssize_t n;
	int from_fd, to_fd, r;

	to_node = from_node ? op_node(request, to_ino) : NULL;
	if (!to_node)
		return;
	from_fd = open_file_fd(fs, request, from_node, from);
	to_fd = from_fd < 0 ? from_fd : open_file_fd(fs, request, to_node, to);
	if (to_fd < 0) {
		op_reply(request, to_fd);
		return;
	}
	/* EXDEV, from one branch to another: the kernel copies by itself. */
	act_as_spender(request);
	do {
		n = copy_file_range(from_fd, &from_offset, to_fd, &to_offset,
				    length, (unsigned)flags);
		r = n < 0 ? -errno : 0;
	} while (act_as_unlimited(request, r));
	act_as_root();
	if (n > 0)
		open_file_changed(fs, to_node, to_start, n);
	if (n > 0)
		r = durable_data(fs, to_fd);
	if (n < 0 && to_node->passthrough &&
	    branch_full_can_help(fs, to_node, r, length) &&
	    branch_full_help(fs, request,
			     &(struct branch_full_wish){.ino = to_ino,
							.info = *to,
							.length = (off_t)length,
							.copied = true}))
		return;
	if (n > 0 && r < 0)
		op_reply(request, r);
	else if (n >= 0)
		fuse_reply_write(request->req, (size_t)n);
	else /* then the kernel copies by itself, too, and we see the writes */
		op_reply(request, branch_full_can_help(fs, to_node, r, length)
					  ? -EXDEV
					  : r);
}

void op_lseek(fuse_req_t req, fuse_ino_t ino, off_t offset, int whence,
	      struct fuse_file_info *info)
{
	struct request *request = request_of(req);
	struct node *node = op_node(request, ino);
	off_t at;
	int fd;

	if (!node)
		return;
	fd = open_file_fd(request->fs, request, node, info);
	at = fd < 0 ? fd : lseek(fd, offset, whence);
	if (fd < 0)
		op_reply(request, fd);
	else if (at < 0)
		fuse_reply_err(request->req, errno);
	else
		fuse_reply_lseek(request->req, at);
}

/*
 * Answer FITRIM. The kernel copied the argument for us, as the command tells
 * its length.
 */
static void trim(struct request *request, const void *in, size_t in_size,
		 size_t out_size)
{
	struct fstrim_range range;
	int r;

	if (in_size < sizeof(range) || out_size < sizeof(range)) {
		fuse_reply_err(request->req, EINVAL);
		return;
	}
	if (!caller_is_admin(request)) {
		fuse_reply_err(request->req, EPERM);
		return;
	}
	memcpy(&range, in, sizeof(range));
	r = branch_table_trim(&request->fs->branches, &range);
	if (r < 0)
		op_reply(request, r);
	else
		fuse_reply_ioctl(request->req, 0, &range, sizeof(range));
}

static void answer_remount(struct request *request, const void *in,
			   size_t in_size, size_t out_size)
{
	struct remount_call call;

	if (in_size < sizeof(call) || out_size < sizeof(call)) {
		fuse_reply_err(request->req, EINVAL);
		return;
	}
	if (!caller_is_admin(request)) {
		fuse_reply_err(request->req, EPERM);
		return;
	}
	memcpy(&call, in, sizeof(call));
	remounted_answer(request->fs, &call);
	fuse_reply_ioctl(request->req, 0, &call, sizeof(call));
}

void op_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned command, void *argument,
	      struct fuse_file_info *info, unsigned flags, const void *in,
	      size_t in_size, size_t out_size)
{
	struct request *request = request_of(req);
	(void)ino;
	(void)argument;
	(void)info;
	(void)flags;
	if (command == FITRIM)
		trim(request, in, in_size, out_size);
	else if (command == (unsigned)REMOUNT_IOCTL)
		answer_remount(request, in, in_size, out_size);
	else
		fuse_reply_err(request->req,
			       ENOSYS); /* ENOTTY, for the caller */
}
