/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"
#include "csi/call/capability.h"
#include "csi/node/node_group.h"

#define GID 4711

static char dir[64], root[80], outside[80];

static int setup(void **state)
{
	(void)state;
	(void)strcpy(dir, "/tmp/trib-csi-group.XXXXXX");
	if (!mkdtemp(dir))
		return -1;
	(void)snprintf(root, sizeof(root), "%s/root", dir);
	(void)snprintf(outside, sizeof(outside), "%s/outside", dir);
	return mkdir(root, 0755) < 0 || mkdir(outside, 0700) < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	const char *const argv[] = {"rm", "-rf", "--one-file-system", dir,
				    NULL};

	(void)state;
	return process_must(argv, 10000, NULL);
}

static const char *below(const char *name)
{
	static char path[160];

	(void)snprintf(path, sizeof(path), "%s/%s", root, name);
	return path;
}

static void make_file(const char *name, mode_t mode)
{
	int fd = open(below(name), O_WRONLY | O_CREAT | O_EXCL, 0600);

	assert_true(fd >= 0);
	assert_int_equal(fchmod(fd, mode), 0);
	(void)close(fd);
}

static void assert_is(const char *path, gid_t gid, mode_t mode)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	assert_int_equal(st.st_gid, gid);
	assert_int_equal(st.st_mode & 07777, mode);
}

static void numbers_of_groups_are_read(void **state)
{
	static const char *const bad[] = {"",           "-1",         "root",
					  "1 ",         "0x1",        "+1",
					  "4294967295", "99999999999"};
	gid_t gid = 1;

	(void)state;
	assert_int_equal(capability_group_parse("0", &gid, NULL), 0);
	assert_int_equal(gid, 0);
	assert_int_equal(capability_group_parse("4294967294", &gid, NULL), 0);
	assert_int_equal(gid, 4294967294u);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(capability_group_parse(bad[i], &gid, NULL),
				 -EINVAL);
	assert_int_equal(gid, 4294967294u);
}

static void everything_in_it_is_the_groups(void **state)
{
	(void)state;
	assert_int_equal(mkdir(below("d"), 0700), 0);
	make_file("d/plain", 0640);
	make_file("d/program", 0755);
	make_file("setuid", 04711);
	assert_int_equal(mkfifo(below("pipe"), 0600), 0);
	assert_int_equal(symlink(outside, below("d/link")), 0);
	assert_int_equal(node_group_apply(root, GID, -1, NULL), 0);
	assert_is(root, GID, 02775);
	assert_is(below("d"), GID, 02770);
	assert_is(below("d/plain"), GID, 0660);
	assert_is(below("d/program"), GID, 0775);
	assert_is(below("setuid"), GID, 04771);
	assert_is(below("pipe"), GID, 0660);
	/* The link itself, not what it leads to. */
	assert_is(below("d/link"), GID, 0777);
	assert_is(outside, getgid(), 0700);
	/* And what is made then. */
	make_file("new", 0600);
	assert_is(below("new"), GID, 0600);
}

static void a_root_that_is_right_is_all_that_is_looked_at(void **state)
{
	(void)state;
	assert_int_equal(node_group_apply(root, GID, -1, NULL), 0);
	assert_int_equal(mkdir(below("d"), 0700), 0);
	assert_int_equal(chown(below("d"), 0, 0), 0);
	assert_int_equal(node_group_apply(root, GID, -1, NULL), 0);
	assert_is(below("d"), 0, 02700);
	assert_int_equal(node_group_apply(root, GID + 1, -1, NULL), 0);
	assert_is(below("d"), GID + 1, 02770);
}

static void a_stop_leaves_the_root_for_the_next_time(void **state)
{
	int stop = eventfd(1, EFD_CLOEXEC);

	(void)state;
	make_file("f", 0600);
	assert_int_equal(node_group_apply(root, GID, stop, NULL), -ECANCELED);
	assert_is(root, getgid(), 0755);
	(void)close(stop);
	assert_int_equal(node_group_apply(root, GID, -1, NULL), 0);
	assert_is(below("f"), GID, 0660);
}

static void too_deep_a_tree_is_an_error(void **state)
{
	struct error err = {0};
	int at = open(root, O_RDONLY | O_DIRECTORY), next;

	(void)state;
	for (int i = 0; i < NODE_GROUP_DEPTH_MAX; i++) {
		assert_int_equal(mkdirat(at, "d", 0700), 0);
		next = openat(at, "d", O_RDONLY | O_DIRECTORY);
		assert_true(next >= 0);
		(void)close(at);
		at = next;
	}
	(void)close(at);
	assert_int_equal(node_group_apply(root, GID, -1, &err), -ELOOP);
	assert_non_null(strstr(err.msg, "4711"));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(numbers_of_groups_are_read),
		TEST(everything_in_it_is_the_groups),
		TEST(a_root_that_is_right_is_all_that_is_looked_at),
		TEST(a_stop_leaves_the_root_for_the_next_time),
		TEST(too_deep_a_tree_is_an_error),
	};

	if (geteuid() != 0) {
		(void)puts("needs root, which may give files away");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
