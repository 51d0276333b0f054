/* SPDX-License-Identifier: Apache-2.0 */
#include "union/open/passthrough.h"

#include <assert.h>
#include <errno.h>
#include <linux/fuse.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include "union/state/reply_cache.h"
#include "union/state/request.h"
#include "union/view/state_note.h"

struct backing_map {
	int32_t fd;
	uint32_t flags;
	uint64_t padding;
};
#define DEV_IOC_BACKING_OPEN  _IOW(229, 1, struct backing_map)
#define DEV_IOC_BACKING_CLOSE _IOW(229, 2, uint32_t)

/*
 * Use our own ioctl: libfuse's calls for these two say no errno, which we need.
 */
int passthrough_open(struct unionfs *fs, int fd, int32_t *ret)
{
	struct backing_map map = {.fd = fd};
	int id = ioctl(fuse_session_fd(fs->session), DEV_IOC_BACKING_OPEN,
		       &map);

	if (id <= 0)
		return id < 0 ? -errno : -EIO;
	*ret = id;
	return 0;
}

void passthrough_close(struct unionfs *fs, int32_t backing_id)
{
	uint32_t id = (uint32_t)backing_id;

	/* Nothing can fail where passthrough works. */
	(void)ioctl(fuse_session_fd(fs->session), DEV_IOC_BACKING_CLOSE, &id);
}

/* Fields that linux/fuse.h names since 7.40. */
#define MAX_STACK_DEPTH_AT \
	(offsetof(struct fuse_init_out, flags2) + sizeof(uint32_t))
#define BACKING_ID_AT \
	(offsetof(struct fuse_open_out, open_flags) + sizeof(uint32_t))
#define OPEN_PASSTHROUGH (1u << 7) /* FOPEN_PASSTHROUGH */

static const uint32_t stack_depth = 1; /* no branch is stacked itself */

static_assert(MAX_STACK_DEPTH_AT < sizeof(struct fuse_init_out) &&
		      BACKING_ID_AT + sizeof(int32_t) ==
			      sizeof(struct fuse_open_out),
	      "as in protocol 7.40");

/* The backing id for the next reply of this thread that opens a file. */
static _Thread_local int32_t reply_backing_id;

static ssize_t read_request(int fd, void *buf, size_t size, void *context)
{
	const struct unionfs *fs = context;
	static _Thread_local void *touched;

	/* Touch the pages first: the kernel fails a request whose reader is
	 * killed while a page of the buffer has to be made. */
	if (fs->state && touched != buf) {
		memset(buf, 0, size);
		touched = buf;
	}
	return read(fd, buf, size);
}

static void patch_init(const struct unionfs *fs, struct fuse_init_out *out)
{
	if (request_current.init_flags & REQUEST_HANDLE_KILLPRIV_V2)
		out->flags |= (uint32_t)REQUEST_HANDLE_KILLPRIV_V2;
	if (!fs->passthrough)
		return;
	out->flags |= (uint32_t)REQUEST_INIT_EXT;
	out->flags2 |= (uint32_t)(REQUEST_PASSTHROUGH >> 32);
	memcpy((char *)out + MAX_STACK_DEPTH_AT, &stack_depth,
	       sizeof(stack_depth));
}

/*
 * Patch the reply to an open or create, which ends in a struct fuse_open_out.
 */
static void patch_open(void *end)
{
	char *at = (char *)end - sizeof(struct fuse_open_out);
	char *flags_at = at + offsetof(struct fuse_open_out, open_flags);
	uint32_t flags;

	memcpy(&flags, flags_at, sizeof(flags));
	flags |= OPEN_PASSTHROUGH;
	memcpy(flags_at, &flags, sizeof(flags));
	memcpy(at + BACKING_ID_AT, &reply_backing_id, sizeof(reply_backing_id));
}

static ssize_t write_init(struct unionfs *fs, int fd, const struct iovec *iov,
			  int count)
{
	const struct fuse_out_header *header = iov[0].iov_base;
	bool again = state_note_init(fs);
	ssize_t n = writev(fd, iov, count);

	/* The server before had answered the request. */
	return n < 0 && errno == ENOENT && again ? (ssize_t)header->len : n;
}

static ssize_t write_reply(int fd, struct iovec *iov, int count, void *context)
{
	struct unionfs *fs = context;
	const struct fuse_out_header *header = iov[0].iov_base;
	struct iovec *last = &iov[count - 1];
	bool kept;
	ssize_t n;

	if (count > 1 && header->unique == request_current.unique &&
	    header->error == 0) {
		if (request_current.opcode == FUSE_INIT &&
		    last->iov_len >= sizeof(struct fuse_init_out))
			patch_init(fs, last->iov_base);
		if (reply_backing_id &&
		    last->iov_len >= sizeof(struct fuse_open_out))
			patch_open((char *)last->iov_base + last->iov_len);
	}
	if (request_current.opcode == FUSE_INIT)
		return write_init(fs, fd, iov, count);
	kept = reply_cache_reply(iov, count);
	n = writev(fd, iov, count);
	if (kept)
		reply_cache_end();
	return n;
}

int passthrough_setup(struct unionfs *fs, int fd)
{
	static const struct fuse_custom_io io = {.read = read_request,
						 .writev = write_reply};

	return fuse_session_custom_io(fs->session, &io, fd);
}

void passthrough_init(struct unionfs *fs)
{
	fs->passthrough = fs->want_passthrough &&
			  request_current.init_flags & REQUEST_PASSTHROUGH;
}

int passthrough_reply(fuse_req_t req, const struct fuse_entry_param *entry,
		      struct fuse_file_info *info, int32_t backing_id)
{
	int r;

	reply_backing_id = backing_id;
	r = entry ? fuse_reply_create(req, entry, info)
		  : fuse_reply_open(req, info);
	reply_backing_id = 0;
	return r;
}
