/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks of a change of names in a directory for a user. A quiet change
 * (preserve_mtime.h) at the same time then does not set the times back, as if
 * the user's change were its own. And the kernel is not told to keep attributes
 * read meanwhile (unionfs_attr()).
 */
#ifndef UNION_NAMES_CHANGE_H
#define UNION_NAMES_CHANGE_H

#include "union/node/node.h"

/* Begin a change: until names_change_end(), @dir may get or lose a name. */
static inline void names_change_begin(struct node *dir)
{
	atomic_fetch_add(&node_dir(dir)->naming, 1);
}

/* End the change; @done: a name was changed. */
static inline void names_change_end(struct node *dir, bool done)
{
	atomic_fetch_add(&node_dir(dir)->named, done);
	atomic_fetch_sub(&node_dir(dir)->naming, 1);
}

#define NAMING_NOW UINT64_MAX /* names are being changed */

/*
 * Get a number that stays the same as long as nobody changes names; or
 * NAMING_NOW. A node that is no directory has no names.
 */
static inline uint64_t names_change_mark(const struct node *node)
{
	unsigned named;

	if (!S_ISDIR(node->type))
		return 0;
	named = atomic_load(&node->of.dir.named);
	return atomic_load(&node->of.dir.naming) ? NAMING_NOW : named;
}

/* Has nobody changed names since @mark? */
static inline bool names_change_is_still(const struct node *node, uint64_t mark)
{
	return mark != NAMING_NOW && names_change_mark(node) == mark;
}

#endif
