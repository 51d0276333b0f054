/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/raw/store/raw_bitmap.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define BUCKETS \
	4096u    /* clusters that follow each other are in different ones */
#define WORD 64u /* bits */

void raw_bitmaps_init(struct raw_bitmaps *bitmaps, uint8_t cluster_shift)
{
	*bitmaps = (struct raw_bitmaps){
		.blocks = (UINT32_C(1) << cluster_shift) / RAW_BLOCK,
	};
}

void raw_bitmaps_done(struct raw_bitmaps *bitmaps)
{
	_Atomic(struct raw_bitmap *) *buckets = bitmaps->buckets;

	for (uint32_t i = 0; buckets && i < BUCKETS; i++) {
		struct raw_bitmap *bitmap = buckets[i];

		while (bitmap) {
			struct raw_bitmap *next = bitmap->next;

			free(bitmap);
			bitmap = next;
		}
	}
	free((void *)buckets);
	raw_bitmaps_free(bitmaps->dead);
	*bitmaps = (struct raw_bitmaps){0};
}

/* ---- any thread ---- */

static const struct raw_bitmap *bitmap_load(
	const _Atomic(struct raw_bitmap *) *at)
{
	return atomic_load_explicit(at, memory_order_acquire);
}

static const struct raw_bitmap *bitmap_bucket_of(
	const struct raw_bitmaps *bitmaps, uint32_t physical)
{
	_Atomic(struct raw_bitmap *) *buckets = atomic_load_explicit(
		&bitmaps->buckets, memory_order_acquire);

	return buckets ? bitmap_load(&buckets[physical % BUCKETS]) : NULL;
}

const struct raw_bitmap *raw_bitmaps_find(const struct raw_bitmaps *bitmaps,
					  uint32_t physical)
{
	const struct raw_bitmap *bitmap = bitmap_bucket_of(bitmaps, physical);

	while (bitmap && (bitmap->physical != physical || bitmap->gone))
		bitmap = bitmap_load(&bitmap->next);
	return bitmap;
}

/* The first that came is the last in its bucket. */
const struct raw_bitmap *raw_bitmaps_frozen(const struct raw_bitmaps *bitmaps,
					    uint32_t physical)
{
	const struct raw_bitmap *bitmap = bitmap_bucket_of(bitmaps, physical);
	const struct raw_bitmap *last = NULL;

	for (; bitmap; bitmap = bitmap_load(&bitmap->next)) {
		if (bitmap->physical == physical)
			last = bitmap;
	}
	return last;
}

static uint64_t word_of(const struct raw_bitmap *bitmap, uint32_t block)
{
	/*
	 * Acquire: a reader that sees a bit sees all that was written before
	 * it.
	 */
	return atomic_load_explicit(&bitmap->bits[block / WORD],
				    memory_order_acquire);
}

uint32_t raw_bitmap_run(const struct raw_bitmap *bitmap, uint32_t block,
			uint32_t max, bool *ret_written)
{
	const uint64_t first = word_of(bitmap, block) >> block % WORD & 1;
	uint32_t n = 0;

	while (n < max) {
		uint32_t at = block + n, more;
		uint64_t word = word_of(bitmap, at);
		uint64_t other = (first ? ~word : word) >> at % WORD;

		more = other ? (uint32_t)__builtin_ctzll(other)
			     : WORD - at % WORD;
		if (more > WORD - at % WORD)
			more = WORD - at % WORD;
		n += more;
		if (other)
			break;
	}
	*ret_written = first;
	if (!n) /* it was written meanwhile */
		n = 1;
	return n < max ? n : max;
}

bool raw_bitmap_window(const struct raw_bitmap *bitmap, uint32_t window,
		       struct raw_blocks *ret)
{
	uint64_t any = 0;

	for (unsigned i = 0; i < RAW_WINDOW / WORD; i++) {
		ret->bits[i] = word_of(bitmap, window * RAW_WINDOW + i * WORD);
		any |= ret->bits[i];
	}
	return any;
}

/* ---- the changer ---- */

uint32_t raw_bitmaps_windows(const struct raw_bitmaps *bitmaps)
{
	return (bitmaps->blocks + RAW_WINDOW - 1) / RAW_WINDOW;
}

bool raw_bitmaps_fits(const struct raw_bitmaps *bitmaps, uint32_t window,
		      const struct raw_blocks *blocks)
{
	if (window >= raw_bitmaps_windows(bitmaps))
		return false;
	for (uint32_t i = 0; i < RAW_WINDOW; i++) {
		if (blocks->bits[i / WORD] >> i % WORD & 1 &&
		    window * RAW_WINDOW + i >= bitmaps->blocks)
			return false;
	}
	return true;
}

