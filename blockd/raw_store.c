/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an open store; blockd/raw_store_open.c makes and opens one. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "blockd/raw_store_internal.h"

const struct raw_super *raw_store_super(const struct raw_store *store)
{
	return &store->super;
}

uint64_t raw_store_size(struct raw_store *store)
{
	uint64_t size;

	(void)pthread_mutex_lock(&store->lock);
	size = store->super.medium_size;
	(void)pthread_mutex_unlock(&store->lock);
	return size;
}

struct raw_state *raw_store_lock(struct raw_store *store)
{
	(void)pthread_mutex_lock(&store->lock);
	return &store->state;
}

void raw_store_unlock(struct raw_store *store)
{
	(void)pthread_mutex_unlock(&store->lock);
}

void raw_store_close(struct raw_store *store)
{
	if (!store)
		return;
	raw_batch_done(&store->pending);
	raw_batch_done(&store->writing);
	raw_state_done(&store->state);
	(void)pthread_cond_destroy(&store->done);
	(void)pthread_mutex_destroy(&store->lock);
	free(store);
}

int store_broken(const struct raw_store *store, struct error *err)
{
	return error_set(err, EIO, "the pool takes no changes: %s",
			 error_text(&store->cause));
}

void store_mark_broken(struct raw_store *store, const struct error *cause)
{
	if (!store->broken)
		store->cause = *cause;
	store->broken = true;
}

void store_mark_failed(struct raw_store *store, const struct error *cause)
{
	if (store->broken)
		return;
	store_mark_broken(store, cause);
	store->failed = true;
	if (store->on_failed)
		store->on_failed(store->on_failed_context);
}

void raw_store_on_failed(struct raw_store *store,
			 void (*on_failed)(void *context), void *context)
{
	(void)pthread_mutex_lock(&store->lock);
	store->on_failed = on_failed;
	store->on_failed_context = context;
	(void)pthread_mutex_unlock(&store->lock);
}

void raw_store_stop(struct raw_store *store, const struct error *cause)
{
	(void)pthread_mutex_lock(&store->lock);
	store_mark_broken(store, cause);
	(void)pthread_mutex_unlock(&store->lock);
}

bool raw_store_broken(struct raw_store *store, struct error *err)
{
	bool is;

	(void)pthread_mutex_lock(&store->lock);
	is = store->broken;
	if (is)
		(void)store_broken(store, err);
	(void)pthread_mutex_unlock(&store->lock);
	return is;
}

/* ---- clusters ---- */

/* Clusters for a checkpoint of @bytes: each batch may end in a record's lack.
 */
static uint64_t checkpoint_clusters(const struct raw_store *store,
				    uint64_t bytes)
{
	const uint64_t part = raw_part_size(store->super.cluster_shift);
	uint64_t room = part - RAW_TEXT_MAX - RAW_BLOCK;
	uint64_t parts = bytes / room + 1;
	uint64_t cluster = UINT64_C(1) << store->super.cluster_shift;

	return RAW_COPIES * ((parts * part + cluster - 1) / cluster);
}

/*
 * Clusters that data may not have: what the next checkpoint would take, and
 * as much again for what grows until then.
 */
static uint64_t reserve(const struct raw_store *store)
{
	uint64_t now = checkpoint_clusters(store,
					   raw_state_bytes(&store->state));
	uint64_t last = store->super.n_checkpoint + RAW_COPIES;

	return 2 * (now > last ? now : last) + 2;
}

/* Without a checkpoint nothing can go on: no change may be in its way. */
static int check_growth(const struct raw_store *store,
			const struct raw_record *records, size_t n,
			struct error *err)
{
	uint64_t more = 0, needs;

	for (size_t i = 0; i < n; i++)
		more += raw_state_growth(&store->state, &records[i]);
	if (!more)
		return 0;
	needs = checkpoint_clusters(store,
				    raw_state_bytes(&store->state) + more);
	if (needs <= RAW_CHECKPOINT_MAX &&
	    needs <= raw_alloc_free(&store->state.alloc))
		return 0;
	return error_set(err, ENOSPC,
			 "no room for what the pool would have to know");
}

uint32_t raw_store_available(struct raw_store *store)
{
	uint64_t kept, n;

	(void)pthread_mutex_lock(&store->lock);
	kept = reserve(store);
	n = store->broken ? 0 : raw_alloc_free(&store->state.alloc);
	(void)pthread_mutex_unlock(&store->lock);
	return n > kept ? (uint32_t)(n - kept) : 0;
}

void raw_store_keep(struct raw_store *store, uint32_t n)
{
	(void)pthread_mutex_lock(&store->lock);
	store->kept = n;
	(void)pthread_mutex_unlock(&store->lock);
}

uint32_t raw_store_take(struct raw_store *store, uint32_t want, uint32_t near,
			uint32_t *ret_first)
{
	uint64_t kept, n;

	(void)pthread_mutex_lock(&store->lock);
	kept = reserve(store) + store->kept;
	/* What is free is not sure when the medium's damage made it so. */
	n = store->broken ? 0 : raw_alloc_free(&store->state.alloc);
	n = n > kept ? n - kept : 0;
	if (want > n)
		want = (uint32_t)n;
	n = want ? raw_alloc_take(&store->state.alloc, want, near, ret_first)
		 : 0;
	(void)pthread_mutex_unlock(&store->lock);
	return (uint32_t)n;
}

