/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/size.h"
#include "volume/plan/planner.h"
#include "volume/testkit/planner_test_kit.h"

static void one_pool_that_holds_it_gives_one_extent(void **state)
{
	(void)state;
	struct planner_pool pools[] = {pool_of("a", 3 * GIB),
				       pool_of("b", 9 * GIB),
				       pool_of("c", 4 * GIB)};
	struct volume_spec spec = spec_of(5 * GIB);
	struct planner_split *splits;
	size_t n;

	assert_int_equal(planner_place(&spec, pools, 3, &splits, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(splits[0].pool, 1);
	assert_int_equal(splits[0].size, 5 * GIB);
	free(splits);
}

static void shares_are_in_proportion_to_the_room(void **state)
{
	(void)state;
	struct planner_pool pools[] = {pool_of("a", 2 * GIB),
				       pool_of("b", 4 * GIB),
				       pool_of("c", 2 * GIB)};
	struct volume_spec spec = spec_of(6 * GIB);
	struct planner_split *splits;
	size_t n;

	spec.min_splits = 3;
	assert_int_equal(planner_place(&spec, pools, 3, &splits, &n, NULL), 0);
	assert_int_equal(n, 3);
	for (size_t i = 0; i < n; i++) {
		uint64_t want = pools[splits[i].pool].available / 4 * 3;

		assert_true(splits[i].size + PLANNER_UNIT >= want &&
			    splits[i].size <= want + PLANNER_UNIT);
	}
	free(splits);
}

static void a_pool_can_be_filled_to_its_last_block(void **state)
{
	(void)state;
	struct planner_pool pools[] = {pool_of("a", GIB + 4096 * 3)};
	struct volume_spec spec = spec_of(GIB + 4096 * 3);
	struct planner_split *splits;
	size_t n;

	assert_int_equal(planner_place(&spec, pools, 1, &splits, &n, NULL), 0);
	assert_int_equal(splits[0].size, spec.capacity);
	free(splits);
	spec.capacity += 4096;
	assert_int_equal(planner_place(&spec, pools, 1, &splits, &n, NULL),
			 -ENOSPC);
}

static void says_how_much_is_free_where(void **state)
{
	(void)state;
	struct planner_pool pools[] = {pool_of("a", 2 * GIB), pool_of("b", GIB),
				       pool_of("c", 0)};
	struct volume_spec spec = spec_of(5 * GIB);
	struct planner_split *splits;
	struct error err = {0};
	size_t n;

	pools[1].online = false;
	assert_int_equal(planner_place(&spec, pools, 3, &splits, &n, &err),
			 -ENOSPC);
	assert_non_null(strstr(err.msg, "5.00 GiB asked for, 2.00 GiB free"));
	assert_non_null(strstr(err.msg, "2.00 GiB in a/p"));
	assert_non_null(strstr(err.msg, "1 offline"));
	assert_non_null(strstr(err.msg, "1 too full"));
}

static void keeps_to_the_nodes_and_labels_asked_for(void **state)
{
	(void)state;
	struct labels east = {0};
	struct planner_pool pools[] = {pool_of("a", 8 * GIB),
				       pool_of("b", 9 * GIB),
				       pool_of("c", 4 * GIB)};
	struct volume_spec spec = spec_of(GIB);
	struct planner_split *splits;
	size_t n;

	assert_int_equal(name_list_add(&spec.exclude, "b", NULL), 0);
	assert_int_equal(planner_place(&spec, pools, 3, &splits, &n, NULL), 0);
	assert_int_equal(splits[0].pool, 0);
	free(splits);

	assert_int_equal(name_list_add(&spec.nodes, "b", NULL), 0);
	assert_int_equal(name_list_add(&spec.nodes, "c", NULL), 0);
	assert_int_equal(planner_place(&spec, pools, 3, &splits, &n, NULL), 0);
	assert_int_equal(splits[0].pool, 2);
	free(splits);

	assert_int_equal(labels_set(&spec.node_labels, "zone", "east", NULL),
			 0);
	assert_int_equal(planner_place(&spec, pools, 3, &splits, &n, NULL),
			 -ENOSPC);
	assert_int_equal(labels_set(&east, "zone", "east", NULL), 0);
	pools[2].labels = &east;
	assert_int_equal(planner_place(&spec, pools, 3, &splits, &n, NULL), 0);
	free(splits);
	labels_done(&east);
	volume_spec_done(&spec);
}

static void xfs_parts_are_large_enough_for_it(void **state)
{
	(void)state;
	struct planner_pool pools[] = {pool_of("a", 290 * MIB),
				       pool_of("b", 310 * MIB),
				       pool_of("c", 320 * MIB)};
	struct volume_spec spec = spec_of(GIB);
	struct planner_split *splits;
	size_t n;

	strcpy(spec.fs_type, "xfs");
	spec.capacity = 620 * MIB;
	assert_int_equal(planner_place(&spec, pools, 3, &splits, &n, NULL), 0);
	assert_int_equal(n, 2);
	for (size_t i = 0; i < n; i++)
		assert_true(splits[i].size >= 300 * MIB);
	free(splits);
	spec.capacity = 580 * MIB; /* two parts of it would be too small */
	assert_int_equal(planner_place(&spec, pools, 3, &splits, &n, NULL),
			 -ENOSPC);
}

static void one_pool_is_cut_only_when_sharing_is_allowed(void **state)
{
	(void)state;
	struct planner_pool pools[] = {pool_of("a", 8 * GIB)};
	struct volume_spec spec = spec_of(5 * GIB + 4096);
	struct planner_split *splits;
	uint64_t sum = 0;
	size_t n;

	spec.max_extent = GIB;
	assert_int_equal(planner_place(&spec, pools, 1, &splits, &n, NULL),
			 -ENOSPC);
	spec.share_pools = true;
	assert_int_equal(planner_place(&spec, pools, 1, &splits, &n, NULL), 0);
	assert_int_equal(n, 6);
	for (size_t i = 0; i < n; i++) {
		assert_true(splits[i].size <= GIB);
		sum += splits[i].size;
	}
	assert_int_equal(sum, spec.capacity);
	free(splits);
	spec.min_splits = 10;
	assert_int_equal(planner_place(&spec, pools, 1, &splits, &n, NULL), 0);
	assert_int_equal(n, 10);
	free(splits);
	spec.max_splits = 5;
	spec.min_splits = 0;
	assert_int_equal(planner_place(&spec, pools, 1, &splits, &n, NULL),
			 -ENOSPC);
}

/* What @set (a bit for each pool) can hold at most, by the planner's rules. */
static uint64_t room_of(const struct volume_spec *spec,
			const struct planner_pool *pools, size_t n_pools,
			unsigned set)
{
	uint64_t units = 0, tail = 0;

	for (size_t i = 0; i < n_pools; i++) {
		uint64_t bytes = pools[i].available & ~UINT64_C(4095);

		if (!(set >> i & 1) || !pools[i].online)
			continue;
		if (spec->max_extent && bytes > spec->max_extent)
			bytes = spec->max_extent;
		if (bytes < PLANNER_EXTENT_MIN)
			continue;
		units += bytes / PLANNER_UNIT;
		if (bytes % PLANNER_UNIT > tail)
			tail = bytes % PLANNER_UNIT;
	}
	return units * PLANNER_UNIT + tail;
}

static void check_plan(const struct volume_spec *spec,
		       const struct planner_pool *pools, size_t n_pools,
		       const struct planner_split *splits, size_t n)
{
	bool used[SMALL_MAX] = {0};
	uint64_t sum = 0;
	size_t odd = 0;

	for (size_t i = 0; i < n; i++) {
		assert_true(splits[i].pool < n_pools);
		assert_false(used[splits[i].pool]);
		used[splits[i].pool] = true;
		assert_true(pools[splits[i].pool].online);
		assert_true(splits[i].size <= pools[splits[i].pool].available);
		assert_true(splits[i].size >= PLANNER_EXTENT_MIN);
		assert_true(splits[i].size % 4096 == 0);
		assert_true(!spec->max_extent ||
			    splits[i].size <= spec->max_extent);
		odd += splits[i].size % PLANNER_UNIT != 0;
		sum += splits[i].size;
	}
	assert_int_equal(sum, spec->capacity);
	assert_true(odd == 0 ||
		    (odd == 1 && splits[n - 1].size % PLANNER_UNIT != 0));
	assert_true(!spec->max_splits || n <= spec->max_splits);
	assert_true(n >= spec->min_splits);
	if (n <= 1 || n == spec->min_splits)
		return;
	for (unsigned set = 0; set < 1u << n_pools; set++) {
		if ((size_t)__builtin_popcount(set) < n)
			assert_true(room_of(spec, pools, n_pools, set) <
				    spec->capacity);
	}
}

/* Whether any set of pools would have done. */
static bool possible(const struct volume_spec *spec,
		     const struct planner_pool *pools, size_t n_pools)
{
	size_t usable = 0, need = n_pools + 1;

	for (size_t i = 0; i < n_pools; i++)
		usable += room_of(spec, pools, n_pools, 1u << i) > 0;
	for (unsigned set = 1; set < 1u << n_pools; set++) {
		size_t n = (size_t)__builtin_popcount(set);

		if (n < need &&
		    room_of(spec, pools, n_pools, set) >= spec->capacity)
			need = n;
	}
	if (need < spec->min_splits)
		need = spec->min_splits;
	return need <= usable &&
	       (!spec->max_splits || need <= spec->max_splits) &&
	       need * (PLANNER_EXTENT_MIN / PLANNER_UNIT) <=
		       spec->capacity / PLANNER_UNIT;
}

static void every_plan_is_whole_and_the_smallest(void **state)
{
	static const char *const names[SMALL_MAX] = {"a", "b", "c", "d",
						     "e", "f", "g", "h"};
	size_t placed = 0, refused = 0;

	(void)state;
	for (int round = 0; round < 20000; round++) {
		struct planner_pool pools[SMALL_MAX];
		size_t n_pools = random_below(SMALL_MAX + 1), n;
		struct volume_spec spec = spec_of(
			64 * MIB + 4096 * random_below(3 * GIB / 4096));
		struct planner_split *splits = NULL;
		int r;

		for (size_t i = 0; i < n_pools; i++) {
			pools[i] = pool_of(names[i], random_below(GIB));
			pools[i].online = random_below(10) > 0;
		}
		if (random_below(3) == 0)
			spec.min_splits = (unsigned)random_below(4);
		if (random_below(3) == 0)
			spec.max_splits = spec.min_splits +
					  (unsigned)random_below(4);
		if (random_below(4) == 0)
			spec.max_extent = 64 * MIB + 4096 * random_below(65536);
		r = planner_place(&spec, pools, n_pools, &splits, &n, NULL);
		if (r == 0) {
			check_plan(&spec, pools, n_pools, splits, n);
			placed++;
		} else {
			assert_int_equal(r, -ENOSPC);
			assert_false(possible(&spec, pools, n_pools));
			refused++;
		}
		free(splits);
	}
	assert_true(placed > 1000);
	assert_true(refused > 1000);
}

static void the_order_of_the_pools_does_not_matter(void **state)
{
	(void)state;
	struct planner_pool pools[] = {pool_of("a", 2 * GIB),
				       pool_of("b", 2 * GIB),
				       pool_of("c", 2 * GIB)};
	struct planner_pool turned[] = {pools[2], pools[0], pools[1]};
	struct volume_spec spec = spec_of(5 * GIB);
	struct planner_split *one, *two;
	size_t n, m;

	assert_int_equal(planner_place(&spec, pools, 3, &one, &n, NULL), 0);
	assert_int_equal(planner_place(&spec, turned, 3, &two, &m, NULL), 0);
	assert_int_equal(n, m);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(pools[one[i].pool].node,
				    turned[two[i].pool].node);
		assert_int_equal(one[i].size, two[i].size);
	}
	free(one);
	free(two);
}

static void a_cordoned_pool_gets_nothing_new(void **state)
{
	struct planner_pool pools[] = {pool_of("a", 9 * GIB),
				       pool_of("b", 3 * GIB)};
	struct volume_spec spec = spec_of(2 * GIB);
	const struct planner_split old = {.pool = 0, .size = GIB};
	struct planner_growth growth;
	struct planner_split *splits;
	struct error err = {0};
	size_t n;

	(void)state;
	pools[0].cordoned = true;
	assert_int_equal(planner_place(&spec, pools, 2, &splits, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_int_equal(splits[0].pool, 1);
	free(splits);
	spec.capacity = 4 * GIB;
	assert_int_equal(planner_place(&spec, pools, 2, &splits, &n, &err),
			 -ENOSPC);
	assert_non_null(strstr(err.msg, "; 1 cordoned"));
	/* Present extents grow. */
	assert_int_equal(
		planner_grow(&spec, &old, 1, pools, 2, 4 * GIB, &growth, NULL),
		0);
	assert_int_equal(growth.sizes[0], 4 * GIB);
	assert_int_equal(growth.n_extra, 0);
	planner_growth_done(&growth);
}

static size_t moved_to(const struct volume_spec *spec,
		       const struct planner_pool *pools, size_t n,
		       const struct planner_split *splits, size_t index)
{
	size_t pool = PLANNER_NO_POOL;
	int r = planner_move(spec, splits, 2, index, pools, n, &pool, NULL);

	assert_true(r == 0 || r == -ENOSPC);
	return pool;
}

static void a_split_moves_where_its_volume_may_be(void **state)
{
	struct planner_pool pools[] = {
		pool_of("a", 9 * GIB), pool_of("b", 8 * GIB),
		pool_of("c", 7 * GIB), pool_of("d", 6 * GIB)};
	struct planner_split splits[] = {{0, GIB}, {1, 10 * MIB}};
	struct volume_spec spec = spec_of(GIB + 10 * MIB);

	(void)state;
	/* Not where it is, nor beside another split. */
	assert_int_equal(moved_to(&spec, pools, 4, splits, 0), 2);
	/* One below the least size of today moves, too. */
	assert_int_equal(moved_to(&spec, pools, 4, splits, 1), 2);
	pools[2].cordoned = true;
	assert_int_equal(moved_to(&spec, pools, 4, splits, 0), 3);
	pools[3].available = GIB - 4096;
	assert_int_equal(moved_to(&spec, pools, 4, splits, 0), PLANNER_NO_POOL);
	spec.share_pools = true;
	assert_int_equal(moved_to(&spec, pools, 4, splits, 0), 1);
	splits[1].pool = PLANNER_NO_POOL; /* on a node that is silent */
	assert_int_equal(moved_to(&spec, pools, 4, splits, 1), 0);
	/* As when it grows, a linear device may have two in a pool. */
	spec.share_pools = false;
	splits[1].pool = 1;
	(void)strcpy(spec.layout, "linear");
	assert_int_equal(moved_to(&spec, pools, 4, splits, 0), 1);
	assert_int_equal(name_list_add(&spec.exclude, "b", NULL), 0);
	assert_int_equal(moved_to(&spec, pools, 4, splits, 0), PLANNER_NO_POOL);
	volume_spec_done(&spec);
}

static void ten_thousand_nodes_take_milliseconds(void **state)
{
	static struct planner_pool pools[10000];
	static char names[10000][16];
	struct volume_spec spec = spec_of(TIB);
	struct planner_split *splits;
	int64_t start, best = INT64_MAX;
	size_t n;

	(void)state;
	for (size_t i = 0; i < 10000; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "node-%zu", i);
		pools[i] = pool_of(names[i], GIB + random_below(200 * GIB));
	}
	for (size_t i = 0; i < 1000; i++)
		assert_int_equal(
			name_list_add(&spec.exclude, names[i * 7], NULL), 0);
	for (int round = 0; round < 3; round++) {
		start = clock_ns();
		assert_int_equal(
			planner_place(&spec, pools, 10000, &splits, &n, NULL),
			0);
		if (clock_ns() - start < best)
			best = clock_ns() - start;
		assert_true(n >= 6 && n <= 8);
		free(splits);
	}
	print_message("# 10,000 pools: %.1f ms\n", (double)best / 1e6);
	assert_true(best < INT64_C(500000000)); /* a loaded sanitizer run */
	volume_spec_done(&spec);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_pool_that_holds_it_gives_one_extent),
		cmocka_unit_test(shares_are_in_proportion_to_the_room),
		cmocka_unit_test(a_pool_can_be_filled_to_its_last_block),
		cmocka_unit_test(says_how_much_is_free_where),
		cmocka_unit_test(keeps_to_the_nodes_and_labels_asked_for),
		cmocka_unit_test(xfs_parts_are_large_enough_for_it),
		cmocka_unit_test(one_pool_is_cut_only_when_sharing_is_allowed),
		cmocka_unit_test(every_plan_is_whole_and_the_smallest),
		cmocka_unit_test(the_order_of_the_pools_does_not_matter),
		cmocka_unit_test(a_cordoned_pool_gets_nothing_new),
		cmocka_unit_test(a_split_moves_where_its_volume_may_be),
		cmocka_unit_test(ten_thousand_nodes_take_milliseconds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
