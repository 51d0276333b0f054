/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools of kind "raw": a whole block device, or a preallocated file, in our
 * own format (blockd/raw/store/raw_format.h). Each extent is an object whose
 * text is its record (blockd/pool/extent_record.h); the pool's own record is
 * blockd/pool/pool_record.h's.
 *
 * A change is one batch of the log, so it is there whole or not at all. A
 * change of several batches begins with an object whose text says that it is
 * not there yet, or no more. These texts ("making", "deleting NAME") are in
 * docs/raw-pool-format.md. A load undoes or finishes a change that a crash left
 * half done.
 *
 * Costs of calls: copy() and revert() take 8 bytes of memory and a moment for
 * each 1,024 clusters, whatever is mapped. The call usage() looks at each
 * mapped cluster without a lock, about 1 ms for 1 TiB. The call ranges() passes
 * over the clusters that two objects share.
 */
#ifndef BLOCKD_POOL_RAW_H
#define BLOCKD_POOL_RAW_H

#include "blockd/direct/direct_device.h"
#include "blockd/pool/pool.h"

#define POOL_RAW_KIND "raw"

/*
 * Look, touch nothing: an empty medium has no superblock of ours and nothing
 * that libblkid knows.
 */
int pool_raw_inspect(const char *path, enum pool_content *ret_content,
		     struct pool_record *ret_record, struct error *err);

/*
 * Bytes that a pool's clusters may have; 0: the default. -EINVAL: no power of
 * two from 64 KiB to 64 MiB.
 */
int pool_raw_check_cluster(uint64_t bytes, struct error *err);

/*
 * Make a medium a pool. A file is preallocated first.
 *
 * @cluster_size  bytes, that pool_raw_check_cluster() takes
 *
 * -ENOTEMPTY: it holds something, the text says what (@force: never);
 * -EBUSY: it is mounted, or open elsewhere; -ENOSPC: too small, or the file
 * system of the file is full.
 */
int pool_raw_format(const char *path, bool force, uint64_t cluster_size,
		    const struct pool_record *record, struct error *err);

/*
 * Verify one that no blockd has open, as pool_ops.check does. Without @repair
 * nothing is written. @ret_clean: nothing wrong is left.
 *
 * -EBUSY: somebody has it; -ENODATA: there is no pool; -EBADMSG: so damaged
 * that it can't be opened.
 */
int pool_raw_check(const char *path, bool repair,
		   void (*finding)(void *context, const char *text,
				   bool repaired),
		   void *context, bool *ret_clean, struct error *err);

/*
 * Give an extent a device with direct runs; takes it. As pool_ops.direct_attach
 * does, but the device is open.
 */
int pool_raw_direct_add(struct pool *pool, const char *name,
			struct direct_device *device, struct error *err);

/* As pool_dir_open(). */
int pool_raw_open(const char *path, const char *name, const char *id,
		  struct pool **ret, struct error *err);

#endif
