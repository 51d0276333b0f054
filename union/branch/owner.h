/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which other union has a branch, found by the lock it holds there
 * (branch_lock.h): by /proc, so no name is written that could be out of date.
 * Processes that are not seen from here are not found.
 */
#ifndef UNION_OWNER_H
#define UNION_OWNER_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "union/branch/branch.h"

struct owner {
	pid_t pid; /* of its server, or else its supervisor; 0: none found */
	pid_t supervisor; /* 0: it has none */
	bool mounted; /* else it is about to be mounted, or ends, or is busy */
	char mountpoint[PATH_MAX];
	const struct branch *ours; /* borrowed */
	char branch[PATH_MAX];     /* of it, which is ours, or in or around */
};

/*
 * The union of other processes that has one of the @count @branches, or a
 * branch in or around it. Where both only read there is none; with @writes all
 * of ours write. False: none was found.
 */
bool owner_find(struct branch *const *branches, unsigned count, bool writes,
		struct owner *ret);

/* -EBUSY with @err that names @owner of @branch, which may be unknown. */
int owner_refuse(const struct owner *owner, const struct branch *branch,
		 struct error *err);

/* Is a union of the branches @list, as given, mounted at @mountpoint? */
bool owner_has_mounted(const char *list, const char *mountpoint);

#endif
