/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/pool/space.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/size.h"
#include "blockd/pool/extent_record.h"

static const struct space_policy plain = {.overcommit_percent = 100,
					  .floor = GIB};

static void gives_what_is_free_above_the_floor(void **state)
{
	struct space_medium m = {
		.size = 100 * GIB, .free = 60 * GIB, .allocated = 10 * GIB};
	struct space s = space_count(&plain, &m, 30 * GIB, 0);

	(void)state;
	assert_true(s.capacity == 69 * GIB);
	assert_true(s.limit == 69 * GIB);
	assert_true(s.available == 39 * GIB);
	assert_true(s.floor == GIB);
}

static void never_promises_more_than_configured(void **state)
{
	struct space_medium m = {.size = 100 * GIB, .free = 60 * GIB};
	struct space_policy p = plain;
	struct space s;

	(void)state;
	p.capacity = 2 * GIB;
	s = space_count(&p, &m, GIB, 0);
	assert_true(s.capacity == 2 * GIB && s.available == GIB);
	p.overcommit_percent = 250;
	s = space_count(&p, &m, GIB, 0);
	assert_true(s.capacity == 2 * GIB && s.available == 4 * GIB);
}

static void leaves_out_what_other_pools_promised(void **state)
{
	struct space_medium m = {.size = 100 * GIB, .free = 60 * GIB};
	struct space s = space_count(&plain, &m, 0, 50 * GIB);

	(void)state;
	assert_true(s.available == 9 * GIB);
	s = space_count(&plain, &m, 0, 500 * GIB);
	assert_true(s.available == 0 && s.capacity == 0);
}

static void has_no_room_once_the_medium_is_at_its_floor(void **state)
{
	struct space_medium m = {
		.size = 100 * GIB, .free = GIB, .allocated = 50 * GIB};
	struct space_policy p = plain;
	struct space s;

	(void)state;
	p.overcommit_percent = 1000;
	s = space_count(&p, &m, 0, 0);
	assert_true(s.limit > 0 && s.room == 0 && s.available == 0);
	m.free += 4096;
	s = space_count(&p, &m, 0, 0);
	assert_true(s.room > 0);
}

static void is_empty_not_negative_when_others_took_the_space(void **state)
{
	struct space_medium m = {.size = 100 * GIB, .free = 2 * GIB};
	struct space s = space_count(&plain, &m, 30 * GIB, 0);

	(void)state;
	assert_true(s.capacity == GIB && s.room == 0 && s.available == 0);
}

static void rounds_available_down_to_what_a_create_takes(void **state)
{
	struct space_medium m = {.size = 100 * GIB,
				 .free = GIB + 3 * MIB + 5000};
	struct space s = space_count(&plain, &m, 0, 0);

	(void)state;
	assert_true(s.room == 3 * MIB + 5000);
	assert_true(s.available == 3 * MIB + 4096);
	s = space_count(&plain, &m, 2 * MIB + 5001, 0);
	assert_true(s.room == MIB - 1 && s.available == 0);
	m.free = UINT64_MAX / 2;
	s = space_count(&plain, &m, 0, 0);
	assert_true(s.available == EXTENT_SIZE_MAX);
}

static void takes_a_hundredth_for_the_floor_within_limits(void **state)
{
	struct space_policy p = {.overcommit_percent = 100};
	struct space_medium m = {.size = GIB};

	(void)state;
	assert_true(space_count(&p, &m, 0, 0).floor == 64 * MIB);
	m.size = 100 * GIB;
	assert_true(space_count(&p, &m, 0, 0).floor == GIB);
	m.size = 100 * TIB;
	assert_true(space_count(&p, &m, 0, 0).floor == 16 * GIB);
}

static void does_not_wrap_at_the_ends(void **state)
{
	struct space_policy p = {.overcommit_percent = 10000, .floor = 1};
	struct space_medium m = {.size = UINT64_MAX,
				 .free = UINT64_MAX,
				 .allocated = UINT64_MAX};
	struct space s = space_count(&p, &m, 1, 0);

	(void)state;
	assert_true(s.limit == UINT64_MAX && s.room == UINT64_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_what_is_free_above_the_floor),
		cmocka_unit_test(never_promises_more_than_configured),
		cmocka_unit_test(leaves_out_what_other_pools_promised),
		cmocka_unit_test(has_no_room_once_the_medium_is_at_its_floor),
		cmocka_unit_test(
			is_empty_not_negative_when_others_took_the_space),
		cmocka_unit_test(rounds_available_down_to_what_a_create_takes),
		cmocka_unit_test(takes_a_hundredth_for_the_floor_within_limits),
		cmocka_unit_test(does_not_wrap_at_the_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
