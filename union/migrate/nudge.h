/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Make the kernel ask the server before the next write to a passed-through
 * file. The kernel asks for the file's capability (security.capability), which
 * a write would remove.
 *
 * The kernel asks once after an answer that had the file's attributes
 * (S_NOSEC). An answer to FUSE_GETATTR is dropped when the file was written
 * meanwhile. One to FUSE_SETATTR is not (fs/fuse/dir.c, fuse_do_setattr(),
 * 6.18). So a process of its own makes the kernel send FUSE_SETATTR. It opens
 * the files by their handles, and sets an access time that no file can have.
 * The server answers, and sets nothing.
 *
 * The process is no thread of the server. A server that was killed in such a
 * call could not end before the next one answered.
 */
#ifndef UNION_NUDGE_H
#define UNION_NUDGE_H

#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#define NUDGE_WORD "--nudge" /* argv[1] of the process; the mount point */
#define NUDGE_MAX  256       /* files at once */

/* A file as the kernel knows it: see lookup_generation(). */
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
 * is ready. A failure is logged once, and then the kernel is not made to ask. A
 * process that has ended is started again, once a second at most.
 */
void nudge_start(struct nudge *nudge, const char *mountpoint);

/*
 * Nudge @files, at most NUDGE_MAX. False: the last ones are not done yet, or
 * there is no process.
 */
bool nudge_files(struct nudge *nudge, const struct nudge_file *files,
		 unsigned count);

/* Are the last files done? Then the next write to each of them asks. */
bool nudge_is_done(struct nudge *nudge);

/* End the process. A zeroed @nudge is fine. */
void nudge_end(struct nudge *nudge);

/* Run the process. Returns its exit status. */
int nudge_main(const char *mountpoint);

#endif
