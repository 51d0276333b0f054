/* SPDX-License-Identifier: Apache-2.0 */
/* By a clock of our own: no test waits. */
#include "blockd/extent/limit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/size.h"

#define SECOND UINT64_C(1000000000) /* ns */
#define START  (1000 * SECOND)      /* when a test begins */

/* How many of @n taken at START may start by then and @ns. */
static unsigned started_by(struct limit *limit, unsigned n, uint64_t bytes,
			   uint64_t ns)
{
	unsigned started = 0;

	for (unsigned i = 0; i < n; i++)
		started += limit_take(limit, START, bytes) <= START + ns;
	return started;
}

static struct limit with(uint64_t iops, uint64_t bytes_per_second)
{
	const struct extent_limits rates = {iops, bytes_per_second};
	struct limit limit;

	limit_set(&limit, &rates);
	return limit;
}

static void limits_nothing_unless_it_is_told(void **state)
{
	struct limit limit = with(0, 0);

	(void)state;
	assert_false(limit_is_set(&limit));
	assert_int_equal(started_by(&limit, 1000000, 32 * MIB, 0), 1000000);
}

/* The bucket holds a tenth of a second, and one goes before it is empty. */
static void lets_a_burst_through_and_then_the_rate(void **state)
{
	struct limit limit = with(100, 0);

	(void)state;
	assert_true(limit_is_set(&limit));
	assert_int_equal(started_by(&limit, 100, 4096, 0), 11);
	limit = with(100, 0);
	assert_int_equal(started_by(&limit, 5000, 4096, 10 * SECOND), 1011);
}

static void counts_bytes(void **state)
{
	struct limit limit = with(0, 4 * MIB);

	(void)state;
	/* 0.4 MiB are 6.4 of 64 KiB, then 64 a second. */
	assert_int_equal(started_by(&limit, 10000, 64 * KIB, 0), 7);
	limit = with(0, 4 * MIB);
	assert_int_equal(started_by(&limit, 10000, 64 * KIB, 10 * SECOND), 647);
	limit = with(0, 4 * MIB);
	assert_int_equal(started_by(&limit, 100, 0, 0), 100); /* a discard */
}

static void goes_by_the_stricter_of_two(void **state)
{
	struct limit limit = with(1000, MIB);

	(void)state;
	/* 4 KiB: 256 a second by bytes. */
	assert_in_range(started_by(&limit, 10000, 4096, 10 * SECOND), 2586,
			2587);
	limit = with(100, MIB);
	assert_int_equal(started_by(&limit, 10000, 4096, 10 * SECOND), 1011);
}

static void lets_one_larger_than_the_bucket_go_and_the_next_pay(void **state)
{
	struct limit limit = with(0, MIB);

	(void)state;
	assert_true(limit_take(&limit, START, 32 * MIB) == START);
	assert_true(limit_take(&limit, START, 4096) ==
		    START + 32 * SECOND - LIMIT_BURST_NS);
}

static void saves_up_no_more_than_the_burst(void **state)
{
	struct limit limit = with(100, 0);

	(void)state;
	(void)started_by(&limit, 1, 0, 0);
	for (unsigned i = 0; i < 11; i++)
		assert_true(limit_take(&limit, 2 * START, 0) == 2 * START);
	assert_true(limit_take(&limit, 2 * START, 0) > 2 * START);
}

/* In the order they came, each its share of a second later. */
static void serves_in_order(void **state)
{
	struct limit limit = with(10, 0);
	uint64_t last = 0;

	(void)state;
	for (unsigned i = 0; i < 100; i++) {
		uint64_t at = limit_take(&limit, START, 0);

		assert_true(i < 3 || at == last + SECOND / 10);
		last = at;
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limits_nothing_unless_it_is_told),
		cmocka_unit_test(lets_a_burst_through_and_then_the_rate),
		cmocka_unit_test(counts_bytes),
		cmocka_unit_test(goes_by_the_stricter_of_two),
		cmocka_unit_test(
			lets_one_larger_than_the_bucket_go_and_the_next_pay),
		cmocka_unit_test(saves_up_no_more_than_the_burst),
		cmocka_unit_test(serves_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
