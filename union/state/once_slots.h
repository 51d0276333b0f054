/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of once.h: slots, each of one request, that say the truth
 * whenever their writer stops. A slot is claimed, filled and then published by
 * one store of its state; what is added later has a store of its own that
 * publishes it. Whoever reads after a kill trusts nothing: numbers are checked
 * against what they count.
 */
#ifndef UNION_ONCE_SLOTS_H
#define UNION_ONCE_SLOTS_H

#include <assert.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "union/sys/handle.h"

#define ONCE_SLOT_SIZE 2048
#define ONCE_REPLY_MAX \
	160 /* bytes; the longest: out, entry and open of CREATE */
#define ONCE_NODES_MAX 225 /* of 32 KiB of READDIRPLUS, about */

enum once_state {
	ONCE_FREE,
	ONCE_CLAIMED,  /* and being filled */
	ONCE_BEGUN,    /* unique, opcode are valid; the rest as it says */
	ONCE_ANSWERED, /* reply is valid, too */
};
#define ONCE_DEAD 0x10u /* with the latter two: of a server that is no more */

struct once_slot {
	_Atomic uint32_t state;
	uint32_t opcode;
	uint64_t unique;       /* without ONCE_RESENT */
	_Atomic uint32_t note; /* enum once_note; 0: none */
	uint32_t branch;       /* of the note */
	struct handle handle;  /* of the note */
	_Atomic uint64_t file; /* that was opened; 0: none */
	_Atomic uint32_t node_count;
	uint32_t reply_length;                     /* 0: it was not kept */
	_Alignas(8) uint8_t reply[ONCE_REPLY_MAX]; /* fuse_out_header first */
	uint64_t nodes[ONCE_NODES_MAX];            /* that were counted */
};
static_assert(sizeof(struct once_slot) == ONCE_SLOT_SIZE, "layout");

struct once_head {
	uint64_t magic;        /* of this layout */
	_Atomic uint32_t used; /* slots from here on were never claimed */
	uint8_t unused[ONCE_SLOT_SIZE - 12];
};
static_assert(sizeof(struct once_head) == ONCE_SLOT_SIZE, "layout");

struct once_slots {
	struct once_head *head;
	struct once_slot *slots;
	unsigned count;
};

/*
 * Take over @memory (borrowed, aligned to 8): what is in work there is of a
 * server that is no more. Of another layout, or zeroed, it is emptied. 0, or
 * -EINVAL: too small.
 */
int once_slots_open(void *memory, size_t size, struct once_slots *ret);

/*
 * A slot that is ONCE_CLAIMED and has nothing; looked for from *@hint on,
 * which becomes its place. Where all are taken, that of the oldest request of
 * a dead server: it did not come again. NULL: none is left.
 */
struct once_slot *once_slots_claim(struct once_slots *slots, unsigned *hint);

/* It is begun: publish it. */
void once_slot_begin(struct once_slot *slot, uint64_t unique, uint32_t opcode);
void once_slot_free(struct once_slot *slot);

/*
 * The slot of @unique that a dead server began or answered, which is from now
 * on the caller's (ONCE_BEGUN or ONCE_ANSWERED); NULL: there is none.
 */
struct once_slot *once_slots_find(struct once_slots *slots, uint64_t unique);

/* How many a dead server began and did not answer. */
unsigned once_slots_missing(const struct once_slots *slots);

#endif
