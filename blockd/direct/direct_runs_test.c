/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "blockd/direct/direct_runs.h"

static void add(struct direct_runs *runs, uint64_t logical, uint32_t physical,
		uint32_t count)
{
	assert_int_equal(
		direct_runs_add(runs, &(struct direct_run){.logical = logical,
							   .physical = physical,
							   .count = count}),
		0);
}

static void joins_what_follows_on_both_sides(void **unused)
{
	struct direct_runs runs = {0};

	(void)unused;
	add(&runs, 0, 7, 2);
	add(&runs, 2, 9, 1);  /* goes on */
	add(&runs, 3, 20, 1); /* elsewhere on the medium */
	add(&runs, 5, 22, 1); /* a hole before it */
	assert_int_equal(runs.n, 3);
	assert_int_equal(runs.items[0].count, 3);
	assert_int_equal(direct_runs_clusters(&runs), 5);
	direct_runs_done(&runs);
}

/* A count of 32 bits is not to wrap. */
static void a_run_ends_before_its_count_wraps(void **unused)
{
	struct direct_runs runs = {0};

	(void)unused;
	add(&runs, 0, 0, UINT32_MAX - 1);
	add(&runs, UINT32_MAX - 1, UINT32_MAX - 1, 1);
	add(&runs, UINT32_MAX, UINT32_MAX, 1);
	assert_int_equal(runs.n, 2);
	direct_runs_done(&runs);
}

static void finds_a_run_at_each_of_its_ends(void **unused)
{
	struct direct_runs runs = {0};

	(void)unused;
	assert_false(direct_runs_hit(&runs, 0, UINT64_MAX));
	add(&runs, 10, 1, 5);
	add(&runs, 20, 9, 1);
	assert_false(direct_runs_hit(&runs, 0, 10));
	assert_true(direct_runs_hit(&runs, 0, 11));
	assert_true(direct_runs_hit(&runs, 14, 1));
	assert_false(direct_runs_hit(&runs, 15, 5));
	assert_true(direct_runs_hit(&runs, 15, 6));
	assert_false(direct_runs_hit(&runs, 21, 100));
	assert_ptr_equal(direct_runs_at(&runs, 12), &runs.items[0]);
	assert_ptr_equal(direct_runs_at(&runs, 15), &runs.items[1]);
	assert_null(direct_runs_at(&runs, 21));
	direct_runs_done(&runs);
}

static void a_cap_keeps_the_largest_in_order(void **unused)
{
	struct direct_runs runs = {0};

	(void)unused;
	for (uint32_t i = 0; i < 100; i++)
		add(&runs, UINT64_C(100) * i, 200 * i, 1 + i * 37 % 64);
	direct_runs_cap(&runs, 100);
	assert_int_equal(runs.n, 100);
	direct_runs_cap(&runs, 10);
	assert_int_equal(runs.n, 10);
	for (size_t i = 0; i < runs.n; i++) {
		assert_true(runs.items[i].count >= 58);
		assert_true(!i ||
			    runs.items[i - 1].logical < runs.items[i].logical);
	}
	direct_runs_cap(&runs, 0);
	assert_int_equal(runs.n, 0);
	direct_runs_done(&runs);
}

static void a_kernel_that_flushes_each_run_gets_few(void **unused)
{
	static const char *const few[] = {"6.1.0-41-amd64", "6.10.9", "5.15",
					  "", "other"};
	static const char *const many[] = {"6.11.0", "6.12.57+deb13-amd64",
					   "7.0-rc1"};

	(void)unused;
	for (size_t i = 0; i < 5; i++)
		assert_int_equal(direct_runs_max(few[i]), 64);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(direct_runs_max(many[i]), 4096);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(joins_what_follows_on_both_sides),
		cmocka_unit_test(a_run_ends_before_its_count_wraps),
		cmocka_unit_test(finds_a_run_at_each_of_its_ends),
		cmocka_unit_test(a_kernel_that_flushes_each_run_gets_few),
		cmocka_unit_test(a_cap_keeps_the_largest_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
