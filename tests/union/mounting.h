/* SPDX-License-Identifier: Apache-2.0 */
/* A union that serves in a process of its own. */
#ifndef TESTS_UNION_MOUNTING_H
#define TESTS_UNION_MOUNTING_H

#include <stdbool.h>
#include <sys/types.h>

#define MOUNTING_SAY_MAX 200

struct mounting {
	const char *program; /* trib-union */
	const char *point;
	pid_t pid;
};

/* 0 once it is mounted; -errno. Its messages go to POINT.log. */
int mounting_start(struct mounting *m, const char *options,
		   char *const *branches, unsigned count);

/*
 * Unmount, and wait until the server has ended. A reader of /proc keeps the
 * maps of a process that ends for a moment: only busy for long is a failure.
 *
 * @ret  set on failure: how it went, for people
 *
 * 0: unmounted, and exit status 0; or -errno.
 */
int mounting_stop(struct mounting *m, char ret[MOUNTING_SAY_MAX]);

/*
 * What the union with the control socket DIR/ctl says of itself: JSON,
 * returned owned; NULL: nothing.
 */
char *mounting_status(const char *program, const char *dir);

/* Has it all of its branches? */
bool mounting_is_well(const char *program, const char *dir);

#endif
