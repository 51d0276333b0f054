/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of reply_cache.h: slots, each of one request, that are true
 * whenever their writer stops. A slot is claimed, filled and then published by
 * one store of its state. A later addition is published by a store of its own.
 * A reader after a kill trusts nothing: numbers are checked against the size of
 * their arrays.
 */
#ifndef UNION_REPLY_CACHE_SLOTS_H
#define UNION_REPLY_CACHE_SLOTS_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "union/sys/handle.h"

#define REPLY_CACHE_SLOT_SIZE 2048
#define REPLY_CACHE_REPLY_MAX \
	160 /* bytes; the longest: out, entry and open of CREATE */
#define REPLY_CACHE_NODES_MAX 225 /* of 32 KiB of READDIRPLUS, about */

enum reply_cache_state {
	REPLY_CACHE_FREE,
	REPLY_CACHE_CLAIMED, /* and being filled */
	REPLY_CACHE_BEGUN,   /* unique, opcode are valid; the rest as it says */
	REPLY_CACHE_ANSWERED, /* reply is valid, too */
};
#define REPLY_CACHE_DEAD \
	0x10u /* with the latter two: of a server that is no more */

struct reply_cache_slot {
	_Atomic uint32_t state;
	uint32_t opcode;
	uint64_t unique;       /* without REPLY_CACHE_RESENT */
	_Atomic uint32_t note; /* enum reply_cache_note; 0: none */
	uint32_t branch;       /* of the note */
	struct handle handle;  /* of the note */
	_Atomic uint64_t file; /* that was opened; 0: none */
	_Atomic uint32_t node_count;
	uint32_t reply_length; /* 0: it was not kept */
	_Alignas(8) uint8_t
		reply[REPLY_CACHE_REPLY_MAX];  /* fuse_out_header first */
	uint64_t nodes[REPLY_CACHE_NODES_MAX]; /* that were counted */
};
static_assert(sizeof(struct reply_cache_slot) == REPLY_CACHE_SLOT_SIZE,
	      "layout");

struct reply_cache_head {
	uint64_t magic;        /* of this layout */
	_Atomic uint32_t used; /* slots from here on were never claimed */
	uint8_t unused[REPLY_CACHE_SLOT_SIZE - 12];
};
static_assert(sizeof(struct reply_cache_head) == REPLY_CACHE_SLOT_SIZE,
	      "layout");

struct reply_cache_slots {
	struct reply_cache_head *head;
	struct reply_cache_slot *slots;
	unsigned count;
};

/*
 * Take over @memory (borrowed, aligned to 8). Its requests in work are those of
 * a server that is no more. Memory of another layout, or zeroed, is emptied. 0,
 * or -EINVAL: too small.
 */
int reply_cache_slots_open(void *memory, size_t size,
			   struct reply_cache_slots *ret);

/*
 * Claim an empty slot (REPLY_CACHE_CLAIMED). The search begins at *@hint, which
 * becomes the slot's place. If all are taken, the slot of a dead server's
 * oldest request is used: that did not come again. NULL: none is left.
 */
struct reply_cache_slot *reply_cache_slots_claim(
	struct reply_cache_slots *slots, unsigned *hint);

/* Publish @state: a killed server did all stores before this one, or not it. */
static inline void reply_cache_slot_publish(struct reply_cache_slot *slot,
					    uint32_t state)
{
	atomic_store_explicit(&slot->state, state, memory_order_release);
}

/* Publish that the request is begun. */
static inline void reply_cache_slot_begin(struct reply_cache_slot *slot,
					  uint64_t unique, uint32_t opcode)
{
	slot->unique = unique;
	slot->opcode = opcode;
	reply_cache_slot_publish(slot, REPLY_CACHE_BEGUN);
}

/*
 * Find the slot of @unique that a dead server began or answered. From now on it
 * is the caller's (REPLY_CACHE_BEGUN or REPLY_CACHE_ANSWERED). NULL: there is
 * none.
 */
struct reply_cache_slot *reply_cache_slots_find(struct reply_cache_slots *slots,
						uint64_t unique);

/* Count the requests that a dead server began and did not answer. */
unsigned reply_cache_slots_missing(const struct reply_cache_slots *slots);

#endif
