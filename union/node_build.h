/* SPDX-License-Identifier: Apache-2.0 */
/* Filling a node table that nobody uses yet, part by part: node_restore(). */
#ifndef UNION_NODE_BUILD_H
#define UNION_NODE_BUILD_H

#include "union/node.h"

/* There will be so many copies: make room at once. Without memory, later. */
void node_build_expect(struct node_table *table, uint64_t copies);

/*
 * @node (taken; NULL: none, the id is free) has the id @id. All from
 * NODE_ROOT_ID on, in order. 0 or -ENOMEM.
 */
int node_build(struct node_table *table, uint64_t id, struct node *node);

/* All were built: the ids of none are free. */
void node_build_end(struct node_table *table);

/* A copy of it, with its record. 0 or -ENOMEM. */
int node_build_copy(struct node_table *table, struct node *node,
		    unsigned branch, const struct handle *handle,
		    uint32_t record, struct copy **ret);

/* With its copies: if nobody has it, it sleeps or is freed. */
void node_build_unused(struct node_table *table, uint64_t id);

/* A record that no copy has. */
void node_build_free_record(struct node_table *table, uint32_t record);

#endif
