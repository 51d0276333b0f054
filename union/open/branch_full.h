/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A write that meets a full branch: its file moves to the branch with most
 * room, and the write goes on there. Where the file cannot move, or fits
 * nowhere, other files move instead (room.h). Moving takes time, so the request
 * is handed to a thread of its own; the threads that serve others go on.
 *
 * Writes that the kernel passes through to a branch are not seen. Whether a
 * file is passed through is decided when it is opened. So the room that its
 * writer may need is estimated then: see branch_full_is_near(). Writes that are
 * seen leave the last of the room to those that are not: see
 * branch_full_must_leave().
 */
#ifndef UNION_BRANCH_FULL_H
#define UNION_BRANCH_FULL_H

#include "union/view/unionfs.h"

#define BRANCH_FULL_NEAR_MAX  (UINT64_C(1) << 30) /* bytes */
#define BRANCH_FULL_NEAR_PART 16 /* or such a part of the file system */

/* The same where another file system has more room. */
#define BRANCH_FULL_WIDE_MAX     (UINT64_C(32) << 30)
#define BRANCH_FULL_WIDE_PART    4
#define BRANCH_FULL_WRITER_PART  8 /* of that, more for each open writer; */
#define BRANCH_FULL_WRITERS_MOST 4 /* of so many */
#define BRANCH_FULL_ASK_AGAIN \
	(UINT64_C(1) << 20) /* bytes written beside them */

#define BRANCH_FULL_PATIENCE_MS 10000 /* for a file that is in use */

struct branch_full;

/* NULL: ENOMEM. */
struct branch_full *branch_full_new(struct unionfs *fs);
/* Free @full; requests that wait fail with ENOSPC. NULL is fine. */
void branch_full_free(struct branch_full *full);

/*
 * Is there so little room on @branch that writes to the file @fd may meet the
 * end of it? Holes of a sparse file count as still to be written, at most
 * BRANCH_FULL_WIDE_MAX.
 */
bool branch_full_is_near(struct unionfs *fs, struct branch *branch, int fd);

/*
 * Must the file @node leave? A write of @size bytes to it is seen. True if that
 * takes room that unseen writes need, and the file can move.
 */
bool branch_full_must_leave(struct unionfs *fs, const struct node *node,
			    uint64_t size);

/*
 * Ask for @branch's room again where that is little: somebody wrote to the
 * branch past us.
 */
void branch_full_wrote(struct branch *branch);

/* The rest of a request, which is done once there is room. */
struct branch_full_wish {
	fuse_ino_t ino;
	struct fuse_file_info info;
	const char *data;  /* of a write; NULL: an fallocate */
	size_t size, done; /* bytes; the first @done are written */
	off_t offset, length;
	int mode;
	bool mapped; /* a write that comes without a caller */
	bool leaves; /* the file moves first: see branch_full_must_leave() */
	bool copied; /* the caller's kernel writes it then: EXDEV says so */
};

/*
 * Can the error @r of a change to the file @node be helped? -ENOSPC or -EDQUOT
 * can if another branch has room for the file and @more bytes. -ENOSPC also can
 * if other files may leave the branch: see room.h.
 */
bool branch_full_can_help(struct unionfs *fs, const struct node *node, int r,
			  uint64_t more);

/*
 * Take the request over, and answer it later. False: it is not taken over, for
 * want of memory.
 */
bool branch_full_help(struct unionfs *fs, struct request *request,
		      const struct branch_full_wish *wish);

#endif
