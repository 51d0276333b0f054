/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "union/sys/inode_number.h"

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

static void narrow_numbers_fit_32_bits_whatever_they_are_of(void **state)
{
	static const uint64_t inos[] = {
		1,
		2,
		(1 << 24) - 1,
		1 << 24,
		UINT32_MAX,
		UINT64_C(1) << 32,
		UINT64_C(3) << 40,
		UINT64_MAX,
	};
	struct inode_shown how;
	unsigned branch;
	size_t i;

	(void)state;
	assert_true(inode_shown_parse("hybrid-hash32", &how));
	for (branch = 0; branch < 256; branch++)
		for (i = 0; i < array_size(inos); i++) {
			uint64_t shown = inode_shown(
				&how, inode_number(branch, inos[i]));

			assert_in_range(shown, 1, UINT32_MAX);
			/* A number kept as it is equals no hash. */
			assert_int_equal(shown >> 31 == 0,
					 branch < 128 && inos[i] >> 24 == 0);
			if (!(shown >> 31))
				assert_int_equal(shown, (uint64_t)branch << 24 |
								inos[i]);
		}
	assert_true(inode_shown_parse("path-hash32", &how));
	assert_in_range(inode_shown_path(&how, ""), 1, UINT32_MAX);
	assert_in_range(inode_shown_path(&how, "a/b"), 1, UINT32_MAX);
	assert_int_not_equal(inode_shown_path(&how, "a/b"),
			     inode_shown_path(&how, "a/c"));
}

static void each_value_of_inodecalc_is_one(void **state)
{
	static const struct {
		const char *value;
		enum inode_calc calc;
		bool narrow;
	} rows[] = {
		{"passthrough", INODE_CALC_PASS, false},
		{"path-hash", INODE_CALC_PATH, false},
		{"path-hash32", INODE_CALC_PATH, true},
		{"devino-hash", INODE_CALC_OWN, false},
		{"devino-hash32", INODE_CALC_OWN, true},
		{"hybrid-hash", INODE_CALC_OWN, false},
		{"hybrid-hash32", INODE_CALC_OWN, true},
	};
	struct inode_shown how;
	size_t i;

	(void)state;
	for (i = 0; i < array_size(rows); i++) {
		assert_true(inode_shown_parse(rows[i].value, &how));
		assert_int_equal(how.calc, rows[i].calc);
		assert_int_equal(how.narrow, rows[i].narrow);
	}
	assert_false(inode_shown_parse("passthrough32", &how));
	assert_false(inode_shown_parse("", &how));
	assert_true(inode_shown_parse("passthrough", &how));
	assert_int_equal(inode_shown(&how, inode_number(7, 12345)), 12345);
	assert_true(inode_shown_parse("hybrid-hash", &how));
	assert_int_equal(inode_shown(&how, inode_number(7, 12345)),
			 inode_number(7, 12345));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_first_branch_keeps_its_numbers),
		cmocka_unit_test(branches_never_share_a_number),
		cmocka_unit_test(
			long_numbers_are_folded_and_stay_on_their_branch),
		cmocka_unit_test(numbers_up_to_56_bits_are_kept_apart),
		cmocka_unit_test(
			narrow_numbers_fit_32_bits_whatever_they_are_of),
		cmocka_unit_test(each_value_of_inodecalc_is_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
