/* SPDX-License-Identifier: Apache-2.0 */
/* A directory goes with all its copies. */
#ifndef UNION_REMOVE_DIR_H
#define UNION_REMOVE_DIR_H

#include "union/view/lookup.h"

/*
 * Remove the directory @name of @parent everywhere; files that it hides are
 * put aside. In its turn (dir_attr_lock.h): a copy of it that somebody is just
 * making on another branch is there before that, and goes with the others, or
 * is not made any more.
 *
 * 0; -ENOENT; -ENOTDIR; -ENOTEMPTY; -EIO: a failed branch may have it; or
 * another -errno of a branch.
 */
int remove_dir(struct unionfs *fs, struct node *parent, const char *name);

/* -ENOTEMPTY unless all copies of the directory @name are empty. */
int remove_dir_check(const struct hit *hits, int count, const char *name);

#endif
