/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which kind of pool is at a path: a directory is "dir", a block device or a
 * regular file "raw". The same calls for each.
 */
#ifndef BLOCKD_POOL_AT_H
#define BLOCKD_POOL_AT_H

#include "blockd/pool/pool.h"

/* "dir" or "raw"; -ENOENT; -ENOTSUP: neither can be there. */
int pool_at_kind(const char *path, const char **ret, struct error *err);

/*
 * Look, touch nothing. -ENOENT: no such path.
 *
 * @ret_record  set for POOL_CONTENT_POOL
 * @err         says what is wrong for POOL_CONTENT_DAMAGED, and what is there
 *              for POOL_CONTENT_OTHER
 */
int pool_at_inspect(const char *path, enum pool_content *ret_content,
		    struct pool_record *ret_record, struct error *err);

/*
 * Make an empty place a pool; record->kind is set.
 *
 * @force         although a device or file holds something else. It is lost
 * @cluster_size  bytes; pool_raw_check_cluster(); not for a directory
 *
 * -EINVAL: such clusters can't be; -ENOTEMPTY: it holds something; -EBUSY: it
 * is in use; -ENOSPC: too small.
 */
int pool_at_format(const char *path, bool force, uint64_t cluster_size,
		   struct pool_record *record, struct error *err);

/* pool_dir_open() or pool_raw_open(). */
int pool_at_open(const char *path, const char *name, const char *id,
		 struct pool **ret, struct error *err);

#endif
