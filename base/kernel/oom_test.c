/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/kernel/oom.h"

#include <cmocka.h>

static void what_is_set_is_read(void **state)
{
	int before = 0, now = 0;

	(void)state;
	assert_int_equal(oom_read(&before), 0);
	assert_int_equal(oom_set(0, 1000), 0);
	assert_int_equal(oom_read(&now), 0);
	assert_int_equal(now, 1000);
	assert_int_equal(oom_set(0, before), 0);
	assert_int_equal(oom_set(0, 1001), -EINVAL);
}

/* A child has its parent's weight, until it is given another. */
static void another_process_has_its_own(void **state)
{
	int before = 0, now = 0, ends[2], status = 0;
	char go;
	pid_t pid;

	(void)state;
	assert_int_equal(oom_read(&before), 0);
	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		_exit(read(ends[0], &go, 1) == 1 && oom_read(&now) == 0 &&
				      now == 900
			      ? 0
			      : 1);
	assert_int_equal(oom_set(pid, 900), 0);
	assert_int_equal(write(ends[1], "", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(oom_read(&now), 0);
	assert_int_equal(now, before);
	assert_int_equal(oom_set(pid, 900), -ENOENT);
	(void)close(ends[0]); /* were only used here */
	(void)close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_set_is_read),
		cmocka_unit_test(another_process_has_its_own),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
