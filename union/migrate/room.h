/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Room for files that cannot leave their branch: one that the kernel passes
 * through, as long as anybody has it open; one without a name; one with more
 * names than can move. Other files of the branch leave it instead, for other
 * file systems (drain_walk.h), until there is enough or nothing more to move.
 *
 * Who meets the end of the branch in a request asks for it: room_make(). What
 * is written past us is foreseen. While a file of a branch is open so, a
 * thread looks at the branch's free space, before a fast writer can have used
 * half of what is left. Where that is low it makes room.
 *
 * Writers are faster than files move, so they are made to wait: near the end
 * the thread has them ask before they write (nudge.h), and the answer waits for
 * room.
 */
#ifndef UNION_ROOM_H
#define UNION_ROOM_H

#include "union/migrate/nudge.h"
#include "union/view/unionfs.h"

/* So little is low: such a part of the file system, but so many bytes. */
#define ROOM_LOW_PART 16
#define ROOM_LOW_MIN  (UINT64_C(64) << 20)
#define ROOM_LOW_MOST 4 /* and no more than such a part for that */
#define ROOM_LOW_MAX  (UINT64_C(1) << 30)

#define ROOM_PATIENCE_MS 60000 /* of a writer that waits for it */

struct room;

/* Of an open file that is written to past us; with the lock of the room. */
struct room_writer {
	struct room_writer *next, **at;
	struct branch *branch; /* NULL: it is none */
	struct nudge_file file;
};

/* NULL: ENOMEM. Nothing is moved before room_start(). */
struct room *room_new(struct unionfs *fs);
void room_start(struct room *room);
/* What waits is answered, and nothing waits any more. NULL is fine. */
void room_stop(struct room *room);
void room_free(struct room *room); /* NULL is fine */

/* A file of @branch is open from now on to be written to past us. */
void room_writer_begin(struct room *room, struct branch *branch,
		       const struct node *node, struct room_writer *writer);
/*
 * Before its open is answered: the first of them where there is little room
 * waits until those that write can be asked to.
 */
void room_writer_waits(struct room *room, struct branch *branch);
void room_writer_end(struct room *room, struct room_writer *writer);

/* A file of @branch is open no more: it may be one that can move. */
void room_closed(struct room *room, const struct branch *branch);

/* Has another file system more than @branch had when it was last asked? */
bool room_is_elsewhere(struct unionfs *fs, const struct branch *branch);

/*
 * May there be more room on @branch for what meets its end? Another file
 * system has more, and it was not found just now that nothing can be moved.
 */
bool room_may_help(struct room *room, const struct branch *branch);

/*
 * Have at least @bytes on @branch. Waits; not by a thread that serves
 * requests. 0: something was moved, or there are so many; -ENOSPC: nothing
 * could be; -ECANCELED: it is ending.
 */
int room_make(struct room *room, struct branch *branch, uint64_t bytes);

/*
 * The kernel asks whether @node has a capability, it has none, and a write may
 * wait for the answer. True: it is to wait for room, and @req is answered
 * later.
 */
bool room_holds(struct room *room, fuse_req_t req, const struct node *node);

#endif
