/* SPDX-License-Identifier: Apache-2.0 */
/* For tests: two directories that stand for branches. */
#ifndef UNION_BRANCHES_KIT_H
#define UNION_BRANCHES_KIT_H

#include "union/view/unionfs.h"

#define BRANCHES_KIT_TOP 64 /* bytes, of a path */

/*
 * Make a new directory, with "0" and "1" in it that become the branches of
 * @table. There are fewer where the file system gives no handles, or gives them
 * to root alone: then tests skip. 0 or -1.
 *
 * @top  its path
 */
int branches_kit_make(char top[BRANCHES_KIT_TOP], struct branch_table *table);

/*
 * Make the same as a union that nobody has mounted.
 *
 * @fs        zeroed; unionfs_done() is the caller's, if there is a root
 * @ret_root  borrowed; NULL: tests skip
 */
int branches_kit_union(char top[BRANCHES_KIT_TOP], struct unionfs *fs,
		       struct node **ret_root);

/* Remove the directory, with all that is in it. 0 or -errno. */
int branches_kit_remove(const char *top);

#endif
