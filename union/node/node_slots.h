/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places of nodes and copies in the table's state memory: the id of a node is
 * its place. Free places are a linked list in that memory. The table's lock is
 * held.
 */
#ifndef UNION_NODE_SLOTS_H
#define UNION_NODE_SLOTS_H

#include "union/node/node.h"
#include "union/state/state.h"

/* Take a place for a node that is not there yet, all zero but its id; NULL:
 * there are too many.
 */
struct node *node_slot_take(struct node_table *table);

/* Free the place of @node (its id is set), which is not there. */
void node_slot_give(struct node_table *table, struct node *node);

/* Do the same for copies; no other member is set. */
struct copy *copy_slot_take(struct node_table *table);
void copy_slot_give(struct node_table *table, struct copy *copy);

/* Convert between a copy and its place, as copy->hash_next has it. */
static inline uint32_t copy_place(const struct node_table *table,
				  const struct copy *copy)
{
	return (uint32_t)(copy - table->state->copies) + 1;
}

static inline struct copy *copy_at(const struct node_table *table,
				   uint32_t place)
{
	return place ? &table->state->copies[place - 1] : NULL;
}

#endif
