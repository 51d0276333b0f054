/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls with a time limit, for work that may never end, such as a question to a
 * silent mount. Each runs in a thread of its own, which the caller leaves
 * behind when it takes too long.
 */
#ifndef CSI_TIMEOUT_CALL_H
#define CSI_TIMEOUT_CALL_H

#include <stdbool.h>
#include <sys/statvfs.h>

#define TIMEOUT_CALLS_MAX 32  /* that have not ended, of the process */
#define TIMEOUT_KEY_SIZE  640 /* bytes with NUL; longer ones are cut */

/*
 * Run @work(@job) and wait for it.
 *
 * @key   names the job; as long as one of that name has not ended there is no
 *	  second one
 * @job   given to @work. On 0 the caller owns it again. Otherwise @done frees
 *	  it, at once or when @work ends
 *
 * -ETIMEDOUT: it has not ended in time, or an earlier one has still not ended.
 * -EAGAIN: too many have not ended, or no thread.
 */
int timeout_call(const char *key, int timeout_ms, void (*work)(void *job),
		 void *job, void (*done)(void *job));

/* statvfs(3) of @path; also its own errors. */
int timeout_statvfs(const char *path, int timeout_ms, struct statvfs *ret);

/* Wait for all of them; false: some have still not ended. */
bool timeout_call_wait_all(int timeout_ms);

#endif
