/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/wire/cursor.h"

static void reads_integers_in_network_order(void **state)
{
	static const uint8_t wire[] = {1, 2,  3,  4,  5,  6,  7, 8,
				       9, 10, 11, 12, 13, 14, 15};
	struct cursor c = cursor_make(wire, sizeof(wire));

	(void)state;
	assert_int_equal(cursor_u8(&c), 1);
	assert_int_equal(cursor_be16(&c), 0x0203);
	assert_int_equal(cursor_be32(&c), 0x04050607);
	assert_int_equal(cursor_left(&c), 8);
	assert_false(cursor_ended(&c));
	assert_true(cursor_be64(&c) == UINT64_C(0x08090a0b0c0d0e0f));
	assert_true(cursor_ok(&c));
	assert_true(cursor_ended(&c));
}

static void a_read_past_the_end_is_bad_for_good(void **state)
{
	static const uint8_t wire[] = {1, 2, 3};
	struct cursor c = cursor_make(wire, sizeof(wire));

	(void)state;
	assert_int_equal(cursor_be32(&c), 0);
	assert_false(cursor_ok(&c));
	assert_int_equal(cursor_u8(&c), 0);
	assert_int_equal(cursor_left(&c), 0);
	assert_null(cursor_bytes(&c, 0));
	assert_false(cursor_ended(&c));
}

static void a_length_that_would_wrap_is_refused(void **state)
{
	static const uint8_t wire[] = {1, 2, 3};
	struct cursor c = cursor_make(wire, sizeof(wire));

	(void)state;
	assert_int_equal(cursor_u8(&c), 1);
	assert_null(cursor_bytes(&c, SIZE_MAX));
	assert_false(cursor_ok(&c));
}

static void bytes_are_borrowed_from_the_input(void **state)
{
	static const uint8_t wire[] = {1, 2, 3};
	struct cursor c = cursor_make(wire, sizeof(wire));

	(void)state;
	assert_ptr_equal(cursor_bytes(&c, 2), wire);
	assert_ptr_equal(cursor_bytes(&c, 0), wire + 2);
	assert_ptr_equal(cursor_bytes(&c, 1), wire + 2);
	assert_true(cursor_ended(&c));
}

static void an_empty_input_has_no_bytes_but_zero_of_them(void **state)
{
	struct cursor c = cursor_make(NULL, 0);

	(void)state;
	assert_true(cursor_ended(&c));
	assert_non_null(cursor_bytes(&c, 0));
	assert_true(cursor_ended(&c));
	assert_int_equal(cursor_be16(&c), 0);
	assert_false(cursor_ok(&c));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_integers_in_network_order),
		cmocka_unit_test(a_read_past_the_end_is_bad_for_good),
		cmocka_unit_test(a_length_that_would_wrap_is_refused),
		cmocka_unit_test(bytes_are_borrowed_from_the_input),
		cmocka_unit_test(an_empty_input_has_no_bytes_but_zero_of_them),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
