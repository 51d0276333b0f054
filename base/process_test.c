/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/pidfd.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/process.h"

#define SHELL(script) ((const char *const[]){"sh", "-c", script, NULL})

static struct process_result run(const char *const *argv, const char *input)
{
	struct process_result result = {0};
	struct error err = {0};

	if (process_run(argv, input, 30000, -1, &result, &err) < 0)
		fail_msg("%s", err.msg);
	return result;
}

static void assert_output(const char *script, const char *input,
			  const char *output)
{
	struct process_result result = run(SHELL(script), input);

	assert_string_equal(result.errors, "");
	assert_string_equal(result.out, output);
	assert_int_equal(result.exit_code, 0);
	process_result_done(&result);
}

static void tells_the_exit_code_and_both_streams(void **state)
{
	struct process_result result = run(
		SHELL("echo out; echo err >&2; exit 3"), NULL);

	(void)state;
	assert_int_equal(result.exit_code, 3);
	assert_string_equal(result.out, "out\n");
	assert_string_equal(result.errors, "err\n");
	process_result_done(&result);
	assert_null(result.out);
}

static void tells_128_and_the_signal(void **state)
{
	struct process_result result = run(SHELL("kill -KILL $$"), NULL);

	(void)state;
	assert_int_equal(result.exit_code, 128 + SIGKILL);
	process_result_done(&result);
}

static void gives_the_input_or_none(void **state)
{
	(void)state;
	assert_output("cat", "some\ninput", "some\ninput");
	assert_output("cat", NULL, "");
	/* A program that does not read its input is no trouble. */
	assert_output("echo x", "unread", "x\n");
}

static void a_child_inherits_no_descriptor(void **state)
{
	(void)state;
	assert_int_equal(dup2(STDERR_FILENO, 50), 50); /* without CLOEXEC */
	assert_output("test ! -e /proc/$$/fd/50 && test ! -e /proc/$$/fd/3 && "
		      "readlink /proc/$$/fd/0",
		      NULL, "/dev/null\n");
	fd_close(50);
}

static void a_child_has_default_signals_and_its_own_group(void **state)
{
	sigset_t mask, before;
	struct sigaction old;
	const struct sigaction ignore = {.sa_handler = SIG_IGN};
	struct process_result result;
	const char *ignored;
	char group[64];

	(void)state;
	(void)sigemptyset(&mask);
	(void)sigaddset(&mask, SIGTERM);
	(void)sigprocmask(SIG_BLOCK, &mask, &before);
	(void)sigaction(SIGUSR1, &ignore, &old);
	result = run((const char *const[]){"cat", "/proc/self/status", NULL},
		     NULL);
	(void)sigaction(SIGUSR1, &old, NULL);
	(void)sigprocmask(SIG_SETMASK, &before, NULL);
	assert_non_null(strstr(result.out, "SigBlk:\t0000000000000000\n"));
	ignored = strstr(result.out, "SigIgn:");
	assert_non_null(ignored);
	/* The C library's own two (32, 33) stay ignored. */
	assert_int_equal(strtoull(ignored + 7, NULL, 16) & 0x7fffffff, 0);
	process_result_done(&result);
	(void)snprintf(group, sizeof(group), "%d", getpgrp());
	result = run(SHELL("cut -d' ' -f5 /proc/$$/stat; echo $$"), NULL);
	result.out[strcspn(result.out, "\n")] = '\0';
	assert_string_not_equal(result.out, group);
	process_result_done(&result);
}

static void works_with_standard_descriptors_closed(void **state)
{
	int saved[3], i;
	struct process_result result = {0};
	int r;

	(void)state;
	for (i = 0; i < 3; i++) {
		saved[i] = fcntl(i, F_DUPFD_CLOEXEC, 20);
		fd_close(i);
	}
	r = process_run(SHELL("cat; echo err >&2"), "in", 30000, -1, &result,
			NULL);
	for (i = 0; i < 3; i++) {
		(void)dup2(saved[i], i);
		fd_close(saved[i]);
	}
	assert_int_equal(r, 0);
	assert_string_equal(result.out, "in");
	assert_string_equal(result.errors, "err\n");
	process_result_done(&result);
}

