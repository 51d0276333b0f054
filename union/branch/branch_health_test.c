/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"

#include "union/branch/branch_health.h"

static char path[] = "/tmp/branch-health-XXXXXX";
static struct branch branch = {.id = 200, .path = path, .root_fd = -1};
static int sync_error; /* of the disk; 0: it works */
static unsigned syncs;

int fsync(int fd)
{
	int (*real)(int) = NULL;

	*(void **)&real = dlsym(RTLD_NEXT, "fsync");
	syncs++;
	errno = sync_error;
	return sync_error ? -1 : real(fd);
}

static int setup(void **state)
{
	(void)state;
	if (!mkdtemp(path))
		return -1;
	branch.root_fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return branch.root_fd < 0 ? -1 : 0;
}

static int done(void **state)
{
	const char *const argv[] = {"rm", "-rf", path, NULL};

	(void)state;
	(void)close(branch.root_fd);
	return process_must(argv, 10000, NULL);
}

static void an_error_of_one_object_is_not_the_branchs(void **state)
{
	static const int errors[] = {-EIO,   -EUCLEAN, -EBADMSG, -ESHUTDOWN,
				     -ENXIO, -EROFS,   -ENODEV,  -ETIMEDOUT};
	size_t i;

	(void)state;
	for (i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		syncs = 0; /* each time anew */
		assert_int_equal(branch_report(&branch, errors[i]), errors[i]);
		assert_int_equal(syncs, 1);
		assert_true(branch_is_well(&branch));
	}
	assert_false(branch_any_doubted());
	assert_int_equal(atomic_load(&branch.failures), 0);
}

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
	int root = dup(branch.root_fd);
	struct stat st;

	(void)state;
	assert_true(root >= 0);
	sync_error = EIO;
	assert_int_equal(branch_report(&branch, -EUCLEAN), -EUCLEAN);
	sync_error = 0;
	assert_int_equal(atomic_load(&branch.failed), EIO);
	assert_int_equal(branch_report(&branch, -ENODEV), -ENODEV);
	assert_false(branch_usable(branch.id));
	assert_true(branch_usable(branch.id + 1));
	assert_int_equal(branch_table_ill(&table).failed, 1);
	assert_int_equal(branch_table_ill(&table).failures, 1);
	/* Its root is let go of: nothing can be opened by it. */
	assert_int_equal(openat(branch.root_fd, ".", O_RDONLY | O_CLOEXEC), -1);
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
	(void)close(root);
}

static void read_only_by_itself_is_no_failure(void **state)
{
	struct branch_table table = {.items = {&branch}, .count = 1};

	(void)state;
	sync_error = EROFS;
	assert_int_equal(branch_report(&branch, -EROFS), -EROFS);
	assert_true(branch_usable(branch.id));
	assert_int_equal(branch_table_ill(&table).read_only, 1);
	/* And so it is when an error of an object led to it. */
	branch_set_turned_ro(&branch, false);
	assert_int_equal(branch_report(&branch, -EIO), -EIO);
	sync_error = 0;
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
		cmocka_unit_test(an_error_of_one_object_is_not_the_branchs),
		cmocka_unit_test(fails_once_and_is_trusted_when_it_is_back),
		cmocka_unit_test(read_only_by_itself_is_no_failure),
		cmocka_unit_test(a_branch_is_its_directory_and_its_file_system),
	};

	return cmocka_run_group_tests(tests, setup, done);
}
