/* SPDX-License-Identifier: Apache-2.0 */
/* The branches that threads were calling, as the next server reads them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <pthread.h>
#include <signal.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/state/fd_store.h"
#include "union/state/stuck_server.h"
#include "union/state/thread_branches.h"

#include <cmocka.h>

static struct state state;

static int setup(void **context)
{
	(void)context;
	if (state_create(&state) < 0)
		return -1;
	thread_branches_start(&state);
	return 0;
}

static int done(void **context)
{
	(void)context;
	thread_branches_start(NULL);
	state_done(&state);
	return 0;
}

static void what_a_thread_calls_is_in_the_state_memory(void **context)
{
	struct state_thread own, *thread = thread_branches_take(&own);

	(void)context;
	assert_ptr_equal(thread, &state.threads[0]);
	assert_int_equal(thread->tid, gettid());
	thread_branches_note(thread, 3);
	thread_branches_note(thread, 200);
	assert_true(thread_branches_has(thread, 3) &&
		    thread_branches_has(thread, 200));
	assert_false(thread_branches_has(thread, 4));
	thread_branches_clear(thread);
	assert_false(thread_branches_has(thread, 3) ||
		     thread_branches_has(thread, 200));
	thread_branches_note(thread, 5);
	thread_branches_give(thread);
	assert_int_equal(state.threads[0].tid, 0);
	assert_ptr_equal(thread_branches_take(&own), thread);
	assert_false(thread_branches_has(thread, 5));
	thread_branches_give(thread);
}

static void without_a_record_it_notes_for_itself(void **context)
{
	struct state_thread own, *thread;
	unsigned i;

	(void)context;
	for (i = 0; i < STATE_THREAD_MAX; i++)
		atomic_store(&state.threads[i].tid, 1);
	thread = thread_branches_take(&own);
	assert_ptr_equal(thread, &own);
	thread_branches_note(thread, 7);
	assert_true(thread_branches_has(thread, 7));
	for (i = 0; i < STATE_THREAD_MAX; i++)
		assert_false(thread_branches_has(&state.threads[i], 7));
}

/* A process that does not end by itself, as the supervisor would tell of it. */
static pid_t tell_of_one(void)
{
	int ends[2], pidfd;
	pid_t pid = fork();

	if (!pid)
		for (;;)
			(void)pause();
	assert_true(pid > 0);
	pidfd = pidfd_open(pid, 0);
	assert_true(pidfd >= 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	assert_int_equal(fd_store_send(ends[0], FD_STORE_ADD, FD_STORE_STUCK,
				       NULL, pidfd),
			 0);
	assert_int_equal(fd_store_send(ends[0], FD_STORE_END, 0, NULL, -1), 0);
	assert_int_equal(fd_store_start(ends[1]), 0);
	fd_close(pidfd);
	fd_close(ends[0]);
	return pid;
}

static void what_it_was_calling_is_withheld_until_it_has_ended(void **context)
{
	struct state_thread *one = &state.threads[0], *other = one + 1;
	pid_t pid = tell_of_one();
	int status;

	(void)context;
	atomic_store(&one->tid, pid);
	thread_branches_note(one, 9);
	atomic_store(&other->tid, pid + 100000000); /* there is no such one */
	thread_branches_note(other, 10);
	stuck_server_begin(&state);
	assert_true(stuck_server_withholds(9));
	assert_false(stuck_server_withholds(10));
	/* The one after the next is to know it, too. */
	assert_true(one->tid == pid && thread_branches_has(one, 9));
	assert_true(!other->tid && !thread_branches_has(other, 10));
	assert_false(stuck_server_is(pid));
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(
		waitid(P_PID, (id_t)pid, &(siginfo_t){0}, WEXITED | WNOWAIT),
		0);
	assert_true(stuck_server_is(pid));
	assert_false(stuck_server_withholds(9));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_false(stuck_server_is(pid));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			what_a_thread_calls_is_in_the_state_memory, setup,
			done),
		cmocka_unit_test_setup_teardown(
			without_a_record_it_notes_for_itself, setup, done),
		cmocka_unit_test_setup_teardown(
			what_it_was_calling_is_withheld_until_it_has_ended,
			setup, done),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
