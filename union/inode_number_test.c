/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "union/inode_number.h"

#include <cmocka.h>

static void the_first_branch_keeps_its_numbers(void **state)
{
	(void)state;
	assert_int_equal(inode_number(0, 2), 2);
	assert_int_equal(inode_number(0, 0xffffffff), 0xffffffff);
}

static void branches_never_share_a_number(void **state)
{
	unsigned a, b;

	(void)state;
	for (a = 0; a < 256; a++)
		for (b = 0; b < a; b++)
			assert_int_not_equal(inode_number(a, 12345),
					     inode_number(b, 12345));
}

static void long_numbers_are_folded_and_stay_on_their_branch(void **state)
{
	uint64_t one = inode_number(255, UINT64_MAX);
	uint64_t two = inode_number(255, UINT64_MAX - 1);

	(void)state;
	assert_int_equal(one >> 56, 255);
	assert_int_equal(two >> 56, 255);
	assert_int_not_equal(one, two);
	assert_int_equal(inode_number(255, UINT64_MAX), one);
}

static void numbers_up_to_56_bits_are_kept_apart(void **state)
{
	(void)state;
	assert_int_equal(inode_number(1, (UINT64_C(1) << 56) - 1),
			 (UINT64_C(2) << 56) - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_branch_keeps_its_numbers),
		cmocka_unit_test(branches_never_share_a_number),
		cmocka_unit_test(
			long_numbers_are_folded_and_stay_on_their_branch),
		cmocka_unit_test(numbers_up_to_56_bits_are_kept_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
