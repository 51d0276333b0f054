/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The search for the other union that has a branch, by the lock it holds there
 * (branch_lock.h). The holder is read from /proc, so no name is written that
 * could be out of date. Processes that are not seen from here are not found.
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
 * Find the union of other processes that has one of the @count @branches, or a
 * branch in or around it. Where both only read there is none; with @writes all
 * of @branches are written. False: none was found.
 */
bool owner_find(struct branch *const *branches, unsigned count, bool writes,
		struct owner *ret);

/*
 * Refuse with -EBUSY and @err, which names @owner of @branch; it may be
 * unknown.
 */
int owner_refuse(const struct owner *owner, const struct branch *branch,
		 struct error *err);

/* Is a union of the branches @list, as given, mounted at @mountpoint? */
bool owner_has_mounted(const char *list, const char *mountpoint);

#endif
