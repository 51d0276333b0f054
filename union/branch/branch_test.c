/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/process.h"
#include "union/branch/branch.h"
#include "union/branch/branch_path.h"

#include <cmocka.h>

static struct branch_table table;
static struct error err;
static char top[32];

/* The path of @name in the test's directory, where it is made. */
static const char *dir(const char *name)
{
	static char path[128];

	(void)snprintf(path, sizeof(path), "%s/%s", top, name); /* fits */
	assert_true(mkdir(path, 0755) == 0 || errno == EEXIST);
	return path;
}

static int add(const char *name)
{
	memset(&err, 0, sizeof(err));
	return branch_add(&table, dir(name), 0, &err);
}

static int setup(void **state)
{
	(void)state;
	(void)snprintf(top, sizeof(top), "/tmp/trib-branch-XXXXXX");
	return mkdtemp(top) ? 0 : -1;
}

static int done(void **state)
{
	const char *const argv[] = {"rm", "-rf", top, NULL};

	(void)state;
	branch_table_done(&table);
	return process_must(argv, 10000, NULL);
}

/* Opening by handle takes root. */
static void add_first(const char *name)
{
	int r = add(name);

	if (r == -EPERM)
		skip();
	assert_int_equal(r, 0);
}

static void ids_are_places_and_a_branch_is_found_by_any_path(void **state)
{
	(void)state;
	add_first("a");
	assert_int_equal(add("b"), 0);
	assert_int_equal(branch_find(&table, dir("a"))->id, 0);
	assert_int_equal(branch_find(&table, dir("a/../b"))->id, 1);
	assert_null(branch_find(&table, dir("c")));
	assert_null(branch_find(&table, "/nothing/there"));
}

static void refuses_a_branch_in_or_around_or_twice(void **state)
{
	(void)state;
	(void)dir("a");
	add_first("a/b");
	assert_int_equal(add("a/b"), -EEXIST);
	assert_int_equal(add("a"), -EINVAL);
	assert_int_equal(add("a/b/c"), -EINVAL);
	assert_non_null(strstr(err.msg, "one in the other"));
	assert_int_equal(add("a/bc"), 0);
	assert_int_equal(table.count, 2);
}

static void an_opened_branch_is_met_once_it_is_published(void **state)
{
	struct branch *branch, *again;

	(void)state;
	add_first("a");
	assert_int_equal(branch_open(&table, dir("b"), 0, &branch, &err), 0);
	assert_int_equal(branch->id, 1);
	assert_int_equal(table.count, 1);
	assert_null(branch_find(&table, dir("b")));
	branch_drop(&table, branch);
	assert_int_equal(branch_open(&table, dir("c"), 0, &again, &err), 0);
	branch_enter(&table, again);
	branch_publish(&table, again, 0);
	assert_ptr_equal(branch_find(&table, dir("c")), again);
	assert_int_equal(table.count, 2);
}

static void one_that_was_absent_gets_its_place(void **state)
{
	struct branch *branch, *absent;

	(void)state;
	assert_int_equal(branch_add_gone(&table, dir("a"), BRANCH_ABSENT, &err),
			 0);
	assert_int_equal(branch_add_gone(&table, dir("a"), BRANCH_ABSENT, &err),
			 -EEXIST);
	add_first("b");
	absent = table.items[0];
	/* Not after all, at either step. */
	assert_int_equal(branch_open(&table, dir("a"), 0, &branch, &err), 0);
	branch_drop(&table, branch);
	assert_int_equal(branch_open(&table, dir("a"), 0, &branch, &err), 0);
	assert_ptr_equal(table.items[0], absent);
	branch_enter(&table, branch);
	assert_ptr_equal(table.items[0], branch);
	assert_true(branch->flags & BRANCH_RO); /* nothing new gets there */
	branch_drop(&table, branch);
	assert_ptr_equal(table.items[0], absent);
	assert_int_equal(
		branch_open(&table, dir("a"), BRANCH_NC, &branch, &err), 0);
	assert_int_equal(branch->id, 0);
	branch_enter(&table, branch);
	branch_publish(&table, branch, BRANCH_NC);
	assert_int_equal(branch->flags, BRANCH_NC);
	assert_ptr_equal(branch_find(&table, dir("a")), branch);
	assert_int_equal(table.count, 2);
}

static void a_path_is_below_by_whole_names(void **state)
{
	(void)state;
	assert_true(branch_path_is_below("/a/b", "/a/b"));
	assert_true(branch_path_is_below("/a/b/c", "/a/b"));
	assert_true(branch_path_is_below("/a", "/"));
	assert_false(branch_path_is_below("/a/bc", "/a/b"));
	assert_false(branch_path_is_below("/a", "/a/b"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, done)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ids_are_places_and_a_branch_is_found_by_any_path),
		TEST(refuses_a_branch_in_or_around_or_twice),
		TEST(an_opened_branch_is_met_once_it_is_published),
		TEST(one_that_was_absent_gets_its_place),
		TEST(a_path_is_below_by_whole_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
