/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes that neither the kernel nor the server has: forgotten ones
 * (forgotten.h), or to be freed. The table's lock is held.
 */
#ifndef UNION_NODE_RECLAIM_H
#define UNION_NODE_RECLAIM_H

#include "union/node/node.h"

bool node_is_unused(const struct node *node);

/* Remember a node that may be forgotten, before a thread takes it. */
void node_remember(struct node_table *table, const struct node *node);

/* Keep @node as forgotten or free it, if nobody has it. Another may be freed
 * for it. */
void node_reclaim(struct node_table *table, struct node *node);

/* Drop the descriptors and names that are kept for a node in use. */
void node_drop_kept(struct node_table *table, struct node *node);

/* Free the node, with its copies. */
void node_free(struct node_table *table, struct node *node);

#endif
