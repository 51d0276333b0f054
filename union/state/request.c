/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/request.h"

#include <linux/fuse.h>
#include <string.h>

#include "union/config/remount_call.h"
#include "union/sys/statx.h"

static_assert(sizeof(struct fuse_getattr_in) <= sizeof(struct statx_in) &&
		      offsetof(struct fuse_getattr_in, fh) ==
			      offsetof(struct statx_in, fh),
	      "a statx begins as a getattr");

/* Bits of setattr that are a wish of its own. */
#define FATTR_WISHES                                                     \
	(FATTR_MODE | FATTR_UID | FATTR_GID | FATTR_SIZE | FATTR_ATIME | \
	 FATTR_MTIME | FATTR_ATIME_NOW | FATTR_MTIME_NOW | FATTR_CTIME)

static uint64_t init_flags(const struct fuse_init_in *in, size_t length)
{
	uint64_t flags;

	if (length < offsetof(struct fuse_init_in, flags2))
		return 0;
	flags = in->flags;
	if (flags & REQUEST_INIT_EXT &&
	    length >= offsetof(struct fuse_init_in, unused))
		flags |= (uint64_t)in->flags2 << 32;
	return flags;
}

static void setattr_decode(const struct fuse_setattr_in *in,
			   struct request *ret)
{
	ret->wants_nothing = !(in->valid & FATTR_WISHES);
	ret->kills_privileges = in->valid & FATTR_KILL_SUIDGID ||
				ret->wants_nothing;
}

static void write_decode(const struct fuse_write_in *in, struct request *ret)
{
	ret->kills_privileges = in->write_flags & FUSE_WRITE_KILL_SUIDGID;
	ret->of_cache = in->write_flags & FUSE_WRITE_CACHE;
}

/* Read what a handler is not told by libfuse. */
static void body_decode(const void *body, size_t length, struct request *ret)
{
	switch (ret->opcode) {
	case FUSE_INIT: ret->init_flags = init_flags(body, length); break;
	case FUSE_SETATTR:
		if (length >= sizeof(struct fuse_setattr_in))
			setattr_decode(body, ret);
		break;
	case FUSE_OPEN:
		if (length >= sizeof(struct fuse_open_in))
			ret->kills_privileges =
				((const struct fuse_open_in *)body)
					->open_flags &
				FUSE_OPEN_KILL_SUIDGID;
		break;
	case FUSE_WRITE:
		if (length >= sizeof(struct fuse_write_in))
			write_decode(body, ret);
		break;
	default: break;
	}
}

/* Get the 64-bit number at @at; 0: the request is shorter. */
static uint64_t number_at(const void *data, size_t length, size_t at)
{
	uint64_t n = 0;

	if (length >= at + sizeof(n))
		memcpy(&n, (const char *)data + at, sizeof(n));
	return n;
}

/* Get the offset of a request's other node; 0: it names one. */
static size_t second_node_at(uint32_t opcode)
{
	const size_t body = sizeof(struct fuse_in_header);

	switch (opcode) {
	case FUSE_RENAME: return body + offsetof(struct fuse_rename_in, newdir);
	case FUSE_RENAME2:
		return body + offsetof(struct fuse_rename2_in, newdir);
	case FUSE_LINK: return body + offsetof(struct fuse_link_in, oldnodeid);
	case FUSE_COPY_FILE_RANGE:
		return body +
		       offsetof(struct fuse_copy_file_range_in, nodeid_out);
	default: return 0;
	}
}

/* Is it a remount? That waits for work that waits for others. */
static bool is_remount(const void *data, size_t length)
{
	struct fuse_ioctl_in in;

	if (length < sizeof(struct fuse_in_header) + sizeof(in))
		return false;
	memcpy(&in, (const struct fuse_in_header *)data + 1, sizeof(in));
	return in.cmd == REMOUNT_IOCTL;
}

/* Is the request without a branch, or of many nodes in the table only? */
static bool is_free(uint32_t opcode)
{
	return opcode == FUSE_FORGET || opcode == FUSE_BATCH_FORGET ||
	       opcode == FUSE_INIT || opcode == FUSE_INTERRUPT ||
	       opcode == FUSE_DESTROY;
}

static void nodes_decode(const struct fuse_in_header *header, size_t length,
			 struct request *ret)
{
	size_t at = second_node_at(header->opcode);

	if (is_free(header->opcode) ||
	    (header->opcode == FUSE_IOCTL && is_remount(header, length)))
		return;
	ret->nodes[0] = header->nodeid;
	ret->node_count = 1;
	if (!at)
		return;
	ret->nodes[1] = number_at(header, length, at);
	ret->node_count = 2;
}

/*
 * Change a request that libfuse does not know into a similar one. @length: of
 * its body.
 */
static void adapt(struct fuse_in_header *header, size_t length,
		  struct request *ret)
{
	if (header->opcode == FUSE_TMPFILE &&
	    length >= sizeof(struct fuse_create_in)) {
		header->opcode = FUSE_CREATE;
		ret->unnamed = true;
	} else if (header->opcode == STATX_OPCODE &&
		   length >= sizeof(struct statx_in)) {
		header->opcode = FUSE_GETATTR;
		ret->wants_birth = true;
	}
	ret->opcode = header->opcode;
}

void request_decode(void *data, size_t length, struct request *ret)
{
	struct fuse_in_header *header = data;

	/* The rest is as the end of the request before has left it. */
	memset(ret, 0, offsetof(struct request, req));
	if (length < sizeof(*header))
		return;
	ret->unique = header->unique;
	ret->pid = header->pid;
	adapt(header, length - sizeof(*header), ret);
	body_decode(header + 1, length - sizeof(*header), ret);
	nodes_decode(header, length, ret);
}
