/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/raw/store/raw_alloc.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct raw_alloc *alloc_of(struct raw_refs *refs)
{
	return (struct raw_alloc *)((char *)refs -
				    offsetof(struct raw_alloc, refs));
}

static size_t words(uint32_t clusters)
{
	return ((size_t)clusters + 63) / 64;
}

bool raw_alloc_is_taken(const struct raw_alloc *alloc, uint32_t cluster)
{
	return alloc->bits[cluster / 64] >> (cluster % 64) & 1;
}

static _Atomic uint32_t *count_of(const struct raw_alloc *alloc,
				  uint32_t cluster)
{
	return &alloc->counts[cluster / RAW_ALLOC_PIECE]
			     [cluster % RAW_ALLOC_PIECE];
}

static void unsuspect(struct raw_alloc *alloc, uint32_t cluster)
{
	if (alloc->suspects)
		alloc->suspects[cluster / 64] &= ~(UINT64_C(1)
						   << (cluster % 64));
}

bool raw_alloc_take_at(struct raw_alloc *alloc, uint32_t cluster)
{
	assert(cluster < alloc->clusters);
	if (raw_alloc_is_taken(alloc, cluster))
		return false;
	alloc->bits[cluster / 64] |= UINT64_C(1) << (cluster % 64);
	alloc->taken++;
	return true;
}

void raw_alloc_give(struct raw_alloc *alloc, uint32_t cluster)
{
	assert(cluster < alloc->clusters && !raw_alloc_count(alloc, cluster));
	assert(raw_alloc_is_taken(alloc, cluster));
	alloc->bits[cluster / 64] &= ~(UINT64_C(1) << (cluster % 64));
	alloc->taken--;
	unsuspect(alloc, cluster);
}

/* In a count: it is in unsure[0], in unsure[1]. */
#define UNSURE(round) (UINT32_C(1) << (30 + (round)))
#define COUNT_MAX     (UNSURE(0) - 1)

static uint32_t count_in(uint32_t value)
{
	return value & COUNT_MAX;
}

static void unsure(struct raw_alloc *alloc, uint32_t cluster)
{
	_Atomic uint32_t *count = count_of(alloc, cluster);
	const unsigned round = alloc->round;

	if (*count & UNSURE(round))
		return;
	*count |= UNSURE(round);
	alloc->unsure[round][alloc->n_unsure[round]++] = cluster;
}

static void refs_unshare(struct raw_refs *refs, uint32_t cluster)
{
	struct raw_alloc *alloc = alloc_of(refs);

	if (raw_alloc_count(alloc, cluster) == 1)
		unsure(alloc, cluster);
}

static void refs_get(struct raw_refs *refs, uint32_t entry)
{
	struct raw_alloc *alloc = alloc_of(refs);
	const uint32_t cluster = RAW_PHYSICAL(entry);

	assert(cluster < alloc->clusters);
	assert(raw_alloc_is_taken(alloc, cluster));
	/* As many leaves as this would take 4 TiB. */
	assert(raw_alloc_count(alloc, cluster) < COUNT_MAX);
	unsuspect(alloc, cluster);
	alloc->references++;
	alloc->references_partial += entry & RAW_PARTIAL ? 1 : 0;
	switch (count_in(++*count_of(alloc, cluster))) {
	case 1: alloc->used++; break;
	case 2: alloc->shared++; break;
	default: break;
	}
}

static void refs_put(struct raw_refs *refs, uint32_t entry)
{
	struct raw_alloc *alloc = alloc_of(refs);
	const uint32_t cluster = RAW_PHYSICAL(entry);

	assert(cluster < alloc->clusters && raw_alloc_count(alloc, cluster));
	alloc->references--;
	alloc->references_partial -= entry & RAW_PARTIAL ? 1 : 0;
	/*
	 * First: a thread that sees that the count is 1 has to see this, too.
	 */
	if (raw_alloc_count(alloc, cluster) == 2)
		unsure(alloc, cluster);
	switch (count_in(--*count_of(alloc, cluster))) {
	case 0:
		alloc->used--;
		alloc->freed[alloc->n_freed++] = cluster;
		raw_bitmaps_drop(&alloc->bitmaps, cluster);
		break;
	case 1: alloc->shared--; break;
	default: break;
	}
}

static void refs_turn(struct raw_refs *refs, uint32_t from, uint32_t to)
{
	struct raw_alloc *alloc = alloc_of(refs);

	alloc->references_partial += to & RAW_PARTIAL ? 1 : 0;
	alloc->references_partial -= from & RAW_PARTIAL ? 1 : 0;
}

