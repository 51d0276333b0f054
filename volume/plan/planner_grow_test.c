/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "volume/plan/planner.h"
#include "volume/testkit/planner_test_kit.h"

#define GROWN_MAX 6 /* splits in a random case */

/* ---- in place ---- */

/* planner_grow() of a volume that has all the splits it may have. */
static int grow_in_place(const struct planner_split *splits, size_t n_splits,
			 const struct planner_pool *pools, size_t n_pools,
			 uint64_t max_extent, uint64_t capacity,
			 uint64_t *ret_sizes, struct error *err)
{
	const struct volume_spec spec = {
		.max_extent = max_extent,
		.max_splits = (unsigned)n_splits,
	};
	struct planner_growth growth;
	int r = planner_grow(&spec, splits, n_splits, pools, n_pools, capacity,
			     &growth, err);

	if (r < 0)
		return r;
	assert_int_equal(growth.n_extra, 0);
	memcpy(ret_sizes, growth.sizes, n_splits * sizeof(*ret_sizes));
	planner_growth_done(&growth);
	return 0;
}

static void growth_is_in_proportion_to_the_room(void **state)
{
	(void)state;
	struct planner_pool pools[] = {pool_of("a", 2 * GIB),
				       pool_of("b", 6 * GIB),
				       pool_of("c", 50 * GIB)};
	struct planner_split splits[] = {{1, GIB}, {0, GIB + 4096}};
	uint64_t sizes[2] = {0};

	assert_int_equal(grow_in_place(splits, 2, pools, 3, 0, 6 * GIB + 4096,
				       sizes, NULL),
			 0);
	assert_int_equal(sizes[0], 4 * GIB);
	assert_int_equal(sizes[1], 2 * GIB + 4096);
}

static void growth_fills_pools_to_their_last_block(void **state)
{
	(void)state;
	struct planner_pool pools[] = {pool_of("a", 8 * MIB + 3 * 4096),
				       pool_of("b", 4 * MIB + 2 * 4096 + 7)};
	struct planner_split splits[] = {{0, GIB}, {1, GIB}};
	uint64_t sizes[2] = {1, 2}, most = 2 * GIB + 12 * MIB + 3 * 4096;
	struct error err = {0};

	assert_int_equal(
		grow_in_place(splits, 2, pools, 2, 0, most, sizes, NULL), 0);
	assert_int_equal(sizes[0], GIB + 8 * MIB + 3 * 4096);
	assert_int_equal(sizes[1], GIB + 4 * MIB);
	sizes[0] = 1;
	assert_int_equal(
		grow_in_place(splits, 2, pools, 2, 0, most + 4096, sizes, &err),
		-ENOSPC);
	assert_int_equal(sizes[0], 1);
	assert_non_null(strstr(err.msg, "it could become 2.01 GiB"));
	assert_non_null(strstr(err.msg, "from 2.00 GiB now"));
	assert_non_null(strstr(err.msg, "8.01 MiB in a/p, 4.01 MiB in b/p"));
}

static void an_offline_pool_and_a_full_extent_do_not_grow(void **state)
{
	(void)state;
	struct planner_pool pools[] = {pool_of("a", GIB), pool_of("b", GIB)};
	struct planner_split splits[] = {{0, GIB}, {1, GIB}, {1, 2 * GIB}};
	struct error err = {0};
	uint64_t sizes[3] = {0};

	pools[0].online = false;
	assert_int_equal(grow_in_place(splits, 3, pools, 2, 2 * GIB, 5 * GIB,
				       sizes, NULL),
			 0);
	assert_int_equal(sizes[0], GIB);
	assert_int_equal(sizes[1], 2 * GIB);
	assert_int_equal(sizes[2], 2 * GIB);
	assert_int_equal(grow_in_place(splits, 3, pools, 2, 2 * GIB,
				       5 * GIB + 4096, sizes, &err),
			 -ENOSPC);
	assert_non_null(strstr(err.msg, "a/p (offline)"));
	assert_int_equal(grow_in_place(splits, 3, pools, 2, 0, 4 * GIB - 4096,
				       sizes, NULL),
			 -ERANGE);
}

