/* SPDX-License-Identifier: Apache-2.0 */
/* The next server learns of a killed one, of which a thread hangs. */
#include "union/state/stuck_server.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/state/fd_store.h"
#include "union/state/thread_branches.h"
#include "union/testkit/hang_kit.h"

#include <cmocka.h>

#define OTHER 1 /* branches */
#define HUNG  2

static struct hang_fs fs;
static struct state state;

static int setup(void **unused)
{
	unsigned i;

	(void)unused;
	if (state_create(&state) < 0)
		return -1;
	if (!hang_fs_can())
		return 0;
	if (hang_fs_start(&fs) < 0)
		return -1;
	for (i = 0; i <= HUNG; i++)
		state.branches[i].used = STATE_BRANCH_USED;
	state.branches[OTHER].mount_id = fs.mount_id + 1;
	state.branches[HUNG].mount_id = fs.mount_id;
	return 0;
}

static int done(void **unused)
{
	uint64_t token;
	int fd;

	(void)unused;
	while ((fd = fd_store_take_any(&token)) >= 0)
		fd_close(fd);
	if (hang_fs_can())
		hang_fs_end(&fs);
	state_done(&state);
	return 0;
}

static void by_descriptor(const struct hang_fs *at)
{
	(void)mkdirat(at->root_fd, "x", 0700);
}

static void by_path(const struct hang_fs *at)
{
	char path[sizeof(at->path) + 2];

	(void)snprintf(path, sizeof(path), "%s/x", at->path);
	(void)mkdir(path, 0700);
}

/* Tell of the process, as the supervisor does. */
static void tell_of(pid_t process)
{
	auto_close int pidfd = pidfd_open(process, 0);
	int ends[2];

	assert_true(pidfd >= 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	assert_int_equal(fd_store_send(ends[0], FD_STORE_ADD, FD_STORE_STUCK,
				       NULL, pidfd),
			 0);
	assert_int_equal(fd_store_send(ends[0], FD_STORE_END, 0, NULL, -1), 0);
	assert_int_equal(fd_store_start(ends[1]), 0);
	fd_close(ends[0]);
}

static void note(pid_t thread, unsigned branch)
{
	atomic_store(&state.threads[0].tid, thread);
	thread_branches_note(&state.threads[0], branch);
}

static void the_branch_of_the_call_is_withheld_and_no_other(void **unused)
{
	pid_t thread, pid;

	(void)unused;
	if (!hang_fs_can())
		skip();
	pid = hang_process(&fs, by_descriptor, &thread);
	note(thread, OTHER);
	note(thread, HUNG);
	tell_of(pid);
	stuck_server_begin(&state);
	assert_true(stuck_server_withholds(HUNG));
	assert_false(stuck_server_withholds(OTHER));
	assert_true(stuck_server_is(pid));
	/* The one after the next is to know it, too. */
	assert_int_equal(state.threads[0].tid, thread);
	hang_fs_end(&fs);
	assert_false(stuck_server_withholds(HUNG));
	assert_false(stuck_server_is(pid));
	assert_int_equal(hang_fs_start(&fs), 0);
}

static void what_it_has_not_noted_is_withheld_with_all_that_it_has(
	void **unused)
{
	pid_t thread, pid;

	(void)unused;
	if (!hang_fs_can())
		skip();
	pid = hang_process(&fs, by_descriptor, &thread);
	note(thread, OTHER);
	tell_of(pid);
	stuck_server_begin(&state);
	assert_true(stuck_server_withholds(HUNG));
	assert_true(stuck_server_withholds(OTHER));
	assert_false(stuck_server_withholds(0));
}

static void of_a_call_that_cannot_be_told_all_that_it_noted_is(void **unused)
{
	pid_t thread, pid;

	(void)unused;
	if (!hang_fs_can())
		skip();
	pid = hang_process(&fs, by_path, &thread);
	note(thread, OTHER);
	tell_of(pid);
	stuck_server_begin(&state);
	assert_true(stuck_server_withholds(OTHER));
	assert_false(stuck_server_withholds(HUNG));
}

static void without_a_note_the_call_tells(void **unused)
{
	pid_t thread, pid;

	(void)unused;
	if (!hang_fs_can())
		skip();
	pid = hang_process(&fs, by_descriptor, &thread);
	tell_of(pid);
	stuck_server_begin(&state);
	assert_true(stuck_server_withholds(HUNG));
	assert_false(stuck_server_withholds(OTHER));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			the_branch_of_the_call_is_withheld_and_no_other, setup,
			done),
		cmocka_unit_test_setup_teardown(
			what_it_has_not_noted_is_withheld_with_all_that_it_has,
			setup, done),
		cmocka_unit_test_setup_teardown(
			of_a_call_that_cannot_be_told_all_that_it_noted_is,
			setup, done),
		cmocka_unit_test_setup_teardown(without_a_note_the_call_tells,
						setup, done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
