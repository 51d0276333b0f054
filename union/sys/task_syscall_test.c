/* SPDX-License-Identifier: Apache-2.0 */
#include "union/sys/task_syscall.h"

#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/sys/proc_path.h"
#include "union/testkit/hang_kit.h"

#include <cmocka.h>

static struct hang_fs fs;

static int setup(void **state)
{
	(void)state;
	return hang_fs_can() ? hang_fs_start(&fs) : 0;
}

static int done(void **state)
{
	(void)state;
	if (hang_fs_can())
		hang_fs_end(&fs);
	return 0;
}

static void by_descriptor(const struct hang_fs *at)
{
	(void)mkdirat(at->root_fd, "x", 0700);
}

static void by_proc_path(const struct hang_fs *at)
{
	char path[PROC_PATH_MAX];

	(void)mkdir(proc_path(path, at->root_fd, "x"), 0700);
}

static void open_by_proc_path(const struct hang_fs *at)
{
	char path[PROC_PATH_MAX];

	fd_close(open(proc_path(path, at->root_fd, "x"), O_RDONLY | O_CLOEXEC));
}

static void by_path(const struct hang_fs *at)
{
	char path[sizeof(at->path) + 2];

	(void)snprintf(path, sizeof(path), "%s/x", at->path);
	(void)mkdir(path, 0700);
}

/* Look at a call, which has a thread for itself. */
static enum in_call look_at(void (*call)(const struct hang_fs *fs), int *mounts)
{
	pid_t thread, pid = hang_process(&fs, call, &thread);
	enum in_call r = task_syscall_get(pid, thread, mounts);
	int none[2];

	/* The first thread ends soon: then it calls for nothing more. */
	while (task_syscall_get(pid, pid, none) != IN_CALL_NONE)
		(void)sched_yield();
	return r;
}

static void check_mount(void (*call)(const struct hang_fs *fs))
{
	int mounts[2] = {0};

	if (!hang_fs_can())
		skip();
	assert_int_equal(look_at(call, mounts), IN_CALL_MOUNTS);
	assert_int_equal(mounts[0], fs.mount_id);
	assert_int_equal(mounts[1], -1);
}

static void the_call_of_who_was_killed_is_of_its_mount(void **state)
{
	(void)state;
	check_mount(by_descriptor);
}

static void one_by_a_path_of_proc_is(void **state)
{
	(void)state;
	check_mount(by_proc_path);
}

static void so_is_one_that_opens_it(void **state)
{
	(void)state;
	check_mount(open_by_proc_path);
}

static void that_of_a_call_by_a_path_is_not_known(void **state)
{
	int mounts[2];

	(void)state;
	if (!hang_fs_can())
		skip();
	assert_int_equal(look_at(by_path, mounts), IN_CALL_UNKNOWN);
}

static void who_does_not_wait_goes_on_and_then_has_ended(void **state)
{
	int mounts[2];
	pid_t pid = fork();

	(void)state;
	if (!pid)
		for (;;)
			(void)pause();
	assert_int_equal(task_syscall_get(pid, pid, mounts), IN_CALL_GOES_ON);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(task_syscall_get(pid, pid, mounts), IN_CALL_NONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			the_call_of_who_was_killed_is_of_its_mount, setup,
			done),
		cmocka_unit_test_setup_teardown(one_by_a_path_of_proc_is, setup,
						done),
		cmocka_unit_test_setup_teardown(so_is_one_that_opens_it, setup,
						done),
		cmocka_unit_test_setup_teardown(
			that_of_a_call_by_a_path_is_not_known, setup, done),
		cmocka_unit_test(who_does_not_wait_goes_on_and_then_has_ended),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
