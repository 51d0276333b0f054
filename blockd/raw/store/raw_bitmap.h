/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clusters of a raw pool that are written in part, with their block bitmaps:
 * the blocks that were ever written. The others read as zeroes, whatever the
 * medium has there. So the first write to a cluster need not zero the rest of
 * it.
 *
 * The bitmap of a cluster is the same for all maps that have it. A cluster is
 * written to only when one map has it alone. A map's entry says that it is such
 * a cluster (RAW_PARTIAL, raw_map.h).
 *
 * One thread at a time changes a bitmap: the one with the pool's lock. Any
 * thread looks up meanwhile. Bitmaps that it may still see are not freed, but
 * wait in a list, as the trash of raw_map.h does.
 */
#ifndef BLOCKD_RAW_BITMAP_H
#define BLOCKD_RAW_BITMAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "blockd/raw/store/raw_format.h"

/* A device begins no more of them: they take 64 bytes each, and longer. */
#define RAW_BITMAPS_MAX (UINT32_C(1) << 16)

struct raw_bitmap {
	_Atomic(struct raw_bitmap *) next; /* in its bucket */
	struct raw_bitmap *dead;           /* in a list of what is out */
	atomic_bool gone;                  /* it only was, when it was frozen */
	uint32_t physical;
	uint32_t left;           /* blocks that were never written */
	_Atomic uint64_t bits[]; /* of blocks that were, RAW_WINDOW at least */
};

struct raw_bitmaps {
	uint32_t blocks;                                 /* of a cluster */
	_Atomic uint32_t n;                              /* clusters in it */
	_Atomic(_Atomic(struct raw_bitmap *) *) buckets; /* NULL: none yet */
	struct raw_bitmap *dead; /* may be looked at still; owned */
	bool frozen;
	struct raw_bitmap *gone; /* that are kept for who looks at what was */
};

void raw_bitmaps_init(struct raw_bitmaps *bitmaps, uint8_t cluster_shift);
void raw_bitmaps_done(struct raw_bitmaps *bitmaps);

/* ---- any thread ---- */

/* NULL: it is not written in part, or is no more. */
const struct raw_bitmap *raw_bitmaps_find(const struct raw_bitmaps *bitmaps,
					  uint32_t physical);

/* The same, as it was at a freeze (raw_bitmaps_freeze()). */
const struct raw_bitmap *raw_bitmaps_frozen(const struct raw_bitmaps *bitmaps,
					    uint32_t physical);

/* Up to @max blocks from @block on that are all written, or all not. */
uint32_t raw_bitmap_run(const struct raw_bitmap *bitmap, uint32_t block,
			uint32_t max, bool *ret_written);

/* Of a window (struct raw_record), as a record has them. False: none. */
bool raw_bitmap_window(const struct raw_bitmap *bitmap, uint32_t window,
		       struct raw_blocks *ret);

/* ---- the changer ---- */

/* Windows of a cluster. */
uint32_t raw_bitmaps_windows(const struct raw_bitmaps *bitmaps);
/* Is all that @blocks has inside the cluster? */
bool raw_bitmaps_fits(const struct raw_bitmaps *bitmaps, uint32_t window,
		      const struct raw_blocks *blocks);
/*
 * These are written. @ret_whole: all of the cluster is, now. -ENOMEM.
 */
int raw_bitmaps_add(struct raw_bitmaps *bitmaps, uint32_t physical,
		    uint32_t window, const struct raw_blocks *blocks,
		    bool *ret_whole);
/*
 * Note that the cluster is not written in part any more. It need not have been.
 */
void raw_bitmaps_drop(struct raw_bitmaps *bitmaps, uint32_t physical);

/*
 * Begin a freeze. Until raw_bitmaps_thaw() raw_bitmaps_frozen() finds also the
 * clusters of then, with the blocks that they had or have got since.
 */
void raw_bitmaps_freeze(struct raw_bitmaps *bitmaps);
void raw_bitmaps_thaw(struct raw_bitmaps *bitmaps);

/*
 * Return the dropped bitmaps, for raw_bitmaps_free() when nobody looks any
 * more.
 */
struct raw_bitmap *raw_bitmaps_dead(struct raw_bitmaps *bitmaps);
void raw_bitmaps_free(struct raw_bitmap *dead);

#endif
