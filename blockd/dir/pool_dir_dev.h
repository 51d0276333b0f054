/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device of an extent of a dir pool: its file (base/blockdev/blockdev.h),
 * before which stands the pool's floor (blockd/pool/space_floor.h). Where
 * that is reached, a write of what has no block of its own yet, a hole or what
 * another file shares, gets -ENOSPC before anything of it is written; any
 * other goes on.
 */
#ifndef BLOCKD_POOL_DIR_DEV_H
#define BLOCKD_POOL_DIR_DEV_H

#include "base/blockdev/blockdev.h"
#include "blockd/pool/space_floor.h"

/* As blockdev_file_open(), for writing. The floor gets a reference. */
int pool_dir_dev_open(struct space_floor *floor, struct loop *loop,
		      const char *path, uint64_t size, unsigned flags,
		      struct blockdev **ret, struct error *err);

/* What its file has to tell (struct blockdev) goes there from now on. */
void pool_dir_dev_on_fault(struct blockdev *dev, void (*fault)(void *context),
			   void *context);

#endif