/* Pieces for @clusters; more than there were is no harm. */
static int counts_extend(struct raw_alloc *alloc, uint32_t clusters)
{
	for (uint32_t i = 0; i <= (clusters - 1) / RAW_ALLOC_PIECE; i++) {
		if (!alloc->counts[i])
			alloc->counts[i] = calloc(RAW_ALLOC_PIECE,
						  sizeof(*alloc->counts[i]));
		if (!alloc->counts[i])
			return -ENOMEM;
	}
	return 0;
}

static int alloc_resize(struct raw_alloc *alloc, uint32_t clusters)
{
	size_t before = words(alloc->clusters), after = words(clusters);
	uint64_t *bits = reallocarray(alloc->bits, after, sizeof(*bits));
	uint32_t *freed;

	if (!bits)
		return -ENOMEM;
	alloc->bits = bits;
	memset(bits + before, 0, (after - before) * sizeof(*bits));
	if (counts_extend(alloc, clusters) < 0)
		return -ENOMEM;
	freed = reallocarray(alloc->freed, clusters, sizeof(*freed));
	if (!freed)
		return -ENOMEM;
	alloc->freed = freed;
	for (unsigned i = 0; i < 2; i++) {
		uint32_t *list = reallocarray(alloc->unsure[i], clusters,
					      sizeof(*list));

		if (!list)
			return -ENOMEM;
		alloc->unsure[i] = list;
	}
	alloc->clusters = clusters;
	return 0;
}

int raw_alloc_init(struct raw_alloc *alloc, uint32_t clusters,
		   uint8_t cluster_shift)
{
	int r;

	assert(clusters);
	*alloc = (struct raw_alloc){
		.refs = {refs_get, refs_put, refs_turn, refs_unshare}};
	raw_bitmaps_init(&alloc->bitmaps, cluster_shift);
	alloc->counts = calloc(RAW_ALLOC_PIECES, sizeof(_Atomic uint32_t *));
	r = alloc->counts ? alloc_resize(alloc, clusters) : -ENOMEM;
	if (r < 0)
		raw_alloc_done(alloc);
	return r;
}

int raw_alloc_extend(struct raw_alloc *alloc, uint32_t clusters)
{
	assert(clusters >= alloc->clusters);
	free(alloc->suspects); /* not for as many: the search is over */
	alloc->suspects = NULL;
	return alloc_resize(alloc, clusters);
}

void raw_alloc_done(struct raw_alloc *alloc)
{
	for (uint32_t i = 0; alloc->counts && i < RAW_ALLOC_PIECES; i++)
		free(alloc->counts[i]);
	free(alloc->bits);
	free(alloc->counts);
	free(alloc->suspects);
	free(alloc->freed);
	free(alloc->unsure[0]);
	free(alloc->unsure[1]);
	raw_bitmaps_done(&alloc->bitmaps);
	*alloc = (struct raw_alloc){0};
}

uint32_t raw_alloc_free(const struct raw_alloc *alloc)
{
	return alloc->clusters - alloc->taken;
}

uint32_t raw_alloc_count(const struct raw_alloc *alloc, uint32_t cluster)
{
	return count_in(*count_of(alloc, cluster));
}

bool raw_alloc_alone(const struct raw_alloc *alloc, uint32_t cluster)
{
	return *count_of(alloc, cluster) == 1;
}

bool raw_alloc_shared(const struct raw_alloc *alloc, const struct raw_map *map,
		      uint64_t cluster, uint32_t entry)
{
	return raw_map_leaf_shared(map, cluster) ||
	       !raw_alloc_alone(alloc, RAW_PHYSICAL(entry));
}

/*
 * Read the entry again, after the count of its cluster. When another request
 * has given the map another cluster between the two, the first one may be
 * another map's alone by now. A cluster does not come back while anybody is
 * inside, so it was the map's all the time.
 */
static uint32_t map_look_at(const struct raw_alloc *alloc,
			    const struct raw_map *map, uint64_t cluster,
			    bool *ret_shared)
{
	uint32_t now = raw_map_get(map, cluster), entry;

	do {
		entry = now;
		*ret_shared = entry != RAW_HOLE &&
			      raw_alloc_shared(alloc, map, cluster, entry);
		now = raw_map_get(map, cluster);
	} while (now != entry);
	return entry;
}

static uint64_t look_run(const struct raw_alloc *alloc,
			 const struct raw_map *map, uint64_t cluster,
			 uint64_t max, const struct raw_look *look)
{
	uint64_t n = 0;
	bool shared;

	while (n < max) {
		uint32_t want = look->entry == RAW_HOLE
					? RAW_HOLE
					: look->entry + (uint32_t)n;

		if (map_look_at(alloc, map, cluster + n, &shared) != want ||
		    shared != look->shared)
			break;
		n++;
	}
	return n;
}

