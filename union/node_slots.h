/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ids of a node table, each with a slot for its node; guarded by the
 * table's lock.
 */
#ifndef UNION_NODE_SLOTS_H
#define UNION_NODE_SLOTS_H

#include "union/node.h"

/* Where the node @id is; NULL: no such id was ever given. */
struct node **node_slot(struct node_table *table, uint64_t id);

/* An id with a slot for it; 0 when there is no memory. */
uint64_t node_slot_take(struct node_table *table);

/* @id is free, its slot is empty. Without memory it is never taken again. */
void node_slot_give(struct node_table *table, uint64_t id);

#endif
