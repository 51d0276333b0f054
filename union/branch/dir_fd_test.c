/* SPDX-License-Identifier: Apache-2.0 */
/* Kept attributes of directories. Opening by handle needs root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "union/branch/dir_fd.h"

static char top[64];
static int mount_fd = -1;
static struct copy copy;
static bool is_root;
static mode_t mode;

static int setup(void **state)
{
	struct handle handle;
	int fd;

	(void)state;
	(void)snprintf(top, sizeof(top), "/tmp/trib-dir-fd-XXXXXX");
	if (!mkdtemp(top))
		return -1;
	mount_fd = open(top, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (mount_fd < 0 || handle_get(mount_fd, "", &handle) < 0)
		return -1;
	copy_fill(&copy, 0, &handle);
	fd = handle_open(mount_fd, &handle, O_PATH | O_DIRECTORY);
	if (fd < 0)
		print_message("not as root: skipped\n");
	else
		fd_close(fd);
	is_root = fd >= 0;
	return 0;
}

static int done(void **state)
{
	(void)state;
	dir_fd_drop(&copy);
	fd_close(mount_fd);
	return rmdir(top);
}

static void need_root(void)
{
	if (!is_root)
		skip();
}

/* Give the directory another mode each time. */
static void change(void)
{
	assert_int_equal(fchmod(mount_fd, 0700 | ++mode), 0);
}

/* Is the result of dir_fd_stat() true? */
static bool is_true(bool keeps)
{
	struct stat st, real;

	assert_int_equal(dir_fd_stat(&copy, mount_fd, O_PATH, keeps, &st), 0);
	assert_int_equal(fstat(mount_fd, &real), 0);
	assert_int_equal(st.st_ino, real.st_ino);
	return st.st_mode == real.st_mode;
}

static void attributes_are_kept_until_somebody_has_the_descriptor(void **state)
{
	struct dir_fd *dir;

	(void)state;
	need_root();
	assert_true(is_true(true));
	change(); /* untold: it is seen that they are kept */
	assert_false(is_true(true));
	assert_int_equal(dir_fd_get(&copy, mount_fd, O_PATH, &dir), 0);
	assert_true(is_true(true));
	change();
	assert_true(is_true(true)); /* the other still has it */
	change();
	dir_fd_put(dir);
	assert_true(is_true(true));
	change();
	assert_false(is_true(true));
	dir_fd_drop(&copy);
	assert_true(is_true(true));
}

static void nothing_is_kept_while_there_are_other_changes(void **state)
{
	(void)state;
	need_root();
	dir_fd_drop(&copy);
	assert_true(is_true(true));
	dir_fd_changes_begin();
	change();
	assert_true(is_true(true));
	change();
	dir_fd_changes_end();
	assert_true(is_true(true));
	dir_fd_changes_begin();
	dir_fd_changes_begin();
	dir_fd_changes_end();
	change();
	assert_true(is_true(true));
	change();
	assert_true(is_true(true));
	dir_fd_changes_end();
}

/* A directory was cloned: its copies on all other branches are as they were. */
static void changes_on_one_branch_count_there_alone(void **state)
{
	(void)state;
	need_root();
	dir_fd_drop(&copy);
	assert_true(is_true(true));
	dir_fd_changes_begin_on(copy.branch + 1);
	change(); /* untold */
	assert_false(is_true(true));
	dir_fd_changes_end_on(copy.branch + 1);
	assert_false(is_true(true));
	dir_fd_changes_begin_on(copy.branch);
	assert_true(is_true(true));
	change();
	assert_true(is_true(true));
	dir_fd_changes_end_on(copy.branch);
	assert_true(is_true(true));
}

static void nothing_is_kept_where_others_change_the_branches(void **state)
{
	(void)state;
	need_root();
	dir_fd_drop(&copy);
	assert_true(is_true(false));
	change();
	assert_true(is_true(false));
}

static void what_changes_directories_otherwise_is_told(void **state)
{
	(void)state;
	assert_true(dir_fd_is_told(FUSE_CREATE));
	assert_true(dir_fd_is_told(FUSE_UNLINK));
	assert_false(dir_fd_is_told(FUSE_RENAME2));
	assert_false(dir_fd_is_told(FUSE_RMDIR));
	assert_false(dir_fd_is_told(FUSE_READDIRPLUS));
	assert_false(dir_fd_is_told(FUSE_SETXATTR));
	assert_false(dir_fd_is_told(4095));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			attributes_are_kept_until_somebody_has_the_descriptor),
		cmocka_unit_test(nothing_is_kept_while_there_are_other_changes),
		cmocka_unit_test(changes_on_one_branch_count_there_alone),
		cmocka_unit_test(
			nothing_is_kept_where_others_change_the_branches),
		cmocka_unit_test(what_changes_directories_otherwise_is_told),
	};

	return cmocka_run_group_tests(tests, setup, done);
}
