/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters and memory that were freed, durably, and may be used again:
 * blockd/raw/store/raw_store.h.
 */
#include <stdlib.h>
#include <string.h>

#include "blockd/raw/store/raw_store_internal.h"

/* Trash has no tickets of its own: it waits for lookups, not for the log. */
bool raw_store_leave(struct raw_store *store, struct raw_leaving *ret)
{
	struct raw_alloc *alloc = &store->state.alloc;
	uint32_t n;

	(void)pthread_mutex_lock(&store->lock);
	n = (uint32_t)(store->freed_durable - store->freed_left);
	*ret = (struct raw_leaving){0};
	if (n) /* without memory they wait for the next time */
		ret->clusters = malloc(n * sizeof(*ret->clusters));
	if (ret->clusters) {
		memcpy(ret->clusters, alloc->freed, n * sizeof(*alloc->freed));
		memmove(alloc->freed, alloc->freed + n,
			(alloc->n_freed - n) * sizeof(*alloc->freed));
		alloc->n_freed -= n;
		store->freed_left += n;
		ret->n = n;
	}
	/* A reader of the frozen state has to have ended, too. */
	if (store->state.trash.n && !alloc->refs.frozen) {
		ret->trash = store->state.trash;
		store->state.trash = (struct raw_trash){0};
	}
	ret->parts = raw_bitmaps_dead(&alloc->bitmaps);
	(void)pthread_mutex_unlock(&store->lock);
	return ret->n || ret->trash.n || ret->parts;
}

void raw_store_left(struct raw_store *store, struct raw_leaving *leaving)
{
	(void)pthread_mutex_lock(&store->lock);
	for (uint32_t i = 0; i < leaving->n; i++)
		raw_alloc_give(&store->state.alloc, leaving->clusters[i]);
	(void)pthread_mutex_unlock(&store->lock);
	raw_trash_empty(&leaving->trash);
	raw_bitmaps_free(leaving->parts);
	free(leaving->clusters);
	*leaving = (struct raw_leaving){0};
}
