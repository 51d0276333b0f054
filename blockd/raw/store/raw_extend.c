/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store on a medium that has become larger. The new size becomes durable
 * with a checkpoint, in one write of the superblock; only then are clusters
 * of the new part given to anybody.
 */
#include <errno.h>
#include <inttypes.h>

#include "blockd/raw/store/raw_store_internal.h"

/* The role is the caller's. */
static int write_size(struct raw_store *store, uint64_t size, uint32_t clusters,
		      struct error *err)
{
	int r;

	store->grown_size = size;
	store->grown_clusters = clusters;
	r = store_checkpoint_locked(store, err);
	store->grown_clusters = 0;
	return r;
}

static int extend_locked(struct raw_store *store, uint64_t size,
			 struct error *err)
{
	const struct raw_super *super = &store->super;
	struct raw_alloc *alloc = &store->state.alloc;
	uint32_t clusters;
	int r = 0;

	size -= size % RAW_BLOCK;
	if (size < super->medium_size)
		return error_set(err, EINVAL,
				 "the medium has %" PRIu64
				 " bytes, the pool on it %" PRIu64,
				 size, super->medium_size);
	clusters = store_clusters_for(super, size);
	if (clusters > super->clusters)
		r = write_size(store, size, clusters, err);
	/* After an earlier one for which there was no memory, too. */
	if (r == 0 && super->clusters > alloc->clusters &&
	    raw_alloc_extend(alloc, super->clusters) < 0)
		r = error_set(err, ENOMEM, "out of memory");
	return r;
}

int raw_store_extend(struct raw_store *store, uint64_t size, struct error *err)
{
	int r;

	(void)pthread_mutex_lock(&store->lock);
	store_take_role(store);
	r = store->broken ? store_broken(store, err)
			  : extend_locked(store, size, err);
	store_give_role(store);
	(void)pthread_mutex_unlock(&store->lock);
	return r;
}
