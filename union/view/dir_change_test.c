/* SPDX-License-Identifier: Apache-2.0 */
/* All copies of a directory change, or none. Opening by handle needs root. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/dir_fd.h"
#include "union/recover/unionfs_life.h"
#include "union/sys/proc_path.h"
#include "union/testkit/branches_kit.h"
#include "union/view/dir_change.h"
#include "union/view/lookup.h"
#include "union/view/name_filter.h"

#include <cmocka.h>

#define NAME "user.tried"

static char top[BRANCHES_KIT_TOP];
static struct unionfs fs;
static struct node *root, *dir; /* "d", on both branches */

static int root_fd(unsigned branch)
{
	return fs.branches.items[branch]->root_fd;
}

static int setup(void **state)
{
	struct timespec times[2] = {{.tv_sec = 7}, {.tv_sec = 8}};
	struct fuse_entry_param entry;
	unsigned i;

	(void)state;
	if (branches_kit_union(top, &fs, &root) < 0)
		return -1;
	for (i = 0; root && i < 2; i++) {
		name_filter_add(root, "d", i);
		if (mkdirat(root_fd(i), "d", 0750) < 0 ||
		    fchownat(root_fd(i), "d", 3, 4, 0) < 0 ||
		    utimensat(root_fd(i), "d", times, 0) < 0)
			return -1;
	}
	if (!root)
		return 0;
	if (lookup_entry(&fs, NULL, root, "d", NULL, &entry) < 0)
		return -1;
	dir = node_get(&fs.nodes, entry.ino);
	return 0;
}

static int done(void **state)
{
	(void)state;
	if (root)
		unionfs_done(&fs);
	return branches_kit_remove(top);
}

static void is_as_before(unsigned branch)
{
	struct stat st;

	assert_int_equal(fstatat(root_fd(branch), "d", &st, 0), 0);
	assert_int_equal(st.st_mode & 07777, 0750);
	assert_int_equal(st.st_uid, 3);
	assert_int_equal(st.st_gid, 4);
	assert_int_equal(st.st_atim.tv_sec, 7);
	assert_int_equal(st.st_mtim.tv_sec, 8);
}

/* Each copy, in turn: it is noted before. */
static void change_each(struct dir_change *change,
			void (*one)(int fd, const char *path))
{
	char path[PROC_PATH_MAX];
	struct copy *copy;

	for (copy = node_first(dir); copy; copy = copy_next(copy)) {
		auto_dir_fd struct dir_fd *fd = NULL;

		assert_int_equal(unionfs_dir_fd(&fs, copy, &fd), 0);
		assert_int_equal(dir_change_note(change, copy, fd->fd), 0);
		one(fd->fd, proc_path(path, fd->fd, ""));
	}
}

static void change_attributes(int fd, const char *path)
{
	assert_int_equal(fchownat(fd, "", 5, 6, AT_EMPTY_PATH), 0);
	assert_int_equal(chmod(path, 0711), 0);
	assert_int_equal(utimensat(fd, "", NULL, AT_EMPTY_PATH), 0);
}

static void an_error_at_one_undoes_what_the_others_had(void **state)
{
	struct dir_change change;

	(void)state;
	if (!root)
		skip();
	assert_int_equal(dir_change_begin(&change, &fs, dir, NULL, false), 0);
	change_each(&change, change_attributes);
	dir_change_end(&change, -EIO);
	is_as_before(0);
	is_as_before(1);
}

static void set_value(int fd, const char *path)
{
	(void)fd;
	assert_int_equal(setxattr(path, NAME, "new", 3, 0), 0);
}

static void has_value(unsigned branch, const char *value)
{
	char path[PROC_PATH_MAX], got[16] = {0};
	auto_close int fd = openat(root_fd(branch), "d",
				   O_PATH | O_DIRECTORY | O_CLOEXEC);

	assert_true(fd >= 0);
	if (getxattr(proc_path(path, fd, ""), NAME, got, sizeof(got)) < 0)
		assert_null(value);
	else
		assert_string_equal(got, value);
}

/* One copy had the attribute, the other had not. */
static void so_it_is_with_an_attribute(void **state)
{
	char path[PROC_PATH_MAX];
	struct dir_change change;
	auto_close int fd = root ? openat(root_fd(0), "d",
					  O_PATH | O_DIRECTORY | O_CLOEXEC)
				 : -1;

	(void)state;
	if (!root || setxattr(proc_path(path, fd, ""), NAME, "old", 3, 0) < 0)
		skip();
	assert_int_equal(dir_change_begin(&change, &fs, dir, NAME, false), 0);
	change_each(&change, set_value);
	has_value(0, "new");
	has_value(1, "new");
	dir_change_end(&change, -E2BIG);
	has_value(0, "old");
	has_value(1, NULL);
	is_as_before(0);
	is_as_before(1);
}

static void change_nothing(int fd, const char *path)
{
	(void)fd;
	(void)path;
}

/* Not even its change time. */
static void what_did_not_change_is_left_alone(void **state)
{
	static const char *const names[] = {NULL, NAME, "trusted.none"};
	struct dir_change change;
	struct stat before, after;
	size_t i;

	(void)state;
	if (!root)
		skip();
	for (i = 0; i < array_size(names); i++) {
		assert_int_equal(fstatat(root_fd(0), "d", &before, 0), 0);
		assert_int_equal(
			dir_change_begin(&change, &fs, dir, names[i], false),
			0);
		change_each(&change, change_nothing);
		/* The clock of change times goes on. */
		(void)usleep(20000);
		dir_change_end(&change, -ENODATA);
		assert_int_equal(fstatat(root_fd(0), "d", &after, 0), 0);
		assert_memory_equal(&after.st_ctim, &before.st_ctim,
				    sizeof(before.st_ctim));
	}
}

static void what_succeeds_stays(void **state)
{
	struct dir_change change;
	struct stat st;

	(void)state;
	if (!root)
		skip();
	assert_int_equal(dir_change_begin(&change, &fs, dir, NULL, false), 0);
	change_each(&change, change_attributes);
	dir_change_end(&change, 0);
	assert_int_equal(fstatat(root_fd(1), "d", &st, 0), 0);
	assert_int_equal(st.st_uid, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_error_at_one_undoes_what_the_others_had),
		cmocka_unit_test(so_it_is_with_an_attribute),
		cmocka_unit_test(what_did_not_change_is_left_alone),
		cmocka_unit_test(what_succeeds_stays),
	};

	return cmocka_run_group_tests(tests, setup, done);
}
