/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Extents and snapshots that begin with the content of others: at once where
 * the pool can share it, else byte by byte by a thread of its own. Then the
 * new ones are in state EXTENT_COPYING until the last is whole, and their
 * sources count it (extent.copied_from), so that nobody gets to write to them.
 *
 * A copy that fails, or is stopped, takes all new ones of its call away; after
 * a crash the pool has none of them.
 */
#ifndef BLOCKD_COPYING_H
#define BLOCKD_COPYING_H

#include <stdint.h>

#include "base/error.h"
#include "blockd/extent/extent.h"

/*
 * Make the data and records of @made, all in one pool and in its table,
 * from @from. The op locks of all are held. With POOL_COPY_BYTES it goes on
 * after the return, and the new ones' states say so. All or none.
 */
int copying_run(struct extent *const *from, struct extent *const *made,
		size_t n, enum pool_copy_method method, struct error *err);

/* Bytes of its size that are there already. Any thread. */
uint64_t copying_done(struct extent *extent);

/*
 * Give up the copy that @extent is made by, and with it all that it makes;
 * returns when it is over, one way or the other. Nobody holds its op lock.
 */
void copying_stop(struct extent *extent);

/* Give up all copies of a node; returns when they are over. */
void copying_stop_all(struct node *node);

#endif
