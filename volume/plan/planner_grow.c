/* SPDX-License-Identifier: Apache-2.0 */
/*
 * First the present extents become larger. The rest becomes new extents, placed
 * as those of a new volume are.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "volume/plan/planner_in_place.h"

struct growth {
	const struct volume_spec *spec;
	const struct planner_split *splits;
	const struct planner_pool *pools;
	size_t n_splits, n_pools;
	uint64_t capacity;         /* bytes, asked for */
	size_t n_fixed;            /* the first splits, which do not grow */
	uint64_t fixed;            /* bytes of those */
	struct in_place *in_place; /* of the others */
};

/* The splits that lie before the end of a device stay as they are. */
static size_t count_fixed(const struct volume_spec *spec, size_t n_splits)
{
	if (volume_spec_stripe(spec))
		return n_splits;
	return volume_spec_is_device(spec) ? n_splits - 1 : 0;
}

/*
 * A volume has a fixed number of places for splits: one below its fair share
 * of them wastes its place, and holds no file worth mentioning.
 */
static uint64_t least_of_new(const struct growth *g)
{
	uint64_t least = g->capacity / VOLUME_SPLITS_MAX;

	if (g->spec->max_extent && least > g->spec->max_extent)
		least = g->spec->max_extent;
	least -= least % PLANNER_UNIT;
	return least;
}

/* Why there are no new extents to hold the rest. */
static int growth_tell(const struct growth *g, uint64_t rest,
		       const struct error *why, struct error *err)
{
	char text[ERROR_TEXT_MAX], size[SIZE_TEXT_MAX];
	char asked[SIZE_TEXT_MAX], last[SIZE_TEXT_MAX];

	if (g->n_fixed == g->n_splits) {
		if (err)
			*err = *why;
		return -ENOSPC;
	}
	if (g->n_fixed > 0)
		return error_set(
			err, ENOSPC,
			"%s asked for; its last extent could grow to %s; new "
			"extents for the other %s: %s",
			size_format(asked, g->capacity),
			size_format(last, in_place_largest(g->in_place)),
			size_format(size, rest), error_text(why));
	in_place_tell(g->in_place, g->capacity, text);
	return error_set(err, ENOSPC, "%s; new extents for the other %s: %s",
			 text, size_format(size, rest), error_text(why));
}

static int place_rest(const struct growth *g, uint64_t rest,
		      struct planner_growth *ret, struct error *err)
{
	auto_free struct planner_pool *pools = calloc(g->n_pools + 1,
						      sizeof(*pools));
	struct volume_spec spec = *g->spec; /* its lists are borrowed */
	size_t limit = spec.max_splits ? spec.max_splits : VOLUME_SPLITS_MAX;
	const struct planner_beside beside = {
		.least = least_of_new(g),
		.spare = in_place_largest(g->in_place) -
			 in_place_size(g->in_place),
	};
	struct error why = {0};
	int r;

	if (!pools)
		return error_set(err, ENOMEM, "out of memory");
	if (g->n_splits >= limit) {
		(void)error_set(&why, ENOSPC, "it has the %zu it may have",
				g->n_splits);
		return growth_tell(g, rest, &why, err);
	}
	memcpy(pools, g->pools, g->n_pools * sizeof(*pools));
	in_place_leave(g->in_place, pools);
	/* A device may come back to a pool that it had left. */
	for (size_t i = g->n_fixed; !spec.share_pools && i < g->n_splits; i++)
		pools[g->splits[i].pool].available = 0;
	/* New extents of a device get no file system of their own. */
	if (volume_spec_is_device(&spec))
		spec.fs_type[0] = '\0';
	if (volume_spec_stripe(&spec) && rest < volume_spec_minimum(&spec))
		rest = volume_spec_minimum(&spec);
	spec.capacity = rest;
	spec.min_splits = 0;
	spec.max_splits = (unsigned)(limit - g->n_splits);
	r = planner_place_beside(&spec, pools, g->n_pools, &beside, &ret->extra,
				 &ret->n_extra, &why);
	if (r == -ENOSPC)
		return growth_tell(g, rest, &why, err);
	if (r < 0 && err)
		*err = why;
	return r;
}

static int growth_plan(const struct growth *g, struct planner_growth *ret,
		       struct error *err)
{
	uint64_t largest = g->fixed + in_place_largest(g->in_place);
	uint64_t own = g->capacity;
	int r = 0;

	if (g->capacity < g->fixed + in_place_size(g->in_place))
		return error_set(err, ERANGE, "a volume cannot shrink");
	if (g->capacity > VOLUME_CAPACITY_MAX) {
		char size[SIZE_TEXT_MAX];

		return error_set(err, ENOSPC, "a volume has at most %s",
				 size_format(size, VOLUME_CAPACITY_MAX));
	}
	if (g->capacity > largest)
		r = place_rest(g, g->capacity - largest, ret, err);
	if (r < 0)
		return r;
	for (size_t i = 0; i < g->n_fixed; i++)
		ret->sizes[i] = g->splits[i].size;
	if (g->n_fixed == g->n_splits)
		return 0;
	for (size_t i = 0; i < ret->n_extra; i++)
		own -= ret->extra[i].size;
	in_place_share(g->in_place, own - g->fixed, ret->sizes + g->n_fixed);
	return 0;
}

int planner_grow(const struct volume_spec *spec,
		 const struct planner_split *splits, size_t n_splits,
		 const struct planner_pool *pools, size_t n_pools,
		 uint64_t capacity, struct planner_growth *ret,
		 struct error *err)
{
	struct growth g = {
		.spec = spec,
		.splits = splits,
		.pools = pools,
		.n_splits = n_splits,
		.n_pools = n_pools,
		.capacity = capacity,
	};
	struct planner_growth growth = {
		.sizes = calloc(n_splits + 1, sizeof(*growth.sizes)),
	};
	int r;

	if (!growth.sizes)
		return error_set(err, ENOMEM, "out of memory");
	g.n_fixed = count_fixed(spec, n_splits);
	for (size_t i = 0; i < g.n_fixed; i++)
		g.fixed += splits[i].size;
	r = in_place_new(splits + g.n_fixed, n_splits - g.n_fixed, pools,
			 n_pools, spec->max_extent, &g.in_place, err);
	if (r == 0)
		r = growth_plan(&g, &growth, err);
	in_place_free(g.in_place);
	if (r < 0)
		planner_growth_done(&growth);
	else
		*ret = growth;
	return r;
}

void planner_growth_done(struct planner_growth *growth)
{
	free(growth->sizes);
	free(growth->extra);
	*growth = (struct planner_growth){0};
}
