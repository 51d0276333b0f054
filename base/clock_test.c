/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <time.h>

#include "base/clock.h"

static void time_goes_on_in_the_named_units(void **state)
{
	const struct timespec pause = {.tv_nsec = 20000000};
	int64_t ms = clock_ms(), ns = clock_ns();

	(void)state;
	assert_true(ns / 1000000 - ms < 1000);
	assert_int_equal(nanosleep(&pause, NULL), 0);
	ns = clock_ns() - ns;
	ms = clock_ms() - ms;
	assert_true(ns >= 20000000);
	assert_true(ms >= 20 && ms <= ns / 1000000 + 1000);
}

static void the_wall_clock_counts_from_1970(void **state)
{
	time_t before = time(NULL);

	(void)state;
	/* time(2) may lag by a tick. */
	assert_in_range(clock_wall_s(), before, before + 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(time_goes_on_in_the_named_units),
		cmocka_unit_test(the_wall_clock_counts_from_1970),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
