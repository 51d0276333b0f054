/* SPDX-License-Identifier: Apache-2.0 */
/* What blockdev_file*.c share. Nobody else includes it. */
#ifndef BASE_BLOCKDEV_FILE_H
#define BASE_BLOCKDEV_FILE_H

#include "base/blockdev/blockdev.h"
#include "base/cleanup.h"

#define DIRECT_BLOCK 4096u /* bytes; fits every disk sold */

struct file {
	struct blockdev dev;
	struct blockdev_ops ops; /* what it can */
	int fd;
	bool direct;
	unsigned not_cached; /* reads not to look for in memory */
	unsigned writes;     /* in flight by the ring */
	unsigned aside;      /* writes to leave to the ring */
	unsigned slow;       /* writes that waited, less those that did not */
	bool zero_range_bad; /* FALLOC_FL_ZERO_RANGE was refused once */
	bool punch_bad;      /* FALLOC_FL_PUNCH_HOLE too */
};

static inline struct file *file_of(struct blockdev *dev)
{
	return container_of(dev, struct file, dev);
}

void file_discard_op(struct blockdev *dev, struct op *op, uint64_t offset,
		     uint64_t length, unsigned flags);
void file_zero_op(struct blockdev *dev, struct op *op, uint64_t offset,
		  uint64_t length, unsigned flags);

#endif
