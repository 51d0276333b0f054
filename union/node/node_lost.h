/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes whose FORGET may be lost: an earlier server had taken it from the
 * kernel and was killed before it had done it. Such a node's count of lookups
 * never comes to 0. Where that keeps a removed file on its branch it is noted
 * here, each time the kernel gives back a part of the count, for who can ask
 * the kernel whether it knows the node still.
 */
#ifndef UNION_NODE_LOST_H
#define UNION_NODE_LOST_H

#include "union/node/node.h"

/* A node as it was then: what has the same id later may be another. */
struct node_lost {
	uint64_t id, generation, lookups;
};

/*
 * If @node is such a one: note it. The table's lock is held. Without memory it
 * is not noted this time.
 */
void node_lost_note(struct node_table *table, const struct node *node);

/* Each that is so now: before the first request of this server. */
void node_lost_note_all(struct node_table *table);

/* Is any noted? Takes no lock. */
bool node_lost_any(const struct node_table *table);

/* Those noted, which are no more then; owned. Their number. */
size_t node_lost_take(struct node_table *table, struct node_lost **ret);

/* The node, if it is the same and no file of it is open; held. Or NULL. */
struct node *node_lost_hold(struct node_table *table,
			    const struct node_lost *lost);

/*
 * The kernel does not know @node, held by node_lost_hold(): unless it was told
 * of it since, it keeps nothing more, and the file is none of its branch. The
 * node stays, for a FORGET that is on its way.
 */
void node_lost_end(struct node_table *table, struct node *node,
		   const struct node_lost *lost);

#endif
