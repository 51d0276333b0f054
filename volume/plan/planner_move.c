/* SPDX-License-Identifier: Apache-2.0 */
/* Where a split goes when it leaves its pool: placed as if it were alone. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/plan/planner.h"

/*
 * Take away the room of pools that may not have it: its own, and those of the
 * other splits, unless they may share. Splits of a linear device may, as when
 * it grows.
 */
static void leave_others(const struct volume_spec *spec,
			 const struct planner_split *splits, size_t n_splits,
			 size_t index, struct planner_pool *pools)
{
	const bool share = spec->share_pools || (volume_spec_is_device(spec) &&
						 !volume_spec_stripe(spec));

	for (size_t i = 0; i < n_splits; i++) {
		if (splits[i].pool != PLANNER_NO_POOL && (i == index || !share))
			pools[splits[i].pool].available = 0;
	}
}

/* The volume as if the split were all of it. @spec's lists are borrowed. */
static struct volume_spec spec_alone(const struct volume_spec *spec,
				     uint64_t size)
{
	struct volume_spec one = *spec;

	(void)strcpy(one.layout, "linear");
	one.stripe_width = 0;
	one.stripe_unit = 0;
	one.fs_type[0] = '\0';
	one.capacity = size;
	one.min_splits = 0;
	one.max_splits = 1;
	one.max_extent = 0;
	return one;
}

int planner_move(const struct volume_spec *spec,
		 const struct planner_split *splits, size_t n_splits,
		 size_t index, const struct planner_pool *pools, size_t n_pools,
		 size_t *ret_pool, struct error *err)
{
	auto_free struct planner_pool *left = calloc(n_pools + 1,
						     sizeof(*left));
	auto_free struct planner_split *placed = NULL;
	const struct volume_spec one = spec_alone(spec, splits[index].size);
	/* The split may be smaller than any that is made today. */
	const struct planner_beside beside = {.spare = VOLUME_CAPACITY_MAX};
	size_t n = 0;
	int r;

	if (!left)
		return error_set(err, ENOMEM, "out of memory");
	memcpy(left, pools, n_pools * sizeof(*left));
	leave_others(spec, splits, n_splits, index, left);
	r = planner_place_beside(&one, left, n_pools, &beside, &placed, &n,
				 err);
	if (r == 0)
		*ret_pool = placed[0].pool;
	return r;
}
