/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over a branch that is being drained. */
#ifndef UNION_DRAIN_WALK_H
#define UNION_DRAIN_WALK_H

#include "union/drain.h"

struct drain_walk {
	struct unionfs *fs;
	struct branch *branch;
	const struct copy_pace *pace;
	bool (*stopped)(void *context);
	/* A file of @bytes: moved (0), or why it was not. */
	void (*met)(void *context, const char *name, uint64_t bytes, int r);
	void *context;
};

/*
 * Move what can be moved. Returns how many names are left on the branch,
 * directories counted; -ECANCELED: stopped; -errno.
 */
int64_t drain_walk(const struct drain_walk *walk);

/* Files on the branch, and the bytes they have allocated. 0 or -errno. */
int drain_count(const struct branch *branch, uint64_t *ret_files,
		uint64_t *ret_bytes);

#endif
