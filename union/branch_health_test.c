/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "union/branch_health.h"

static char path[] = "/srv/one";
static struct branch branch = {.id = 200, .path = path, .root_fd = -1};

static void only_what_says_so_is_a_failure(void **state)
{
	static const int harmless[] = {-ENOENT, -ENOSPC,    -EACCES, -EMFILE,
				       -ESTALE, -ENOTEMPTY, -EINTR};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(harmless) / sizeof(harmless[0]); i++)
		assert_int_equal(branch_report(&branch, harmless[i]),
				 harmless[i]);
	assert_int_equal(branch_report(&branch, 5), 5);
	assert_true(branch_usable(branch.id));
	assert_false(branch_any_doubted());
}

static void fails_once_and_is_trusted_when_it_is_back(void **state)
{
	struct branch_table table = {.items = {&branch}, .count = 1};
	unsigned mark = branch_doubt_mark();
	int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	(void)state;
	assert_true(root >= 0);
	branch.root_fd = dup(root);
	assert_int_equal(branch_report(&branch, -EIO), -EIO);
	assert_int_equal(branch_report(&branch, -ENODEV), -ENODEV);
	assert_false(branch_usable(branch.id));
	assert_true(branch_usable(branch.id + 1));
	assert_int_equal(branch_table_ill(&table).failed, 1);
	assert_int_equal(branch_table_ill(&table).failures, 1);
	/* Its root is let go of: nothing can be opened by it. */
	assert_int_equal(openat(branch.root_fd, "etc", O_RDONLY | O_CLOEXEC),
			 -1);
	branch_trust(&branch); /* too early */
	assert_true(branch_any_doubted());
	assert_int_equal(fstat(root, &st), 0);
	branch_revive(&branch, root, st.st_dev);
	assert_true(branch_usable(branch.id));
	assert_true(branch_any_doubted());
	assert_int_equal(branch_doubt_mark(), mark);
	branch_trust(&branch);
	assert_false(branch_any_doubted());
	assert_int_not_equal(branch_doubt_mark(), mark);
	assert_int_equal(branch_table_ill(&table).failed, 0);
	(void)close(branch.root_fd);
	(void)close(root);
}

static void read_only_by_itself_is_no_failure(void **state)
{
	struct branch_table table = {.items = {&branch}, .count = 1};

	(void)state;
	assert_int_equal(branch_report(&branch, -EROFS), -EROFS);
	assert_true(branch_usable(branch.id));
	assert_int_equal(branch_table_ill(&table).read_only, 1);
	branch_set_turned_ro(&branch, false);
	assert_int_equal(branch_table_ill(&table).read_only, 0);
	branch.flags = BRANCH_RO;
	assert_int_equal(branch_report(&branch, -EROFS), -EROFS);
	assert_int_equal(branch_table_ill(&table).read_only, 0);
	branch.flags = 0;
}

static void a_branch_is_its_directory_and_its_file_system(void **state)
{
	struct branch_identity a = {.type = 1,
				    .fsid = 5,
				    .uuid_length = 2,
				    .uuid = {1, 2}},
			       b = a;

	(void)state;
	assert_true(branch_identity_equal(&a, &b));
	b.fsid = 6; /* of another device; the UUID counts */
	assert_true(branch_identity_equal(&a, &b));
	b.uuid[1] = 3;
	assert_false(branch_identity_equal(&a, &b));
	a.uuid_length = b.uuid_length = 0;
	assert_false(branch_identity_equal(&a, &b));
	b.fsid = a.fsid;
	assert_true(branch_identity_equal(&a, &b));
	b.root.length = 4;
	assert_false(branch_identity_equal(&a, &b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_what_says_so_is_a_failure),
		cmocka_unit_test(fails_once_and_is_trusted_when_it_is_back),
		cmocka_unit_test(read_only_by_itself_is_no_failure),
		cmocka_unit_test(a_branch_is_its_directory_and_its_file_system),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
