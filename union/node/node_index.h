/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copies of a node table, by branch and handle. This is a hash table that
 * grows, guarded by the table's lock.
 */
#ifndef UNION_NODE_INDEX_H
#define UNION_NODE_INDEX_H

#include "union/node/node.h"

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