struct growth_case {
	struct planner_pool pools[SMALL_MAX];
	struct planner_split splits[GROWN_MAX];
	size_t n_pools, n_splits;
	uint64_t max_extent, size;
};

static void random_growth(struct growth_case *c)
{
	static const char *const names[] = {"a", "b", "c", "d",
					    "e", "f", "g", "h"};

	memset(c, 0, sizeof(*c));
	c->n_pools = 1 + random_below(SMALL_MAX);
	c->n_splits = 1 + random_below(GROWN_MAX);
	if (random_below(3) == 0)
		c->max_extent = 64 * MIB + 4096 * random_below(65536);
	for (size_t i = 0; i < c->n_pools; i++) {
		c->pools[i] = pool_of(names[i], random_below(64 * MIB));
		c->pools[i].online = random_below(10) > 0;
	}
	for (size_t i = 0; i < c->n_splits; i++) {
		c->splits[i].pool = random_below(c->n_pools);
		c->splits[i].size = 64 * MIB + 4096 * random_below(16384);
		c->size += c->splits[i].size;
	}
}

/* The same with the pools in another order. */
static void turn_pools(const struct growth_case *c, struct growth_case *ret)
{
	*ret = *c;
	for (size_t i = 0; i < c->n_pools; i++)
		ret->pools[c->n_pools - 1 - i] = c->pools[i];
	for (size_t i = 0; i < c->n_splits; i++)
		ret->splits[i].pool = c->n_pools - 1 - c->splits[i].pool;
}

/* The sum is right, none shrinks, none is beyond its pool or its limit. */
static void check_growth(const struct growth_case *c, uint64_t capacity,
			 const uint64_t *sizes)
{
	uint64_t sum = 0, used[SMALL_MAX] = {0};
	size_t odd = 0;

	for (size_t i = 0; i < c->n_splits; i++) {
		const struct planner_split *s = &c->splits[i];
		uint64_t more = sizes[i] - s->size;

		assert_true(sizes[i] >= s->size);
		assert_true(more == 0 || c->max_extent == 0 ||
			    sizes[i] <= c->max_extent);
		used[s->pool] += more;
		sum += sizes[i];
		odd += more % PLANNER_UNIT != 0;
		assert_int_equal(more % 4096, 0);
	}
	assert_int_equal(sum, capacity);
	assert_true(odd <= 1);
	for (size_t i = 0; i < c->n_pools; i++)
		assert_true(used[i] == 0 || (c->pools[i].online &&
					     used[i] <= c->pools[i].available));
}

/*
 * The most it could grow by, found by trying where the bytes beyond whole
 * units go.
 */
static uint64_t growth_limit(const struct growth_case *c)
{
	uint64_t units = 0, best = 0;

	for (size_t p = 0; p < c->n_pools; p++) {
		uint64_t room = c->pools[p].online ? c->pools[p].available : 0;
		uint64_t sum = 0, taken;

		for (size_t i = 0; i < c->n_splits; i++) {
			uint64_t size = c->splits[i].size, most = room;

			if (c->splits[i].pool != p)
				continue;
			if (c->max_extent)
				most = size < c->max_extent
					       ? c->max_extent - size
					       : 0;
			sum += (most < room ? most : room) / PLANNER_UNIT;
		}
		taken = sum < room / PLANNER_UNIT ? sum : room / PLANNER_UNIT;
		units += taken;
		for (size_t i = 0; i < c->n_splits; i++) {
			uint64_t size = c->splits[i].size;
			uint64_t most = room - taken * PLANNER_UNIT;

			if (c->splits[i].pool != p)
				continue;
			/* All of its pool's splits are full up to their limit.
			 */
			if (c->max_extent && sum == taken) {
				uint64_t rest = size < c->max_extent
							? c->max_extent - size
							: 0;

				rest = rest < room ? rest % PLANNER_UNIT : most;
				most = rest < most ? rest : most;
			}
			if (most > best)
				best = most;
		}
	}
	if (best >= PLANNER_UNIT)
		best = PLANNER_UNIT - 4096;
	return units * PLANNER_UNIT + best - best % 4096;
}

