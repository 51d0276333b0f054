/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changes of a union's own mount while it is mounted: read-only or not, sync,
 * access times. The kernel tells a FUSE server nothing of them. So a thread
 * follows the kernel's table of mounts, of the branches as well
 * (mount_strict.h). The table is right however the mount was changed, and
 * whichever server ran then.
 *
 * Read-only holds for all that the server does by itself, too: branches are
 * BRANCH_RO, and drains wait.
 */
#ifndef UNION_REMOUNTED_H
#define UNION_REMOUNTED_H

#include "union/config/mount_words.h"
#include "union/config/options.h"
#include "union/live/remount.h"
#include "union/view/unionfs.h"

/*
 * Begin, before the server has branches: set fs->read_only. The server begins
 * anew, or @goes_on for another.
 *
 * @now  what the table says of the mount that it goes on with; NULL: the mount
 *       is new, or is not seen
 */
void remounted_begin(struct unionfs *fs, const struct union_options *options,
		     bool goes_on, const struct mount_words *now);

/*
 * Make the branches BRANCH_RO if the union is, before anything is changed on
 * them.
 */
void remounted_hold(struct unionfs *fs);

/*
 * Follow the table of mounts, once the union is mounted.
 *
 * @fresh  mounted by this server
 *
 * 0, or -errno with @err.
 */
int remounted_start(struct unionfs *fs, bool fresh, struct error *err);
void remounted_stop(void);

/* Answer @call, which an administrator made. */
void remounted_answer(struct unionfs *fs, struct remount_call *call);

#endif