struct raw_look raw_alloc_look(const struct raw_alloc *alloc,
			       const struct raw_map *map, uint64_t cluster,
			       uint64_t max)
{
	struct raw_look look = {.n = 1};

	look.entry = map_look_at(alloc, map, cluster, &look.shared);
	if (max > 1) {
		struct raw_look behind = look;

		if (behind.entry != RAW_HOLE)
			behind.entry++;
		look.n += look_run(alloc, map, cluster + 1, max - 1, &behind);
	}
	return look;
}

bool raw_alloc_still(const struct raw_alloc *alloc, const struct raw_map *map,
		     uint64_t cluster, uint64_t n, const struct raw_look *look)
{
	return look_run(alloc, map, cluster, n, look) == n;
}

unsigned raw_alloc_round(struct raw_alloc *alloc)
{
	unsigned round = alloc->round;

	alloc->round = !round;
	assert(!alloc->n_unsure[alloc->round]);
	return round;
}

void raw_alloc_sure(struct raw_alloc *alloc, unsigned round)
{
	for (uint32_t i = 0; i < alloc->n_unsure[round]; i++)
		*count_of(alloc, alloc->unsure[round][i]) &= ~UNSURE(round);
	alloc->n_unsure[round] = 0;
}

/* The first free cluster from @at on, below @end; @end: none. */
static uint32_t find_free(const struct raw_alloc *alloc, uint32_t at,
			  uint32_t end)
{
	while (at < end) {
		uint64_t clear = ~alloc->bits[at / 64] >> (at % 64);

		if (clear) {
			at += (uint32_t)__builtin_ctzll(clear);
			return at < end ? at : end;
		}
		at += 64 - at % 64;
	}
	return end;
}

uint32_t raw_alloc_take(struct raw_alloc *alloc, uint32_t want, uint32_t near,
			uint32_t *ret_first)
{
	uint32_t at = alloc->next, n = 0;

	assert(want);
	if (near != RAW_HOLE && near + 1 < alloc->clusters &&
	    !raw_alloc_is_taken(alloc, near + 1))
		at = near + 1;
	at = find_free(alloc, at, alloc->clusters);
	if (at == alloc->clusters)
		at = find_free(alloc, 0, alloc->clusters);
	if (at == alloc->clusters)
		return 0;
	while (n < want && at + n < alloc->clusters &&
	       raw_alloc_take_at(alloc, at + n))
		n++;
	alloc->next = at + n;
	*ret_first = at;
	return n;
}

/* ---- clusters that nobody knows of ---- */

int raw_alloc_suspect(struct raw_alloc *alloc, const uint32_t *except,
		      uint32_t n_except)
{
	free(alloc->suspects);
	alloc->suspects = calloc(words(alloc->clusters),
				 sizeof(*alloc->suspects));
	if (!alloc->suspects)
		return -ENOMEM;
	for (uint32_t i = 0; i < alloc->clusters; i++) {
		if (raw_alloc_is_taken(alloc, i) && !raw_alloc_count(alloc, i))
			alloc->suspects[i / 64] |= UINT64_C(1) << (i % 64);
	}
	for (uint32_t i = 0; i < alloc->n_freed; i++)
		unsuspect(alloc, alloc->freed[i]);
	for (uint32_t i = 0; i < n_except; i++)
		unsuspect(alloc, except[i]);
	return 0;
}

uint32_t raw_alloc_suspected(struct raw_alloc *alloc, uint32_t *ret,
			     uint32_t max)
{
	uint32_t n = 0;

	for (uint32_t i = 0; alloc->suspects && i < alloc->clusters; i++) {
		if (!(alloc->suspects[i / 64] >> (i % 64) & 1))
			continue;
		if (n < max)
			ret[n] = i;
		n++;
	}
	free(alloc->suspects);
	alloc->suspects = NULL;
	return n;
}

/* ---- who has what ---- */

static void leaf_usage(const struct raw_alloc *alloc,
		       const struct raw_leaf *leaf, struct raw_usage *usage)
{
	const bool shared = atomic_load_explicit(&leaf->maps,
						 memory_order_acquire) > 1;

	for (unsigned i = 0; i < RAW_LEAF_ENTRIES; i++) {
		uint32_t entry = atomic_load_explicit(&leaf->entries[i],
						      memory_order_acquire);

		if (entry == RAW_HOLE)
			continue;
		usage->mapped++;
		if (!shared && raw_alloc_count(alloc, RAW_PHYSICAL(entry)) == 1)
			usage->alone++;
	}
}

struct raw_usage raw_alloc_usage(const struct raw_alloc *alloc,
				 const struct raw_map *map)
{
	const struct raw_root *root = atomic_load_explicit(
		&map->root, memory_order_acquire);
	struct raw_usage usage = {0};

	for (size_t i = 0; root && i < root->slots; i++) {
		const struct raw_leaf *leaf = atomic_load_explicit(
			&root->leaves[i], memory_order_acquire);

		if (leaf)
			leaf_usage(alloc, leaf, &usage);
	}
	return usage;
}
