/* SPDX-License-Identifier: Apache-2.0 */
/* The parent of a vfork() waits in state D until the child ends. */
#include "union/sys/task_blocked.h"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"

#include <cmocka.h>

static int ends[2];

static int setup(void **state)
{
	(void)state;
	return pipe(ends);
}

static int done(void **state)
{
	(void)state;
	fd_close(ends[0]);
	fd_close(ends[1]);
	return 0;
}

/* Wait until the test lets go. */
static int wait_for_end(void *context)
{
	char byte;

	(void)context;
	(void)!read(ends[0], &byte, 1);
	return 0;
}

static void wait_in_a_call(void)
{
	static char stack[65536];

	fd_close(ends[1]);
	if (clone(wait_for_end, stack + sizeof(stack), CLONE_VFORK, NULL) < 0)
		_exit(1);
	(void)pause();
	_exit(0);
}

static void a_call_that_does_not_come_back_is_found(void **state)
{
	pid_t found = 0, pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (!pid)
		wait_in_a_call();
	while (!found)
		found = task_blocked_thread(pid, 100);
	assert_int_equal(found, pid);
	fd_close(take_fd(&ends[1]));
	while (task_blocked_thread(pid, 0))
		;
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(task_blocked_thread(pid, 60000), 0);
}

static void who_waits_for_nothing_is_not(void **state)
{
	(void)state;
	assert_int_equal(task_blocked_thread(getpid(), 60000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			a_call_that_does_not_come_back_is_found, setup, done),
		cmocka_unit_test(who_waits_for_nothing_is_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
