/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "union/branch/branch.h"
#include "union/sys/dir_offset.h"

#include <cmocka.h>

static const int64_t owns[] = {1, 2, 16, INT64_C(1) << 31,
			       (INT64_C(1) << 53) - 1,
			       /* And such as are rounded. */
			       INT64_C(1) << 53, INT64_C(0x123456789abcdef0),
			       INT64_MAX - 1, INT64_MAX};

#define OWNS (sizeof(owns) / sizeof(owns[0]))

static void an_offset_names_its_branch(void **state)
{
	unsigned branch;
	int64_t offset;
	size_t i;

	(void)state;
	for (branch = 0; branch < BRANCH_MAX; branch++)
		for (i = 0; i < OWNS; i++) {
			offset = dir_offset_on(branch, owns[i]);
			assert_true(offset > 0);
			assert_false(dir_offset_is_merged(offset));
			assert_int_equal(dir_offset_branch(offset), branch);
		}
}

static void a_small_offset_stays_what_it_is(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; owns[i] < INT64_C(1) << 53; i++)
		assert_int_equal(dir_offset_own(dir_offset_on(255, owns[i])),
				 owns[i]);
}

static void a_large_offset_is_not_passed_over(void **state)
{
	int64_t own;
	size_t i;

	(void)state;
	for (i = 0; i < OWNS; i++) {
		own = dir_offset_own(dir_offset_on(255, owns[i]));
		assert_true(own <= owns[i]);
		assert_true(owns[i] - own < 1024);
		/* Nor does it go down when it is given out again. */
		assert_int_equal(dir_offset_on(255, own),
				 dir_offset_on(255, owns[i]));
	}
}

static void what_is_merged_is_told_apart(void **state)
{
	(void)state;
	assert_true(dir_offset_is_merged(DIR_OFFSET_MERGED + 1));
	assert_true(dir_offset_is_merged(INT64_MAX));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_offset_names_its_branch),
		cmocka_unit_test(a_small_offset_stays_what_it_is),
		cmocka_unit_test(a_large_offset_is_not_passed_over),
		cmocka_unit_test(what_is_merged_is_told_apart),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
