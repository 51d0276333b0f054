/* SPDX-License-Identifier: Apache-2.0 */
#include "union/branch/branch_probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "union/testkit/hang_kit.h"

#include <cmocka.h>

/* branch_probe() may wait ten times as long, and the kit ends a test after 60
 * s. */
#define PATIENCE_MS 500

static void set_path(struct state *state, unsigned branch, const char *path)
{
	state->branches[branch].used = STATE_BRANCH_USED;
	(void)snprintf(state->branches[branch].path,
		       sizeof(state->branches[branch].path), "%s", path);
}

static void those_that_come_back_answer(void **unused)
{
	bool wanted[BRANCH_MAX] = {true, true, false, true};
	bool answers[BRANCH_MAX] = {false};
	struct state state;

	(void)unused;
	assert_int_equal(state_create(&state), 0);
	set_path(&state, 0, "/");
	set_path(&state, 1, "/none");
	set_path(&state, 3, "/proc");
	branch_probe(&state, wanted, PATIENCE_MS, answers);
	assert_true(answers[0] && answers[1] && answers[3]);
	assert_false(branch_probe_is_busy());
	state_done(&state);
}

static void one_that_hangs_does_not(void **unused)
{
	bool wanted[BRANCH_MAX] = {true, true}, answers[BRANCH_MAX];
	struct hang_fs fs;
	struct state state;

	(void)unused;
	if (!hang_fs_can())
		skip();
	assert_int_equal(hang_fs_start(&fs), 0);
	assert_int_equal(state_create(&state), 0);
	set_path(&state, 0, fs.path);
	set_path(&state, 1, "/");
	branch_probe(&state, wanted, PATIENCE_MS, answers);
	assert_false(answers[0]);
	assert_true(answers[1]);
	assert_true(branch_probe_is_busy());
	hang_fs_end(&fs);
	while (branch_probe_is_busy())
		(void)usleep(1000);
	state_done(&state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(those_that_come_back_answer),
		cmocka_unit_test(one_that_hangs_does_not),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
