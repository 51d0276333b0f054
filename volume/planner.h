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

#endif
