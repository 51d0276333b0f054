/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a raw pool lies: a block device or a file, opened so that nobody
 * else uses it. All of it blocks.
 */
#ifndef BLOCKD_RAW_MEDIUM_OPEN_H
#define BLOCKD_RAW_MEDIUM_OPEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "blockd/raw/disk_lock.h"

/* Bytes; @path for the text of an error, here and below. */
int raw_medium_size(int fd, const char *path, uint64_t *ret, struct error *err);

/*
 * Exclusively: the kernel refuses O_EXCL for a block device that is mounted
 * or held by anything; a lock keeps other blockds away. O_DIRECT where the
 * file system has it. A device that is read-only is opened for reading.
 *
 * -EBUSY: somebody has it, the text says who.
 */
int raw_medium_open(const char *path, int *ret_fd, bool *ret_direct,
		    struct error *err);

/*
 * The same, with a lock (disk_lock.h) in place of O_EXCL: devices of
 * attachments may be over the disk. For a disk without such devices only if
 * @share.
 *
 * @ret_lock  set where there is one
 */
int raw_medium_open_shared(const char *path, bool share,
			   struct disk_lock *ret_lock, int *ret_fd,
			   bool *ret_direct, struct error *err);

/*
 * What @fd has open is not there any more: -ENODEV, the text says how. A
 * device that was taken away, a file that was removed or moved, either that has
 * become shorter than @size bytes. 0: it is there.
 */
int raw_medium_gone(int fd, const char *path, uint64_t size, struct error *err);

/* A block device that takes no writes, as somebody or its driver said. */
bool raw_medium_read_only(int fd);
/* -EROFS: it is such a device. */
int raw_medium_check_writable(int fd, const char *path, struct error *err);

/* A pool promises its space: a file has to have it. Bytes @from to @end. */
int raw_medium_reserve(int fd, const char *path, uint64_t from, uint64_t end,
		       struct error *err);

/*
 * A number that no other medium has. Two pools on one medium do not exist,
 * so it is none of stat(2)'s.
 */
uint64_t raw_medium_number(int fd);

#endif
