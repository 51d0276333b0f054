/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who changes names in a directory for a user says so, that who changes it
 * quietly (preserve_mtime.h) at the same time does not take the change for his
 * own and set the times back, and that who asks for its attributes meanwhile
 * does not have the kernel keep them (unionfs_attr()).
 */
#ifndef UNION_NAMING_H
#define UNION_NAMING_H

#include "union/node/node.h"

/* What @dir is given between the two gets or loses a name. */
static inline void naming_begin(struct node *dir)
{
	atomic_fetch_add(&node_dir(dir)->naming, 1);
}

/* @done: it did. */
static inline void naming_end(struct node *dir, bool done)
{
	atomic_fetch_add(&node_dir(dir)->named, done);
	atomic_fetch_sub(&node_dir(dir)->naming, 1);
}

#define NAMING_NOW UINT64_MAX /* somebody changes names */

/*
 * A number that stays the same as long as nobody does; or NAMING_NOW. There are
 * no names in what is no directory.
 */
static inline uint64_t naming_mark(const struct node *node)
{
	unsigned named;

	if (!S_ISDIR(node->type))
		return 0;
	named = atomic_load(&node->of.dir.named);
	return atomic_load(&node->of.dir.naming) ? NAMING_NOW : named;
}

/* Has nobody changed names since @mark? */
static inline bool naming_is_still(const struct node *node, uint64_t mark)
{
	return mark != NAMING_NOW && naming_mark(node) == mark;
}

#endif
