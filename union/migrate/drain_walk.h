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
	 * Make room, instead of emptying the branch. Only regular files move
	 * that take
	 * @least bytes or more, and directories stay. Targets are branches of
	 * other file systems that have more room than this one, then too. Where
	 * the policy keeps paths together, branches with the directory come
	 * first.
	 */
	bool for_room;
	uint64_t least; /* of it */
	bool (*stopped)(void *context);
	/* Callback for a file of @bytes: @r 0: moved, else why not. */
	void (*met)(void *context, const char *name, uint64_t bytes, int r);
	void *context;
};

/*
 * Move all files that can move. Returns how many names are left on the branch,
 * directories counted; -ECANCELED: stopped; -errno.
 */
int64_t drain_walk(const struct drain_walk *walk);

/*
 * Count the files on the branch, and the bytes they have allocated. 0 or
 * -errno.
 */
int drain_count(const struct branch *branch, uint64_t *ret_files,
		uint64_t *ret_bytes);

#endif