static void every_growth_is_whole_and_the_most_can_be_had(void **state)
{
	size_t grown = 0;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		uint64_t sizes[GROWN_MAX] = {0}, again[GROWN_MAX] = {0}, most,
			 more;
		struct growth_case c, turned;

		random_growth(&c);
		turn_pools(&c, &turned);
		most = growth_limit(&c);
		more = round % 3 == 0 ? most
				      : 4096 * random_below(most / 4096 + 1);
		assert_int_equal(grow_in_place(c.splits, c.n_splits, c.pools,
					       c.n_pools, c.max_extent,
					       c.size + more, sizes, NULL),
				 0);
		check_growth(&c, c.size + more, sizes);
		grown += more > 0;
		assert_int_equal(grow_in_place(turned.splits, c.n_splits,
					       turned.pools, c.n_pools,
					       c.max_extent, c.size + more,
					       again, NULL),
				 0);
		assert_memory_equal(sizes, again,
				    c.n_splits * sizeof(sizes[0]));
		assert_int_equal(grow_in_place(c.splits, c.n_splits, c.pools,
					       c.n_pools, c.max_extent,
					       c.size + most + 4096, again,
					       NULL),
				 -ENOSPC);
	}
	assert_true(grown > 10000);
}

static void pools_of_any_size_do_not_overflow(void **state)
{
	(void)state;
	struct planner_pool pools[] = {pool_of("a", UINT64_MAX),
				       pool_of("b", UINT64_MAX)};
	struct planner_split splits[] = {{0, GIB}, {1, GIB}};
	uint64_t sizes[2] = {0};

	assert_int_equal(grow_in_place(splits, 2, pools, 2, 0,
				       VOLUME_CAPACITY_MAX, sizes, NULL),
			 0);
	assert_int_equal(sizes[0] + sizes[1], VOLUME_CAPACITY_MAX);
	assert_int_equal(grow_in_place(splits, 2, pools, 2, 0,
				       VOLUME_CAPACITY_MAX + 4096, sizes, NULL),
			 -ENOSPC);
}

/* ---- beyond ---- */

static void what_does_not_fit_becomes_new_splits(void **state)
{
	(void)state;
	/* 1.5 GiB in a pool of 2 GiB, and three more such pools. */
	struct planner_pool pools[] = {
		pool_of("a", 512 * MIB), pool_of("b", 2 * GIB),
		pool_of("c", 2 * GIB), pool_of("d", GIB)};
	struct planner_split splits[] = {{0, GIB + 512 * MIB}};
	struct volume_spec spec = spec_of(GIB);
	struct planner_growth growth;

	assert_int_equal(planner_grow(&spec, splits, 1, pools, 4, 5 * GIB,
				      &growth, NULL),
			 0);
	assert_int_equal(growth.sizes[0], 2 * GIB);
	assert_int_equal(growth.n_extra, 2);
	for (size_t i = 0; i < 2; i++) {
		assert_int_equal(growth.extra[i].pool, 1 + i);
		assert_int_equal(growth.extra[i].size, GIB + 512 * MIB);
	}
	planner_growth_done(&growth);
}

static void old_splits_give_way_to_a_new_one_of_useful_size(void **state)
{
	(void)state;
	struct planner_pool pools[] = {pool_of("a", 100 * MIB),
				       pool_of("b", GIB)};
	struct planner_split splits[] = {{0, GIB}};
	struct volume_spec spec = spec_of(GIB);
	struct planner_growth growth;
	struct error err = {0};

	assert_int_equal(planner_grow(&spec, splits, 1, pools, 2,
				      GIB + 101 * MIB, &growth, NULL),
			 0);
	assert_int_equal(growth.sizes[0], GIB + 37 * MIB);
	assert_int_equal(growth.n_extra, 1);
	assert_int_equal(growth.extra[0].size, VOLUME_CAPACITY_MIN);
	planner_growth_done(&growth);

	pools[0].available = 0;
	assert_int_equal(planner_grow(&spec, splits, 1, pools, 2,
				      GIB + 63 * MIB, &growth, &err),
			 -ENOSPC);
	assert_non_null(strstr(err.msg, "the parts would be too small"));
}

