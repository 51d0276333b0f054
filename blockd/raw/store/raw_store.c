/* SPDX-License-Identifier: Apache-2.0 */
/* The life of an open store; blockd/raw/store/raw_store_open.c makes and opens
 * one. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "blockd/raw/store/raw_store_internal.h"

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
 * Clusters that data may not have: what the next checkpoint would take when
 * @more clusters are mapped, and as much again for what grows until then.
 */
static uint64_t reserve(const struct raw_store *store, uint64_t more)
{
	uint64_t now = checkpoint_clusters(
		store, raw_state_bytes(&store->state) + raw_maps_size(more));
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
	return error_set(err, ENOSPC, "no room for the pool's metadata");
}

uint32_t raw_store_available(struct raw_store *store)
{
	uint64_t kept, n;

	(void)pthread_mutex_lock(&store->lock);
	kept = reserve(store, 0);
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

/* Lock held. Of @want clusters, how many data may have now. */
static uint32_t may_take(const struct raw_store *store, uint32_t want)
{
	/* A damaged medium may show clusters as free that are not. */
	const uint64_t free = store->broken
				      ? 0
				      : raw_alloc_free(&store->state.alloc);

	/* The second time also for the metadata of those. */
	for (unsigned i = 0; i < 2; i++) {
		uint64_t kept = reserve(store, i * want) + store->kept;
		uint64_t n = free > kept ? free - kept : 0;

		if (want > n)
			want = (uint32_t)n;
	}
	return want;
}

uint32_t raw_store_take(struct raw_store *store, uint32_t want, uint32_t near,
			uint32_t *ret_first)
{
	uint32_t n;

	(void)pthread_mutex_lock(&store->lock);
	n = may_take(store, want);
	if (n)
		n = raw_alloc_take(&store->state.alloc, n, near, ret_first);
	(void)pthread_mutex_unlock(&store->lock);
	return n;
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

static bool is_right(const struct raw_state *state,
		     const struct raw_record *record,
		     const struct raw_look *look)
{
	const struct raw_object *object = raw_state_object(state,
							   record->object);

	return !look || (object &&
			 raw_alloc_still(&state->alloc, &object->map,
					 record->logical, record->count, look));
}

static bool has_room(const struct raw_store *store, size_t size)
{
	return store->pending.capacity - store->pending.length >= size;
}

void raw_store_guard(struct raw_store *store,
		     bool (*refuses)(void *context,
				     const struct raw_record *record),
		     void *context)
{
	(void)pthread_mutex_lock(&store->lock);
	store->refuses = refuses;
	store->refuses_context = context;
	(void)pthread_mutex_unlock(&store->lock);
}

/* Lock held. */
static int ask_guard(const struct raw_store *store,
		     const struct raw_record *records, size_t n,
		     struct error *err)
{
	for (size_t i = 0; store->refuses && i < n; i++)
		if (store->refuses(store->refuses_context, &records[i]))
			return error_set(err, ETXTBSY,
					 "a device has direct access to "
					 "clusters of object %u",
					 records[i].object);
	return 0;
}

/* Lock held, and there is room in the batch that waits. */
static int change_locked(struct raw_store *store,
			 const struct raw_record *records, size_t n,
			 const struct raw_look *look, uint64_t *ret_ticket,
			 struct error *err)
{
	int r = 0;

	if (store->broken)
		return store_broken(store, err);
	if (!is_right(&store->state, records, look))
		return error_set(err, EAGAIN, "the map has changed");
	r = ask_guard(store, records, n, err);
	if (r == 0)
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

static int store_change(struct raw_store *store,
			const struct raw_record *records, size_t n,
			const struct raw_look *look, uint64_t *ret_ticket,
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
		r = change_locked(store, records, n, look, ret_ticket, err);
	(void)pthread_mutex_unlock(&store->lock);
	return r;
}

int raw_store_change_now(struct raw_store *store,
			 const struct raw_record *records, size_t n,
			 const struct raw_look *look, struct error *err)
{
	int r;

	if (pthread_mutex_trylock(&store->lock) != 0)
		return error_set(err, EBUSY, "another change is under way");
	r = has_room(store, records_size(records, n))
		    ? change_locked(store, records, n, look, NULL, err)
		    : error_set(err, EBUSY,
				"pending changes have to be written first");
	(void)pthread_mutex_unlock(&store->lock);
	return r;
}

int raw_store_change(struct raw_store *store, const struct raw_record *records,
		     size_t n, uint64_t *ret_ticket, struct error *err)
{
	return store_change(store, records, n, NULL, ret_ticket, err);
}

int raw_store_change_if(struct raw_store *store,
			const struct raw_record *records, size_t n,
			const struct raw_look *look, struct error *err)
{
	return store_change(store, records, n, look, NULL, err);
}
