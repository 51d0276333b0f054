/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "union/branch.h"
#include "union/policy.h"

#include <cmocka.h>

/* 0: read-only and roomy, 1: little, 2: most, 3: local, 4: full. */
static const struct policy_branch example[] = {
	{.id = 0, .flags = BRANCH_RO, .available = 9000, .has_parent = true},
	{.id = 1, .available = 100, .has_parent = true},
	{.id = 2, .available = 5000},
	{.id = 3, .available = 2000, .flags = BRANCH_LOCAL},
	{.id = 4, .available = 0, .has_parent = true},
};

/* The order as a string of ids. */
static void expect(const char *policy, uint64_t min_free, const char *order)
{
	struct policy_branch branches[5];
	char got[6] = "";
	unsigned i, n;

	memcpy(branches, example, sizeof(example));
	n = policy_order(policy_find(policy), min_free, branches, 5);
	for (i = 0; i < n; i++)
		got[i] = (char)('0' + branches[i].id);
	assert_string_equal(got, order);
}

static void mfs_takes_the_branch_with_most_room(void **state)
{
	(void)state;
	expect("mfs", 0, "2314");
}

static void ff_takes_the_first_with_room(void **state)
{
	(void)state;
	expect("ff", 0, "1234");
}

static void epmfs_stays_with_the_directory_while_there_is_room(void **state)
{
	(void)state;
	expect("epmfs", 0, "1234");
	expect("epmfs", 200, "2314");
}

static void local_fills_local_branches_first(void **state)
{
	(void)state;
	expect("local", 0, "3214");
}

static void less_than_the_minimum_is_the_last_choice_not_none(void **state)
{
	(void)state;
	expect("ff", 200, "2314");
	expect("ff", 3000, "2314");
	expect("local", 3000, "2314");
	expect("mfs", 1000000, "2314");
}

static void a_read_only_branch_is_never_chosen(void **state)
{
	struct policy_branch one = example[0];

	(void)state;
	assert_int_equal(policy_order(policy_find("mfs"), 0, &one, 1), 0);
}

static void equals_keep_their_order(void **state)
{
	struct policy_branch branches[256];
	unsigned i;

	(void)state;
	for (i = 0; i < 256; i++)
		branches[i] = (struct policy_branch){.id = i, .available = 7};
	assert_int_equal(policy_order(policy_find("mfs"), 0, branches, 256),
			 256);
	for (i = 0; i < 256; i++)
		assert_int_equal(branches[i].id, i);
}

static void an_unknown_policy_is_none(void **state)
{
	(void)state;
	assert_null(policy_find("most"));
	assert_null(policy_at(4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mfs_takes_the_branch_with_most_room),
		cmocka_unit_test(ff_takes_the_first_with_room),
		cmocka_unit_test(
			epmfs_stays_with_the_directory_while_there_is_room),
		cmocka_unit_test(local_fills_local_branches_first),
		cmocka_unit_test(
			less_than_the_minimum_is_the_last_choice_not_none),
		cmocka_unit_test(a_read_only_branch_is_never_chosen),
		cmocka_unit_test(equals_keep_their_order),
		cmocka_unit_test(an_unknown_policy_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