static void a_new_split_is_worth_its_place(void **state)
{
	(void)state;
	/* 1 of 256 parts of 256 GiB: 1 GiB. */
	struct planner_pool pools[] = {pool_of("a", 0), pool_of("b", 900 * MIB),
				       pool_of("c", 3 * GIB)};
	struct planner_split splits[] = {{0, 253 * GIB}};
	struct volume_spec spec = spec_of(GIB);
	struct planner_growth growth;
	struct error err = {0};

	assert_int_equal(planner_grow(&spec, splits, 1, pools, 3, 256 * GIB,
				      &growth, NULL),
			 0);
	assert_int_equal(growth.n_extra, 1);
	assert_int_equal(growth.extra[0].pool, 2);
	planner_growth_done(&growth);
	assert_int_equal(planner_grow(&spec, splits, 1, pools, 3,
				      256 * GIB + 4096, &growth, &err),
			 -ENOSPC);
	assert_non_null(strstr(err.msg, "for the other 3.00 GiB: 3.00 GiB "
					"asked for, 3.00 GiB free in 1 pool"));
	assert_non_null(strstr(err.msg, "2 too full"));
}

static void new_splits_keep_to_the_spec(void **state)
{
	(void)state;
	struct planner_pool pools[] = {pool_of("a", 0), pool_of("b", 4 * GIB),
				       pool_of("c", 3 * GIB),
				       pool_of("d", 2 * GIB)};
	struct planner_split splits[] = {{0, GIB}};
	struct volume_spec spec = spec_of(GIB);
	struct planner_growth growth;
	struct error err = {0};

	assert_int_equal(name_list_add(&spec.exclude, "b", NULL), 0);
	/* Its own place does not matter any more. */
	assert_int_equal(name_list_add(&spec.exclude, "a", NULL), 0);
	spec.max_extent = 2 * GIB;
	assert_int_equal(planner_grow(&spec, splits, 1, pools, 4, 5 * GIB,
				      &growth, NULL),
			 0);
	assert_int_equal(growth.n_extra, 2);
	assert_int_equal(growth.extra[0].pool, 2);
	assert_int_equal(growth.extra[0].size, 2 * GIB);
	assert_int_equal(growth.extra[1].pool, 3);
	planner_growth_done(&growth);
	spec.max_splits = 2;
	assert_int_equal(planner_grow(&spec, splits, 1, pools, 4, 5 * GIB,
				      &growth, &err),
			 -ENOSPC);
	assert_non_null(strstr(err.msg, "2 splits, more than the 1 allowed"));
	spec.max_splits = 1;
	assert_int_equal(planner_grow(&spec, splits, 1, pools, 4, 5 * GIB,
				      &growth, &err),
			 -ENOSPC);
	assert_non_null(strstr(err.msg, "it has the 1 it may have"));
	volume_spec_done(&spec);
}

static void full_splits_leave_their_pool_to_new_ones_that_may_share_it(
	void **state)
{
	(void)state;
	struct planner_pool pools[] = {pool_of("a", 4 * GIB)};
	struct planner_split splits[] = {{0, 512 * MIB}};
	struct volume_spec spec = spec_of(GIB);
	struct planner_growth growth;
	uint64_t sum = 0;

	spec.max_extent = GIB;
	assert_int_equal(planner_grow(&spec, splits, 1, pools, 1, 3 * GIB,
				      &growth, NULL),
			 -ENOSPC);
	spec.share_pools = true;
	assert_int_equal(planner_grow(&spec, splits, 1, pools, 1, 3 * GIB,
				      &growth, NULL),
			 0);
	assert_int_equal(growth.sizes[0], GIB);
	assert_int_equal(growth.n_extra, 2);
	for (size_t i = 0; i < growth.n_extra; i++)
		sum += growth.extra[i].size;
	assert_int_equal(sum, 2 * GIB);
	planner_growth_done(&growth);
}

