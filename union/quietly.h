/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What changes in one copy of a directory (a name is made there because a
 * file moves, a directory is cloned) and is not to be seen: its times stay.
 */
#ifndef UNION_QUIETLY_H
#define UNION_QUIETLY_H

#include "union/unionfs.h"

struct quietly {
	struct handle handle;
	struct timespec shown;    /* its change time */
	struct timespec times[2]; /* access, modification */
	uint64_t mark;            /* naming_mark() of the directory */
	unsigned branch;
	struct quietly *next; /* of those that have begun */
};

/*
 * Before and after a change in the directory @fd (may be O_PATH) of @branch.
 * 0 or -errno; without a beginning there is no end, and after one there is:
 * also when nothing was changed then. If a user changes names in it meanwhile
 * the times stay what that made them. Of several at a time each sets back what
 * was before the first.
 *
 * @ret  until quietly_end(), in the same function
 */
int quietly_begin(struct unionfs *fs, unsigned branch, int fd,
		  struct quietly *ret);
void quietly_end(struct unionfs *fs, int fd, struct quietly *quietly);

#endif
