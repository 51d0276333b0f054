/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/raw/store/raw_partly.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

#define BUCKETS \
	4096u    /* clusters that follow each other are in different ones */
#define WORD 64u /* bits */

void raw_partly_init(struct raw_partly *partly, uint8_t cluster_shift)
{
	*partly = (struct raw_partly){
		.blocks = (UINT32_C(1) << cluster_shift) / RAW_BLOCK,
	};
}

void raw_partly_done(struct raw_partly *partly)
{
	_Atomic(struct raw_part *) *buckets = partly->buckets;

	for (uint32_t i = 0; buckets && i < BUCKETS; i++) {
		struct raw_part *part = buckets[i];

		while (part) {
			struct raw_part *next = part->next;

			free(part);
			part = next;
		}
	}
	free((void *)buckets);
	raw_parts_free(partly->dead);
	*partly = (struct raw_partly){0};
}

/* ---- any thread ---- */

static const struct raw_part *part_load(const _Atomic(struct raw_part *) *at)
{
	return atomic_load_explicit(at, memory_order_acquire);
}

static const struct raw_part *partly_bucket_of(const struct raw_partly *partly,
					       uint32_t physical)
{
	_Atomic(struct raw_part *) *buckets = atomic_load_explicit(
		&partly->buckets, memory_order_acquire);

	return buckets ? part_load(&buckets[physical % BUCKETS]) : NULL;
}

const struct raw_part *raw_partly_find(const struct raw_partly *partly,
				       uint32_t physical)
{
	const struct raw_part *part = partly_bucket_of(partly, physical);

	while (part && (part->physical != physical || part->gone))
		part = part_load(&part->next);
	return part;
}

/* The first that came is the last in its bucket. */
const struct raw_part *raw_partly_frozen(const struct raw_partly *partly,
					 uint32_t physical)
{
	const struct raw_part *part = partly_bucket_of(partly, physical);
	const struct raw_part *last = NULL;

	for (; part; part = part_load(&part->next)) {
		if (part->physical == physical)
			last = part;
	}
	return last;
}

static uint64_t word_of(const struct raw_part *part, uint32_t block)
{
	/*
	 * Acquire: a reader that sees a bit sees all that was written before
	 * it.
	 */
	return atomic_load_explicit(&part->bits[block / WORD],
				    memory_order_acquire);
}

uint32_t raw_part_run(const struct raw_part *part, uint32_t block, uint32_t max,
		      bool *ret_written)
{
	const uint64_t first = word_of(part, block) >> block % WORD & 1;
	uint32_t n = 0;

	while (n < max) {
		uint32_t at = block + n, more;
		uint64_t word = word_of(part, at);
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

bool raw_part_window(const struct raw_part *part, uint32_t window,
		     struct raw_blocks *ret)
{
	uint64_t any = 0;

	for (unsigned i = 0; i < RAW_WINDOW / WORD; i++) {
		ret->bits[i] = word_of(part, window * RAW_WINDOW + i * WORD);
		any |= ret->bits[i];
	}
	return any;
}

/* ---- the changer ---- */

uint32_t raw_partly_windows(const struct raw_partly *partly)
{
	return (partly->blocks + RAW_WINDOW - 1) / RAW_WINDOW;
}

bool raw_partly_fits(const struct raw_partly *partly, uint32_t window,
		     const struct raw_blocks *blocks)
{
	if (window >= raw_partly_windows(partly))
		return false;
	for (uint32_t i = 0; i < RAW_WINDOW; i++) {
		if (blocks->bits[i / WORD] >> i % WORD & 1 &&
		    window * RAW_WINDOW + i >= partly->blocks)
			return false;
	}
	return true;
}

static _Atomic(struct raw_part *) *buckets_get(struct raw_partly *partly)
{
	_Atomic(struct raw_part *) *buckets = partly->buckets;

	if (buckets)
		return buckets;
	buckets = calloc(BUCKETS, sizeof(*buckets));
	atomic_store_explicit(&partly->buckets, buckets, memory_order_release);
	return buckets;
}

static struct raw_part *part_get(struct raw_partly *partly, uint32_t physical)
{
	_Atomic(struct raw_part *) *buckets = buckets_get(partly);
	const size_t words = raw_partly_windows(partly) * RAW_WINDOW / WORD;
	struct raw_part *part;

	if (!buckets)
		return NULL;
	part = (struct raw_part *)raw_partly_find(partly, physical);
	if (part)
		return part;
	part = calloc(1, sizeof(*part) + words * sizeof(part->bits[0]));
	if (!part)
		return NULL;
	part->physical = physical;
	part->left = partly->blocks;
	part->next = buckets[physical % BUCKETS];
	atomic_store_explicit(&buckets[physical % BUCKETS], part,
			      memory_order_release);
	partly->n++;
	return part;
}

int raw_partly_add(struct raw_partly *partly, uint32_t physical,
		   uint32_t window, const struct raw_blocks *blocks,
		   bool *ret_whole)
{
	struct raw_part *part = part_get(partly, physical);

	assert(raw_partly_fits(partly, window, blocks));
	if (!part)
		return -ENOMEM;
	for (unsigned i = 0; i < RAW_WINDOW / WORD; i++) {
		_Atomic uint64_t *word =
			&part->bits[window * RAW_WINDOW / WORD + i];
		uint64_t more = blocks->bits[i] & ~*word;

		part->left -= (uint32_t)__builtin_popcountll(more);
		if (more)
			atomic_fetch_or_explicit(word, more,
						 memory_order_release);
	}
	*ret_whole = part->left == 0;
	return 0;
}

static void partly_take_out(struct raw_partly *partly, struct raw_part *part)
{
	_Atomic(struct raw_part *) *at =
		&partly->buckets[part->physical % BUCKETS];

	while (*at != part)
		at = &(*at)->next;
	/*
	 * The part goes on pointing to those behind it: a lookup may be there.
	 */
	atomic_store_explicit(at, part->next, memory_order_release);
	part->dead = partly->dead;
	partly->dead = part;
}

void raw_partly_drop(struct raw_partly *partly, uint32_t physical)
{
	struct raw_part *part = (struct raw_part *)raw_partly_find(partly,
								   physical);

	if (!part)
		return;
	partly->n--;
	if (!partly->frozen) {
		partly_take_out(partly, part);
		return;
	}
	part->gone = true;
	part->dead = partly->gone;
	partly->gone = part;
}

void raw_partly_freeze(struct raw_partly *partly)
{
	partly->frozen = true;
}

void raw_partly_thaw(struct raw_partly *partly)
{
	struct raw_part *part = partly->gone;

	partly->frozen = false;
	partly->gone = NULL;
	while (part) {
		struct raw_part *next = part->dead;

		partly_take_out(partly, part);
		part = next;
	}
}

struct raw_part *raw_partly_dead(struct raw_partly *partly)
{
	struct raw_part *dead = partly->dead;

	partly->dead = NULL;
	return dead;
}

void raw_parts_free(struct raw_part *dead)
{
	while (dead) {
		struct raw_part *next = dead->dead;

		free(dead);
		dead = next;
	}
}
