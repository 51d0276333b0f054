/* SPDX-License-Identifier: Apache-2.0 */
/* A block device of this machine, whatever is behind it. */
#ifndef INITIATOR_DEVICE_H
#define INITIATOR_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/*
 * The logical block size of every device we make, by every transport; bytes. A
 * file system made on 512-byte blocks (XFS records its sector size) cannot be
 * mounted where the disk below has 4,096. An extent may be used on its own node
 * today and over the network tomorrow. 4,096 works on both, and every request
 * is aligned enough for direct I/O.
 */
#define DEVICE_BLOCK_SIZE 4096

#define DEVICE_PATH_MAX 64 /* bytes: "/dev/mapper/trib-..." and NUL */

/*
 * Lock a device among programs that work on it for us, until the descriptor is
 * closed here and in all that inherited it. Waits for a program that has the
 * lock. Work that a killed call had started (mkfs, a check) goes on, and ends.
 * After a while: -EBUSY, which names the program.
 */
int device_lock(const char *path, int *ret_fd, struct error *err);

/* Wait until nobody has that lock. */
int device_settle(const char *path, struct error *err);

/*
 * Open a device that nobody else uses, and keep others out until it is
 * closed. Waits as device_settle(). -EBUSY names the mount or the device above
 * it; -ENODEV: gone.
 */
int device_open_idle(const char *path, int *ret_fd, struct error *err);

/* -EBUSY, with the words which mount, device or program has the device. */
int device_busy(const char *path, struct error *err);

/*
 * Tell whether nothing but a file system has the device in use, which is not
 * mounted here. Another mount namespace has it mounted, or files of it are
 * open.
 */
bool device_is_held_elsewhere(const char *path);

/* Get the size in bytes; -errno. */
int device_size(const char *path, uint64_t *ret, struct error *err);

/* Get one line of a file in /sys/block/NAME/, without its end; -errno. */
int device_attribute(const char *name, const char *attribute, char *ret,
		     unsigned size);

/* Wait until /sys/block/NAME/@attribute is gone; false: still there. */
bool device_wait_gone(const char *name, const char *attribute, int timeout_ms);

/*
 * Make a fixed id of our attachment @id under the directory open as @dirfd: 16
 * hexadecimal digits. The id is written on what we leave in the kernel, to find
 * that again after a crash. Two state directories of the same path in two mount
 * namespaces differ.
 */
#define DEVICE_TAG_MAX 24 /* bytes with "trib-" and NUL */
int device_tag(int dirfd, const char *id, char *ret, struct error *err);

#endif
