/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/kernel/mount_ns.h"

static void a_line_has_a_device_and_a_place(void **state)
{
	static const char line[] = "36 35 7:3 / /a\\040b rw - ext4 /dev/x rw\n";
	dev_t device = 0;
	int at = 0;

	(void)state;
	assert_true(mount_ns_line(line, &device, &at));
	assert_true(device == makedev(7, 3));
	assert_memory_equal(line + at, "/a\\040b rw", 10);
	assert_false(mount_ns_line("", &device, &at));
	assert_false(mount_ns_line("36 35 7:3 /\n", &device, &at));
	assert_false(mount_ns_line("36 35 x /  /mnt rw\n", &device, &at));
}

static int count(void *context, const struct mount_ns *space)
{
	unsigned *n = context;
	char text[16];

	assert_true(atoi(space->pid) > 0);
	assert_non_null(fgets(text, sizeof(text), space->mounts));
	++*n;
	return 0;
}

static int stop(void *context, const struct mount_ns *space)
{
	(void)space;
	++*(unsigned *)context;
	return 7;
}

static void each_namespace_is_visited(void **state)
{
	unsigned n = 0;

	(void)state;
	assert_int_equal(mount_ns_walk(count, &n), 0);
	assert_true(n > 0);
	n = 0;
	assert_int_equal(mount_ns_walk(stop, &n), 7);
	assert_int_equal(n, 1);
}

/* In a namespace of its own, with a file system that nobody else has. */
static int elsewhere(int told)
{
	struct stat st = {0};

	if (unshare(CLONE_NEWNS) < 0 ||
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return 1;
	if (mount("none", "/tmp", "tmpfs", 0, NULL) < 0 ||
	    stat("/tmp", &st) < 0)
		return 1;
	if (write(told, &st.st_dev, sizeof(st.st_dev)) < 0)
		return 1;
	(void)pause();
	return 0;
}

static void a_mount_of_another_namespace_is_found(void **state)
{
	char user[MOUNT_NS_USER_MAX] = "", wanted[32];
	int ends[2];
	dev_t device;
	pid_t pid, found = 0;

	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(elsewhere(ends[1]));
	fd_close(ends[1]);
	assert_int_equal(read(ends[0], &device, sizeof(device)),
			 sizeof(device));
	assert_true(mount_ns_has_elsewhere(device, user, &found));
	assert_int_equal(found, pid);
	(void)snprintf(wanted, sizeof(wanted), "(%d)", (int)pid);
	assert_non_null(strstr(user, wanted));
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(mount_ns_has_elsewhere(device, user, NULL));
	fd_close(ends[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_line_has_a_device_and_a_place),
		cmocka_unit_test(each_namespace_is_visited),
		cmocka_unit_test(a_mount_of_another_namespace_is_found),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
