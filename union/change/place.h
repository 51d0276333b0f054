/* SPDX-License-Identifier: Apache-2.0 */
/* Make a new name on the branch the policy picks, or the next with room. */
#ifndef UNION_PLACE_H
#define UNION_PLACE_H

#include "union/view/unionfs.h"

/*
 * Callback: make the file in @dirfd, with the caller's identity on. 0 or a
 * descriptor, or -errno.
 */
typedef int place_make(void *context, int dirfd);

struct to_place {
	enum policy_function function;
	mode_t type; /* S_IFMT bits */
	place_make *make;
	void *context;
	const char *name; /* NULL: it gets none */
};

/* Result of place_new(). */
struct placed {
	struct dir_fd *dir; /* held */
	unsigned branch;
	int result; /* of place_make */
};

/*
 * Find a branch for @what in @parent, clone the directory there if need be, and
 * make it.
 *
 * The next branch is tried after ENOSPC, EDQUOT, EMLINK, EROFS, EBUSY
 * (something is mounted there), ENAMETOOLONG and EPERM of an immutable
 * directory. The failure of a branch (-EIO) counts as well, if that has no such
 * name afterwards.
 *
 * Returns 0, or -errno. 1: a killed server had made it for the same request:
 * @ret says where, its result is -1.
 */
int place_new(struct unionfs *fs, struct request *request, struct node *parent,
	      const struct to_place *what, struct placed *ret);

/*
 * Make the new directory @made in @parent on the other branches, too, if they
 * have room and the policy of mkdir is "all" or "epall".
 */
void place_everywhere(struct unionfs *fs, const struct node *parent,
		      struct node *made);

#endif
