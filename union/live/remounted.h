/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What becomes of a union's own mount while it is mounted: read-only or not,
 * sync, access times. The kernel says nothing of it to a FUSE server, so its
 * table of mounts is followed (mount_strict.h does), as it is the one truth:
 * whoever changed it, and whichever server was there then.
 *
 * Read-only holds for all that the server does by itself, too: branches are
 * BRANCH_RO, and what is drained waits.
 */
#ifndef UNION_REMOUNTED_H
#define UNION_REMOUNTED_H

#include "union/config/mount_words.h"
#include "union/config/options.h"
#include "union/live/remount.h"
#include "union/view/unionfs.h"

/*
 * A server begins, or @goes_on for another, before it has branches:
 * fs->read_only is set. @now: what the
 * table says of the mount that it goes on with; NULL: it is a new one, or is
 * not seen.
 */
void remounted_begin(struct unionfs *fs, const struct union_options *options,
		     bool goes_on, const struct mount_words *now);

/* They are there, and nothing was changed on them yet. */
void remounted_hold(struct unionfs *fs);

/*
 * The table says this of the mount now. By one thread at a time, without
 * fs->live. 0, or -errno with @err: something of it cannot be so, and is as it
 * was; a mount that cannot be writable is made read-only again.
 */
int remounted_follow(struct unionfs *fs, const struct mount_words *now,
		     struct error *err);

/* Answer @call, of an administrator. */
void remounted_answer(struct unionfs *fs, struct remount_call *call);

#endif
