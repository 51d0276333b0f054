/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kill a process at its N-th stop at a system call: each call has two, before
 * it and after it. (strace counts each call by its name.)
 *
 *   kill_at PID N
 *
 * Says "ready" on standard output when all of its threads are traced, from
 * where it counts, all of them together but for the first thread. Exit 0: it
 * was killed; 1: it was told to end (SIGTERM), or the process ended; 2: it
 * cannot be traced.
 */
#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#define STOP_SYSCALL (SIGTRAP | 0x80) /* PTRACE_O_TRACESYSGOOD */
#define OPTIONS      (PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE)

static int seize(pid_t thread)
{
	if (ptrace(PTRACE_SEIZE, thread, NULL, (void *)OPTIONS) < 0 ||
	    ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) < 0)
		return -errno;
	return 0;
}

/*
 * Trace the threads that the process has now. Threads that they make are traced
 * as they are.
 */
static int seize_all(pid_t pid)
{
	struct dirent *entry;
	char path[64];
	int r = 0, n = 0;
	DIR *dir;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	dir = opendir(path);
	if (!dir)
		return -errno;
	while (r == 0 && (entry = readdir(dir)))
		if (entry->d_name[0] != '.') {
			r = seize((pid_t)strtol(entry->d_name, NULL, 10));
			n++;
		}
	(void)closedir(dir);
	return r < 0 ? r : n;
}

/* To its next call, with the signal it stopped for, if it is one. */
static void go_on(pid_t thread, int status)
{
	bool is_signal = WSTOPSIG(status) != STOP_SYSCALL && !(status >> 16);
	intptr_t signal_number = is_signal ? WSTOPSIG(status) : 0;

	/* A thread that was killed meanwhile is waited for next. */
	(void)ptrace(PTRACE_SYSCALL, thread, NULL, (void *)signal_number);
}

int main(int argc, char **argv)
{
	unsigned long at, stops = 0;
	int status, stopped = 0, threads;
	pid_t pid, thread;

	if (argc != 3)
		return 2;
	pid = (pid_t)strtol(argv[1], NULL, 10);
	at = strtoul(argv[2], NULL, 10);
	threads = seize_all(pid);
	if (threads < 0) {
		(void)fprintf(stderr, "trace %d: %s\n", (int)pid,
			      strerror(-threads));
		return 2;
	}
	while ((thread = waitpid(-1, &status, __WALL)) > 0) {
		if (!WIFSTOPPED(status))
			continue;
		/* Each stops once for the interruption. */
		if (stopped < threads && ++stopped == threads) {
			(void)puts("ready");
			(void)fflush(stdout);
		}
		if (stopped == threads && WSTOPSIG(status) == STOP_SYSCALL &&
		    thread != pid && ++stops == at) {
			(void)kill(pid, SIGKILL);
			return 0;
		}
		go_on(thread, status);
	}
	return 1;
}
