/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Running other programs, by posix_spawn only: a process with gRPC in it must
 * not fork and go on. The child gets an empty signal mask, default signal
 * actions and a process group of its own. Its standard input is /dev/null (or
 * @input), and it has no descriptor of ours but 0, 1 and 2.
 */
#ifndef BASE_PROCESS_H
#define BASE_PROCESS_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

#define PROCESS_OUTPUT_MAX (1u << 20) /* bytes kept of each stream */

struct process_result {
	int exit_code; /* 128 + signal when one ended it */
	char *out;     /* owned, NUL-terminated, maybe cut */
	char *errors;  /* owned, NUL-terminated, maybe cut */
};

/*
 * Run @argv (argv[0] looked up in PATH) to its end.
 *
 * @input       standard input, NULL for none
 * @timeout_ms  the group is killed after it: -ETIMEDOUT; -1 for ever. A
 *              program that the kernel can't kill (it waits for a device) is
 *              left alone two seconds later.
 * @cancel_fd   readable means give up: the group is killed, -ECANCELED;
 *              -1 for none
 * @ret         set only on 0; process_result_done() frees it
 *
 * Returns 0 when the program ran, whatever its exit code.
 */
int process_run(const char *const *argv, const char *input, int timeout_ms,
		int cancel_fd, struct process_result *ret, struct error *err);
void process_result_done(struct process_result *result);

/*
 * process_run() of a program that keeps @hold_fd open until it
 * ends, as its number 3. A lock on that descriptor (flock(2)) outlives a caller
 * that is killed, until what it had started has ended, too.
 */
int process_run_holding(const char *const *argv, const char *input, int hold_fd,
			int timeout_ms, int cancel_fd,
			struct process_result *ret, struct error *err);

/*
 * process_run(), and a non-zero exit is an error too: -EIO with the last
 * line the program wrote to standard error.
 */
int process_must(const char *const *argv, int timeout_ms, struct error *err);

/*
 * Start a long-lived program in a session of its own and go on.
 *
 * @log_fd   its standard output and error; -1 for /dev/null
 * @pass_fd  a descriptor it gets as number 3; -1 for none
 */
int process_start(const char *const *argv, int log_fd, int pass_fd,
		  pid_t *ret_pid, struct error *err);

/* The same of the file @program (looked up in PATH), whatever argv[0] says. */
int process_start_file(const char *program, const char *const *argv, int log_fd,
		       int pass_fd, pid_t *ret_pid, struct error *err);

/*
 * Read the start time of the process @pid. With it, a pid that the kernel has
 * given to another process is not taken for ours. 0 and the start time (clock
 * ticks after boot, proc(5) "starttime"), or
 * -ESRCH.
 */
int process_start_time(pid_t pid, unsigned long long *ret_ticks);

/*
 * Tell whether @pid with @start_ticks is alive. A zombie is not. A process of
 * which only the first thread has ended is alive: another thread may yet return
 * from a system call it was killed in.
 */
bool process_alive(pid_t pid, unsigned long long start_ticks);

/*
 * Tell whether @pid with @start_ticks runs no code of its program any more: it
 * has ended, or was killed and the kernel takes it down.
 */
bool process_is_ending(pid_t pid, unsigned long long start_ticks);

/*
 * Get the number of the process of a pidfd (pidfd_open(2), /proc/self/fdinfo);
 * 0: it was waited for, or is no pidfd.
 */
pid_t process_of_pidfd(int pidfd);

#endif
