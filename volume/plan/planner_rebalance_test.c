/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/plan/planner_rebalance.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "volume/testkit/planner_test_kit.h"

#define GIB (UINT64_C(1) << 30)

static struct planner_fill fill_of(const char *node, uint64_t reserved,
				   uint64_t available)
{
	return (struct planner_fill){.pool = pool_of(node, available),
				     .reserved = reserved};
}

/* A volume with a split of each of these sizes, in pool "p" of these nodes. */
static struct volume_record *record_of(const char *const *nodes,
				       const uint64_t *sizes, size_t n)
{
	struct volume_record *record = calloc(1, sizeof(*record));
	uint64_t all = 0;

	assert_non_null(record);
	record->splits = calloc(n, sizeof(*record->splits));
	assert_non_null(record->splits);
	record->n_splits = n;
	for (size_t i = 0; i < n; i++) {
		struct volume_split *split = &record->splits[i];

		split->index = (unsigned)i;
		split->size = sizes[i];
		(void)strcpy(split->node, nodes[i]);
		(void)strcpy(split->pool, "p");
		all += sizes[i];
	}
	record->spec = spec_of(all);
	return record;
}

static void record_free(struct volume_record *record)
{
	free(record->splits);
	free(record);
}

static size_t shifts_of(struct planner_fill *fills, size_t n_fills,
			const struct volume_record *const *records,
			size_t n_records, struct planner_shift **ret)
{
	struct error err = {0};
	size_t n = 0;

	if (planner_rebalance(fills, n_fills, records, n_records, ret, &n,
			      &err) < 0)
		fail_msg("%s", error_text(&err));
	return n;
}

static void the_fullest_gives_its_largest_split_to_the_emptiest(void **unused)
{
	struct planner_fill fills[] = {fill_of("a", 8 * GIB, 2 * GIB),
				       fill_of("b", 4 * GIB, 6 * GIB),
				       fill_of("c", 0, 10 * GIB)};
	struct volume_record *records[] = {
		record_of((const char *[]){"a"}, (uint64_t[]){GIB}, 1),
		record_of((const char *[]){"a"}, (uint64_t[]){4 * GIB}, 1),
	};
	struct planner_shift *shifts;

	(void)unused;
	assert_int_equal(shifts_of(fills, 3, (const void *)records, 2, &shifts),
			 1);
	assert_int_equal(shifts[0].record, 1);
	assert_int_equal(shifts[0].split, 0);
	assert_int_equal(shifts[0].from, 0);
	assert_int_equal(shifts[0].to, 2);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(fills[i].reserved, 4 * GIB);
	free(shifts);
	record_free(records[0]);
	record_free(records[1]);
}

static void what_gains_little_stays(void **unused)
{
	/* A hundredth of a pool would go from 52 % to 50 %. */
	struct planner_fill fills[] = {fill_of("a", 52 * GIB, 48 * GIB),
				       fill_of("b", 48 * GIB, 52 * GIB)};
	struct volume_record *record = record_of((const char *[]){"a"},
						 (uint64_t[]){GIB}, 1);
	struct planner_shift *shifts;

	(void)unused;
	assert_int_equal(shifts_of(fills, 2, (const void *)&record, 1, &shifts),
			 0);
	free(shifts);
	record_free(record);
}

static void pools_that_may_not_take_it_are_passed_over(void **unused)
{
	struct planner_fill fills[] = {
		fill_of("a", 8 * GIB, 2 * GIB), fill_of("b", 0, 10 * GIB),
		fill_of("c", 0, 10 * GIB), fill_of("d", 0, 10 * GIB)};
	/* Its other split is on b, and a union has each pool once. */
	struct volume_record *record = record_of(
		(const char *[]){"a", "b"}, (uint64_t[]){2 * GIB, 2 * GIB}, 2);
	struct planner_shift *shifts;

	(void)unused;
	fills[2].pool.cordoned = true;
	fills[3].pool.online = false;
	assert_int_equal(shifts_of(fills, 4, (const void *)&record, 1, &shifts),
			 0);
	free(shifts);
	fills[3].pool.online = true;
	assert_int_equal(shifts_of(fills, 4, (const void *)&record, 1, &shifts),
			 1);
	assert_int_equal(shifts[0].to, 3);
	free(shifts);
	record_free(record);
}

static void a_volume_that_stays_is_left_alone(void **unused)
{
	struct planner_fill fills[] = {fill_of("a", 8 * GIB, 2 * GIB),
				       fill_of("b", 0, 10 * GIB)};
	const struct volume_record *none = NULL;
	struct planner_shift *shifts;

	(void)unused;
	assert_int_equal(shifts_of(fills, 2, &none, 1, &shifts), 0);
	free(shifts);
}

#define POOLS   6
#define VOLUMES 40

/* Each move has its room, and no pool becomes fuller than the fullest was. */
static void any_plan_can_be_carried_out(void **unused)
{
	static const char *const names[POOLS] = {"a", "b", "c", "d", "e", "f"};

	(void)unused;
	for (unsigned round = 0; round < 200; round++) {
		struct planner_fill fills[POOLS], now[POOLS];
		struct volume_record *records[VOLUMES];
		uint64_t used[POOLS] = {0};
		struct planner_shift *shifts;
		double fullest = 0;
		size_t n;

		for (size_t i = 0; i < VOLUMES; i++) {
			const size_t at = random_below(round % POOLS + 1);
			const uint64_t size = (random_below(64) + 1) *
					      PLANNER_UNIT * 16;

			used[at] += size;
			records[i] = record_of(&names[at], &size, 1);
		}
		for (size_t i = 0; i < POOLS; i++) {
			fills[i] = fill_of(names[i], used[i],
					   random_below(64) * GIB / 4);
			if (planner_fullness(&fills[i]) > fullest)
				fullest = planner_fullness(&fills[i]);
		}
		memcpy(now, fills, sizeof(now));
		n = shifts_of(fills, POOLS, (const void *)records, VOLUMES,
			      &shifts);
		for (size_t i = 0; i < n; i++) {
			const uint64_t size =
				records[shifts[i].record]->splits[0].size;

			assert_true(now[shifts[i].to].pool.available >= size);
			now[shifts[i].to].pool.available -= size;
			now[shifts[i].to].reserved += size;
			now[shifts[i].from].pool.available += size;
			now[shifts[i].from].reserved -= size;
			assert_true(planner_fullness(&now[shifts[i].to]) <=
				    fullest);
			for (size_t k = 0; k < i; k++)
				assert_int_not_equal(shifts[k].record,
						     shifts[i].record);
		}
		assert_memory_equal(now, fills, sizeof(now));
		free(shifts);
		for (size_t i = 0; i < VOLUMES; i++)
			record_free(records[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			the_fullest_gives_its_largest_split_to_the_emptiest),
		cmocka_unit_test(what_gains_little_stays),
		cmocka_unit_test(pools_that_may_not_take_it_are_passed_over),
		cmocka_unit_test(a_volume_that_stays_is_left_alone),
		cmocka_unit_test(any_plan_can_be_carried_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
