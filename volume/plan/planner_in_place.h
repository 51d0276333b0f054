/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Growth of a volume's extents in the pools where they are: the half of
 * planner_grow() that makes no new extents.
 */
#ifndef VOLUME_PLANNER_IN_PLACE_H
#define VOLUME_PLANNER_IN_PLACE_H

#include "volume/plan/planner.h"

struct in_place;

/*
 * Measure. Arguments are as planner_grow() has them and borrowed until
 * in_place_free().
 *
 * @max_extent  bytes; no split grows beyond it; 0: no limit
 */
int in_place_new(const struct planner_split *splits, size_t n_splits,
		 const struct planner_pool *pools, size_t n_pools,
		 uint64_t max_extent, struct in_place **ret, struct error *err);
void in_place_free(struct in_place *g); /* NULL is fine */

/* Bytes, all splits together: now, and at most. */
uint64_t in_place_size(const struct in_place *g);
uint64_t in_place_largest(const struct in_place *g);

/*
 * Set `available` of the pools with splits in them to the space that is left
 * when the splits are as large as they can be.
 *
 * @pools  a copy of the measured ones
 */
void in_place_leave(const struct in_place *g, struct planner_pool *pools);

/*
 * @capacity   bytes, multiple of 4096, from in_place_size() to
 *             in_place_largest(): the sum of the new sizes
 * @ret_sizes  of each split, bytes, none smaller than now
 */
void in_place_share(struct in_place *g, uint64_t capacity, uint64_t *ret_sizes);

/* Why @capacity is too much. @ret: ERROR_TEXT_MAX bytes. */
void in_place_tell(const struct in_place *g, uint64_t capacity, char *ret);

#endif
