/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <liburing.h>
#include <sys/mman.h>

#include "base/loop/iobuf.h"
#include "base/loop/iobuf_huge.h"

#define ENTRIES (IOBUF_FIXED_CLASSES * IOBUF_FIXED_SLOTS)
/* 1 + 2 + 4... units */
#define RANGE (((UINT64_C(1) << IOBUF_FIXED_CLASSES) - 1) * IOBUF_FIXED_UNIT)
/* Where in it those of the largest class begin, of which two are a pair. */
#define LARGEST (IOBUF_FIXED_CLASSES - 1)
#define PAIRS   ((IOBUF_FIXED_UNIT << LARGEST) - IOBUF_FIXED_UNIT)

static_assert((UINT64_C(2) << (IOBUF_SHIFT + LARGEST)) == IOBUF_HUGE,
	      "a pair of the largest is one huge page");

static size_t class_size_of(unsigned class)
{
	return (size_t)1 << (IOBUF_SHIFT + class);
}

static uintptr_t slot_address(const struct iobuf_fixed *fixed, unsigned class,
			      unsigned slot)
{
	return fixed->start + ((IOBUF_FIXED_UNIT << class) - IOBUF_FIXED_UNIT) +
	       slot * class_size_of(class);
}

/*
 * liburing's wrappers go to the ring by what the thread has registered, or are
 * not exported by all of its versions: so the system call itself.
 */
static int table_make(int ring_fd)
{
	struct io_uring_rsrc_register table = {
		.nr = ENTRIES,
		.flags = IORING_RSRC_REGISTER_SPARSE,
	};

	return io_uring_register((unsigned)ring_fd, IORING_REGISTER_BUFFERS2,
				 &table, sizeof(table));
}

/* @length 0: it is no entry any more, and its pages are let go of. */
static int table_set(const struct iobuf_fixed *fixed, unsigned entry,
		     void *data, size_t length)
{
	struct iovec buffer = {.iov_base = length ? data : NULL,
			       .iov_len = length};
	struct io_uring_rsrc_update2 update = {
		.offset = entry,
		.data = (uintptr_t)&buffer,
		.nr = 1,
	};
	int r = io_uring_register((unsigned)fixed->ring_fd,
				  IORING_REGISTER_BUFFERS_UPDATE, &update,
				  sizeof(update));

	return r < 0 ? r : 0;
}

int iobuf_fixed_init(struct iobuf_fixed *fixed, int ring_fd)
{
	void *range = iobuf_huge_reserve(RANGE, PAIRS);
	int r;

	if (!range)
		return -ENOMEM;
	r = table_make(ring_fd);
	if (r < 0) {
		(void)munmap(range, RANGE);
		return r;
	}
	/* One would be locked whole for one small buffer in it. */
	iobuf_huge_want(range, RANGE, false);
	*fixed = (struct iobuf_fixed){
		.ring_fd = ring_fd,
		.start = (uintptr_t)range,
		.length = RANGE,
	};
	return 0;
}

void iobuf_fixed_done(struct iobuf_fixed *fixed)
{
	if (fixed->length)
		(void)munmap((void *)fixed->start, fixed->length);
	*fixed = (struct iobuf_fixed){.ring_fd = -1};
}

/* The lowest free one: pages of page tables are shared then. */
static int slot_free(const struct iobuf_fixed *fixed, unsigned class)
{
	for (unsigned i = 0; i < IOBUF_FIXED_SLOTS / 64; i++) {
		uint64_t free = ~fixed->used[class][i];

		if (free)
			return (int)(i * 64) + __builtin_ctzll(free);
	}
	return -1;
}

/* A slot gives its memory back, and keeps its addresses. */
static void memory_drop(void *data, size_t size)
{
	(void)madvise(data, size, MADV_DONTNEED); /* can't fail: it is ours */
	(void)mprotect(data, size, PROT_NONE);
}

