/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which splits move so that pools are equally full: a pure function of the
 * pools and the records. A split goes from the fullest pool that can give one
 * to the emptiest that its volume's spec allows. The largest such split goes,
 * and each goes once at most.
 */
#ifndef VOLUME_PLANNER_REBALANCE_H
#define VOLUME_PLANNER_REBALANCE_H

#include "volume/plan/planner.h"

/*
 * No split moves for less: the pool it goes to stays this much emptier than
 * the one it leaves was. Parts of 1 of a pool.
 */
#define PLANNER_REBALANCE_GAIN 0.05

struct planner_fill {
	struct planner_pool pool;
	uint64_t reserved; /* bytes that are not available */
};

/* Return how full a pool is, from 0 to 1. */
double planner_fullness(const struct planner_fill *fill);

struct planner_shift {
	size_t record, split; /* indices */
	size_t from, to;      /* pools */
};

/*
 * @fills    the pools; changed to what they are after the moves
 * @records  NULL: a volume whose splits stay
 * @ret      owned, in the order in which they are made; each has its room when
 *           it is made
 */
int planner_rebalance(struct planner_fill *fills, size_t n_fills,
		      const struct volume_record *const *records,
		      size_t n_records, struct planner_shift **ret,
		      size_t *ret_count, struct error *err);

#endif
