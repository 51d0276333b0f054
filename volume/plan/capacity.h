/* SPDX-License-Identifier: Apache-2.0 */
/* Free capacity of the nodes' pools, as the planner takes it. */
#ifndef VOLUME_CAPACITY_H
#define VOLUME_CAPACITY_H

#include "volume/plan/planner.h"
#include "volume/volume.h"

struct capacity {
	struct node_state *states; /* owned; every node */
	size_t n_states;
	struct planner_pool *pools; /* owned; of nodes that answered */
	size_t n_pools;
};

/* Ask every node; a silent node is no error. capacity_done(). */
int capacity_ask(struct volume_context *ctx, struct capacity *ret,
		 struct error *err);
void capacity_done(struct capacity *capacity);

/* The node of that name, NULL when there is none. Borrowed. */
const struct node_state *capacity_node(const struct capacity *capacity,
				       const char *name);

/* The pool of that name of a node that answered; NULL: none. Borrowed. */
struct planner_pool *capacity_pool(const struct capacity *capacity,
				   const char *node, const char *pool);

/*
 * Prefix @err, a refusal, with the nodes that did not answer. Returns how many
 * there are.
 */
size_t capacity_name_silent(const struct capacity *capacity, struct error *err);

/*
 * Fill in split number @index of @record, an extent of @size bytes to be made
 * in @pool. -E2BIG: VOLUME_SPLITS_MAX.
 */
int capacity_split(const struct volume_record *record, size_t index,
		   const struct planner_pool *pool, uint64_t size,
		   struct volume_split *ret, struct error *err);

#endif
