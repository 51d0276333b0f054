/* SPDX-License-Identifier: Apache-2.0 */
/* Branches of a union that are emptied while it is used. */
#ifndef TESTS_UNION_DRAINING_H
#define TESTS_UNION_DRAINING_H

#include <stdint.h>
#include <sys/types.h>

struct draining {
	const char *program; /* trib-union */
	const char *socket;  /* its control socket */
	char *const *branches;
	unsigned count;
	uint64_t seed;
	pid_t pid;
	int end_fd; /* closed to end it */
};

/*
 * Until it is ended, in a process of its own: begin to drain a branch, let it
 * be for a moment, stop that, take another. One that is emptied meanwhile is
 * no branch any more; the last one always stays.
 */
void draining_start(struct draining *draining);
void draining_stop(struct draining *draining);

/*
 * A drained branch that is mounted again with the others is a new one: later
 * changes of the union's root have not reached its root. If @branch was
 * drained it gets owner, mode, attributes and times of the directory @as.
 */
void draining_renew(const char *branch, const char *as);

#endif
