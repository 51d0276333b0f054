/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extents and snapshots that begin with the content of others. A pool that can
 * share content makes them at once. Else a thread of its own copies byte by
 * byte. Then the new ones are in state EXTENT_COPYING until the last is whole.
 * Their sources count the copy (extent.copied_from), so that nobody gets to
 * write to them.
 *
 * A copy that fails, or is stopped, takes all new ones of its call away; after
 * a crash the pool has none of them.
 */
#ifndef BLOCKD_COPY_JOB_H
#define BLOCKD_COPY_JOB_H

#include <stdint.h>

#include "base/error.h"
#include "blockd/extent/extent.h"

/*
 * Make the data and records of @made, all in one pool and in its table,
 * from @from. The op locks of all are held. With POOL_COPY_BYTES it goes on
 * after the return, and the new ones' states say so. All or none.
 */
int copy_job_run(struct extent *const *from, struct extent *const *made,
		 size_t n, enum pool_copy_method method, struct error *err);

/* Bytes of its size that are there already. Any thread. */
uint64_t copy_job_done_bytes(struct extent *extent);

/*
 * Give up the copy that makes @extent, with all other extents it makes. Returns
 * when the copy is over, one way or the other. Nobody holds the op lock of
 * @extent.
 */
void copy_job_stop(struct extent *extent);

/* Give up all copies of a node; returns when they are over. */
void copy_job_stop_all(struct node *node);

#endif
