/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/plan/volume_room.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "volume/op/context.h"
#include "volume/plan/capacity.h"

#define VOLUME_UNIT 4096u /* bytes; volume_spec_check() */

/* ---- of pools ---- */

static bool places(struct volume_spec *spec, uint64_t capacity,
		   const struct planner_pool *pools, size_t n)
{
	auto_free struct planner_split *splits = NULL;
	size_t count;

	spec->capacity = capacity - capacity % volume_spec_unit(spec);
	return planner_place(spec, pools, n, &splits, &count, NULL) == 0;
}

static uint64_t minimum_of(const struct volume_spec *spec)
{
	uint64_t least = volume_spec_split_minimum(spec), units;

	if (volume_spec_stripe(spec))
		return volume_spec_minimum(spec);
	units = (least + PLANNER_UNIT - 1) / PLANNER_UNIT;
	units *= spec->min_splits ? spec->min_splits : 1;
	/* The file system of a device may need more than an extent of it. */
	if (volume_spec_minimum(spec) > units * PLANNER_UNIT)
		return volume_spec_minimum(spec);
	return units * PLANNER_UNIT;
}

static int compare_sizes(const void *a_, const void *b_)
{
	const uint64_t *a = a_, *b = b_;

	return *a < *b ? 1 : *a > *b ? -1 : 0;
}

static uint64_t add_sizes(uint64_t a, uint64_t b)
{
	uint64_t sum;

	return __builtin_add_overflow(a, b, &sum) ? UINT64_MAX : sum;
}

/*
 * Return a size that no volume is above: whole units of the largest pools, as
 * many as it may have splits, and the rest of one of them.
 */
static uint64_t upper_bound(const struct volume_spec *spec, uint64_t *sizes,
			    size_t n)
{
	uint64_t sum = 0, tail = 0;
	size_t most = n;

	qsort(sizes, n, sizeof(*sizes), compare_sizes);
	if (!spec->share_pools) {
		size_t limit = spec->max_splits ? spec->max_splits
						: VOLUME_SPLITS_MAX;

		most = n < limit ? n : limit;
	}
	for (size_t i = 0; i < most; i++) {
		uint64_t rest = sizes[i] % PLANNER_UNIT;

		sum = add_sizes(sum, sizes[i] - rest);
		tail = rest > tail ? rest : tail;
	}
	sum = add_sizes(sum, tail);
	return sum < VOLUME_CAPACITY_MAX ? sum : VOLUME_CAPACITY_MAX;
}

/*
 * Fill @sizes with the bytes of each pool that a volume may use. Returns the
 * number of pools that may be used at all; *ret_available is their space for
 * many volumes.
 */
static size_t usable_pools(const struct volume_spec *spec,
			   const struct planner_pool *pools, size_t n,
			   uint64_t *sizes, uint64_t *ret_available)
{
	struct volume_spec one = *spec;
	size_t count = 0;

	one.min_splits = 0;
	/* One of several pools that a device is in. */
	if (volume_spec_stripe(spec))
		(void)strcpy(one.layout, "linear");
	if (volume_spec_is_device(spec))
		one.fs_type[0] = '\0';
	for (size_t i = 0; i < n; i++) {
		uint64_t size = pools[i].available -
				pools[i].available % VOLUME_UNIT;

		if (!places(&one, minimum_of(&one), &pools[i], 1))
			continue;
		*ret_available = add_sizes(*ret_available, size);
		if (spec->max_extent && !spec->share_pools &&
		    size > spec->max_extent)
			size = spec->max_extent -
			       spec->max_extent % VOLUME_UNIT;
		sizes[count++] = size;
	}
	return count;
}

int volume_room_of_pools(const struct volume_spec *spec,
			 const struct planner_pool *pools, size_t n_pools,
			 struct volume_room *ret, struct error *err)
{
	auto_free uint64_t *sizes = calloc(n_pools + 1, sizeof(*sizes));
	struct volume_spec tried = *spec; /* its lists stay the caller's */
	struct volume_room room = {.minimum = minimum_of(spec)};
	uint64_t low, high;
	size_t n;

	if (!sizes)
		return error_set(err, ENOMEM, "out of memory");
	n = usable_pools(spec, pools, n_pools, sizes, &room.available);
	high = upper_bound(spec, sizes, n);
	low = room.minimum;
	if (high >= low && places(&tried, high, pools, n_pools))
		room.maximum = high;
	/* A limit on splits within shared pools: look for it. */
	else if (high > low && places(&tried, low, pools, n_pools)) {
		while (high - low > VOLUME_UNIT) {
			uint64_t middle = low + (high - low) / 2;

			middle -= middle % VOLUME_UNIT;
			if (places(&tried, middle, pools, n_pools))
				low = middle;
			else
				high = middle;
		}
		room.maximum = low;
	}
	room.maximum -= room.maximum % volume_spec_unit(spec);
	*ret = room;
	return 0;
}

/* ---- of the nodes ---- */

static int room_find(const struct volume_spec *spec,
		     const struct capacity *capacity, struct volume_room *ret,
		     struct error *err)
{
	struct volume_spec checked = {0};
	int r = volume_spec_copy(spec, &checked, err);

	if (r == 0) {
		checked.capacity = VOLUME_CAPACITY_MAX;
		r = volume_spec_check(&checked, err);
	}
	if (r == 0)
		r = volume_room_of_pools(&checked, capacity->pools,
					 capacity->n_pools, ret, err);
	for (size_t i = 0; r == 0 && i < capacity->n_nodes; i++)
		ret->silent += !capacity->nodes[i].reachable;
	volume_spec_done(&checked);
	return r;
}

int volume_rooms_get(struct volume_context *ctx,
		     const struct volume_spec *const *specs, size_t n,
		     struct volume_room *ret, struct error *err)
{
	struct capacity capacity = {0};
	int r = capacity_load(ctx, &capacity, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		r = room_find(specs[i], &capacity, &ret[i], err);
	capacity_done(&capacity);
	return r;
}
