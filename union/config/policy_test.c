/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "union/branch/branch.h"
#include "union/config/policy.h"

#include <cmocka.h>

/* 0: read-only and roomy, 1: little, 2: most, 3: local, 4: full, 5: NC. */
static const struct policy_branch example[] = {
	{.id = 0, .flags = BRANCH_RO, .available = 9000, .has_parent = true},
	{.id = 1,
	 .available = 100,
	 .used = 20,
	 .has_parent = true,
	 .shared = 9,
	 .changed_ns = 5},
	{.id = 2,
	 .available = 5000,
	 .used = 4000,
	 .shared = 1,
	 .changed_ns = INT64_MIN},
	{.id = 3,
	 .available = 2000,
	 .used = 10,
	 .flags = BRANCH_LOCAL,
	 .shared = 2,
	 .changed_ns = INT64_MIN},
	{.id = 4,
	 .available = 0,
	 .used = 1,
	 .has_parent = true,
	 .shared = 9,
	 .changed_ns = 7},
	{.id = 5, .flags = BRANCH_NC, .available = 8000, .has_parent = true},
};
#define EXAMPLES array_size(example)

/* The order as a string of ids, with that random number for each step. */
static const char *order(const char *policy, uint64_t min_free, uint64_t random)
{
	static char got[EXAMPLES + 1];
	struct policy_branch branches[EXAMPLES];
	unsigned i, n;

	memcpy(branches, example, sizeof(example));
	for (i = 0; i < EXAMPLES; i++)
		branches[i].min_free = min_free;
	n = policy_filter(branches, EXAMPLES);
	for (i = 0; i < n; i++) {
		policy_next(policy_find(policy), branches + i, n - i, random);
		got[i] = (char)('0' + branches[i].id);
	}
	got[n] = '\0';
	return got;
}

static void expect(const char *policy, uint64_t min_free, const char *ids)
{
	assert_string_equal(order(policy, min_free, 0), ids);
}

static void by_free_space(void **state)
{
	(void)state;
	expect("mfs", 0, "2314");
	expect("lfs", 0, "1324");
	expect("lfs", 1000, "3214");
}

static void by_used_space(void **state)
{
	(void)state;
	expect("lus", 0, "3124");
	expect("lup", 0, "3124");
	expect("lus", 3000, "2314");
}

static void ff_and_all_take_the_first_with_room(void **state)
{
	(void)state;
	expect("ff", 0, "1234");
	expect("all", 0, "1234");
}

static void existing_paths_come_first_while_they_have_room(void **state)
{
	(void)state;
	expect("epmfs", 0, "1234");
	expect("epmfs", 200, "2314");
	expect("eplfs", 0, "1324");
	expect("eplus", 0, "1324");
	expect("eplup", 0, "1324");
	expect("epff", 0, "1234");
	expect("epall", 0, "1234");
}

static void the_most_shared_path_comes_first(void **state)
{
	(void)state;
	expect("mspmfs", 0, "1324");
	expect("msplfs", 0, "1324");
	expect("msplus", 200, "3214");
	expect("msplup", 200, "3214");
}

static void newest_follows_the_last_change(void **state)
{
	(void)state;
	expect("newest", 0, "1234");
	expect("newest", 200, "2314");
}

static void local_fills_local_branches_first(void **state)
{
	(void)state;
	expect("local", 0, "3214");
}

static void chance_goes_by_free_space_or_not_at_all(void **state)
{
	(void)state;
	/* Weights of 1, 2, 3: 100, 5000, 2000 bytes are 1, 10, 4. */
	assert_memory_equal(order("pfrd", 0, 0), "1", 1);
	assert_memory_equal(order("pfrd", 0, 1), "2", 1);
	assert_memory_equal(order("pfrd", 0, 10), "2", 1);
	assert_memory_equal(order("pfrd", 0, 11), "3", 1);
	assert_memory_equal(order("pfrd", 0, 14), "3", 1);
	assert_memory_equal(order("pfrd", 0, 15), "1", 1);
	assert_memory_equal(order("rand", 0, 0), "1", 1);
	assert_memory_equal(order("rand", 0, 1), "2", 1);
	assert_memory_equal(order("rand", 0, 5), "3", 1);
	assert_memory_equal(order("eprand", 0, 1), "1", 1);
	assert_memory_equal(order("eppfrd", 200, 13), "3", 1);
	assert_memory_equal(order("msppfrd", 200, 1), "3", 1);
}

