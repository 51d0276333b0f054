/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renames that need more than one branch to change, made whole again after
 * a crash. What is about to happen is written down first, as a symbolic link
 * in BRANCH_WORK_DIR. It is durable before what it covers is, and struck out
 * when all of that is durable: by fsync(), but where the file system makes
 * its changes durable in their order, see intent_in_order(). Nothing is known
 * of the order between two branches.
 *
 * A file that replaces one on another branch: the record says which file
 * there must go once the rename is done. A directory on several branches, or
 * names of several branches that are exchanged: a record on each, the one
 * that counts last; when that one is there, all parts are to be renamed,
 * else none was. A file that moves to another branch: a record for each of
 * its names, on the new branch; relocate.h.
 */
#ifndef UNION_INTENT_H
#define UNION_INTENT_H

#include <limits.h>

#include "union/branch/branch.h"
#include "union/sys/handle.h"

#define INTENT_NAME_SIZE 48
#define INTENT_TEXT_MAX  1023 /* bytes; XFS_SYMLINK_MAXLEN is 1024 */

enum intent_kind {
	INTENT_REPLACE,
	INTENT_MOVE,
	INTENT_MOVE_ALL, /* the record that counts, written last */
	INTENT_SWAP,     /* as INTENT_MOVE; what is at the target comes back */
	INTENT_SWAP_ALL,
	INTENT_RELOCATE,     /* of a file that moves between branches, a name */
	INTENT_RELOCATE_ALL, /* that counts, for all of the same from_name */
	/* INTENT_MOVE_ALL or INTENT_SWAP_ALL whose own part is done: it counts
	 * for the others, which wait for a branch. */
	INTENT_SETTLED,
};

struct intent {
	enum intent_kind kind;
	struct handle moved;    /* on the record's branch */
	struct handle from_dir; /* INTENT_MOVE and the like: there too */
	struct handle to_dir;
	unsigned other;          /* INTENT_REPLACE, INTENT_RELOCATE: branch */
	struct handle other_dir; /* of what goes, and there */
	struct handle replaced;
	char from_name[NAME_MAX + 1]; /* but for INTENT_REPLACE;
				       * INTENT_RELOCATE: in BRANCH_WORK_DIR */
	char to_name[NAME_MAX + 1];
};

/* @text: INTENT_TEXT_MAX + 1 bytes. -ENAMETOOLONG when it does not fit. */
int intent_encode(const struct intent *intent, char *text);
/* -EPROTO: it is none of ours. */
int intent_decode(const char *text, struct intent *ret);

/* A number for the records of one rename. */
uint64_t intent_new_id(void);

/* Write it down on @branch; @sync: and wait until it is durable. */
int intent_begin(const struct branch *branch, uint64_t id,
		 const struct intent *intent, bool sync);

/*
 * The part of a record that counts is done, and is not to be done once more:
 * make it INTENT_SETTLED. 0 or -errno, and it is as it was.
 */
int intent_settle(const struct branch *branch, uint64_t id,
		  const struct intent *intent);

/* Before a mount: what a crash left of that. */
void intent_sweep(const struct branch *branch);

/*
 * All of it is durable, or none of it: strike it out. @sync: and wait until
 * that is durable, as what it names may come back. 0 or -errno, which is for
 * who waits: one that stays is found done at the next start.
 */
int intent_end(const struct branch *branch, uint64_t id, bool sync);

/*
 * Are changes on @branch durable no later than those that follow there? So it
 * is with a journal or log of all metadata (ext4, XFS). Btrfs logs what is
 * synced, alone.
 */
bool intent_in_order(const struct branch *branch);

/*
 * Before the union is mounted: finish or drop what a crash left on the
 * branches. Returns how many records there were, or -errno with @err.
 */
int intent_recover(const struct branch_table *table, struct error *err);

/* Told of a file that has moved to another branch. */
struct intent_watcher {
	void (*moved)(void *context, unsigned from, const struct handle *old,
		      unsigned to, const struct handle *copy);
	void *context;
};

/*
 * The same when a server goes on with what the kernel knows. Then no branch
 * ends it: one that does not let be read or done what is to be is reported
 * (branch_health.h), and what is on it waits for another time. Without
 * @watcher as above.
 */
int intent_recover_watched(const struct branch_table *table,
			   const struct intent_watcher *watcher,
			   struct error *err);

/* How many records a crash left on @branch, or -errno. */
int intent_pending(struct branch *branch);

/* Make the names in @dirfd (may be O_PATH) durable; 0 or -errno. */
int intent_sync_dir(int dirfd);

/* The same of a rename on @branch from the one directory to the other. */
int intent_sync_rename(const struct branch *branch, int from_fd, int to_fd);

#endif
