/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/request.h"

#include <linux/fuse.h>
#include <string.h>

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

void request_decode(const void *data, size_t length, struct request *ret)
{
	const struct fuse_in_header *header = data;
	const void *body = header + 1;

	/* The rest is as the end of the request before has left it. */
	memset(ret, 0, offsetof(struct request, req));
	if (length < sizeof(*header))
		return;
	length -= sizeof(*header);
	ret->unique = header->unique;
	ret->opcode = header->opcode;
	ret->pid = header->pid;
	switch (header->opcode) {
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

void request_adapt(void *data, size_t length, struct request *request)
{
	struct fuse_in_header *header = data;

	if (length < sizeof(*header))
		return;
	length -= sizeof(*header);
	if (header->opcode == FUSE_TMPFILE &&
	    length >= sizeof(struct fuse_create_in)) {
		header->opcode = FUSE_CREATE;
		request->unnamed = true;
	} else if (header->opcode == STATX_OPCODE &&
		   length >= sizeof(struct statx_in)) {
		header->opcode = FUSE_GETATTR;
		request->wants_birth = true;
	}
	request->opcode = header->opcode;
}
