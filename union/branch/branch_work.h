/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of a branch that is the union's own: BRANCH_WORK_DIR. */
#ifndef UNION_BRANCH_WORK_H
#define UNION_BRANCH_WORK_H

#include "union/branch/branch.h"

/*
 * Get a descriptor of the branch's BRANCH_WORK_DIR, made when needed; -errno.
 */
int branch_work_dir(const struct branch *branch);
/* Do the same in the directory @root; -ENOENT where it is not to be made. */
int branch_work_dir_at(int root, bool make);

/* Remove files and empty directories in it whose names begin with @prefix. */
void branch_work_sweep(const struct branch *branch, const char *prefix);

#endif
