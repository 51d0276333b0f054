/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Renames that need more than one branch to change, made whole again after a
 * crash. The rename is written down first, as a symbolic link in
 * BRANCH_WORK_DIR. This record is durable before the rename is, and struck out
 * when all of that is durable. The means is fsync(), unless the file system
 * makes changes durable in their order: intent_in_order(). Nothing is known of
 * the order between two branches.
 *
 * A file that replaces one on another branch: the record says which file there
 * must go once the rename is done.
 *
 * A directory on several branches, or names of several branches that are
 * exchanged: a record on each, the one that counts last. When that one is
 * there, all parts are to be renamed, else none was.
 *
 * A file that moves to another branch: a record for each of its names, on the
 * new branch; relocate.h.
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
	INTENT_SWAP,     /* as INTENT_MOVE; the target comes back */
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
	struct handle other_dir; /* of the file that goes, and there */
	struct handle replaced;
	char from_name[NAME_MAX + 1]; /* but for INTENT_REPLACE;
				       * INTENT_RELOCATE: in BRANCH_WORK_DIR */
	char to_name[NAME_MAX + 1];
};

/*
 * Encode into @text, INTENT_TEXT_MAX + 1 bytes. -ENAMETOOLONG when it does not
 * fit.
 */
int intent_encode(const struct intent *intent, char *text);
/* Decode @text. -EPROTO: this is no record of a union. */
int intent_decode(const char *text, struct intent *ret);

/* Make a number for the records of one rename. */
uint64_t intent_new_id(void);

/* Write the record down on @branch; @sync: and wait until it is durable. */
int intent_begin(const struct branch *branch, uint64_t id,
		 const struct intent *intent, bool sync);

/*
 * Mark a record that counts as INTENT_SETTLED: its own part is done, and is not
 * to be done once more. 0, or -errno and the record is as before.
 */
int intent_settle(const struct branch *branch, uint64_t id,
		  const struct intent *intent);

/* Remove temporary files of intent_settle() after a crash, before a mount. */
void intent_sweep(const struct branch *branch);

/*
 * Strike out a record, when all of its rename is durable, or none of it. @sync:
 * and wait until that is durable, as names in it may come back. 0 or -errno,
 * which is for callers that wait: a record that stays is found done at the next
 * start.
 */
int intent_end(const struct branch *branch, uint64_t id, bool sync);

/*
 * Are changes on @branch durable no later than those that follow there? A
 * journal or log of all metadata gives that (ext4, XFS). Btrfs logs only synced
 * changes.
 */
bool intent_in_order(const struct branch *branch);

/*
 * Finish or drop the records that a crash left on the branches, before the
 * union is mounted. Returns how many there were, or -errno with @err.
 */
int intent_recover(const struct branch_table *table, struct error *err);

/* Receiver of files that have moved to another branch. */
struct intent_watcher {
	void (*moved)(void *context, unsigned from, const struct handle *old,
		      unsigned to, const struct handle *copy);
	void *context;
};

/*
 * Do the same when a server goes on with the state that the kernel knows. Then
 * no branch ends it. A branch where a record cannot be read or done is reported
 * (branch_health.h), and its records wait for another time. Without @watcher as
 * above.
 */
int intent_recover_watched(const struct branch_table *table,
			   const struct intent_watcher *watcher,
			   struct error *err);

/* Count the records that a crash left on @branch, or -errno. */
int intent_pending(struct branch *branch);

/* Make the names in @dirfd (may be O_PATH) durable; 0 or -errno. */
int intent_sync_dir(int dirfd);

/* Make a rename on @branch from the one directory to the other durable. */
int intent_sync_rename(const struct branch *branch, int from_fd, int to_fd);

/* Copy a name to @to, of NAME_MAX + 1 bytes: the kernel's limit. */
void intent_copy_name(char *to, const char *from);

#endif
