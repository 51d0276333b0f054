/* SPDX-License-Identifier: Apache-2.0 */
/* One pass over a branch that is being drained, or is to have more room. */
#ifndef UNION_DRAIN_WALK_H
#define UNION_DRAIN_WALK_H

#include "union/view/unionfs.h"

struct drain_walk {
	struct unionfs *fs;
	struct branch *branch;
	const struct copy_pace *pace;
	/*
	 * Not to empty it: regular files that take @least bytes or more, to
	 * branches of other file systems that have more room than this one,
	 * then too; where the policy keeps paths together those that have the
	 * directory come first. Directories stay.
	 */
	bool for_room;
	uint64_t least; /* of it */
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
