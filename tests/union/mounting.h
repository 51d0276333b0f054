/* SPDX-License-Identifier: Apache-2.0 */
/* A union that serves in a process of its own. */
#ifndef TESTS_UNION_MOUNTING_H
#define TESTS_UNION_MOUNTING_H

#include <sys/types.h>

struct mounting {
	const char *program; /* trib-union */
	const char *point;
	pid_t pid;
};

/* 0 once it is mounted; -errno. Its messages go to POINT.log. */
int mounting_start(struct mounting *m, const char *options,
		   char *const *branches, unsigned count);

/* Unmount, and wait until the server has ended: its exit status or -errno. */
int mounting_stop(struct mounting *m);

#endif
