/* SPDX-License-Identifier: Apache-2.0 */
#include "union/ops/reply.h"

#include <assert.h>
#include <errno.h>
#include <linux/fuse.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "union/open/durable.h"
#include "union/ops/dot_union.h"
#include "union/state/reply_cache.h"
#include "union/view/state_note.h"

/* libfuse passes no context of ours with a request, or with its reply. */
static _Thread_local struct request *served;

void request_serve(struct request *request)
{
	served = request;
}

struct request *request_served(void)
{
	return served;
}

struct request *request_of(fuse_req_t req)
{
	const struct fuse_ctx *caller = fuse_req_ctx(req);

	served->req = req;
	served->fs = fuse_req_userdata(req);
	served->uid = caller->uid;
	served->gid = caller->gid;
	served->umask = caller->umask;
	return served;
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

static void patch_init(const struct unionfs *fs, const struct request *request,
		       struct fuse_init_out *out)
{
	if (request->init_flags & REQUEST_HANDLE_KILLPRIV_V2)
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
static void patch_open(void *end, int32_t backing_id)
{
	char *at = (char *)end - sizeof(struct fuse_open_out);
	char *flags_at = at + offsetof(struct fuse_open_out, open_flags);
	uint32_t flags;

	memcpy(&flags, flags_at, sizeof(flags));
	flags |= OPEN_PASSTHROUGH;
	memcpy(flags_at, &flags, sizeof(flags));
	memcpy(at + BACKING_ID_AT, &backing_id, sizeof(backing_id));
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

/* Set in the reply to @request what libfuse does not. */
static void patch_reply(const struct unionfs *fs, const struct request *request,
			const struct iovec *last)
{
	if (request->opcode == FUSE_INIT &&
	    last->iov_len >= sizeof(struct fuse_init_out))
		patch_init(fs, request, last->iov_base);
	if (request->backing_id &&
	    last->iov_len >= sizeof(struct fuse_open_out))
		patch_open((char *)last->iov_base + last->iov_len,
			   request->backing_id);
}

static ssize_t write_reply(int fd, struct iovec *iov, int count, void *context)
{
	struct unionfs *fs = context;
	const struct fuse_out_header *header = iov[0].iov_base;
	struct request *request = served;
	bool kept;
	ssize_t n;

	if (!request)
		return writev(fd, iov, count);
	if (count > 1 && header->unique == request->unique &&
	    header->error == 0)
		patch_reply(fs, request, &iov[count - 1]);
	if (request->opcode == FUSE_INIT)
		return write_init(fs, fd, iov, count);
	kept = reply_cache_reply(request, iov, count);
	n = writev(fd, iov, count);
	if (kept)
		reply_cache_end(request);
	return n;
}

int reply_setup(struct unionfs *fs, int fd)
{
	static const struct fuse_custom_io io = {.read = read_request,
						 .writev = write_reply};

	return fuse_session_custom_io(fs->session, &io, fd);
}

struct node *op_node(struct request *request, fuse_ino_t ino)
{
	struct node *node = node_get(&request->fs->nodes, ino);

	if (node && !node_is_failed(node))
		return node;
	/* The control file has attributes only. */
	fuse_reply_err(request->req, node                  ? EIO
				     : ino == DOT_UNION_ID ? EPERM
							   : ESTALE);
	return NULL;
}

void op_reply(struct request *request, int r)
{
	if (r >= 0)
		r = durable_request(request->fs, request);
	fuse_reply_err(request->req, r < 0 ? -r : 0);
}

void op_reply_entry(struct request *request, int r,
		    const struct fuse_entry_param *entry)
{
	if (r < 0) {
		fuse_reply_err(request->req, -r);
		return;
	}
	r = durable_request(request->fs, request);
	if (r < 0) {
		reply_cache_gains_nothing(request);
		if (entry->ino)
			node_forget(&request->fs->nodes, entry->ino, 1);
		fuse_reply_err(request->req, -r);
		return;
	}
	/* The kernel did not take the reply (its caller was interrupted): so
	 * the lookup does not count. */
	if (fuse_reply_entry(request->req, entry) < 0 && entry->ino)
		node_forget(&request->fs->nodes, entry->ino, 1);
}

int op_reply_open(struct request *request, const struct fuse_entry_param *entry,
		  struct fuse_file_info *info, int32_t backing_id)
{
	int r;

	request->backing_id = backing_id;
	r = entry ? fuse_reply_create(request->req, entry, info)
		  : fuse_reply_open(request->req, info);
	request->backing_id = 0;
	return r;
}
