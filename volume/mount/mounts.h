/* SPDX-License-Identifier: Apache-2.0 */
/* Mounts of this machine, read anew from the kernel each time. */
#ifndef VOLUME_MOUNTS_H
#define VOLUME_MOUNTS_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

struct mount_info {
	char target[PATH_MAX];
	char source[PATH_MAX];
	char fs_type[64];
	dev_t device;
	bool read_only;
	/*
	 * Gave up writing after an error of its device; of XFS only
	 * mounts_find() knows.
	 */
	bool failed;
};

/*
 * Find the topmost mount at @target (as in mountinfo, no links). -ENOENT: none.
 */
int mounts_find(const char *target, struct mount_info *ret, struct error *err);

/* All at @prefix or below it, in the order of mounting. Returned owned. */
int mounts_below(const char *prefix, struct mount_info **ret, size_t *ret_count,
		 struct error *err);

/*
 * Make a path absolute, without links, "." or "..". A dead mount at it does no
 * harm: the last part is not followed when it cannot be read. @ret: PATH_MAX
 * bytes. -ENOENT, -ENOTDIR, ...
 */
int mounts_canonical(const char *path, char *ret, struct error *err);

/*
 * Unmount all mounts stacked at @target. Not mounted: 0. -EBUSY: the text names
 * up to four processes that use it; without any to name, it is tried for a
 * second. @lazy: unmounted at once, gone when its last user is.
 */
int mounts_remove(const char *target, bool lazy, struct error *err);

/* "bash (4711), cp (4712)"; "" when none is found. Returns @ret. */
const char *mounts_users(const char *target, char *ret, size_t size);

/*
 * Ask the file system at @target for its sizes, in bytes. -ENOTCONN: its server
 * is gone.
 */
int mounts_space(const char *target, uint64_t *ret_size, uint64_t *ret_free,
		 uint64_t *ret_used);

#endif
