/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asking a loop device which file it holds, by LOOP_GET_STATUS64.
 *
 * The kernel asks that file's file system in turn. A file system whose server
 * is silent (FUSE, NFS) never answers, and then the asker can't even be killed.
 * So the asker is a process of its own, trib-loop, that can be left behind and
 * has nothing of ours open. It is spawned, never forked: a page of ours that a
 * disk is just reading into must not become another's.
 */
#ifndef BLOCKD_LOCAL_ASK_H
#define BLOCKD_LOCAL_ASK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

#define LOCAL_ASK_PROGRAM "trib-loop"
#define LOCAL_NAME_MAX    32 /* bytes with NUL: "loop123" */
#define LOCAL_ANSWER_MAX  80 /* bytes with NUL */

/* What a loop device holds. */
struct local_answer {
	int error;       /* 0, or a positive errno: the device can't be asked */
	bool bound;      /* it holds a file; the rest is of that */
	bool read_only;  /* may not write to it */
	uint64_t device; /* stat(2) st_dev of the file */
	uint64_t inode;
};

/* One line of text with its end of line; @buf has LOCAL_ANSWER_MAX bytes. */
const char *local_answer_format(const struct local_answer *answer, char *buf);
/* -EBADMSG: not one whole line of that form. */
int local_answer_parse(const char *text, struct local_answer *ret);

/* Ask in this very process: may never return. @name: "loop3". */
void local_answer_get(const char *name, struct local_answer *ret);

/* A process that asks. All zeroes: none. */
struct local_ask {
	pid_t pid;
	int fd; /* its answer comes here */
};

int local_ask_start(const char *name, struct local_ask *ret, struct error *err);

#define LOCAL_ASK_SLOW_MS 8000

/*
 * Wait for the answer until @end_ms (CLOCK_MONOTONIC). Wait LOCAL_ASK_SLOW_MS
 * more for an asker that could run, but has had no turn yet on a busy machine.
 * Such an asker is slow, and the device is not silent.
 *
 * Returns 0 with @ret (which says so when the asker failed), or -EAGAIN: not
 * yet; ask on. What remains after the answer is to be ended.
 */
int local_ask_take(const struct local_ask *ask, int64_t end_ms,
		   struct local_answer *ret);

/* Nobody waits for the answer any more: kill the asker. */
void local_ask_stop(struct local_ask *ask);

/* True: it has gone, and nothing is left of it. Doesn't wait. */
bool local_ask_ended(struct local_ask *ask);

#endif
