/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many directories there are in one that is on several branches: its link
 * count. They are counted once, then each that comes or goes is added; but in
 * what is counted while one does it may be or not, so that is not kept.
 */
#ifndef UNION_SUBDIRS_H
#define UNION_SUBDIRS_H

#include "union/view/lookup.h"

/* Before any of @node is made, removed or renamed. */
void subdirs_begin(struct unionfs *fs, struct node *node);

/* @change: so many came, or went; 0 also when none did. */
void subdirs_end(struct unionfs *fs, struct node *node, int change);

/* It is not known how many: count when asked next. */
void subdirs_forget(struct unionfs *fs, struct node *node);

/* A file of that name in @node has gone: was a directory hidden by it? */
void subdirs_uncover(struct unionfs *fs, struct node *node,
		     const struct hit *hits, int count);

/* st_nlink of @node; 1: not known, as file systems say that do not count. */
nlink_t subdirs_links(struct unionfs *fs, struct node *node);

/*
 * Another number when any came or went since; never twice while any do. Of what
 * is no directory the same always.
 */
uint64_t subdirs_mark(struct unionfs *fs, struct node *node);

#endif