void raw_store_untake(struct raw_store *store, uint32_t first, uint32_t n)
{
	(void)pthread_mutex_lock(&store->lock);
	for (uint32_t i = 0; i < n; i++)
		raw_alloc_give(&store->state.alloc, first + i);
	(void)pthread_mutex_unlock(&store->lock);
}

/* ---- changes ---- */

bool raw_store_pending(const struct raw_store *store)
{
	return atomic_load_explicit(&store->durable, memory_order_acquire) !=
	       atomic_load_explicit(&store->newest, memory_order_acquire);
}

uint64_t raw_store_newest(struct raw_store *store)
{
	return atomic_load_explicit(&store->newest, memory_order_acquire);
}

static size_t records_size(const struct raw_record *records, size_t n)
{
	size_t size = 0;

	for (size_t i = 0; i < n; i++)
		size += raw_record_size(&records[i]);
	return size;
}

/* Lock held. */
static int apply_all(struct raw_store *store, const struct raw_record *records,
		     size_t n, struct error *err)
{
	for (size_t i = 0; i < n; i++) {
		int r = raw_state_apply(&store->state, &records[i], err);

		if (r == -ENOMEM)
			(void)error_set(err, ENOMEM, "out of memory");
		if (r < 0 && i > 0) /* half of a group: not to be undone */
			store_mark_failed(store, err);
		if (r < 0)
			return r;
		r = raw_batch_add(&store->pending, &records[i]);
		assert(r == 0); /* there was room */
	}
	return 0;
}

/* What a MAP takes the place of is another one's, too. */
static bool still_shared(const struct raw_state *state,
			 const struct raw_record *record)
{
	const struct raw_object *object = raw_state_object(state,
							   record->object);
	uint32_t entry = object ? raw_map_get(&object->map, record->logical)
				: RAW_HOLE;

	return entry != RAW_HOLE &&
	       raw_alloc_shared(&state->alloc, &object->map, record->logical,
				entry);
}

/* Blocks were written of a cluster that is not there any more. */
static bool is_elsewhere(const struct raw_state *state,
			 const struct raw_record *record)
{
	const struct raw_object *object = raw_state_object(state,
							   record->object);
	uint32_t entry = object ? raw_map_get(&object->map, record->logical)
				: RAW_HOLE;

	return record->type == RAW_WRITTEN &&
	       (entry == RAW_HOLE || RAW_PHYSICAL(entry) != record->physical);
}

static bool has_room(const struct raw_store *store, size_t size)
{
	return store->pending.capacity - store->pending.length >= size;
}

/* Lock held, and there is room in the batch that waits. */
static int change_locked(struct raw_store *store,
			 const struct raw_record *records, size_t n,
			 bool shared, uint64_t *ret_ticket, struct error *err)
{
	int r = 0;

	if (store->broken)
		return store_broken(store, err);
	if (shared && !still_shared(&store->state, records))
		return error_set(err, EAGAIN, "it is shared no more");
	if (is_elsewhere(&store->state, records))
		return error_set(err, EAGAIN, "the cluster is another one now");
	r = check_growth(store, records, n, err);
	if (r == 0)
		r = apply_all(store, records, n, err);
	if (r == 0) {
		uint64_t ticket = atomic_fetch_add(&store->newest, 1) + 1;

		if (ret_ticket)
			*ret_ticket = ticket;
	}
	return r;
}

static int change(struct raw_store *store, const struct raw_record *records,
		  size_t n, bool shared, uint64_t *ret_ticket,
		  struct error *err)
{
	size_t size = records_size(records, n);
	int r = 0;

	if (size > RAW_BATCH_ROOM)
		return error_set(err, E2BIG, "too many changes at once");
	(void)pthread_mutex_lock(&store->lock);
	while (r == 0 && !store->broken && !has_room(store, size))
		r = store_commit_locked(store, store->newest, err);
	if (r == 0)
		r = change_locked(store, records, n, shared, ret_ticket, err);
	(void)pthread_mutex_unlock(&store->lock);
	return r;
}

int raw_store_change_now(struct raw_store *store,
			 const struct raw_record *records, size_t n,
			 struct error *err)
{
	int r;

	if (pthread_mutex_trylock(&store->lock) != 0)
		return error_set(err, EBUSY, "others change it");
	r = has_room(store, records_size(records, n))
		    ? change_locked(store, records, n, false, NULL, err)
		    : error_set(err, EBUSY, "what waits has to be written");
	(void)pthread_mutex_unlock(&store->lock);
	return r;
}

int raw_store_change(struct raw_store *store, const struct raw_record *records,
		     size_t n, uint64_t *ret_ticket, struct error *err)
{
	return change(store, records, n, false, ret_ticket, err);
}

int raw_store_change_shared(struct raw_store *store,
			    const struct raw_record *record, struct error *err)
{
	return change(store, record, 1, true, NULL, err);
}

/* ---- commit ---- */

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
	/* Data first: the batch must not map what is not there yet. */
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
			r = 0; /* by whoever had the role */
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
