/* SPDX-License-Identifier: Apache-2.0 */
/* Copies of directories that leave a branch. */
#ifndef UNION_DRAIN_DIR_H
#define UNION_DRAIN_DIR_H

#include "union/view/unionfs.h"

/*
 * Get the @i-th best branch to drain to; NULL past the last. Those that new
 * names may go to count, without @but. One at the place of @but
 * (ino_preserve.h) is best, then the one with most room. Branches that would
 * have less than their minimum after @need bytes come last.
 * @elsewhere: none of the file system of @but.
 */
struct branch *drain_target(struct unionfs *fs, const struct branch *but,
			    uint64_t need, bool elsewhere, unsigned i);

/*
 * Take the empty directory @node off @branch, where it is @name in @parent
 * (@parent_fd: its copy there). It is made on another branch when it is on no
 * other. Its visible attributes stay. 0; -ENOTEMPTY, -EBUSY: later.
 */
int drain_dir(struct unionfs *fs, struct branch *branch, struct node *parent,
	      int parent_fd, struct node *node, const char *name);

/* Do the same for the union's root, which is not removed there. */
int drain_root(struct unionfs *fs, struct branch *branch);

#endif
