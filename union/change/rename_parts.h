/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rename in several parts, each on one branch. All of them happen or none,
 * also when a crash comes in between (intent.h).
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

/* A file or an empty directory to remove when all parts are done. */
struct rename_gone {
	const struct branch *branch;
	int dir_fd; /* that it is in; may be O_PATH */
	const char *name;
	/*
	 * A part on this branch takes its place. The rename replaces an empty
	 * directory; a file must be moved away first.
	 */
	bool replaced;
	char away[RENAME_AWAY_MAX]; /* in BRANCH_WORK_DIR meanwhile; or "" */
};

/*
 * Move the file out of the way, to a place it can come back from. A crash ends
 * in its removal. 0 or -errno.
 */
int rename_gone_put(struct rename_gone *gone);

/* Bring back all files that were moved so, or remove them for good. */
void rename_gone_end(struct rename_gone *gone, int count, bool back);

/*
 * Do the parts, no two of them on one branch. 0; or -errno, and nothing has
 * changed but times of directories. That does not hold if a branch fails (-EIO
 * and the like) while the parts are taken back.
 *
 * @gone  files that the parts replace, and files that have the name on other
 *        branches; rename_gone_put() and rename_gone_end() are called here
 */
int rename_parts_do(struct rename_part *parts, int count,
		    struct rename_gone *gone, int gone_count);

/* Remove files that were to go, before a mount after a crash. */
void rename_parts_sweep(const struct branch *branch);

#endif
