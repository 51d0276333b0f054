/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copies of a node table, by branch and handle: a hash table that grows;
 * guarded by the table's lock.
 */
#ifndef UNION_NODE_INDEX_H
#define UNION_NODE_INDEX_H

#include "union/node/node.h"

/* False: no memory. */
bool node_index_init(struct node_table *table);

/* The one that is not gone; or NULL. */
struct copy *node_index_find(const struct node_table *table, unsigned branch,
			     const struct handle *handle);

void node_index_add(struct node_table *table, struct copy *copy);

/* There will be so many: make room at once. Without memory, later. */
void node_index_expect(struct node_table *table, uint64_t copies);

/* It is there. */
void node_index_remove(struct node_table *table, struct copy *copy);

#endif
