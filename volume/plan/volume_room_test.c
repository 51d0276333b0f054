/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "volume/plan/volume_room.h"

#define POOLS_MAX 12

static uint64_t seed = 0x2545f4914f6cdd1d;

static uint64_t random_below(uint64_t n)
{
	seed ^= seed << 13; /* xorshift64, Marsaglia 2003 */
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

static bool can_be_placed(struct volume_spec *spec, uint64_t capacity,
			  const struct planner_pool *pools, size_t n)
{
	struct planner_split *splits = NULL;
	size_t count;
	int r;

	spec->capacity = capacity;
	r = planner_place(spec, pools, n, &splits, &count, NULL);
	free(splits);
	return r == 0;
}

/* The promise of the header; returns the maximum. */
static uint64_t check_room(struct volume_spec *spec,
			   const struct planner_pool *pools, size_t n)
{
	struct volume_room room;

	spec->capacity = GIB * 64;
	assert_int_equal(volume_spec_check(spec, NULL), 0);
	assert_int_equal(volume_room_of_pools(spec, pools, n, &room, NULL), 0);
	assert_true(room.maximum <= VOLUME_CAPACITY_MAX);
	assert_int_equal(room.maximum % 4096, 0);
	if (room.maximum) {
		assert_true(room.maximum >= room.minimum);
		assert_true(can_be_placed(spec, room.maximum, pools, n));
	}
	if (room.maximum < VOLUME_CAPACITY_MAX)
		assert_false(
			can_be_placed(spec, room.maximum + 4096, pools, n));
	if (room.maximum)
		assert_false(
			can_be_placed(spec, room.minimum - 4096, pools, n));
	return room.maximum;
}

static struct planner_pool pool_of(const char *name, uint64_t available)
{
	return (struct planner_pool){.node = name,
				     .pool = "p",
				     .available = available,
				     .online = true};
}

static void the_largest_volume_is_the_sum_of_all_pools(void **state)
{
	struct planner_pool pools[] = {pool_of("a", 2 * GIB),
				       pool_of("b", 3 * GIB),
				       pool_of("c", 5 * GIB + 12288)};
	struct volume_spec spec = {0};

	(void)state;
	assert_int_equal(check_room(&spec, pools, 3), 10 * GIB + 12288);
	pools[1].online = false;
	assert_int_equal(check_room(&spec, pools, 3), 7 * GIB + 12288);
	spec.max_splits = 1;
	assert_int_equal(check_room(&spec, pools, 3), 5 * GIB + 12288);
	spec.max_splits = 0;
	spec.max_extent = GIB;
	assert_int_equal(check_room(&spec, pools, 3), 2 * GIB);
}

static void pools_that_are_too_full_do_not_count(void **state)
{
	struct planner_pool pools[] = {pool_of("a", 63 * MIB),
				       pool_of("b", 200 * MIB)};
	struct volume_spec spec = {0}, xfs = {.fs_type = "xfs"};
	struct volume_room room;

	(void)state;
	assert_int_equal(check_room(&spec, pools, 2), 200 * MIB);
	assert_int_equal(check_room(&spec, pools, 1), 0);
	assert_int_equal(check_room(&spec, pools, 0), 0);
	assert_int_equal(check_room(&xfs, pools, 2), 0);
	assert_int_equal(volume_room_of_pools(&spec, pools, 2, &room, NULL), 0);
	assert_int_equal(room.available, 200 * MIB);
	assert_int_equal(room.minimum, 64 * MIB);
}

static void a_device_of_one_extent_is_as_large_as_the_largest_pool(void **state)
{
	struct planner_pool pools[] = {pool_of("a", 2 * GIB),
				       pool_of("b", 5 * GIB + 12288),
				       pool_of("c", 3 * GIB)};
	struct volume_spec spec = {.layout = "direct", .fs_type = "ext4"};
	struct volume_room room;

	(void)state;
	assert_int_equal(check_room(&spec, pools, 3), 5 * GIB + 12288);
	assert_int_equal(volume_room_of_pools(&spec, pools, 3, &room, NULL), 0);
	assert_int_equal(room.available, 10 * GIB + 12288);
	pools[1].online = false;
	assert_int_equal(check_room(&spec, pools, 3), 3 * GIB);
}

static void only_the_pools_that_are_wanted_count(void **state)
{
	struct planner_pool pools[] = {pool_of("a", 2 * GIB),
				       pool_of("a", 3 * GIB),
				       pool_of("b", 5 * GIB)};
	struct volume_spec spec = {0};

	(void)state;
	pools[1].pool = "fast";
	assert_int_equal(name_list_add(&spec.pools, "fast", NULL), 0);
	assert_int_equal(check_room(&spec, pools, 3), 3 * GIB);
	assert_int_equal(name_list_add(&spec.pools, "p", NULL), 0);
	assert_int_equal(check_room(&spec, pools, 3), 10 * GIB);
	volume_spec_done(&spec);
}

/* Choose any placement: none refuses what another one takes. */
static void any_placement(struct volume_spec *spec)
{
	static const char *const names[] = {"balanced", "packed", "local"};

	(void)strcpy(spec->placement, names[random_below(3)]);
	if (strcmp(spec->placement, "local") == 0 && random_below(5) > 0)
		(void)snprintf(spec->local_node, sizeof(spec->local_node),
			       "n%u", (unsigned)random_below(POOLS_MAX));
}

static void what_it_says_can_be_placed_and_no_more(void **state)
{
	char names[POOLS_MAX][8];
	struct planner_pool pools[POOLS_MAX];

	(void)state;
	for (int round = 0; round < 4000; round++) {
		size_t n = random_below(POOLS_MAX + 1);
		struct volume_spec spec = {
			.min_splits = random_below(3)
					      ? 0
					      : (unsigned)random_below(5),
			.share_pools = random_below(3) == 0,
		};

		if (random_below(8) == 0)
			spec = (struct volume_spec){.layout = "direct",
						    .fs_type = "ext4"};
		else if (random_below(8) == 0)
			spec = (struct volume_spec){.layout = "linear"};
		else if (random_below(6) == 0)
			spec = (struct volume_spec){
				.layout = "stripe",
				.stripe_width = 2 + (unsigned)random_below(4),
				.stripe_unit = 65536,
				.share_pools = random_below(3) == 0,
			};
		else if (random_below(3) == 0)
			spec.max_splits = spec.min_splits +
					  (unsigned)random_below(4);
		if (!volume_spec_is_device(&spec) && random_below(3) == 0)
			spec.max_extent = 64 * MIB + random_below(GIB);
		any_placement(&spec);
		for (size_t i = 0; i < n; i++) {
			(void)snprintf(names[i], sizeof(names[i]), "n%zu", i);
			pools[i] = pool_of(names[i], random_below(2 * GIB));
			pools[i].online = random_below(8) > 0;
		}
		(void)check_room(&spec, pools, n);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_largest_volume_is_the_sum_of_all_pools),
		cmocka_unit_test(pools_that_are_too_full_do_not_count),
		cmocka_unit_test(
			a_device_of_one_extent_is_as_large_as_the_largest_pool),
		cmocka_unit_test(only_the_pools_that_are_wanted_count),
		cmocka_unit_test(what_it_says_can_be_placed_and_no_more),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
