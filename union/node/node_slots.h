/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places of nodes and copies in the table's state memory: the id of a node is
 * its place. Those that are free are a list in themselves. The table's lock is
 * held.
 */
#ifndef UNION_NODE_SLOTS_H
#define UNION_NODE_SLOTS_H

#include "union/node/node.h"

/* A node that is not there yet, all zero but its id; NULL: there are too many.
 */
struct node *node_slot_take(struct node_table *table);

/* @node (its id is set) is not there, and may be taken. */
void node_slot_give(struct node_table *table, struct node *node);

/* The same of copies; nothing else of it is set. */
struct copy *copy_slot_take(struct node_table *table);
void copy_slot_give(struct node_table *table, struct copy *copy);

/* As copy->hash_next says it. */
uint32_t copy_place(const struct node_table *table, const struct copy *copy);
struct copy *copy_at(const struct node_table *table, uint32_t place);

#endif