static void a_large_output_is_cut_but_read(void **state)
{
	struct process_result result = run(
		SHELL("yes | head -c 3000000; echo end >&2"), NULL);

	(void)state;
	assert_int_equal(result.exit_code, 0);
	assert_int_equal(strlen(result.out), PROCESS_OUTPUT_MAX);
	assert_string_equal(result.errors, "end\n");
	process_result_done(&result);
}

static void does_not_wait_for_a_grandchild_that_holds_the_pipe(void **state)
{
	int64_t start = clock_ms();
	struct process_result result = run(SHELL("sleep 60 & echo $!"), NULL);
	pid_t pid = (pid_t)strtol(result.out, NULL, 10);

	(void)state;
	assert_true(clock_ms() - start < 20000);
	assert_int_equal(result.exit_code, 0);
	/* The daemon goes on: a program may leave one behind. */
	assert_true(pid > 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	process_result_done(&result);
}

static void a_program_that_is_not_there_is_named(void **state)
{
	const char *const argv[] = {"no-such-program-x", NULL};
	struct process_result result = {.exit_code = 77};
	struct error err = {0};
	pid_t pid = 77;

	(void)state;
	assert_int_equal(process_run(argv, NULL, -1, -1, &result, &err),
			 -ENOENT);
	assert_non_null(strstr(err.msg, "'no-such-program-x'"));
	assert_int_equal(result.exit_code, 77);
	assert_int_equal(process_start(argv, -1, -1, &pid, &err), -ENOENT);
	assert_int_equal(pid, 77);
}

/* A grandchild tells its pid in a file; is it gone soon? */
static void assert_grandchild_ends(int fd)
{
	int64_t deadline = clock_ms() + 10000;
	unsigned long long ticks;
	char text[32] = "";
	pid_t pid;

	assert_true(pread(fd, text, sizeof(text) - 1, 0) > 0);
	pid = (pid_t)strtol(text, NULL, 10);
	assert_true(pid > 0);
	if (process_start_time(pid, &ticks) < 0)
		return;
	while (process_alive(pid, ticks)) {
		assert_true(clock_ms() < deadline);
		(void)usleep(10000);
	}
}

static void a_timeout_kills_the_whole_group(void **state)
{
	char path[] = "/tmp/process-test.XXXXXX", script[128];
	auto_close int fd = mkstemp(path);
	struct process_result result = {.exit_code = 77};
	int64_t start = clock_ms();
	struct error err = {0};
	int r;

	(void)state;
	assert_true(fd >= 0);
	(void)snprintf(script, sizeof(script),
		       "trap '' TERM; sleep 1000 & echo $! >%s; wait", path);
	r = process_run(SHELL(script), NULL, 500, -1, &result, &err);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(r, -ETIMEDOUT);
	assert_in_range(clock_ms() - start, 500, 20000);
	assert_non_null(strstr(err.msg, "500 ms"));
	assert_int_equal(result.exit_code, 77);
	assert_grandchild_ends(fd);
	/* And it was reaped. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
	assert_int_equal(errno, ECHILD);
}

static void output_does_not_put_off_the_timeout(void **state)
{
	struct process_result result;
	int64_t start = clock_ms();

	(void)state;
	assert_int_equal(process_run(SHELL("while :; do echo x; done"), NULL,
				     300, -1, &result, NULL),
			 -ETIMEDOUT);
	assert_true(clock_ms() - start < 20000);
}

static void a_readable_descriptor_cancels(void **state)
{
	const struct itimerspec soon = {.it_value.tv_nsec = 200000000};
	auto_close int now = eventfd(1, EFD_CLOEXEC);
	auto_close int later = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	auto_close int never = eventfd(0, EFD_CLOEXEC);
	struct process_result result = {0};
	struct error err = {0};
	int64_t start = clock_ms();

	(void)state;
	assert_int_equal(
		process_run(SHELL("sleep 1000"), NULL, -1, now, &result, &err),
		-ECANCELED);
	assert_non_null(strstr(err.msg, "cancelled"));
	assert_int_equal(timerfd_settime(later, 0, &soon, NULL), 0);
	assert_int_equal(process_run(SHELL("sleep 1000"), NULL, -1, later,
				     &result, &err),
			 -ECANCELED);
	assert_true(clock_ms() - start < 20000);
	assert_int_equal(
		process_run(SHELL("exit 4"), NULL, -1, never, &result, &err),
		0);
	assert_int_equal(result.exit_code, 4);
	process_result_done(&result);
}

static void must_takes_a_failure_for_an_error(void **state)
{
	struct error err = {0};

	(void)state;
	assert_int_equal(process_must(SHELL("exit 0"), -1, &err), 0);
	assert_int_equal(process_must(SHELL("echo 1st >&2; echo >&2; "
					    "echo ' the cause ' >&2; echo >&2; "
					    "exit 5"),
				      -1, &err),
			 -EIO);
	assert_string_equal(err.msg, "'sh' ended with 5:  the cause");
	assert_int_equal(process_must(SHELL("exit 6"), -1, &err), -EIO);
	assert_string_equal(err.msg, "'sh' ended with 6");
	assert_int_equal(process_must(SHELL("sleep 1000"), 100, &err),
			 -ETIMEDOUT);
}

static void a_started_program_has_its_session_log_and_descriptor(void **state)
{
	auto_close int log = memfd_create("log", MFD_CLOEXEC);
	auto_close int pass = memfd_create("pass", MFD_CLOEXEC);
	char text[256] = "", want[256];
	struct error err = {0};
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(fd_write_all(pass, "passed", 6), 0);
	assert_int_equal(lseek(pass, 0, SEEK_SET), 0);
	if (process_start(SHELL("cat <&3; cat; cut -d' ' -f6 /proc/$$/stat >&2;"
				"test -e /proc/$$/fd/4 || echo none"),
			  log, pass, &pid, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_true(pread(log, text, sizeof(text) - 1, 0) > 0);
	(void)snprintf(want, sizeof(want), "passed%d\nnone\n", pid);
	assert_string_equal(text, want);
}

static void a_started_program_may_have_neither(void **state)
{
	const char *const argv[] = {
		"sh", "-c",
		"test ! -e /proc/$$/fd/3 && "
		"test $(readlink /proc/$$/fd/1) = /dev/null",
		NULL};
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(process_start(argv, -1, -1, &pid, NULL), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(process_start(argv, -1, 999, &pid, NULL), -EBADF);
}

static void a_started_program_may_be_called_otherwise(void **state)
{
	const char *const argv[] = {"other", "-c", "echo $0", NULL};
	auto_close int log = memfd_create("log", MFD_CLOEXEC);
	char text[16] = "";
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(process_start_file("sh", argv, log, -1, &pid, NULL),
			 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(pread(log, text, sizeof(text) - 1, 0) > 0);
	assert_string_equal(text, "other\n");
}

static void a_process_is_alive_until_it_ends(void **state)
{
	unsigned long long ticks = 0;
	siginfo_t info;
	pid_t pid;

	(void)state;
	assert_int_equal(process_start(SHELL("sleep 1000"), -1, -1, &pid, NULL),
			 0);
	assert_int_equal(process_start_time(pid, &ticks), 0);
	assert_true(process_alive(pid, ticks));
	/* Another process with the same pid. */
	assert_false(process_alive(pid, ticks + 1));
	assert_int_equal(kill(-pid, SIGKILL), 0);
	assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	assert_false(process_alive(pid, ticks)); /* a zombie */
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(process_alive(pid, ticks));
	assert_int_equal(process_start_time(pid, &ticks), -ESRCH);
	assert_int_equal(process_start_time(0, &ticks), -ESRCH);
	assert_int_equal(process_start_time(-1, &ticks), -ESRCH);
}

static void *wait_for_end(void *pipe_end)
{
	char byte;

	(void)read(*(int *)pipe_end, &byte, 1);
	_exit(0);
}

/* A system call that another thread was killed in may not have returned. */
static void a_process_is_alive_until_its_last_thread_ends(void **state)
{
	unsigned long long ticks = 0;
	char path[64], text[256];
	int pipe_ends[2], fd;
	char *at;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(pipe_ends), 0);
	pid = fork();
	if (pid == 0) {
		pthread_t thread;

		fd_close(pipe_ends[1]);
		(void)pthread_create(&thread, NULL, wait_for_end, pipe_ends);
		(void)syscall(SYS_exit, 0); /* this thread alone */
	}
	assert_int_equal(process_start_time(pid, &ticks), 0);
	(void)snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	do {
		ssize_t n;

		fd = open(path, O_RDONLY | O_CLOEXEC);
		n = read(fd, text, sizeof(text) - 1);
		fd_close(fd);
		assert_true(n > 0);
		text[n] = '\0';
		at = strrchr(text, ')');
		assert_non_null(at);
	} while (at[2] != 'Z');
	assert_true(process_alive(pid, ticks));
	fd_close(pipe_ends[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_false(process_alive(pid, ticks));
	fd_close(pipe_ends[0]);
}

/*
 * The shell kills the process that started it, and works on until it is let
 * end.
 */
static void a_lock_outlives_its_owner_until_the_program_ends(void **state)
{
	char file[] = "/tmp/process_test.XXXXXX", script[128];
	auto_close int let = mkstemp(file);
	auto_close int lock = -1;
	int status;
	pid_t pid;

	(void)state;
	(void)snprintf(script, sizeof(script),
		       "kill -9 $PPID; while [ -e %s ]; do sleep 0.01; done",
		       file);
	lock = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	assert_true(let >= 0 && lock >= 0);
	pid = fork();
	if (pid == 0) {
		struct process_result result;
		int own = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

		if (flock(own, LOCK_EX) == 0)
			(void)process_run_holding(SHELL(script), NULL, own, -1,
						  -1, &result, NULL);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(flock(lock, LOCK_EX | LOCK_NB), -1);
	assert_int_equal(errno, EWOULDBLOCK);
	assert_int_equal(unlink(file), 0);
	assert_int_equal(flock(lock, LOCK_EX), 0);
}

static void a_name_with_brackets_does_not_confuse(void **state)
{
	const char *const argv[] = {"/tmp/process-test ) (x) 1 2", "1000",
				    NULL};
	unsigned long long ticks = 0, own = 0;
	pid_t pid;

	(void)state;
	(void)unlink(argv[0]);
	assert_int_equal(symlink("/bin/sleep", argv[0]), 0);
	assert_int_equal(process_start(argv, -1, -1, &pid, NULL), 0);
	assert_int_equal(process_start_time(pid, &ticks), 0);
	assert_int_equal(process_start_time(getpid(), &own), 0);
	assert_int_equal(unlink(argv[0]), 0);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_true(ticks >= own && ticks < own + 100000);
}

static void a_pidfd_says_whose_it_is(void **state)
{
	pid_t pid;
	int pidfd;

	(void)state;
	pidfd = pidfd_open(getpid(), 0);
	assert_int_equal(process_of_pidfd(pidfd), getpid());
	(void)close(pidfd);
	pid = fork();
	if (pid == 0)
		_exit(0);
	pidfd = pidfd_open(pid, 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(process_of_pidfd(pidfd), 0);
	(void)close(pidfd);
	assert_int_equal(process_of_pidfd(STDIN_FILENO), 0);
	assert_int_equal(process_of_pidfd(-1), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(tells_the_exit_code_and_both_streams),
		cmocka_unit_test(tells_128_and_the_signal),
		cmocka_unit_test(gives_the_input_or_none),
		cmocka_unit_test(a_child_inherits_no_descriptor),
		cmocka_unit_test(a_child_has_default_signals_and_its_own_group),
		cmocka_unit_test(works_with_standard_descriptors_closed),
		cmocka_unit_test(a_large_output_is_cut_but_read),
		cmocka_unit_test(
			does_not_wait_for_a_grandchild_that_holds_the_pipe),
		cmocka_unit_test(a_program_that_is_not_there_is_named),
		cmocka_unit_test(a_timeout_kills_the_whole_group),
		cmocka_unit_test(output_does_not_put_off_the_timeout),
		cmocka_unit_test(a_readable_descriptor_cancels),
		cmocka_unit_test(must_takes_a_failure_for_an_error),
		cmocka_unit_test(
			a_started_program_has_its_session_log_and_descriptor),
		cmocka_unit_test(a_started_program_may_have_neither),
		cmocka_unit_test(a_started_program_may_be_called_otherwise),
		cmocka_unit_test(a_process_is_alive_until_it_ends),
		cmocka_unit_test(a_process_is_alive_until_its_last_thread_ends),
		cmocka_unit_test(
			a_lock_outlives_its_owner_until_the_program_ends),
		cmocka_unit_test(a_name_with_brackets_does_not_confuse),
		cmocka_unit_test(a_pidfd_says_whose_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
