/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The number of directories in a directory on several branches, for its link
 * count. They are counted once, then each change is added. A directory made or
 * removed during a count may be in it or not, so such a count is not kept.
 */
#ifndef UNION_SUBDIRS_H
#define UNION_SUBDIRS_H

#include "union/view/lookup.h"

/* Begin a change, before a directory in @node is made, removed or renamed. */
void subdirs_begin(struct unionfs *fs, struct node *node);

/* End it; @change: the number that came, or went; 0 also for none. */
void subdirs_end(struct unionfs *fs, struct node *node, int change);

/* Forget the number: it is counted when asked for next. */
void subdirs_forget(struct unionfs *fs, struct node *node);

/*
 * Note that a file of that name in @node has gone: it may have hidden a
 * directory.
 */
void subdirs_uncover(struct unionfs *fs, struct node *node,
		     const struct hit *hits, int count);

/* Get st_nlink of @node; 1: not known, as of file systems that do not count. */
nlink_t subdirs_links(struct unionfs *fs, struct node *node);

/*
 * Get a number that changes when a directory comes or goes; never the same
 * twice while one does. For a node that is no directory it is constant.
 */
uint64_t subdirs_mark(struct unionfs *fs, struct node *node);

#endif
