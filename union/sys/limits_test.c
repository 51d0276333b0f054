/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "union/state/state.h"
#include "union/sys/limits.h"

#include <cmocka.h>

/* SIGXFSZ ends a process that makes a larger file. */
static void the_memory_is_made_though_files_are_to_be_small(void **unused)
{
	struct state state = {0};
	struct rlimit limit;
	int status;
	pid_t pid = fork();

	(void)unused;
	assert_true(pid >= 0);
	if (!pid) {
		if (getrlimit(RLIMIT_FSIZE, &limit) < 0)
			_exit(2);
		limit.rlim_cur = 4096;
		if (setrlimit(RLIMIT_FSIZE, &limit) < 0)
			_exit(2);
		limits_raise();
		_exit(state_create(&state) < 0 ? 1 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void as_many_files_are_open_as_may_be(void **unused)
{
	struct rlimit limit, now;

	(void)unused;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = 64;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	limits_raise();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &now), 0);
	assert_int_equal(now.rlim_cur, limit.rlim_max);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			the_memory_is_made_though_files_are_to_be_small),
		cmocka_unit_test(as_many_files_are_open_as_may_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
