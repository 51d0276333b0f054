/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which branches have failed. A process has one union, so this state, which is
 * read all the time, is by id. branch_health.h changes it.
 */
#ifndef UNION_BRANCH_FAILED_H
#define UNION_BRANCH_FAILED_H

#include <stdatomic.h>
#include <stdbool.h>

#include "union/sys/branch_flags.h"

/*
 * Is @r an error of a branch, or of one object: EIO, ESHUTDOWN, EUCLEAN,
 * EBADMSG, ENODEV, ENXIO, ETIMEDOUT?
 */
bool branch_is_failure(int r);

extern atomic_ullong branch_failed_set[BRANCH_MAX / 64];
extern atomic_uint branch_doubted; /* failed, or not trusted yet */

static inline bool branch_usable(unsigned id)
{
	return !(atomic_load_explicit(&branch_failed_set[id / 64],
				      memory_order_acquire) >>
			 id % 64 &
		 1);
}

static inline bool branch_any_doubted(void)
{
	return atomic_load(&branch_doubted) > 0;
}

#endif
