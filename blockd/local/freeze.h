/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeping a file system quiet that is mounted on a loop device over the data of
 * an extent, or on a mapper device over that. Its writes do not come through
 * us, so the kernel freezes it (ioctl_fsfreeze(2)).
 *
 * A process of its own, trib-freeze, freezes the file system. The same process
 * thaws it when it is told to, when its time is up, or when its socket closes
 * because we are gone. We never kill trib-freeze: a freeze that is under way
 * can't be interrupted. If trib-freeze is killed by others, we thaw the file
 * system. If both of us are killed at once, a note in STATE/frozen says what
 * the next start has to thaw.
 */
#ifndef BLOCKD_FREEZE_H
#define BLOCKD_FREEZE_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "blockd/local/local_ask.h"

#define FREEZE_PROGRAM "trib-freeze"
#define FREEZE_FD      3 /* of trib-freeze: a directory of the file system */

struct freeze;

/*
 * Freeze the file system on @device ("loop3"), wherever it is mounted.
 *
 * @state_fd  STATE/frozen
 * @until_ms  clock_ms() when it thaws by itself
 *
 * -ENOENT: nothing is mounted on it; -EBUSY: it is frozen already;
 * -EOPNOTSUPP: its kind can't be frozen; -ETIMEDOUT: not before @until_ms.
 */
int freeze_begin(const char *device, int state_fd, int64_t until_ms,
		 struct freeze **ret, struct error *err);

/* Let the file system thaw by itself at @until_ms instead. */
void freeze_extend(struct freeze *freeze, int64_t until_ms);

/*
 * End a freeze and free it. The file system is thawed when this returns, or
 * soon after when its process hangs.
 */
void freeze_end(struct freeze *freeze);

/*
 * Thaw the file systems that the notes in STATE/frozen name, and remove the
 * notes.
 */
void freeze_thaw_left(int state_fd);

/*
 * A directory of the file system with that device number, in whichever mount
 * namespace it is mounted; -ENOENT.
 */
int freeze_find_mount(dev_t device, int *ret_fd);

/*
 * Where a line of /proc/PID/mountinfo says that a device is mounted, in the
 * line, which is cut up for it. NULL: it is of another device, or no such line.
 */
char *freeze_mount_of_line(char *line, dev_t device);

#endif