static _Atomic(struct raw_bitmap *) *buckets_get(struct raw_bitmaps *bitmaps)
{
	_Atomic(struct raw_bitmap *) *buckets = bitmaps->buckets;

	if (buckets)
		return buckets;
	buckets = calloc(BUCKETS, sizeof(*buckets));
	atomic_store_explicit(&bitmaps->buckets, buckets, memory_order_release);
	return buckets;
}

static struct raw_bitmap *part_get(struct raw_bitmaps *bitmaps,
				   uint32_t physical)
{
	_Atomic(struct raw_bitmap *) *buckets = buckets_get(bitmaps);
	const size_t words = raw_bitmaps_windows(bitmaps) * RAW_WINDOW / WORD;
	struct raw_bitmap *bitmap;

	if (!buckets)
		return NULL;
	bitmap = (struct raw_bitmap *)raw_bitmaps_find(bitmaps, physical);
	if (bitmap)
		return bitmap;
	bitmap = calloc(1, sizeof(*bitmap) + words * sizeof(bitmap->bits[0]));
	if (!bitmap)
		return NULL;
	bitmap->physical = physical;
	bitmap->left = bitmaps->blocks;
	bitmap->next = buckets[physical % BUCKETS];
	atomic_store_explicit(&buckets[physical % BUCKETS], bitmap,
			      memory_order_release);
	bitmaps->n++;
	return bitmap;
}

int raw_bitmaps_add(struct raw_bitmaps *bitmaps, uint32_t physical,
		    uint32_t window, const struct raw_blocks *blocks,
		    bool *ret_whole)
{
	struct raw_bitmap *bitmap = part_get(bitmaps, physical);

	assert(raw_bitmaps_fits(bitmaps, window, blocks));
	if (!bitmap)
		return -ENOMEM;
	for (unsigned i = 0; i < RAW_WINDOW / WORD; i++) {
		_Atomic uint64_t *word =
			&bitmap->bits[window * RAW_WINDOW / WORD + i];
		uint64_t more = blocks->bits[i] & ~*word;

		bitmap->left -= (uint32_t)__builtin_popcountll(more);
		if (more)
			atomic_fetch_or_explicit(word, more,
						 memory_order_release);
	}
	*ret_whole = bitmap->left == 0;
	return 0;
}

static void bitmap_take_out(struct raw_bitmaps *bitmaps,
			    struct raw_bitmap *bitmap)
{
	_Atomic(struct raw_bitmap *) *at =
		&bitmaps->buckets[bitmap->physical % BUCKETS];

	while (*at != bitmap)
		at = &(*at)->next;
	/*
	 * The bitmap goes on pointing to those behind it: a lookup may be
	 * there.
	 */
	atomic_store_explicit(at, bitmap->next, memory_order_release);
	bitmap->dead = bitmaps->dead;
	bitmaps->dead = bitmap;
}

void raw_bitmaps_drop(struct raw_bitmaps *bitmaps, uint32_t physical)
{
	struct raw_bitmap *bitmap = (struct raw_bitmap *)raw_bitmaps_find(
		bitmaps, physical);

	if (!bitmap)
		return;
	bitmaps->n--;
	if (!bitmaps->frozen) {
		bitmap_take_out(bitmaps, bitmap);
		return;
	}
	bitmap->gone = true;
	bitmap->dead = bitmaps->gone;
	bitmaps->gone = bitmap;
}

void raw_bitmaps_freeze(struct raw_bitmaps *bitmaps)
{
	bitmaps->frozen = true;
}

void raw_bitmaps_thaw(struct raw_bitmaps *bitmaps)
{
	struct raw_bitmap *bitmap = bitmaps->gone;

	bitmaps->frozen = false;
	bitmaps->gone = NULL;
	while (bitmap) {
		struct raw_bitmap *next = bitmap->dead;

		bitmap_take_out(bitmaps, bitmap);
		bitmap = next;
	}
}

struct raw_bitmap *raw_bitmaps_dead(struct raw_bitmaps *bitmaps)
{
	struct raw_bitmap *dead = bitmaps->dead;

	bitmaps->dead = NULL;
	return dead;
}

void raw_bitmaps_free(struct raw_bitmap *dead)
{
	while (dead) {
		struct raw_bitmap *next = dead->dead;

		free(dead);
		dead = next;
	}
}
