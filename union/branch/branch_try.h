/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is it the branch that fails, or one object on it? What says an error of one
 * file or directory (a damaged inode, a read-only subvolume) says nothing of
 * the others. So the branch itself is asked, by what has to work on any.
 */
#ifndef UNION_BRANCH_TRY_H
#define UNION_BRANCH_TRY_H

#include "union/branch/branch.h"

/*
 * Its root is asked for, and unless it is BRANCH_RO a file without a name in
 * BRANCH_WORK_DIR is written and synced. Where nothing can be written, for a
 * want of room or as it is read-only, the root is synced, and its device is
 * read, if there is one.
 * One thread at a time; who waits meanwhile takes what the next finds.
 *
 * 0; -EROFS: it can be read; or another error: it has failed.
 */
int branch_try(struct branch *branch);

/* The same at once, by @root; @writes: unless it is BRANCH_RO. */
int branch_try_root(int root, bool writes);

#endif
