/* SPDX-License-Identifier: Apache-2.0 */
/* A plan while the planner works on it, and what depends on the strategy. */
#ifndef VOLUME_PLANNER_PLAN_H
#define VOLUME_PLANNER_PLAN_H

#include "volume/plan/planner.h"

struct candidate {
	size_t pool;    /* index into the input */
	uint64_t bytes; /* the most it takes */
	uint64_t units; /* whole ones of that */
	uint64_t given; /* units */
	uint64_t tail;  /* bytes given beyond whole units */
	unsigned pieces;
	bool near; /* on the node that is to be filled first */
};

enum plan_strategy { PLAN_BALANCED, PLAN_PACKED, PLAN_LOCAL };

struct plan {
	const struct volume_spec *spec;
	const struct planner_pool *pools;
	enum plan_strategy strategy;
	uint64_t capacity;       /* bytes to place */
	uint64_t spare;          /* bytes that may be added to that */
	uint64_t least;          /* units, of one extent */
	struct candidate *items; /* owned; in the order of plan_sort() */
	size_t n_items;
	size_t n_used;    /* the first ones are used */
	size_t n_offline; /* pools left out, and why */
	size_t n_unwanted;
	size_t n_cordoned;
	size_t n_small;
	uint64_t free; /* bytes in all candidates */
};

enum plan_strategy plan_strategy_of(const struct volume_spec *spec);

/* The near ones first; then the largest. */
void plan_sort(struct plan *plan);

/*
 * n_used is set, and that many of the first candidates hold the capacity:
 * take others in their place where the strategy wants it. As many as before,
 * and they hold it too.
 */
void plan_choose(struct plan *plan);

/*
 * Place a set of a stripe: spec->stripe_width pieces of @piece bytes. Each is
 * in a pool of its own; with spec->share_pools, as few are in one pool as can
 * be.
 *
 * @ret  as many splits
 *
 * Returns how many of them could be placed.
 */
size_t plan_stripe(const struct plan *plan, uint64_t piece,
		   struct planner_split *ret);

/*
 * Give every whole unit of the capacity to those used: at least plan->least,
 * and no more than its units, to each.
 */
void plan_share(struct plan *plan);

#endif
