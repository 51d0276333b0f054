/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/branch/submount.h"

#include <cmocka.h>

static struct branch_table table;
static struct branch *branch;
static char top[32];
static bool may_mount;

/* A branch of tmpfs, in mounts of our own. */
static int setup(void **state)
{
	struct error err;

	(void)state;
	(void)snprintf(top, sizeof(top), "/tmp/trib-mounted-XXXXXX");
	if (!mkdtemp(top))
		return -1;
	may_mount = unshare(CLONE_NEWNS) == 0 &&
		    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
		    mount("none", top, "tmpfs", 0, NULL) == 0;
	if (!may_mount)
		return 0;
	if (branch_add(&table, top, 0, &err) < 0)
		return -1;
	branch = table.items[0];
	return 0;
}

static int done(void **state)
{
	(void)state;
	branch_table_done(&table);
	if (may_mount)
		(void)umount2(top, MNT_DETACH); /* or with our end */
	return rmdir(top);
}

static int dir(const char *name)
{
	if (!may_mount)
		skip();
	return mkdirat(branch->root_fd, name, 0755);
}

static void put_on(const char *name, const char *from, const char *type)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "%s/%s", top, name); /* fits */
	assert_int_equal(mount(from, path, type, type ? 0 : MS_BIND, NULL), 0);
}

static void take_off(const char *name)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "%s/%s", top, name); /* fits */
	assert_int_equal(umount2(path, MNT_DETACH), 0);
}

static int get(const char *name)
{
	struct handle handle;

	return submount_handle_get(branch, branch->root_fd, name, &handle);
}

static void a_name_of_the_branch_has_a_handle(void **state)
{
	(void)state;
	assert_int_equal(dir("own"), 0);
	assert_int_equal(get("own"), 0);
	assert_int_equal(get(""), 0);
	assert_int_equal(get("none"), -ENOENT);
	assert_false(submount_is_on(branch->root_fd, "own"));
	assert_false(submount_is_on(branch->root_fd, "none"));
	assert_false(submount_is_on(branch->root_fd, "."));
}

static void a_name_that_is_mounted_on_has_none(void **state)
{
	static const char *const types[] = {"tmpfs", "proc", NULL};
	size_t i;

	(void)state;
	assert_int_equal(dir("on"), 0);
	for (i = 0; i < 3; i++) {
		put_on("on", top, types[i]); /* the last: itself once more */
		assert_int_equal(get("on"), -EXDEV);
		assert_true(submount_is_on(branch->root_fd, "on"));
		take_off("on");
		assert_int_equal(get("on"), 0);
	}
}

static void what_is_above_the_branch_is_not_mounted_in_it(void **state)
{
	(void)state;
	if (!may_mount)
		skip();
	assert_false(submount_is_on(branch->root_fd, ".."));
}

static void a_directory_known_from_another_mount_is_no_mount(void **state)
{
	int id;

	(void)state;
	assert_int_equal(dir("old"), 0);
	id = atomic_exchange(&branch->mount_id, -1); /* it came back since */
	assert_int_equal(get("old"), 0);
	atomic_store(&branch->mount_id, id);
}

static void nothing_is_opened_through_a_mount(void **state)
{
	auto_close int fd = -1;

	(void)state;
	assert_int_equal(dir("shut"), 0);
	put_on("shut", "none", "tmpfs");
	assert_int_equal(submount_open_none(branch->root_fd, "shut", O_PATH),
			 -EXDEV);
	assert_int_equal(submount_create_none(branch->root_fd, "shut/file",
					      O_WRONLY, 0644),
			 -EXDEV);
	take_off("shut");
	fd = submount_create_none(branch->root_fd, "shut/file", O_WRONLY, 0640);
	assert_true(fd >= 0);
}

static void mounts_are_noticed_when_they_come_and_go(void **state)
{
	(void)state;
	assert_int_equal(dir("odd name"), 0);
	assert_false(submount_inside(branch));
	put_on("odd name", "none", "tmpfs");
	assert_true(submount_inside(branch));
	assert_true(submount_inside(branch));
	take_off("odd name");
	assert_false(submount_inside(branch));
}

/* How often this process has read so far: proc(5). */
static unsigned long reads(void)
{
	FILE *file = fopen("/proc/self/io", "re");
	unsigned long count = 0;

	if (!file || fscanf(file, "%*s %*u %*s %*u syscr: %lu", &count) != 1)
		count = 0;
	if (file)
		(void)fclose(file);
	return count;
}

/* 256 branches may have 256 mounts: 256 lines are read, not 256 times that. */
static void the_table_is_read_once_however_many_branches(void **state)
{
	unsigned long before;
	struct branch other;
	unsigned i;

	(void)state;
	assert_int_equal(dir("once"), 0);
	put_on("once", "none", "tmpfs");
	assert_true(submount_inside(branch));
	before = reads();
	if (!before)
		skip();
	other = *branch;
	for (i = 1; i < BRANCH_MAX; i++) {
		other.id = i;
		assert_true(submount_inside(&other));
	}
	/* But those of that file itself. */
	assert_in_range(reads() - before, 0, 8);
	take_off("once");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_name_of_the_branch_has_a_handle),
		cmocka_unit_test(a_name_that_is_mounted_on_has_none),
		cmocka_unit_test(what_is_above_the_branch_is_not_mounted_in_it),
		cmocka_unit_test(
			a_directory_known_from_another_mount_is_no_mount),
		cmocka_unit_test(nothing_is_opened_through_a_mount),
		cmocka_unit_test(mounts_are_noticed_when_they_come_and_go),
		cmocka_unit_test(the_table_is_read_once_however_many_branches),
	};

	return cmocka_run_group_tests(tests, setup, done);
}
