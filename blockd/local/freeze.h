/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeping a loop device over the data of an extent quiet: its writes do not
 * come through us.
 *
 * Where our mapper device lies over it, that is suspended, whatever is on it.
 * The kernel then freezes the file system on it, too, in whatever mount
 * namespace. Else the file system that is mounted on the loop device is frozen
 * (ioctl_fsfreeze(2)).
 *
 * A process of its own, trib-freeze, does that. The same process
 * undoes it when it is told to, when its time is up, or when its socket closes
 * because we are gone. We never kill trib-freeze: a freeze that is under way
 * can't be interrupted. If trib-freeze is killed by others, we undo it.
 * If both of us are killed at once, a note in STATE/frozen says what
 * the next start has to undo.
 */
#ifndef BLOCKD_FREEZE_H
#define BLOCKD_FREEZE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "blockd/local/local_ask.h"

#define FREEZE_PROGRAM "trib-freeze"
#define FREEZE_FD      3 /* of trib-freeze: a directory of the file system */

struct freeze;

/*
 * Make ready to freeze @device ("loop3"): the mapper device over it, or the
 * file system on it, wherever it is mounted. Its process starts, and writes out
 * what the file system has.
 *
 * @state_fd  STATE/frozen; borrowed until freeze_end()
 *
 * -ENOENT: it has neither; -EBUSY: it is frozen already.
 */
int freeze_prepare(const char *device, int state_fd, struct freeze **ret,
		   struct error *err);

/*
 * Do the same with the mapper device of that UUID, whatever it lies on: a
 * volume's, over extents of other nodes, too. -ENOENT: there is none here.
 */
int freeze_prepare_mapper(const char *uuid, int state_fd, struct freeze **ret,
			  struct error *err);

/*
 * Wait until it is ready: then freeze_begin() and freeze_end() start no process
 * before the file system goes on. -EBUSY, as above; -ETIMEDOUT: not before
 * @until_ms (clock_ms()).
 */
int freeze_ready(struct freeze *freeze, int64_t until_ms, struct error *err);

/*
 * Freeze it, after freeze_ready().
 *
 * @until_ms  when it thaws by itself
 *
 * -EBUSY: it is frozen already; -EOPNOTSUPP: its kind can't be frozen;
 * -ETIMEDOUT: not before @until_ms.
 */
int freeze_begin(struct freeze *freeze, int64_t until_ms, struct error *err);

/* Let the file system thaw by itself at @until_ms instead. */
void freeze_extend(struct freeze *freeze, int64_t until_ms);

/* Tell whether a freeze holds @device ("loop3"), too. */
bool freeze_covers(const struct freeze *freeze, const char *device);

/*
 * End a freeze, or what was only prepared, and free it. It is undone when this
 * returns, or soon after when its process hangs. False: somebody else undid it
 * before.
 */
bool freeze_end(struct freeze *freeze);

/*
 * Thaw the file systems and resume the mapper devices that the notes in
 * STATE/frozen name, and remove the notes.
 */
void freeze_thaw_left(int state_fd);

/*
 * A directory of the file system with that device number, in whichever mount
 * namespace it is mounted; -ENOENT.
 */
int freeze_find_mount(dev_t device, int *ret_fd);

/*
 * Read an answer of trib-freeze from the socket to it: 0 or a positive errno.
 * -EAGAIN: nothing until @until_ms (clock_ms()); -EPIPE: it has gone without a
 * word.
 */
int freeze_answer(int socket, int64_t until_ms);

/*
 * Where a line of /proc/PID/mountinfo says that a device is mounted, in the
 * line, which is cut up for it. NULL: it is of another device, or no such line.
 */
char *freeze_mount_of_line(char *line, dev_t device);

#endif
