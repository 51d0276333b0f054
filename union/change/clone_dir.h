/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clone a directory to a branch that does not have it, as a name must go into
 * it. Its path is copied with owners, modes, times and extended attributes
 * (ACLs among them). Each copy is prepared in BRANCH_WORK_DIR and renamed into
 * place, so that a half-made one is never seen.
 */
#ifndef UNION_CLONE_DIR_H
#define UNION_CLONE_DIR_H

#include "union/view/unionfs.h"

/* How names begin that clone_dir_sweep() removes. */

/*
 * Get the descriptor of @node on @branch, cloned when it is not there. It is
 * held as by dir_fd_get().
 *
 * -ENOSPC and the like from the branch; -EROFS: it is read-only; -ENOENT: the
 * directory was removed meanwhile; -EBUSY: something is mounted on its path.
 */
int clone_dir(struct unionfs *fs, struct node *node, unsigned branch,
	      struct dir_fd **ret);

/* Do the same for a caller that holds fs->tree. */
int clone_dir_locked(struct unionfs *fs, struct node *node, unsigned branch,
		     struct dir_fd **ret);

/* Remove unfinished directories of a crash from the branch's work directory. */
void clone_dir_sweep(const struct branch *branch);

#endif