/* The slot has memory, and @data is there. */
static int slot_register(struct iobuf_fixed *fixed, unsigned class,
			 unsigned slot, void *data)
{
	int r = table_set(fixed, class * IOBUF_FIXED_SLOTS + slot, data,
			  class_size_of(class));

	if (r == 0)
		fixed->used[class][slot / 64] |= UINT64_C(1) << slot % 64;
	return r;
}

/*
 * Give a slot back. A slot that the ring does not let go of is not used again.
 */
static void slot_forget(struct iobuf_fixed *fixed, unsigned class,
			unsigned slot)
{
	if (fixed->ring_fd < 0 ||
	    table_set(fixed, class * IOBUF_FIXED_SLOTS + slot, NULL, 0) == 0)
		fixed->used[class][slot / 64] &= ~(UINT64_C(1) << slot % 64);
}

void *iobuf_fixed_get(struct iobuf_fixed *fixed, unsigned class_)
{
	const int slot = fixed->length && class_ < IOBUF_FIXED_CLASSES
				 ? slot_free(fixed, class_)
				 : -1;
	void *data;

	if (slot < 0)
		return NULL;
	data = (void *)slot_address(fixed, class_, (unsigned)slot);
	if (mprotect(data, class_size_of(class_), PROT_READ | PROT_WRITE) < 0)
		return NULL;
	if (slot_register(fixed, class_, (unsigned)slot, data) < 0) {
		memory_drop(data, class_size_of(class_));
		return NULL;
	}
	return data;
}

bool iobuf_fixed_put(struct iobuf_fixed *fixed, void *data)
{
	const int entry = iobuf_fixed_find(fixed, data, 1);
	const unsigned class = (unsigned)entry / IOBUF_FIXED_SLOTS;

	if (entry < 0)
		return false;
	slot_forget(fixed, class, (unsigned)entry % IOBUF_FIXED_SLOTS);
	memory_drop(data, class_size_of(class));
	return true;
}

/* ---- pairs ---- */

/* The lowest of which neither is used. */
static int pair_free(const struct iobuf_fixed *fixed)
{
	for (unsigned i = 0; i < IOBUF_FIXED_SLOTS / 64; i++) {
		uint64_t used = fixed->used[LARGEST][i];
		uint64_t free = ~(used | used >> 1) &
				UINT64_C(0x5555555555555555);

		if (free)
			return (int)(i * 64) + __builtin_ctzll(free);
	}
	return -1;
}

static void pair_drop(void *data)
{
	memory_drop(data, IOBUF_HUGE);
	iobuf_huge_want(data, IOBUF_HUGE, false);
}

void *iobuf_fixed_get_pair(struct iobuf_fixed *fixed)
{
	const int slot = fixed->length ? pair_free(fixed) : -1;
	const unsigned first = (unsigned)slot;
	char *data;

	if (slot < 0)
		return NULL;
	data = (char *)slot_address(fixed, LARGEST, first);
	if (mprotect(data, IOBUF_HUGE, PROT_READ | PROT_WRITE) < 0)
		return NULL;
	iobuf_huge_want(data, IOBUF_HUGE, true);
	if (slot_register(fixed, LARGEST, first, data) < 0)
		goto undo_memory;
	if (slot_register(fixed, LARGEST, first + 1, data + IOBUF_HUGE / 2) < 0)
		goto undo_first;
	return data;

undo_first:
	slot_forget(fixed, LARGEST, first);
undo_memory:
	pair_drop(data);
	return NULL;
}

bool iobuf_fixed_put_pair(struct iobuf_fixed *fixed, void *data)
{
	const int entry = iobuf_fixed_find(fixed, data, 1);
	const unsigned first = (unsigned)entry % IOBUF_FIXED_SLOTS;

	if (entry < 0)
		return false;
	slot_forget(fixed, LARGEST, first);
	slot_forget(fixed, LARGEST, first + 1);
	pair_drop(data);
	return true;
}
