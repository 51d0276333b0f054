/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where to put a volume: a pure function of the request and the pools. The
 * same input gives the same answer.
 *
 * As few extents as serve; among those the pools with the most room; sizes in
 * proportion to the room, so that the pools fill evenly.
 */
#ifndef VOLUME_PLANNER_H
#define VOLUME_PLANNER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "volume/label.h"
#include "volume/volume_record.h"

#define PLANNER_UNIT (UINT64_C(4) << 20)       /* bytes; only the last split */
					       /* may end elsewhere */
#define PLANNER_EXTENT_MIN VOLUME_CAPACITY_MIN /* bytes */

struct planner_pool {
	const char *node;            /* borrowed, as are the next two */
	const char *pool;            /* unique on the node */
	const struct labels *labels; /* of the node; NULL: none */
	uint64_t available;          /* bytes, the largest extent it takes */
	bool online;
};

struct planner_split {
	size_t pool;   /* index into the pools given */
	uint64_t size; /* bytes */
};

/*
 * @spec  checked (volume_spec_check)
 * @ret   owned, *ret_count items whose sizes add up to spec->capacity
 *
 * -ENOSPC: it cannot be done with these pools; the text says what was asked,
 * what is free in all, and where most of it is.
 */
int planner_place(const struct volume_spec *spec,
		  const struct planner_pool *pools, size_t n_pools,
		  struct planner_split **ret, size_t *ret_count,
		  struct error *err);

/*
 * Make what there is larger, in the pools where it is: in proportion to what
 * each can take, by multiples of PLANNER_UNIT but for one split. The order of
 * the pools does not matter.
 *
 * @splits      at most VOLUME_SPLITS_MAX; each one's pool is among @pools;
 *              together at most VOLUME_CAPACITY_MAX
 * @max_extent  bytes; no split grows beyond it; 0: no limit
 * @capacity    bytes, multiple of 4096: what the new sizes add up to
 * @ret_sizes   n_splits of them, bytes, none smaller than now
 *
 * -ENOSPC: they cannot hold it; the text says how large it could become and
 * what is free where. -ERANGE: smaller than now.
 */
int planner_grow(const struct planner_split *splits, size_t n_splits,
		 const struct planner_pool *pools, size_t n_pools,
		 uint64_t max_extent, uint64_t capacity, uint64_t *ret_sizes,
		 struct error *err);

#endif
