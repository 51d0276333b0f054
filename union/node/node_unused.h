/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes that nobody has, neither the kernel nor we: they sleep (node_sleep.h)
 * or are freed. The table's lock is held.
 */
#ifndef UNION_NODE_UNUSED_H
#define UNION_NODE_UNUSED_H

#include "union/node/node.h"

bool node_is_unused(const struct node *node);

/* Before somebody has it: it may be asleep. */
void node_wake(struct node_table *table, const struct node *node);

/* If nobody has it, it sleeps or is freed, and so may another be. */
void node_end_unused(struct node_table *table, struct node *node);

/* What is kept of it for as long as it is used: descriptors and names. */
void node_drop_kept(struct node_table *table, struct node *node);

/* Free it, with its copies. */
void node_free(struct node_table *table, struct node *node);

#endif
