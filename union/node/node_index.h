/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records of a node table in its state memory: their places, and copies by
 * branch and handle. The id of a node is its place. Free places are linked
 * lists in that memory: of copies by the same member as those of one hash. The
 * hash table grows. The table's lock is held.
 */
#ifndef UNION_NODE_INDEX_H
#define UNION_NODE_INDEX_H

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

/* Make the index. False: no memory. */
bool node_index_init(struct node_table *table);

/* Find the copy that is not gone; or NULL. */
struct copy *node_index_find(const struct node_table *table, unsigned branch,
			     const struct handle *handle);

void node_index_add(struct node_table *table, struct copy *copy);

/* Make room at once for so many copies. Without memory, room is made later. */
void node_index_expect(struct node_table *table, uint64_t copies);

/* Remove @copy, which is in the index. */
void node_index_remove(struct node_table *table, struct copy *copy);

#endif
