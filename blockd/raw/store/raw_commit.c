/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the log: all changes that wait go into one batch. */
#include <string.h>

#include "blockd/raw/store/raw_store_internal.h"

uint64_t store_log_offset(const struct raw_super *super, unsigned copy,
			  uint64_t block)
{
	return RAW_LOG_START + copy * raw_ring_size(super) + block * RAW_BLOCK;
}

/* No batch may reach the place where the replay begins. */
static uint64_t log_room(const struct raw_store *store)
{
	return raw_ring_size(&store->super) - 2 * RAW_BATCH_MAX;
}

bool store_log_full(const struct raw_store *store)
{
	return store->log_used > log_room(store);
}

static void look_how_full(struct raw_store *store)
{
	store->filling = store->log_used > log_room(store) / 4 * 3;
}

/* Where the next batch goes: none is cut by the end of the ring. */
void store_log_advance(struct raw_store *store, size_t length,
		       const struct raw_mask *touched)
{
	const uint64_t ring = raw_ring_size(&store->super);

	store->log_block += length / RAW_BLOCK;
	store->log_used += length;
	if (ring - store->log_block * RAW_BLOCK < RAW_BATCH_MAX) {
		store->log_used += ring - store->log_block * RAW_BLOCK;
		store->log_block = 0;
	}
	store->log_sequence++;
	store->previous = *touched;
	raw_mask_join(&store->since, touched);
	raw_mask_join(&store->since_ahead, touched);
	look_how_full(store);
}

void store_log_shorten(struct raw_store *store, uint64_t used,
		       const struct raw_mask *since)
{
	store->log_used -= used;
	store->since = *since;
	look_how_full(store);
}

void store_log_clear(struct raw_store *store)
{
	store->log_used = 0;
	store->previous = store->since = (struct raw_mask){0};
	look_how_full(store);
}

static int write_copies(struct raw_store *store, size_t length)
{
	struct raw_medium *medium = store->medium;
	int r = 0;

	for (unsigned copy = 0; r == 0 && copy < RAW_COPIES; copy++)
		r = medium->ops->write(medium, store->writing.data, length,
				       store_log_offset(&store->super, copy,
							store->log_block));
	return r;
}

static int write_batch(struct raw_store *store, struct error *err)
{
	struct raw_medium *medium = store->medium;
	size_t length;
	int r;

	store->writing.previous = store->previous;
	store->writing.since = store->since;
	length = raw_batch_seal(&store->writing, store->log_sequence,
				raw_salt(store->super.pool_id));
	/* Data first: the batch must not map data that is not there yet. */
	r = medium->ops->flush(medium);
	if (r == 0)
		r = write_copies(store, length);
	if (r == 0)
		r = medium->ops->flush(medium);
	if (r < 0)
		return error_set(err, -r, "writing the pool's log: %s",
				 strerror(-r));
	store_log_advance(store, length, &store->writing.touched);
	return 0;
}

/* Lock held on entry and return. */
void store_take_role(struct raw_store *store)
{
	while (store->busy || store->ahead)
		(void)pthread_cond_wait(&store->done, &store->lock);
	store->busy = true;
}

void store_take_log(struct raw_store *store)
{
	while (store->busy)
		(void)pthread_cond_wait(&store->done, &store->lock);
	store->busy = true;
}

void store_give_role(struct raw_store *store)
{
	store->busy = false;
	(void)pthread_cond_broadcast(&store->done);
}

uint64_t store_freed(const struct raw_store *store)
{
	return store->freed_left + store->state.alloc.n_freed;
}

int store_commit_once(struct raw_store *store, struct error *err)
{
	struct raw_batch batch = store->pending;
	uint64_t upto = store->newest;
	uint64_t freed = store_freed(store);
	unsigned round;
	int r;

	store->pending = store->writing;
	store->writing = batch;
	raw_batch_clear(&store->pending);
	round = raw_alloc_round(&store->state.alloc);
	(void)pthread_mutex_unlock(&store->lock);
	r = write_batch(store, err);
	(void)pthread_mutex_lock(&store->lock);
	if (r < 0) {
		store_mark_failed(store, err);
		return r;
	}
	raw_alloc_sure(&store->state.alloc, round);
	atomic_store(&store->durable, upto);
	store->freed_durable = freed;
	return 0;
}

int store_commit_locked(struct raw_store *store, uint64_t ticket,
			struct error *err)
{
	int r = 0;

	while (r == 0 && store->durable < ticket) {
		bool full;

		store_take_log(store);
		full = store_log_full(store);
		if (store->broken)
			r = store_broken(store, err);
		else if (store->durable >= ticket)
			r = 0; /* by the thread that had the role */
		else if (!full)
			r = store_commit_once(store, err);
		else if (!store->ahead)
			r = store_checkpoint_locked(store, err);
		store_give_role(store);
		while (full && store->ahead) /* it makes room */
			(void)pthread_cond_wait(&store->done, &store->lock);
	}
	return r;
}

/* Lock held. Once each time. */
static void tell_filling(struct raw_store *store)
{
	const bool before = store->told_filling;

	store->told_filling = store->filling && store->on_filling;
	if (store->told_filling && !before)
		store->on_filling(store->on_filling_context);
}

int raw_store_commit(struct raw_store *store, uint64_t ticket,
		     struct error *err)
{
	int r;

	(void)pthread_mutex_lock(&store->lock);
	r = store_commit_locked(store, ticket, err);
	if (r == 0)
		tell_filling(store);
	(void)pthread_mutex_unlock(&store->lock);
	return r;
}

bool raw_store_filling(const struct raw_store *store)
{
	return store->filling;
}

void raw_store_on_filling(struct raw_store *store,
			  void (*on_filling)(void *context), void *context)
{
	(void)pthread_mutex_lock(&store->lock);
	store->on_filling = on_filling;
	store->on_filling_context = context;
	(void)pthread_mutex_unlock(&store->lock);
}

int raw_store_checkpoint(struct raw_store *store, struct error *err)
{
	int r;

	(void)pthread_mutex_lock(&store->lock);
	store_take_role(store);
	r = store->broken ? store_broken(store, err)
			  : store_checkpoint_locked(store, err);
	store_give_role(store);
	(void)pthread_mutex_unlock(&store->lock);
	return r;
}
