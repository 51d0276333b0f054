/* SPDX-License-Identifier: Apache-2.0 */
/* A union with survive=yes whose server is killed while it is used. */
#ifndef TESTS_UNION_KILLING_H
#define TESTS_UNION_KILLING_H

#include <stdint.h>
#include <sys/types.h>

struct killing {
	pid_t supervisor; /* whose one child is the server */
	uint64_t seed;
	pid_t pid;
	int end_fd;   /* closed to end it */
	int count_fd; /* says how many */
};

/* Until it is ended, in a process of its own: at random times, signal 9. */
void killing_start(struct killing *killing);

/* How many were killed. */
unsigned long killing_stop(struct killing *killing);

#endif
