/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Have the next write to a file that the kernel passes through begin with a
 * question to us: whether the file has a capability to lose. It is asked once
 * after an answer that had the file's attributes (S_NOSEC), but one to
 * FUSE_GETATTR is dropped when somebody wrote meanwhile; one to FUSE_SETATTR
 * is not (fs/fuse/dir.c, fuse_do_setattr(), 6.18). So that is what we have the
 * kernel ask: a process of its own sets an access time that none can have, of
 * files that it opens by their handles. It is answered, and nothing is set.
 * Were it a thread of ours, a server that is killed meanwhile could not end
 * before the next one answered.
 */
#ifndef UNION_NUDGE_H
#define UNION_NUDGE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define NUDGE_WORD "--nudge" /* argv[1] of the process; the mount point */
#define NUDGE_MAX  256       /* files at once */

/* As the kernel knows it: see lookup_generation(). */
struct nudge_file {
	uint64_t node;
	uint32_t generation;
	uint32_t reserved;
};

#define NUDGE_SECONDS (INT64_MIN + 1163087950)

/* Is the access time @time, and nothing else, set by that process? */
static inline bool nudge_sets(const struct timespec *time)
{
	return time->tv_sec == NUDGE_SECONDS;
}

struct nudge {
	int socket; /* 1 + a descriptor; 0: not started; -1: it cannot be */
	int pid;
	bool asked;      /* and has not answered */
	unsigned lost;   /* processes that ended, whatever they were asked */
	int64_t next_ms; /* none is started before; clock_ms() */
};

/*
 * Start the process, for files of the union at @mountpoint, and wait until it
 * is ready. That it cannot be is said once, and then nobody is asked. One that
 * has ended is started again, once a second at most.
 */
void nudge_start(struct nudge *nudge, const char *mountpoint);

/* @files, at most NUDGE_MAX. False: the last ones are not done yet, or there
 * is no process. */
bool nudge_files(struct nudge *nudge, const struct nudge_file *files,
		 unsigned count);

/* Are the last ones done? Then the next write to each of them asks. */
bool nudge_is_done(struct nudge *nudge);

/* A zeroed one is fine. */
void nudge_end(struct nudge *nudge);

/* The process. Its exit status. */
int nudge_main(const char *mountpoint);

#endif
