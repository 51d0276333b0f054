/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes whose FORGET may be lost: an earlier server had taken it from the
 * kernel, and was killed before it was done. Such a node's count of lookups
 * never comes to 0. It may keep a removed file on its branch. Then it is noted
 * here, each time the kernel gives back a part of the count. A caller that can
 * ask the kernel tells whether the kernel knows the node still.
 */
#ifndef UNION_LOST_FORGET_H
#define UNION_LOST_FORGET_H

#include "union/node/node.h"

/*
 * A node at the time of the note: a node with the same id may be another later.
 */
struct lost_forget {
	uint64_t id, generation, lookups;
};

/*
 * Note @node, if its FORGET may be lost and it keeps a removed file. The
 * table's lock is held. Without memory it is not noted this time.
 */
void lost_forget_note(struct node_table *table, const struct node *node);

/* Note each such node of now: before the first request of this server. */
void lost_forget_note_all(struct node_table *table);

/* Is any noted? Takes no lock. */
bool lost_forget_any(const struct node_table *table);

/* Take the notes off the list; owned. Returns their number. */
size_t lost_forget_take(struct node_table *table, struct lost_forget **ret);

/* Hold the node, if it is the same and no file of it is open. Or NULL. */
struct node *lost_forget_hold(struct node_table *table,
			      const struct lost_forget *lost);

/*
 * End a node that the kernel does not know, held by lost_forget_hold(). Unless
 * the kernel was told of it since, it keeps nothing more, and its file leaves
 * the branch. The node stays, for a FORGET that is on its way.
 */
void lost_forget_end(struct node_table *table, struct node *node,
		     const struct lost_forget *lost);

#endif
