/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who else has the medium of a raw pool: what is mounted from it, the devices
 * on top of it, and programs that have it open, as far as /proc shows them.
 */
#ifndef BLOCKD_RAW_OTHERS_H
#define BLOCKD_RAW_OTHERS_H

#include <stdbool.h>

#include "base/error.h"

#define RAW_OTHERS_MAX 160 /* bytes of a text with NUL */

/*
 * Who has the block device @path or a part of it, for people: "mounted at
 * '/mnt'", "held by dm-0", "open in fio (4711)"; @ret: RAW_OTHERS_MAX bytes.
 * False: nobody is found.
 */
bool raw_others_find(const char *path, char *ret);

/*
 * Has anybody but @fd, of this process, the device or file open that is at
 * @path? A program that has a device open without claiming it is no obstacle
 * to O_EXCL; of a file a lease tells (fcntl(2)), where its file system has
 * those. Who has gone within 2 s, as udev does that looks at what is new, does
 * not count.
 *
 * -EBUSY: somebody has; the text says who, if that is to be seen.
 */
int raw_others_check(int fd, const char *path, struct error *err);

#endif
