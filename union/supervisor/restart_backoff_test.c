/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include "union/supervisor/restart_backoff.h"

#include <cmocka.h>

static void test_one_that_never_serves_is_given_up(void **unused)
{
	static const int first[] = {100, 200, 400, 800, 1000, 1000};
	struct restart_backoff pace = {0};
	unsigned i;

	(void)unused;
	for (i = 0; i < PACE_TRIES; i++)
		assert_int_equal(restart_backoff_next(&pace, -1, i % 2),
				 i < 6 ? first[i] : PACE_UNSERVED_MS);
	assert_int_equal(restart_backoff_next(&pace, -1, true), -1);
	assert_int_equal(restart_backoff_next(&pace, -1, false), -1);
}

static void test_one_that_serves_lets_others_try_again(void **unused)
{
	struct restart_backoff pace = {0};
	unsigned i;

	(void)unused;
	for (i = 0; i < PACE_TRIES; i++)
		assert_int_not_equal(restart_backoff_next(&pace, -1, true), -1);
	assert_int_equal(restart_backoff_next(&pace, 0, true), 0);
	assert_int_equal(restart_backoff_next(&pace, -1, true), PACE_FIRST_MS);
}

static void test_one_that_ends_as_soon_as_it_serves_is_slowed(void **unused)
{
	static const int want[] = {0,   0,    100,  200,  400,
				   800, 1600, 3200, 5000, 5000};
	struct restart_backoff pace = {0};
	unsigned i;

	(void)unused;
	for (i = 0; i < sizeof(want) / sizeof(*want); i++)
		assert_int_equal(
			restart_backoff_next(&pace, PACE_SOON_MS - 1, true),
			want[i]);
	for (i = 0; i < 100000; i++)
		assert_int_equal(restart_backoff_next(&pace, 0, true),
				 PACE_SERVED_MS);
	/* The server took longer: the next is started at once, but it is no
	 * better. */
	assert_int_equal(restart_backoff_next(&pace, PACE_SOON_MS, true), 0);
	assert_int_equal(restart_backoff_next(&pace, 0, true), PACE_SERVED_MS);
	assert_int_equal(restart_backoff_next(&pace, PACE_LIVED_MS, true), 0);
	assert_int_equal(restart_backoff_next(&pace, 0, true), 0);
}

static void test_one_that_is_killed_costs_no_pause(void **unused)
{
	struct restart_backoff pace = {0};
	unsigned i;

	(void)unused;
	for (i = 0; i < 100; i++)
		assert_int_equal(restart_backoff_next(&pace, 0, false), 0);
	assert_int_equal(restart_backoff_next(&pace, 0, true), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_that_never_serves_is_given_up),
		cmocka_unit_test(test_one_that_serves_lets_others_try_again),
		cmocka_unit_test(
			test_one_that_ends_as_soon_as_it_serves_is_slowed),
		cmocka_unit_test(test_one_that_is_killed_costs_no_pause),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
