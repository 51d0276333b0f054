/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the objects of a raw pool have in common. Each leaf is looked at once,
 * however many maps have it: as long as for one map of all that is mapped
 * (raw_alloc_usage()), and 8 bytes for each leaf of each map. It is counted
 * again only after something has changed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "blockd/raw/dev/raw_users.h"
#include "blockd/raw/pool_raw_internal.h"

/* A map at one instant. */
struct source {
	const struct raw_root *root;
	bool snapshot;
};

struct count {
	const struct raw_alloc *alloc;
	struct source *sources; /* owned */
	size_t n;
	uint32_t clusters; /* of the pool, when it began */
	uint32_t round;
	/* Owned, a bit for each: counted as shared; that an extent has; that
	 * snapshots have. */
	uint64_t *shared, *extents, *snapshots;
	uint64_t n_shared, n_reclaimable;
};

static void raw_count_free(struct count *count)
{
	free(count->sources);
	free(count->shared);
	free(count->extents);
	free(count->snapshots);
}

/*
 * Tell whether an object is a snapshot. An object on its way in or out counts
 * as an extent: it is not kept.
 */
static bool is_snapshot(const struct raw_object *object)
{
	return strncmp(object->text, POOL_RAW_DOOMED,
		       strlen(POOL_RAW_DOOMED)) != 0 &&
	       strstr(object->text, "\nkind=snapshot\n");
}

/* The store's lock is held. */
static int take_sources(const struct raw_state *state, struct count *count,
			struct error *err)
{
	count->sources = calloc((size_t)state->n_objects + 1,
				sizeof(*count->sources));
	if (!count->sources)
		return error_set(err, ENOMEM, "out of memory");
	for (uint32_t i = 1; i <= state->n_slots; i++) {
		const struct raw_object *object = raw_state_object(state, i);

		if (!object)
			continue;
		if (object->damaged)
			return error_set(
				err, EBADMSG,
				"part of a map is lost, and its clusters are unknown");
		count->sources[count->n++] = (struct source){
			.root = atomic_load_explicit(&object->map.root,
						     memory_order_acquire),
			.snapshot = is_snapshot(object),
		};
	}
	count->clusters = state->alloc.clusters;
	count->alloc = &state->alloc;
	return 0;
}

static int take_bits(struct count *count, struct error *err)
{
	const size_t words = ((size_t)count->clusters + 63) / 64;

	count->shared = calloc(words, sizeof(*count->shared));
	count->extents = calloc(words, sizeof(*count->extents));
	count->snapshots = calloc(words, sizeof(*count->snapshots));
	if (!count->shared || !count->extents || !count->snapshots)
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

static bool bits_has(const uint64_t *bits, uint32_t at)
{
	return bits[at / 64] >> (at % 64) & 1;
}

/* Whether it was not set before. */
static bool set(uint64_t *bits, uint32_t at)
{
	bool had = bits_has(bits, at);

	bits[at / 64] |= UINT64_C(1) << (at % 64);
	return !had;
}

static void pool_raw_count_leaf(struct count *count,
				const struct raw_leaf *leaf, bool snapshot)
{
	const bool common = atomic_load_explicit(&leaf->maps,
						 memory_order_acquire) > 1;

	for (unsigned i = 0; i < RAW_LEAF_ENTRIES; i++) {
		uint32_t entry = atomic_load_explicit(&leaf->entries[i],
						      memory_order_acquire);
		uint32_t at = RAW_PHYSICAL(entry);

		if (entry == RAW_HOLE || at >= count->clusters)
			continue;
		if (common || raw_alloc_count(count->alloc, at) > 1)
			count->n_shared += set(count->shared, at);
		if (!snapshot)
			(void)set(count->extents, at);
		else if (!bits_has(count->extents, at))
			count->n_reclaimable += set(count->snapshots, at);
	}
}

/* What extents have is known before snapshots are looked at. */
static void count_sources(struct count *count, bool snapshots)
{
	for (size_t i = 0; i < count->n; i++) {
		const struct raw_root *root = count->sources[i].root;

		if (count->sources[i].snapshot != snapshots)
			continue;
		for (size_t j = 0; root && j < root->slots; j++) {
			struct raw_leaf *leaf = atomic_load_explicit(
				&root->leaves[j], memory_order_acquire);

			if (!leaf || leaf->seen == count->round)
				continue;
			leaf->seen = count->round;
			pool_raw_count_leaf(count, leaf, snapshots);
		}
	}
}

/* Nothing that maps have had is freed meanwhile: it has entered. */
static int pool_raw_count_all(struct pool_raw *raw, struct count *count,
			      struct error *err)
{
	const struct raw_state *state = raw_store_lock(raw->store);
	int r = take_sources(state, count, err);

	raw_store_unlock(raw->store);
	if (r == 0)
		r = take_bits(count, err);
	if (r < 0)
		return r;
	count_sources(count, false);
	count_sources(count, true);
	return 0;
}

/* Counting is held. */
static int pool_raw_count_again(struct pool_raw *raw, struct error *err)
{
	/* First: changes from here on make it be counted again. */
	const uint64_t ticket = raw_store_newest(raw->store);
	const uint64_t size = pool_raw_cluster(raw);
	struct count count = {.round = ++raw->count_round};
	unsigned phase = raw_users_enter(raw->users);
	int r = pool_raw_count_all(raw, &count, err);

	raw_users_leave(raw->users, phase);
	raw_count_free(&count);
	if (r < 0)
		return r;
	raw->counted = true;
	raw->counted_ticket = ticket;
	raw->sharing = (struct pool_sharing){
		.shared = count.n_shared * size,
		.reclaimable = count.n_reclaimable * size,
	};
	return 0;
}

int pool_raw_sharing(struct pool *pool, const char *const *snapshots, size_t n,
		     struct pool_sharing *ret, struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	int r = 0;

	(void)snapshots; /* the objects say themselves what they are */
	(void)n;
	(void)pthread_mutex_lock(&raw->counting);
	if (!raw->counted ||
	    raw->counted_ticket != raw_store_newest(raw->store))
		r = pool_raw_count_again(raw, err);
	if (r == 0)
		*ret = raw->sharing;
	(void)pthread_mutex_unlock(&raw->counting);
	return r;
}
