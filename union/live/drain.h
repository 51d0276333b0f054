/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Emptying branches while the union is used. A thread moves the files of
 * branches that are being drained to other branches, the one with most room
 * first. Directories that are left move, too. A pass that left something is
 * followed by another, which tries again what was in use in a way that pins it.
 * An empty branch is detached (remove_branch.h).
 *
 * That a branch is drained, and how fast, is noted in its BRANCH_WORK_DIR: the
 * next mount goes on with it.
 */
#ifndef UNION_DRAIN_H
#define UNION_DRAIN_H

#include "union/view/unionfs.h"

#define DRAIN_PAUSE_MS  1000 /* between passes that moved nothing */
#define DRAIN_ERROR_MAX 256

struct drain_progress {
	bool draining;
	uint64_t rate; /* bytes a second; 0: as fast as it goes */
	uint64_t files_left, bytes_left;   /* as the last pass counted, less
					    * what was moved since */
	uint64_t files_moved, bytes_moved; /* since this server began */
	uint64_t busy;   /* files not moved in the last pass: in use */
	uint64_t failed; /* and for another reason */
	char error[DRAIN_ERROR_MAX]; /* of one of them; "" */
};

struct drains;

/* @mountpoint is borrowed, for the log. NULL: ENOMEM. */
struct drains *drains_new(struct unionfs *fs, const char *mountpoint);

/* Go on with the drains that an earlier mount had begun. */
void drains_resume(struct drains *drains);

/*
 * Let the drains wait until drains_resume(), as branches have become BRANCH_RO.
 * Return when nothing is being moved any more. NULL is fine.
 */
void drains_pause(struct drains *drains);

/* End; branches that are not empty yet stay noted. NULL is fine. */
void drains_free(struct drains *drains);

/*
 * Begin to drain @branch, or give it another rate. 0, or -errno and @err:
 * -EROFS, -ENOTEMPTY (there is no other branch to take what it holds).
 */
int drain_start(struct drains *drains, struct branch *branch, uint64_t rate,
		struct error *err);

/*
 * Stop draining @branch, which takes new files again. 0, or -EINVAL: it is not
 * being drained.
 */
int drain_stop(struct drains *drains, struct branch *branch, struct error *err);

void drain_get(struct drains *drains, const struct branch *branch,
	       struct drain_progress *ret);

#endif
