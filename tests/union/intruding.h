/* SPDX-License-Identifier: Apache-2.0 */
/* Others who try to mount a second union over the branches of one in use. */
#ifndef TESTS_UNION_INTRUDING_H
#define TESTS_UNION_INTRUDING_H

#include <stdint.h>
#include <sys/types.h>

struct intruding {
	const char *program, *dir; /* where there is room for a mount point */
	char *const *branches;
	unsigned count;
	uint64_t seed;
	pid_t pid;
	int end_fd;   /* closed to end it */
	int count_fd; /* says how many */
};

/* Until it is ended, in a process of its own: of some branches, in any way. */
void intruding_start(struct intruding *intruding);

/* How many of them were mounted. */
unsigned long intruding_stop(struct intruding *intruding);

#endif
