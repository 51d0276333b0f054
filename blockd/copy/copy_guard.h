/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeping sources as they are while they are copied. An instant copy is made
 * under a quiesce (blockd/copy/quiesce.h). A copy byte by byte is made only of
 * sources without a writer, and none gets one while it lasts
 * (blockd/copy/copy_job.h).
 */
#ifndef BLOCKD_COPY_GUARD_H
#define BLOCKD_COPY_GUARD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "base/uuid_name.h"
#include "blockd/extent/extent.h"
#include "blockd/local/loopdev_users.h"

struct copy_guard {
	struct extent *const *extents; /* borrowed */
	size_t n;
	const char *quiesce; /* borrowed, or @own, or NULL: none is needed */
	char own[UUID_TEXT_SIZE];
};

/*
 * Begin to guard @extents, whose op locks are held until copy_guard_end().
 *
 * @methods  how each will be copied
 * @quiesce     one that is there; NULL: begin one where it is needed
 *
 * -ESTALE: that quiesce does not have them; -EBUSY: a writer that a quiesce
 * does not reach; -ETIMEDOUT: writes under way did not end.
 */
int copy_guard_begin(struct copy_guard *guard, struct extent *const *extents,
		     const enum pool_copy_method *methods, size_t n,
		     const char *quiesce, struct error *err);

/* -ESTALE: it did not last until now. */
int copy_guard_end(struct copy_guard *guard, struct error *err);

/*
 * Find the loop device that may write to the data file of an extent, whose op
 * lock is held.
 *
 * @device  LOCAL_NAME_MAX bytes, set on 1
 *
 * 0: there is none; 1: there is; -EBUSY: a device that does not answer may
 * write.
 */
int copy_guard_find_writer(const struct extent *extent,
			   const struct loopdev_users *local, char *device,
			   struct error *err);

#endif
