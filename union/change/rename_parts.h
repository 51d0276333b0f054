/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rename that is several, one on each of some branches: all of them
 * happen or none, also when a crash comes in between (see intent.h).
 */
#ifndef UNION_RENAME_PARTS_H
#define UNION_RENAME_PARTS_H

#include "union/view/unionfs.h"

#define RENAME_AWAY_MAX 32

struct rename_part {
	struct branch *branch;
	int from_fd, to_fd; /* directories; may be O_PATH */
	const char *from_name, *to_name;
	unsigned flags; /* RENAME_EXCHANGE: both names are there; or
			 * RENAME_NOREPLACE, or 0 */
	bool done;      /* for rename_parts_do() */
};

/* A file or an empty directory that is to go when all that is done. */
struct rename_gone {
	const struct branch *branch;
	int dir_fd; /* that it is in; may be O_PATH */
	const char *name;
	bool replaced; /* a part on that branch, if there is one, takes its
			* place: a directory does so by itself, a file would
			* be in the way */
	char away[RENAME_AWAY_MAX]; /* in BRANCH_WORK_DIR meanwhile; or "" */
};

/*
 * Out of the way, where it can come back from; a crash ends in its having
 * gone. 0 or -errno.
 */
int rename_gone_put(struct rename_gone *gone);

/* Those that were put there are back, or have gone for good. */
void rename_gone_end(struct rename_gone *gone, int count, bool back);

/*
 * No two parts are on one branch. 0, or -errno and nothing has changed but
 * times of directories; -EIO and the like of a branch that fails while it is
 * all taken back excepted.
 *
 * @gone  what the parts replace, and what they do not and has the name
 *        elsewhere; rename_gone_put() and rename_gone_end() are called here
 */
int rename_parts_do(struct rename_part *parts, int count,
		    struct rename_gone *gone, int gone_count);

/* Before a mount: remove what a crash left of what was to go. */
void rename_parts_sweep(const struct branch *branch);

#endif