/* A volume with a split in some of the pools, at most one in each. */
static void random_spread(struct growth_case *c, struct volume_spec *spec)
{
	random_growth(c);
	*spec = (struct volume_spec){.max_extent = c->max_extent};
	c->n_splits = 1 + random_below(c->n_pools < GROWN_MAX ? c->n_pools
							      : GROWN_MAX);
	c->size = 0;
	for (size_t i = 0; i < c->n_splits; i++) {
		c->splits[i].pool = (i * 7 + c->n_pools / 2) % c->n_pools;
		for (size_t k = 0; k < i; k++) {
			if (c->splits[k].pool == c->splits[i].pool)
				c->n_splits = i;
		}
		if (i < c->n_splits)
			c->size += c->splits[i].size;
	}
	for (size_t i = 0; i < c->n_pools; i++)
		c->pools[i].available = random_below(300 * MIB);
	if (random_below(3) == 0)
		spec->max_splits = (unsigned)(c->n_splits + random_below(4));
	if (random_below(3) == 0)
		assert_int_equal(
			name_list_add(&spec->exclude,
				      c->pools[random_below(c->n_pools)].node,
				      NULL),
			0);
}

/* Bytes a new split can have in a pool; 0: none may be there. */
static uint64_t room_for_new(const struct growth_case *c,
			     const struct volume_spec *spec, size_t pool)
{
	uint64_t bytes = c->pools[pool].available & ~UINT64_C(4095);

	for (size_t i = 0; i < c->n_splits; i++) {
		if (c->splits[i].pool == pool)
			return 0;
	}
	if (!c->pools[pool].online ||
	    name_list_has(&spec->exclude, c->pools[pool].node))
		return 0;
	if (spec->max_extent && bytes > spec->max_extent)
		bytes = spec->max_extent;
	return bytes < PLANNER_EXTENT_MIN ? 0 : bytes;
}

/* The fewest new splits that can hold @rest; SIZE_MAX: no number of them. */
static size_t fewest_new(const struct growth_case *c,
			 const struct volume_spec *spec, uint64_t rest)
{
	size_t fewest = SIZE_MAX;

	for (unsigned set = 0; set < 1u << c->n_pools; set++) {
		size_t n = (size_t)__builtin_popcount(set);
		uint64_t units = 0, tail = 0;

		for (size_t i = 0; i < c->n_pools; i++) {
			uint64_t room = room_for_new(c, spec, i);

			if (!(set >> i & 1))
				continue;
			if (room == 0)
				n = SIZE_MAX; /* not a set to consider */
			units += room / PLANNER_UNIT;
			if (room % PLANNER_UNIT > tail)
				tail = room % PLANNER_UNIT;
			if (n == SIZE_MAX)
				break;
		}
		if (n < fewest && units * PLANNER_UNIT + tail >= rest)
			fewest = n;
	}
	return fewest;
}

static void check_extra(const struct growth_case *c,
			const struct volume_spec *spec, uint64_t capacity,
			const struct planner_growth *growth)
{
	bool used[SMALL_MAX] = {0};
	uint64_t sum = 0;

	for (size_t i = 0; i < growth->n_extra; i++) {
		const struct planner_split *s = &growth->extra[i];

		assert_true(s->pool < c->n_pools);
		assert_false(used[s->pool]);
		used[s->pool] = true;
		assert_true(s->size >= PLANNER_EXTENT_MIN);
		assert_true(s->size <= room_for_new(c, spec, s->pool));
		assert_int_equal(s->size % 4096, 0);
		sum += s->size;
	}
	check_growth(c, capacity - sum, growth->sizes);
}

