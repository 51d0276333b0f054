/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loop devices (drivers/block/loop.c; loop(4)). Ours carry a tag in
 * lo_file_name, so that one can be found without a record.
 */
#ifndef INITIATOR_LOOPDEV_H
#define INITIATOR_LOOPDEV_H

#include <stdbool.h>

#include "base/error.h"
#include "initiator/device/device.h"

/* Test for loop devices. -ENODEV with the reason where they cannot be made. */
int loopdev_probe(struct error *err);

/*
 * Make a loop device over the open file @fd: direct I/O where the file can,
 * DEVICE_BLOCK_SIZE, no autoclear.
 *
 * @direct   direct I/O is required: -EIO without it
 * @ret      DEVICE_PATH_MAX bytes
 */
int loopdev_attach(int fd, const char *tag, bool read_only, bool direct,
		   char *ret, struct error *err);

/*
 * Find the loop device over a file whose path ends in @backing_end, and that
 * carries @tag. Either may be NULL: any.
 *
 * The path is as its attacher saw it. If the attacher's mount namespace is
 * gone, only the part of the path below the mount point is known. So the end is
 * one name. A device does not tell its tag while the server of its file is
 * silent. Such a device is passed over after 5 s. Of two devices, one that
 * stays is found before one that its last user takes along. Returns 0 or
 * -ENOENT.
 */
int loopdev_find(const char *backing_end, const char *tag, char *ret);

/*
 * Check that the device still has this very file behind it. -ENODEV: it is not
 * bound; -ESTALE: it is bound to something else. For a file on a local file
 * system.
 */
int loopdev_check(const char *device, const char *path, struct error *err);

/*
 * Flush, unbind, and wait until the device is really gone: the kernel unbinds
 * when the last opener closes. Not there: 0. -EBUSY: in use, and nothing
 * changed, unless the text says that the device will go once closed.
 */
int loopdev_detach(const char *device, struct error *err);

/*
 * Let a device that others have open go when they close it. loopdev_find()
 * prefers others then. Not there: 0.
 */
int loopdev_leave(const char *device, struct error *err);

/* Tell whether the file behind the device is the open file @fd. */
bool loopdev_is_over(const char *device, int fd);

/* Make the device as large as its file. */
int loopdev_resize(const char *device, struct error *err);

#endif
