/* SPDX-License-Identifier: Apache-2.0 */
/* A loop's buffers, for loop*.c and iobuf*.c only. */
#ifndef BASE_IOBUF_H
#define BASE_IOBUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IOBUF_SHIFT   12 /* 4 KiB: one page, the alignment of O_DIRECT */
#define IOBUF_CLASSES 15 /* 4 KiB << 0..14: 4 KiB to 64 MiB */

#define IOBUF_FIXED_CLASSES 9u   /* 4 KiB to 1 MiB */
#define IOBUF_FIXED_SLOTS   256u /* of each class */

/* Bytes of all slots of the smallest class together. */
#define IOBUF_FIXED_UNIT ((uintptr_t)IOBUF_FIXED_SLOTS << IOBUF_SHIFT)

/*
 * Buffers that are registered with the ring: the kernel keeps their pages, so
 * that an operation need not look them up. They lie in one range of addresses,
 * the slots of each class after those of the next smaller one, so an address
 * tells its slot. Slot s of class c is entry c * IOBUF_FIXED_SLOTS + s of the
 * ring's table. A slot has memory, and is registered, only from
 * iobuf_fixed_get() to iobuf_fixed_put().
 */
struct iobuf_fixed {
	int ring_fd;      /* borrowed; < 0: the ring has gone */
	uintptr_t start;  /* of the range */
	uintptr_t length; /* of the range, bytes; 0: nothing is registered */
	uint64_t used[IOBUF_FIXED_CLASSES][IOBUF_FIXED_SLOTS / 64];
};

/*
 * Called before the ring runs. 0, or a negative errno where the kernel has no
 * table that is filled as buffers are made (Linux 5.19), or forbids it.
 */
int iobuf_fixed_init(struct iobuf_fixed *fixed, int ring_fd);
/* Called when the ring has gone, and with it its table. */
void iobuf_fixed_done(struct iobuf_fixed *fixed);

/*
 * Memory of 4 KiB << @class_, registered. NULL: no slot, or no memory, or no
 * more of it may be locked (RLIMIT_MEMLOCK, without CAP_IPC_LOCK): take other.
 */
void *iobuf_fixed_get(struct iobuf_fixed *fixed, unsigned class_);
/* False: @data is no buffer of this range. */
bool iobuf_fixed_put(struct iobuf_fixed *fixed, void *data);

/* The same for two neighbours of the largest class, which are one huge page. */
void *iobuf_fixed_get_pair(struct iobuf_fixed *fixed);
bool iobuf_fixed_put_pair(struct iobuf_fixed *fixed, void *data);

/* Find the ring's entry that has all of @data; < 0: none has. */
static inline int iobuf_fixed_find(const struct iobuf_fixed *fixed,
				   const void *data, uint32_t length)
{
	uintptr_t at = (uintptr_t)data - fixed->start, size;
	unsigned class;

	if (at >= fixed->length)
		return -1;
	/* Counted from a unit earlier, class c begins at unit 1 << c. */
	at += IOBUF_FIXED_UNIT;
	class = 63 - (unsigned)__builtin_clzll(at / IOBUF_FIXED_UNIT);
	size = (uintptr_t)1 << (IOBUF_SHIFT + class);
	if (at % size + length > size)
		return -1;
	return (int)(class * IOBUF_FIXED_SLOTS + at / size - IOBUF_FIXED_SLOTS);
}

#define IOBUF_PAIR_CLASS 8u /* 1 MiB, half a huge page */

/*
 * Buffers by size class. A buffer that is put back is kept for the next
 * request. Where the kernel offers huge pages, buffers of 1 MiB are made two at
 * a time, a pair in one huge page. Larger buffers have whole huge pages. A huge
 * page is one piece of memory to the kernel, so a pair counts as in use, whole,
 * while one of its buffers is.
 */
struct iobuf_pool {
	struct iobuf *free[IOBUF_CLASSES];
	struct iobuf_thp *half; /* pairs of which one is in use */
	struct iobuf_thp *kept; /* of which none is */
	bool huge;              /* there are huge pages */
	size_t limit;           /* bytes */
	size_t allocated;       /* bytes, in use and kept */
	size_t in_use;          /* bytes, without those of the reserve */
	size_t reserve;         /* bytes, beyond the limit */
	size_t reserved;        /* bytes of it in use */
	struct iobuf_fixed fixed;
};

void iobuf_pool_init(struct iobuf_pool *pool, size_t limit);
/* Called after the ring has gone. */
void iobuf_pool_done(struct iobuf_pool *pool);

/*
 * Return what a buffer of @size bytes adds to in_use at most: a huge page
 * whole.
 */
size_t iobuf_counts(const struct iobuf_pool *pool, uint32_t size);

/* Give back kept buffers until @size more bytes fit. The reserve has room. */
void iobuf_pool_trim(struct iobuf_pool *pool, size_t size, bool reserve);

/*
 * Take one buffer of a pair, not of the reserve. NULL: no room, or no memory.
 */
struct iobuf *iobuf_thp_get(struct iobuf_pool *pool);
void iobuf_thp_put(struct iobuf_pool *pool, struct iobuf *buf);
/* Free the memory of a kept pair. False: none is kept. */
bool iobuf_thp_trim(struct iobuf_pool *pool);

#endif