static void every_growth_beyond_is_whole_and_the_fewest(void **state)
{
	size_t extended = 0, refused = 0, in_place = 0;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct planner_growth growth;
		struct volume_spec spec;
		struct growth_case c;
		uint64_t capacity, most, rest;
		size_t limit, fewest;
		int r;

		random_spread(&c, &spec);
		limit = spec.max_splits ? spec.max_splits - c.n_splits
					: VOLUME_SPLITS_MAX;
		capacity = c.size + 4096 * random_below(GIB / 4096);
		most = c.size + growth_limit(&c);
		rest = capacity > most ? capacity - most : 0;
		fewest = rest ? fewest_new(&c, &spec, rest) : 0;
		r = planner_grow(&spec, c.splits, c.n_splits, c.pools,
				 c.n_pools, capacity, &growth, NULL);
		if (fewest > limit ||
		    fewest * PLANNER_EXTENT_MIN > capacity - c.size) {
			assert_int_equal(r, -ENOSPC);
			refused++;
		} else {
			assert_int_equal(r, 0);
			assert_int_equal(growth.n_extra, fewest);
			check_extra(&c, &spec, capacity, &growth);
			planner_growth_done(&growth);
			extended += fewest > 0;
			in_place += fewest == 0;
		}
		volume_spec_done(&spec);
	}
	assert_true(extended > 2000);
	assert_true(refused > 2000);
	assert_true(in_place > 1000);
}

/* ---- devices ---- */

static struct volume_spec device_of(const char *layout, uint64_t capacity,
				    unsigned width)
{
	struct volume_spec spec = {.capacity = capacity, .stripe_width = width};
	struct error err = {0};

	(void)strcpy(spec.layout, layout);
	assert_int_equal(volume_spec_check(&spec, &err), 0);
	return spec;
}

static void a_linear_device_grows_at_its_end_only(void **state)
{
	(void)state;
	struct planner_pool pools[] = {pool_of("a", 9 * GIB), pool_of("b", GIB),
				       pool_of("c", 2 * GIB)};
	struct planner_split splits[] = {{0, GIB}, {1, GIB}};
	struct volume_spec spec = device_of("linear", 2 * GIB, 0);
	struct planner_growth growth;
	struct error err = {0};

	assert_int_equal(planner_grow(&spec, splits, 2, pools, 3, 3 * GIB,
				      &growth, NULL),
			 0);
	assert_int_equal(growth.n_extra, 0);
	assert_int_equal(growth.sizes[0], GIB);
	assert_int_equal(growth.sizes[1], 2 * GIB);
	planner_growth_done(&growth);
	/* A third extent comes back to the pool of the first. */
	assert_int_equal(planner_grow(&spec, splits, 2, pools, 3, 8 * GIB,
				      &growth, NULL),
			 0);
	assert_int_equal(growth.sizes[0], GIB);
	assert_int_equal(growth.sizes[1], 2 * GIB);
	assert_int_equal(growth.n_extra, 1);
	assert_int_equal(growth.extra[0].pool, 0);
	assert_int_equal(growth.extra[0].size, 5 * GIB);
	planner_growth_done(&growth);
	assert_int_equal(planner_grow(&spec, splits, 2, pools, 3, 20 * GIB,
				      &growth, &err),
			 -ENOSPC);
	assert_non_null(strstr(err.msg, "20.00 GiB asked for"));
}

static void a_stripe_grows_by_another_set(void **state)
{
	(void)state;
	struct planner_pool pools[] = {pool_of("a", 2 * GIB), pool_of("b", GIB),
				       pool_of("c", 128 * MIB)};
	struct planner_split splits[] = {{0, GIB}, {1, GIB}};
	struct volume_spec spec = device_of("stripe", 2 * GIB, 2);
	struct planner_growth growth;
	struct error err = {0};

	assert_int_equal(planner_grow(&spec, splits, 2, pools, 3, 3 * GIB,
				      &growth, NULL),
			 0);
	assert_int_equal(growth.sizes[0], GIB);
	assert_int_equal(growth.sizes[1], GIB);
	assert_int_equal(growth.n_extra, 2);
	assert_int_equal(growth.extra[0].pool, 0);
	assert_int_equal(growth.extra[0].size, 512 * MIB);
	assert_int_equal(growth.extra[1].pool, 1);
	assert_int_equal(growth.extra[1].size, 512 * MIB);
	planner_growth_done(&growth);
	/* No extent is too small: it gets more than was asked for. */
	assert_int_equal(planner_grow(&spec, splits, 2, pools, 3,
				      2 * GIB + 512 * 1024, &growth, NULL),
			 0);
	assert_int_equal(growth.extra[0].size, 64 * MIB);
	assert_int_equal(growth.extra[1].size, 64 * MIB);
	planner_growth_done(&growth);
	assert_int_equal(planner_grow(&spec, splits, 2, pools, 3, 5 * GIB,
				      &growth, &err),
			 -ENOSPC);
	assert_non_null(strstr(err.msg, "needs as many pools with 1.50 GiB"));
}