static void every_policy_tries_every_branch_once(void **state)
{
	const struct policy *policy;
	uint64_t random;
	const char *got;
	unsigned i;

	(void)state;
	for (i = 0; (policy = policy_at(i)); i++)
		for (random = 0; random < 40; random++) {
			got = order(policy->name, random * 100, random);
			assert_int_equal(strlen(got), 4);
			assert_non_null(strchr(got, '1'));
			assert_non_null(strchr(got, '2'));
			assert_non_null(strchr(got, '3'));
			assert_int_equal(got[3], random == 1 ? '4' : got[3]);
		}
}

static void less_than_the_minimum_is_the_last_choice_not_none(void **state)
{
	(void)state;
	expect("ff", 200, "2314");
	expect("ff", 3000, "2314");
	expect("local", 3000, "2314");
	expect("mfs", 1000000, "2314");
	expect("pfrd", 1000000, "2314");
	expect("rand", 1000000, "2314");
}

static void a_branch_may_have_a_minimum_of_its_own(void **state)
{
	struct policy_branch branches[] = {
		{.id = 0, .available = 50, .min_free = 60},
		{.id = 1, .available = 50, .min_free = 50},
	};

	(void)state;
	policy_next(policy_find("ff"), branches, 2, 0);
	assert_int_equal(branches[0].id, 1);
}

static void no_branch_may_be_left(void **state)
{
	struct policy_branch branches[] = {example[0], example[5]};

	(void)state;
	assert_int_equal(policy_filter(branches, 2), 0);
}

static void huge_branches_do_not_overflow(void **state)
{
	struct policy_branch branches[256];
	unsigned i;

	(void)state;
	for (i = 0; i < 256; i++)
		branches[i] = (struct policy_branch){
			.id = i,
			.available = UINT64_MAX,
			.used = UINT64_MAX - i,
		};
	policy_next(policy_find("pfrd"), branches, 256, UINT64_MAX);
	policy_next(policy_find("lup"), branches, 256, 0);
	assert_int_equal(branches[0].id, 255);
}

static void equals_keep_their_order(void **state)
{
	struct policy_branch branches[256];
	unsigned i;

	(void)state;
	for (i = 0; i < 256; i++)
		branches[i] = (struct policy_branch){.id = i, .available = 7};
	for (i = 0; i < 256; i++) {
		policy_next(policy_find("mfs"), branches + i, 256 - i, 0);
		assert_int_equal(branches[i].id, i);
	}
}

static void an_unknown_policy_is_none(void **state)
{
	(void)state;
	assert_null(policy_find("most"));
	assert_null(policy_find(""));
	assert_null(policy_at(23));
	assert_string_equal(policy_at(0)->name, "pfrd");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(by_free_space),
		cmocka_unit_test(by_used_space),
		cmocka_unit_test(ff_and_all_take_the_first_with_room),
		cmocka_unit_test(
			existing_paths_come_first_while_they_have_room),
		cmocka_unit_test(the_most_shared_path_comes_first),
		cmocka_unit_test(newest_follows_the_last_change),
		cmocka_unit_test(local_fills_local_branches_first),
		cmocka_unit_test(chance_goes_by_free_space_or_not_at_all),
		cmocka_unit_test(every_policy_tries_every_branch_once),
		cmocka_unit_test(
			less_than_the_minimum_is_the_last_choice_not_none),
		cmocka_unit_test(a_branch_may_have_a_minimum_of_its_own),
		cmocka_unit_test(no_branch_may_be_left),
		cmocka_unit_test(huge_branches_do_not_overflow),
		cmocka_unit_test(equals_keep_their_order),
		cmocka_unit_test(an_unknown_policy_is_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
