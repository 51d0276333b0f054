/* SPDX-License-Identifier: Apache-2.0 */
/* Removing a directory with all its copies. */
#ifndef UNION_REMOVE_DIR_H
#define UNION_REMOVE_DIR_H

#include "union/view/lookup.h"

/*
 * Remove the directory @name of @parent everywhere; files that it hides stay
 * as hidden files. This takes the directory's turn (dir_attr_lock.h). So a copy
 * that another request is just making goes with the others, or is not made any
 * more.
 *
 * 0; -ENOENT; -ENOTDIR; -ENOTEMPTY; -EIO: a failed branch may have it; or
 * another -errno of a branch.
 */
int remove_dir(struct unionfs *fs, struct request *request, struct node *parent,
	       const char *name);

/* Check that all copies of the directory @name are empty; else -ENOTEMPTY. */
int remove_dir_check(const struct hit *hits, int count, const char *name);

#endif
