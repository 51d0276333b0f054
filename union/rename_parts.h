/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rename that is several, one on each of some branches: all of them
 * happen or none, also when a crash comes in between (see intent.h).
 */
#ifndef UNION_RENAME_PARTS_H
#define UNION_RENAME_PARTS_H

#include "union/unionfs.h"

struct rename_part {
	const struct branch *branch;
	int from_fd, to_fd; /* directories; may be O_PATH */
	const char *from_name, *to_name;
	unsigned flags; /* RENAME_EXCHANGE: both names are there; or
			 * RENAME_NOREPLACE, or 0 */
	bool done;      /* for rename_parts_do() */
};

/*
 * No two parts are on one branch. 0, or -errno and nothing has changed; -EIO
 * and the like of a branch that fails while it is all taken back excepted.
 */
int rename_parts_do(struct rename_part *parts, int count);

#endif
