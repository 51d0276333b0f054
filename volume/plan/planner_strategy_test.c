/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "volume/plan/planner.h"
#include "volume/testkit/planner_test_kit.h"

static const char *const names[SMALL_MAX] = {"a", "b", "c", "d",
					     "e", "f", "g", "h"};

static struct volume_spec placed_as(const char *placement, const char *node,
				    uint64_t capacity)
{
	struct volume_spec spec = {.capacity = capacity};

	(void)strcpy(spec.placement, placement);
	(void)strcpy(spec.local_node, node);
	assert_int_equal(volume_spec_check(&spec, NULL), 0);
	return spec;
}

/* ---- packed ---- */

static void packed_takes_the_fullest_pool_that_holds_it(void **state)
{
	struct planner_pool pools[] = {
		pool_of("a", 9 * GIB), pool_of("b", 3 * GIB),
		pool_of("c", 2 * GIB), pool_of("d", GIB)};
	struct volume_spec spec = placed_as("packed", "", 2 * GIB);
	struct planner_split *splits;
	size_t n;

	(void)state;
	assert_int_equal(planner_place(&spec, pools, 4, &splits, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(splits[0].pool, 2);
	free(splits);
	spec.capacity += 4096;
	assert_int_equal(planner_place(&spec, pools, 4, &splits, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(splits[0].pool, 1);
	free(splits);
}

static void packed_fills_each_before_the_next(void **state)
{
	struct planner_pool pools[] = {
		pool_of("a", 9 * GIB), pool_of("b", 3 * GIB),
		pool_of("c", 2 * GIB), pool_of("d", GIB)};
	struct volume_spec spec = placed_as("packed", "", 10 * GIB + 4096);
	struct planner_split *splits;
	size_t n;

	(void)state;
	assert_int_equal(planner_place(&spec, pools, 4, &splits, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_int_equal(splits[0].pool, 2);
	assert_int_equal(splits[0].size, 2 * GIB);
	assert_int_equal(splits[1].pool, 0);
	assert_int_equal(splits[1].size, 8 * GIB + 4096);
	free(splits);
	/*
	 * The rest for the last split is too small for an extent: the first
	 * gives.
	 */
	spec.capacity = GIB + 4 * MIB;
	spec.min_splits = 2;
	pools[2].online = false;
	assert_int_equal(planner_place(&spec, pools, 4, &splits, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_int_equal(splits[0].pool, 3);
	assert_int_equal(splits[1].pool, 1);
	assert_int_equal(splits[1].size, PLANNER_EXTENT_MIN);
	free(splits);
}

static void packed_and_shared_stays_in_one_pool(void **state)
{
	struct planner_pool pools[] = {pool_of("a", 9 * GIB),
				       pool_of("b", 3 * GIB)};
	struct volume_spec spec = placed_as("packed", "", 2 * GIB);
	struct planner_split *splits;
	size_t n;

	(void)state;
	spec.min_splits = 4;
	spec.share_pools = true;
	assert_int_equal(planner_place(&spec, pools, 2, &splits, &n, NULL), 0);
	assert_int_equal(n, 4);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(splits[i].pool, 1);
	free(splits);
}

/* ---- local ---- */

static void local_begins_with_its_node(void **state)
{
	struct planner_pool pools[] = {pool_of("a", 9 * GIB),
				       pool_of("b", 3 * GIB), pool_of("b", GIB),
				       pool_of("c", 5 * GIB)};
	struct volume_spec spec = placed_as("local", "b", 3 * GIB);
	struct planner_split *splits;
	size_t n;

	(void)state;
	pools[2].pool = "q";
	assert_int_equal(planner_place(&spec, pools, 4, &splits, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(splits[0].pool, 1);
	free(splits);
	spec.capacity = 6 * GIB;
	assert_int_equal(planner_place(&spec, pools, 4, &splits, &n, NULL), 0);
	assert_int_equal(n, 3);
	assert_int_equal(splits[0].pool, 1);
	assert_int_equal(splits[0].size, 3 * GIB);
	assert_int_equal(splits[1].pool, 2);
	assert_int_equal(splits[1].size, GIB);
	assert_int_equal(splits[2].pool, 0);
	assert_int_equal(splits[2].size, 2 * GIB);
	free(splits);
}

static void local_is_a_wish(void **state)
{
	struct planner_pool pools[] = {pool_of("a", 9 * GIB),
				       pool_of("b", 3 * GIB),
				       pool_of("c", 5 * GIB)};
	struct volume_spec spec = placed_as("local", "b", 6 * GIB);
	struct planner_split *splits;
	size_t n;

	(void)state;
	spec.max_splits = 1;
	assert_int_equal(planner_place(&spec, pools, 3, &splits, &n, NULL), 0);
	assert_int_equal(splits[0].pool, 0);
	free(splits);
	(void)strcpy(spec.local_node, "nowhere");
	assert_int_equal(planner_place(&spec, pools, 3, &splits, &n, NULL), 0);
	assert_int_equal(splits[0].pool, 0);
	free(splits);
}

/* ---- any ---- */

static uint64_t sum_at(const struct planner_pool *pools,
		       const struct planner_split *splits, size_t n,
		       const char *node)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < n; i++)
		if (!node || strcmp(pools[splits[i].pool].node, node) == 0)
			sum += splits[i].size;
	return sum;
}

/* What @set (a bit for each pool) holds, whole units and one tail. */
static uint64_t holds(const struct planner_pool *pools, unsigned set)
{
	uint64_t units = 0, tail = 0;

	for (size_t i = 0; i < SMALL_MAX; i++) {
		uint64_t bytes;

		if (!(set >> i & 1))
			continue;
		bytes = pools[i].available & ~UINT64_C(4095);
		units += bytes / PLANNER_UNIT;
		if (bytes % PLANNER_UNIT > tail)
			tail = bytes % PLANNER_UNIT;
	}
	return units * PLANNER_UNIT + tail;
}

/* No pool of it can be changed for a fuller one that is not used. */
static void check_packed(const struct volume_spec *spec,
			 const struct planner_pool *pools, size_t n_pools,
			 const struct planner_split *splits, size_t n)
{
	unsigned set = 0;

	for (size_t i = 0; i < n; i++)
		set |= 1u << splits[i].pool;
	for (size_t in = 0; in < n_pools; in++) {
		if (set >> in & 1 || !pools[in].online ||
		    pools[in].available < PLANNER_EXTENT_MIN)
			continue;
		for (size_t out = 0; out < n_pools; out++)
			if (set >> out & 1 &&
			    pools[in].available / 4096 <
				    pools[out].available / 4096)
				assert_true(holds(pools, (set & ~(1u << out)) |
								 1u << in) <
					    spec->capacity);
	}
}

/*
 * Where another pool is used, those of the node are full: but for the least
 * an extent may have, that the others had to be given.
 */
static void check_local(const struct volume_spec *spec,
			const struct planner_pool *pools, size_t n_pools,
			const struct planner_split *splits, size_t n)
{
	uint64_t here = sum_at(pools, splits, n, spec->local_node), room = 0;
	uint64_t away = spec->capacity - here;
	size_t others = 0;

	for (size_t i = 0; i < n; i++)
		others += strcmp(pools[splits[i].pool].node,
				 spec->local_node) != 0;
	for (size_t i = 0; i < n_pools; i++)
		if (pools[i].online &&
		    pools[i].available >= PLANNER_EXTENT_MIN &&
		    strcmp(pools[i].node, spec->local_node) == 0)
			room += pools[i].available / PLANNER_UNIT *
				PLANNER_UNIT;
	assert_true(others == 0 || here >= room ||
		    away <= others * PLANNER_EXTENT_MIN + PLANNER_UNIT);
}

/* What all plans are; how many extents, the balanced one says. */
static void check_same_promises(const struct volume_spec *spec,
				const struct planner_pool *pools,
				const struct planner_split *splits, size_t n,
				size_t fewest)
{
	unsigned used = 0;

	assert_true(sum_at(pools, splits, n, NULL) == spec->capacity);
	for (size_t i = 0; i < n; i++) {
		assert_false(used >> splits[i].pool & 1);
		used |= 1u << splits[i].pool;
		assert_true(pools[splits[i].pool].online);
		assert_true(splits[i].size <= pools[splits[i].pool].available);
		assert_true(splits[i].size >= PLANNER_EXTENT_MIN);
		assert_true(splits[i].size % PLANNER_UNIT == 0 || i == n - 1);
	}
	assert_true(!spec->max_splits || n <= spec->max_splits);
	assert_true(n >= spec->min_splits && n >= fewest);
}

static void check_one(struct volume_spec *spec,
		      const struct planner_pool *pools, size_t n_pools)
{
	struct planner_split *plain = NULL, *splits = NULL;
	size_t fewest = 0, n = 0;
	int r = planner_place(spec, pools, n_pools, &plain, &fewest, NULL);

	(void)strcpy(spec->placement, "packed");
	assert_int_equal(planner_place(spec, pools, n_pools, &splits, &n, NULL),
			 r);
	if (r == 0) {
		assert_int_equal(n, fewest);
		check_same_promises(spec, pools, splits, n, fewest);
		check_packed(spec, pools, n_pools, splits, n);
		free(splits);
	}
	(void)strcpy(spec->placement, "local");
	(void)strcpy(spec->local_node, names[random_below(SMALL_MAX)]);
	assert_int_equal(planner_place(spec, pools, n_pools, &splits, &n, NULL),
			 r);
	if (r == 0) {
		check_same_promises(spec, pools, splits, n, fewest);
		if (!spec->max_splits && !spec->min_splits && n > fewest)
			check_local(spec, pools, n_pools, splits, n);
		free(splits);
	}
	free(plain);
}

static void each_holds_what_the_others_hold(void **state)
{
	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct planner_pool pools[SMALL_MAX];
		size_t n_pools = random_below(SMALL_MAX + 1);
		struct volume_spec spec = spec_of(
			64 * MIB + 4096 * random_below(3 * GIB / 4096));

		for (size_t i = 0; i < n_pools; i++) {
			/* Nodes with two pools, too. */
			pools[i] = pool_of(names[i - (i & random_below(2))],
					   random_below(GIB));
			pools[i].pool = names[i];
			pools[i].online = random_below(10) > 0;
		}
		if (random_below(3) == 0)
			spec.min_splits = (unsigned)random_below(4);
		if (random_below(3) == 0)
			spec.max_splits = spec.min_splits +
					  (unsigned)random_below(4);
		check_one(&spec, pools, n_pools);
	}
}

static void the_order_of_the_pools_does_not_matter(void **state)
{
	static const char *const placements[] = {"packed", "local"};
	struct planner_pool pools[] = {
		pool_of("a", 2 * GIB), pool_of("b", 2 * GIB),
		pool_of("c", 2 * GIB), pool_of("d", GIB)};
	struct planner_pool turned[] = {pools[2], pools[3], pools[0], pools[1]};
	struct planner_split *one, *two;
	size_t n, m;

	(void)state;
	for (size_t k = 0; k < 2; k++) {
		struct volume_spec spec = placed_as(placements[k], k ? "b" : "",
						    5 * GIB);

		assert_int_equal(planner_place(&spec, pools, 4, &one, &n, NULL),
				 0);
		assert_int_equal(
			planner_place(&spec, turned, 4, &two, &m, NULL), 0);
		assert_int_equal(n, m);
		for (size_t i = 0; i < n; i++) {
			assert_string_equal(pools[one[i].pool].node,
					    turned[two[i].pool].node);
			assert_int_equal(one[i].size, two[i].size);
		}
		free(one);
		free(two);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packed_takes_the_fullest_pool_that_holds_it),
		cmocka_unit_test(packed_fills_each_before_the_next),
		cmocka_unit_test(packed_and_shared_stays_in_one_pool),
		cmocka_unit_test(local_begins_with_its_node),
		cmocka_unit_test(local_is_a_wish),
		cmocka_unit_test(each_holds_what_the_others_hold),
		cmocka_unit_test(the_order_of_the_pools_does_not_matter),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
