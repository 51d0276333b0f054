/* SPDX-License-Identifier: Apache-2.0 */
/* Copies and reverts in a dir pool, killed at each of their system calls. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "blockd/testkit/pool_dir_kit.h"

typedef int (*doomed_call)(struct pool_dir_kit *k);

/*
 * Tell whether @child is at the start of a call that is not about its memory.
 */
static bool is_at_call(pid_t child)
{
	struct __ptrace_syscall_info info = {0};

	if (ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) <= 0 ||
	    info.op != PTRACE_SYSCALL_INFO_ENTRY)
		return false;
	switch (info.entry.nr) {
	case SYS_brk:
	case SYS_madvise:
	case SYS_mmap:
	case SYS_mprotect:
	case SYS_munmap: return false;
	default: return true;
	}
}

/* What kills the child before its @nth call; true: it came to its end. */
static bool run_doomed(struct pool_dir_kit *k, doomed_call call, unsigned nth)
{
	pid_t child = fork();
	int status = 0;

	if (child == 0) {
		(void)ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		(void)raise(SIGSTOP);
		_exit(call(k) == 0 ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(ptrace(PTRACE_SETOPTIONS, child, NULL,
				PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL),
			 0);
	while (WIFSTOPPED(status) && nth > 0) {
		assert_int_equal(ptrace(PTRACE_SYSCALL, child, NULL, NULL), 0);
		assert_int_equal(waitpid(child, &status, 0), child);
		nth -= WIFSTOPPED(status) && is_at_call(child);
	}
	if (WIFEXITED(status)) {
		assert_int_equal(WEXITSTATUS(status), 0);
		return true;
	}
	(void)kill(child, SIGKILL);
	assert_int_equal(waitpid(child, &status, 0), child);
	return false;
}

static int call_copy_three(struct pool_dir_kit *k)
{
	return pool_dir_kit_copy_three(k, NULL, NULL);
}

static int call_revert(struct pool_dir_kit *k)
{
	return pool_dir_kit_revert_to(k, "a", "s", 2 * SIZE);
}

static void remove_copies(struct pool_dir_kit *k)
{
	const char *const names[] = {"a1", "b1", "c1"};

	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(
			k->pool->ops->begin_delete(k->pool, names[i], NULL), 0);
		assert_int_equal(k->pool->ops->erase(k->pool, names[i], NULL),
				 0);
	}
}

static void a_group_killed_anywhere_is_whole_or_not_there(void **state)
{
	struct pool_dir_kit *k = *state;
	unsigned nth = 1, undone = 0, there = 0;

	pool_dir_kit_create_three(k);
	for (bool ended = false; !ended; nth++) {
		ended = run_doomed(k, call_copy_three, nth);
		pool_dir_kit_reopen(k);
		assert_int_equal(k->damaged, 0);
		assert_int_equal(pool_dir_kit_files(k), 2 * k->found);
		if (k->found == 6) {
			pool_dir_kit_same_content(k, "a", "a1");
			pool_dir_kit_same_content(k, "b", "b1");
			pool_dir_kit_same_content(k, "c", "c1");
			remove_copies(k);
			there += !ended;
		} else {
			assert_int_equal(k->found, 3);
			undone++;
		}
	}
	print_message("%u calls: undone after %u, whole after %u\n", nth - 2,
		      undone, there);
	assert_true(undone > 20);
	assert_true(there > 4);
}

/* The record says which content it is: the size goes with it. */
static void a_revert_killed_anywhere_is_the_old_or_the_new(void **state)
{
	struct pool_dir_kit *k = *state;
	unsigned nth = 1, undone = 0, there = 0;

	pool_dir_kit_create(k, "a", SIZE);
	pool_dir_kit_put(k, "a", 'x', 0, MIB);
	assert_int_equal(pool_dir_kit_copy_to(k, "a", "s", SIZE, NULL), 0);
	for (bool ended = false; !ended; nth++) {
		struct extent_record record = pool_dir_kit_record_of(k, "a",
								     SIZE);
		auto_close int fd = -1;
		struct stat st;
		char c = 0;

		pool_dir_kit_put(k, "a", 'y', 0, MIB);
		ended = run_doomed(k, call_revert, nth);
		pool_dir_kit_reopen(k);
		assert_int_equal(k->damaged, 0);
		assert_int_equal(k->found, 2);
		assert_int_equal(pool_dir_kit_files(k), 4);
		fd = pool_dir_kit_data_open(k, "a");
		assert_int_equal(fstat(fd, &st), 0);
		assert_int_equal(pread(fd, &c, 1, 0), 1);
		assert_int_equal(c, st.st_size == SIZE ? 'y' : 'x');
		if (st.st_size == SIZE) {
			undone++;
			continue;
		}
		there += !ended;
		/* As it was. */
		assert_int_equal(k->pool->ops->begin_delete(k->pool, "a", NULL),
				 0);
		assert_int_equal(k->pool->ops->erase(k->pool, "a", NULL), 0);
		assert_int_equal(k->pool->ops->create(k->pool, &record, NULL),
				 0);
	}
	print_message("%u calls: undone after %u, done after %u\n", nth - 2,
		      undone, there);
	assert_true(undone > 5);
	assert_true(there > 2);
}

int main(void)
{
#define T(test)                                                   \
	cmocka_unit_test_setup_teardown(test, pool_dir_kit_setup, \
					pool_dir_kit_teardown)
	const struct CMUnitTest tests[] = {
		T(a_group_killed_anywhere_is_whole_or_not_there),
		T(a_revert_killed_anywhere_is_the_old_or_the_new),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
