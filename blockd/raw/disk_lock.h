/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of a pool's disk where devices of device mapper may be over it. A
 * disk that is open with O_EXCL takes no such device, and one that has such
 * devices can't be opened with O_EXCL. So in place of O_EXCL blockd has a small
 * mapper device of its own over the disk, "trib-disk-MAJOR-MINOR", and that one
 * open with O_EXCL. All devices of device mapper share a disk. Others, mounts
 * and O_EXCL, are refused as before.
 *
 * A killed blockd leaves it. The next one takes it over, or takes it away.
 */
#ifndef BLOCKD_DISK_LOCK_H
#define BLOCKD_DISK_LOCK_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

struct disk_lock {
	int fd;       /* -1: there is none */
	dev_t device; /* the disk */
};

/* Tell whether attachments of this node have mapper devices over the disk. */
bool disk_lock_is_shared(dev_t device);

/*
 * Lock a disk. @path for the text of an error.
 *
 * -EBUSY: another blockd, a mount, or somebody else's device has it.
 */
int disk_lock_take(dev_t device, const char *path, struct disk_lock *ret,
		   struct error *err);

/* End a lock. None is fine. */
void disk_lock_end(struct disk_lock *lock);

/*
 * Take the device of a lock away that nobody has. True: it was there, so
 * O_EXCL may be tried again.
 */
bool disk_lock_clear(dev_t device);

#endif
