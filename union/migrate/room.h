/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for files that cannot leave their branch. Such a file is passed through
 * and open, or has no name, or has more names than can move. Other files of the
 * branch leave it instead, for other file systems (drain_walk.h), until there
 * is enough or nothing more to move.
 *
 * A request that meets the end of the branch asks for room: room_make(). Writes
 * that are passed through are not seen. While such a file is open for writing,
 * a thread watches the branch's free space. The thread looks again before a
 * fast writer can have used half of the rest. Where that is low it makes room.
 *
 * Writers are faster than files move, so they are made to wait. Near the end
 * the thread has them ask before they write (nudge.h), and the answer waits for
 * room.
 */
#ifndef UNION_ROOM_H
#define UNION_ROOM_H

#include "union/migrate/nudge.h"
#include "union/view/unionfs.h"

/*
 * Limits of low room: this part of the file system, but at least so many bytes.
 */
#define ROOM_LOW_PART 16
#define ROOM_LOW_MIN  (UINT64_C(64) << 20)
#define ROOM_LOW_MOST 4 /* and no more than such a part for that */
#define ROOM_LOW_MAX  (UINT64_C(1) << 30)

#define ROOM_PATIENCE_MS 60000 /* of a writer that waits for it */

struct room;

/*
 * A file that is open for writes that are passed through; the room's lock
 * guards it.
 */
struct room_writer {
	struct room_writer *next, **at;
	struct branch *branch; /* NULL: it is none */
	struct nudge_file file;
};

/* Make the object. NULL: ENOMEM. Nothing is moved before room_start(). */
struct room *room_new(struct unionfs *fs);
void room_start(struct room *room);
/* Answer all that wait; nothing waits from now on. NULL is fine. */
void room_stop(struct room *room);
void room_free(struct room *room); /* NULL is fine */

/*
 * Note that a file of @branch is open from now on for writes that are passed
 * through.
 */
void room_writer_begin(struct room *room, struct branch *branch,
		       const struct node *node, struct room_writer *writer);
/*
 * Wait before the open of a file is answered, where there is little room. The
 * first such file waits until writers can be made to ask.
 */
void room_writer_waits(struct room *room, struct branch *branch);
void room_writer_end(struct room *room, struct room_writer *writer);

/* Note that a file of @branch is open no more: it may be one that can move. */
void room_closed(struct room *room, const struct branch *branch);

/* Has another file system more room than @branch had when last asked? */
bool room_is_elsewhere(struct unionfs *fs, const struct branch *branch);

/*
 * May more room on @branch be made? That is so if another file system has more,
 * and a try just now did not find that nothing can be moved.
 */
bool room_may_help(struct room *room, const struct branch *branch);

/*
 * Have at least @bytes on @branch. Waits; not by a thread that serves requests.
 * 0: something was moved, or there are so many; -ENOSPC: nothing could be
 * moved; -ECANCELED: the union is ending.
 */
int room_make(struct room *room, struct branch *branch, uint64_t bytes);

/*
 * Make the write after a question wait for room. The kernel asked whether @node
 * has a capability, which it has not. True: the write is to wait for room, and
 * @req is answered later.
 */
bool room_holds(struct room *room, fuse_req_t req, const struct node *node);

#endif
