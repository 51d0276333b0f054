/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Is it the branch that fails, or one object on it? An error of one file or
 * directory (a damaged inode, a read-only subvolume) says nothing of the
 * others. So the branch itself is asked, by calls that have to work on any.
 */
#ifndef UNION_BRANCH_TRY_H
#define UNION_BRANCH_TRY_H

#include "union/branch/branch.h"

/*
 * Try the branch. Its root is asked for, and unless it is BRANCH_RO a file
 * without a name in BRANCH_WORK_DIR is written and synced. If nothing can be
 * written (no room, or read-only), the root is synced. Its device is read then,
 * if there is one. One thread at a time tries; a thread that waits meanwhile
 * takes the result of the next try.
 *
 * 0; -EROFS: it can be read; or another error: it has failed.
 */
int branch_try(struct branch *branch);

/* Try it at once, by @root; @writes: unless it is BRANCH_RO. */
int branch_try_root(int root, bool writes);

#endif