static void a_stripe_is_of_equal_pieces(void **state)
{
	(void)state;
	struct planner_pool pools[] = {pool_of("a", 4 * GIB), pool_of("b", GIB),
				       pool_of("c", 3 * GIB),
				       pool_of("d", 2 * GIB)};
	struct volume_spec spec = device_of("stripe", 3 * GIB, 3);
	struct planner_split *splits;
	struct error err = {0};
	size_t n;

	assert_int_equal(planner_place(&spec, pools, 4, &splits, &n, NULL), 0);
	assert_int_equal(n, 3);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(splits[i].size, GIB);
	assert_int_equal(splits[0].pool, 0);
	assert_int_equal(splits[1].pool, 2);
	assert_int_equal(splits[2].pool, 3);
	free(splits);
	(void)strcpy(spec.placement, "packed");
	assert_int_equal(planner_place(&spec, pools, 4, &splits, &n, NULL), 0);
	assert_int_equal(splits[0].pool, 1);
	free(splits);
	spec = device_of("stripe", 9 * GIB, 3);
	assert_int_equal(planner_place(&spec, pools, 4, &splits, &n, &err),
			 -ENOSPC);
	assert_non_null(strstr(err.msg, "there are 2"));
	/* Local disks of one node, or several extents in one. */
	spec.share_pools = true;
	spec.capacity = 6 * GIB;
	spec.stripe_width = 3;
	assert_int_equal(planner_place(&spec, pools, 4, &splits, &n, NULL), 0);
	assert_int_equal(n, 3);
	free(splits);
	spec = device_of("stripe", GIB, 2);
	spec.max_extent = 256 * MIB;
	assert_int_equal(planner_place(&spec, pools, 4, &splits, &n, &err),
			 -ENOSPC);
	assert_non_null(strstr(err.msg, "largest extent allowed"));
}

static void a_linear_device_goes_over_many_pools(void **state)
{
	(void)state;
	struct planner_pool pools[] = {pool_of("a", 4 * GIB), pool_of("b", GIB),
				       pool_of("c", 3 * GIB)};
	struct volume_spec spec = device_of("linear", 7 * GIB, 0);
	struct planner_split *splits;
	size_t n;

	assert_int_equal(planner_place(&spec, pools, 3, &splits, &n, NULL), 0);
	assert_int_equal(n, 2);
	free(splits);
	spec.capacity = 4 * GIB;
	assert_int_equal(planner_place(&spec, pools, 3, &splits, &n, NULL), 0);
	assert_int_equal(n, 1);
	free(splits);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(growth_is_in_proportion_to_the_room),
		cmocka_unit_test(growth_fills_pools_to_their_last_block),
		cmocka_unit_test(an_offline_pool_and_a_full_extent_do_not_grow),
		cmocka_unit_test(every_growth_is_whole_and_the_most_can_be_had),
		cmocka_unit_test(pools_of_any_size_do_not_overflow),
		cmocka_unit_test(what_does_not_fit_becomes_new_splits),
		cmocka_unit_test(
			old_splits_give_way_to_a_new_one_of_useful_size),
		cmocka_unit_test(a_new_split_is_worth_its_place),
		cmocka_unit_test(new_splits_keep_to_the_spec),
		cmocka_unit_test(
			full_splits_leave_their_pool_to_new_ones_that_may_share_it),
		cmocka_unit_test(every_growth_beyond_is_whole_and_the_fewest),
		cmocka_unit_test(a_linear_device_grows_at_its_end_only),
		cmocka_unit_test(a_stripe_grows_by_another_set),
		cmocka_unit_test(a_stripe_is_of_equal_pieces),
		cmocka_unit_test(a_linear_device_goes_over_many_pools),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
