/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loop devices of this machine, and the files that they hold. The kernel's
 * table is one for all mount namespaces, and a file is known by device and
 * inode. So a file that was renamed or deleted, or bound in another namespace,
 * is found.
 *
 * A device is asked once for each time it is bound (its "diskseq" tells those
 * apart), by a process of its own (blockd/local/local_ask.h). A device whose
 * file lies on a silent server does not answer. It is waited for once, for
 * LOOPDEV_USER_WAIT_MS, and is "silent" from then on, until it answers. Its
 * answer from before it fell silent still holds. A silent device is never taken
 * for one that does not hold a file. The file tells whether the device can hold
 * it: a file that nobody has open is held by no device.
 *
 * The table is one for the process, under a lock of its own. A lease on the
 * file tells whether it is open. A broken lease sends SIGIO, which the process
 * ignores.
 */
#ifndef BLOCKD_LOOPDEV_USERS_H
#define BLOCKD_LOOPDEV_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "blockd/local/local_ask.h"

#define LOOPDEV_USER_WAIT_MS 2000 /* for all that are new, together */

struct loopdev_user {
	char name[LOCAL_NAME_MAX]; /* "loop3" */
	bool silent;               /* the rest is not known */
	uint64_t device;           /* stat(2) st_dev of the file */
	uint64_t inode;
	bool read_only;
};

struct loopdev_users {
	struct loopdev_user *items; /* owned */
	size_t count;
};

/*
 * Take a lease of a file and give it back. The kernel gives F_RDLCK when nobody
 * has it open for writing, F_WRLCK when it is open as @fd only. -EAGAIN:
 * somebody has it open; others: there are no leases here.
 */
int loopdev_user_lease(int fd, int type);

/* All that are bound now. A kernel without loop devices has none. */
int loopdev_users_scan(struct loopdev_users *ret, struct error *err);
void loopdev_users_done(struct loopdev_users *users);

/*
 * Name of a device that is known to hold the file, borrowed; NULL: none is.
 * To show; where it matters, loopdev_users_check() tells.
 *
 * @writers  only one that may write to it
 */
const char *loopdev_users_find(const struct loopdev_users *users,
			       uint64_t device, uint64_t inode, bool writers);

/*
 * Does a device hold the file that @fd has open?
 *
 * @fd          for reading only, when @writers
 * @ret_holder  set to its name, borrowed, on an error
 *
 * Returns 0: none does; -EBUSY: one does; -EAGAIN: one that is silent may:
 * somebody, perhaps this process, has the file open besides @fd.
 */
int loopdev_users_check(const struct loopdev_users *users, int fd, bool writers,
			const char **ret_holder);

/* Say in words what loopdev_users_check() found: -EBUSY. */
int loopdev_users_refuse(int found, const char *extent, const char *holder,
			 const char *what, struct error *err);

#endif
