/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Other users of the medium of a raw pool: file systems mounted from it,
 * devices on top of it, and programs that have it open. Programs are found as
 * far as /proc shows them.
 */
#ifndef BLOCKD_RAW_MEDIUM_USERS_H
#define BLOCKD_RAW_MEDIUM_USERS_H

#include <stdbool.h>

#include "base/error.h"

#define RAW_MEDIUM_USERS_MAX 160 /* bytes of a text with NUL */

/*
 * Name the user of the block device @path or a part of it, in words for people.
 * @ret: RAW_MEDIUM_USERS_MAX bytes: "mounted at '/mnt'", "held by dm-0", "open
 * in fio (4711)". False: nobody is found.
 */
bool raw_medium_users_find(const char *path, char *ret);

/*
 * Tell whether anybody but @fd, of this process, has the device or file at
 * @path open. A program that has a device open without claiming it is no
 * obstacle to O_EXCL. A lease tells about a file (fcntl(2)), where its file
 * system has leases. A program that has gone within 2 s does not count. So
 * udev, which looks at new devices, is no obstacle.
 *
 * -EBUSY: it is open; the text says by whom, if that is to be seen.
 */
int raw_medium_users_check(int fd, const char *path, struct error *err);

#endif
