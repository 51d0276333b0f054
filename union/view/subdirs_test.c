/* SPDX-License-Identifier: Apache-2.0 */
/* The count of subdirectories, asked for while they come and go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <stdlib.h>
#include <sys/stat.h>

#include "union/change/rename.h"
#include "union/recover/unionfs_life.h"
#include "union/testkit/branches_kit.h"
#include "union/view/subdirs.h"

#include <cmocka.h>

static char top[BRANCHES_KIT_TOP];
static struct unionfs fs;
static struct node *root;

static int setup(void **state)
{
	(void)state;
	return branches_kit_union(top, &fs, &root);
}

static int done(void **state)
{
	(void)state;
	if (root)
		unionfs_done(&fs);
	root = NULL;
	fs = (struct unionfs){0};
	return branches_kit_remove(top);
}

static void make(unsigned branch, const char *name)
{
	assert_int_equal(
		mkdirat(fs.branches.items[branch]->root_fd, name, 0755), 0);
}

static void a_name_on_two_branches_counts_once(void **state)
{
	(void)state;
	if (!root)
		skip();
	make(0, "a");
	make(1, "a");
	make(1, "b");
	assert_int_equal(subdirs_links(&fs, root), 4);
}

static void what_is_counted_while_one_comes_is_not_kept(void **state)
{
	(void)state;
	if (!root)
		skip();
	subdirs_begin(&fs, root);
	make(0, "a");
	assert_int_equal(subdirs_links(&fs, root), 3); /* with it */
	subdirs_end(&fs, root, 1);
	assert_int_equal(subdirs_links(&fs, root), 3);
	subdirs_begin(&fs, root);
	assert_int_equal(subdirs_links(&fs, root), 3); /* as it was */
	make(1, "b");
	subdirs_end(&fs, root, 1);
	assert_int_equal(subdirs_links(&fs, root), 4);
}

static void one_that_did_not_come_is_not_counted(void **state)
{
	(void)state;
	if (!root)
		skip();
	assert_int_equal(subdirs_links(&fs, root), 2);
	subdirs_begin(&fs, root);
	subdirs_end(&fs, root, 0);
	assert_int_equal(subdirs_links(&fs, root), 2);
	make(0, "a"); /* nobody has said so */
	assert_int_equal(subdirs_links(&fs, root), 2);
	subdirs_forget(&fs, root);
	assert_int_equal(subdirs_links(&fs, root), 3);
}

static void attributes_are_not_kept_while_one_comes(void **state)
{
	struct stat st;
	double timeout;

	(void)state;
	if (!root)
		skip();
	fs.timeout = 100;
	subdirs_begin(&fs, root);
	assert_int_equal(unionfs_attr(&fs, NULL, root, &st, &timeout), 0);
	assert_true(timeout == 0);
	subdirs_end(&fs, root, 0);
	assert_int_equal(unionfs_attr(&fs, NULL, root, &st, &timeout), 0);
	assert_true(timeout == 100);
}

static void a_directory_that_appears_is_counted(void **state)
{
	struct rename_args m = {.fs = &fs,
				.from_dir = root,
				.to_dir = root,
				.from_name = "a",
				.to_name = "b"};

	(void)state;
	if (!root)
		skip();
	assert_int_equal(
		mknodat(fs.branches.items[0]->root_fd, "a", S_IFREG | 0644, 0),
		0);
	make(1, "a");
	assert_int_equal(subdirs_links(&fs, root), 2);
	assert_int_equal(rename_name(&m), 0); /* of the file that hides it */
	assert_int_equal(subdirs_links(&fs, root), 3);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, done)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_name_on_two_branches_counts_once),
		TEST(what_is_counted_while_one_comes_is_not_kept),
		TEST(one_that_did_not_come_is_not_counted),
		TEST(attributes_are_not_kept_while_one_comes),
		TEST(a_directory_that_appears_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
