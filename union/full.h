/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A write that meets a full branch: its file moves to the branch with most
 * room, and the write goes on there. That takes its time, so the request is
 * handed to a thread of its own; those that serve others go on.
 *
 * Writes that the kernel passes through to a branch are not seen. So a file
 * on a branch with little room (full_is_near()) is not passed through to who
 * opens it for writing.
 */
#ifndef UNION_FULL_H
#define UNION_FULL_H

#include "union/ops.h"

#define FULL_NEAR_MAX  (UINT64_C(1) << 30) /* bytes */
#define FULL_NEAR_PART 16 /* or such a part of the file system */

#define FULL_PATIENCE_MS 10000 /* for a file that is in use */

struct full;

/* NULL: ENOMEM. */
struct full *full_new(struct unionfs *fs);
/* Those that wait fail with ENOSPC. NULL is fine. */
void full_free(struct full *full);

/* Is there so little room that a write may meet the end of it? */
bool full_is_near(struct unionfs *fs, struct branch *branch);

/* What a request wants to be done once there is room. */
struct full_wish {
	fuse_ino_t ino;
	struct fuse_file_info info;
	const char *data;  /* of a write; NULL: an fallocate */
	size_t size, done; /* bytes; those before @done are written */
	off_t offset, length;
	int mode;
	bool mapped; /* a write that comes without a caller */
};

/*
 * Can @r, of what changed the file @node, be helped? -ENOSPC or -EDQUOT, and
 * another branch has room for the file and @more bytes.
 */
bool full_can_help(struct unionfs *fs, const struct node *node, int r,
		   uint64_t more);

/* Take the request over: it is answered. False, and it is not: ENOMEM. */
bool full_help(struct unionfs *fs, fuse_req_t req,
	       const struct full_wish *wish);

#endif
