/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Free capacity of the nodes' pools, as the planner takes it.
 *
 * Most nodes say in their records what room they have (node_report.h), and are
 * not asked. A plan is made by that. Then only the nodes that it chose are
 * asked (capacity_settle()). One that has less room than its report says, or
 * does not answer, is left out, and the next best are chosen. A refusal is
 * given only when every node was asked.
 */
#ifndef VOLUME_CAPACITY_H
#define VOLUME_CAPACITY_H

#include "volume/plan/planner.h"
#include "volume/record/known_nodes.h"
#include "volume/volume.h"

struct capacity_node {
	const char *name; /* borrowed from known, as its labels are */
	const struct labels *labels;
	bool reported;  /* by its report alone: it was not asked */
	bool reachable; /* reported, or it answered, or has nothing to ask */
	bool newer;     /* too new for this program: not reachable */
	char *problem;  /* owned; when not reachable; NULL without memory */
	bool wanted;    /* to be asked next */
};

/* Knowledge of a pool, beside planner_pool. */
struct capacity_room {
	char pool[RECORD_NAME_SIZE];
	size_t node;              /* index into nodes */
	struct known_pool *known; /* borrowed; NULL: not by a report */
	uint64_t available;       /* bytes; planner_pool.available at first */
	uint64_t reserved;        /* bytes; known of nodes that were asked */
	bool online, cordoned;
	bool changed;   /* cordoned since it was planned with */
	uint64_t taken; /* bytes; capacity_take() */
};

struct capacity {
	struct known_nodes *known;
	bool kept;                   /* known was not loaded for this */
	struct capacity_node *nodes; /* owned; every node */
	size_t n_nodes;
	/*
	 * Pools of the nodes that are reachable; owned, and so are rooms, one
	 * of each. A plan may change what is available, for itself. An index
	 * stays the same pool while a plan is made and the nodes are asked.
	 */
	struct planner_pool *pools;
	struct capacity_room *rooms;
	size_t n_pools;
};

/*
 * Load the room of all nodes, from their reports where they tell it
 * (known_load.h). Nodes without such a report are asked. capacity_done().
 */
int capacity_load(struct volume_context *ctx, struct capacity *ret,
		  struct error *err);
void capacity_done(struct capacity *capacity);

/*
 * Ask a node at the next capacity_ask_wanted(), if its report alone tells of
 * it. No such node: nothing.
 */
void capacity_want(struct capacity *capacity, const char *node);
/* Ask all those, side by side. A silent node is no error. */
int capacity_ask_wanted(struct volume_context *ctx, struct capacity *capacity,
			struct error *err);
/*
 * Ask every node that was not asked. Returns how many there were, or a negative
 * errno.
 */
int capacity_ask_rest(struct volume_context *ctx, struct capacity *capacity,
		      struct error *err);

/*
 * A plan by what is known. It calls capacity_take() for all the room that it
 * would use, and changes nothing but its own @context and what is available.
 */
typedef int (*capacity_plan)(void *context, struct capacity *capacity,
			     struct error *err);

/* The plan uses @bytes of pools[@pool]. */
void capacity_take(struct capacity *capacity, size_t pool, uint64_t bytes);

/*
 * Make a plan, and ask the nodes that it takes room of. Make another one while
 * one of them has not the room, or is silent. A plan that fails is tried again
 * by records of now, and a last time after all nodes were asked. So its error
 * is true of the nodes themselves.
 *
 * Costs a question to each node taken, in most cases, however many there are.
 * 0, or the last error of @plan.
 */
int capacity_settle(struct volume_context *ctx, struct capacity *capacity,
		    capacity_plan plan, void *context, struct error *err);

/* The node of that name, NULL when there is none. Borrowed. */
const struct capacity_node *capacity_node(const struct capacity *capacity,
					  const char *name);

/* The pool of that name of a reachable node; NULL: none. Borrowed. */
struct planner_pool *capacity_pool(const struct capacity *capacity,
				   const char *node, const char *pool);

/*
 * Prefix @err, a refusal, with the nodes that did not answer, or are too new
 * for this program. Returns how many there are.
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
