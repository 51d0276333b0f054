/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/once_slots.h"

#include <errno.h>
#include <string.h>

#include "union/state/once.h"
#include "union/sys/branch_flags.h"

#define MAGIC UINT64_C(0x312065636e6f6e75) /* "unonce 1" */

static uint32_t state_of(const struct once_slot *slot)
{
	return atomic_load_explicit(&slot->state, memory_order_acquire);
}

/* Whoever is killed has done all stores before this one, or has not done it. */
static void publish(struct once_slot *slot, uint32_t state)
{
	atomic_store_explicit(&slot->state, state, memory_order_release);
}

void once_slot_free(struct once_slot *slot)
{
	publish(slot, ONCE_FREE);
}

static bool note_is_valid(const struct once_slot *slot)
{
	uint32_t note = atomic_load(&slot->note);

	return note <= ONCE_TAKEN &&
	       (!note || (slot->branch < BRANCH_MAX &&
			  slot->handle.length <= HANDLE_MAX));
}

/* @state: its own, without ONCE_DEAD. */
static bool is_valid(const struct once_slot *slot, uint32_t state)
{
	if (state != ONCE_BEGUN && state != ONCE_ANSWERED)
		return false;
	if (slot->unique & ONCE_RESENT || !note_is_valid(slot) ||
	    atomic_load(&slot->node_count) > ONCE_NODES_MAX)
		return false;
	return state == ONCE_BEGUN || slot->reply_length <= ONCE_REPLY_MAX;
}

/* What nobody writes any more. */
static void take_over(struct once_slot *slot)
{
	uint32_t state = state_of(slot) & ~ONCE_DEAD;

	publish(slot, is_valid(slot, state) ? state | ONCE_DEAD : ONCE_FREE);
}

int once_slots_open(void *memory, size_t size, struct once_slots *ret)
{
	struct once_slots slots = {.head = memory};
	unsigned i, used;

	if (size < sizeof(*slots.head) + sizeof(*slots.slots))
		return -EINVAL;
	slots.slots = (void *)(slots.head + 1);
	slots.count = (unsigned)((size - sizeof(*slots.head)) /
				 sizeof(*slots.slots));
	if (slots.head->magic && slots.head->magic != MAGIC)
		memset(memory, 0, size); /* killed meanwhile: again */
	atomic_signal_fence(memory_order_seq_cst);
	slots.head->magic = MAGIC;
	used = atomic_load(&slots.head->used);
	if (used > slots.count) {
		used = slots.count;
		atomic_store(&slots.head->used, used);
	}
	for (i = 0; i < used; i++)
		take_over(&slots.slots[i]);
	*ret = slots;
	return 0;
}

/* Before the slot is claimed, so that whoever comes after looks at it. */
static void note_use(struct once_slots *slots, unsigned index)
{
	uint32_t used = atomic_load(&slots->head->used);

	while (used <= index && !atomic_compare_exchange_weak(
					&slots->head->used, &used, index + 1))
		;
}

static bool try_claim(struct once_slot *slot, uint32_t from)
{
	return atomic_compare_exchange_strong(&slot->state, &from,
					      ONCE_CLAIMED);
}

static struct once_slot *claimed(struct once_slot *slot)
{
	atomic_store_explicit(&slot->note, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->file, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->node_count, 0, memory_order_relaxed);
	slot->reply_length = 0;
	return slot;
}

/* The numbers of requests only grow. */
static struct once_slot *oldest_dead(const struct once_slots *slots)
{
	struct once_slot *slot, *oldest = NULL;
	unsigned i;

	for (i = 0; i < slots->count; i++) {
		slot = &slots->slots[i];
		if (state_of(slot) & ONCE_DEAD &&
		    (!oldest || slot->unique < oldest->unique))
			oldest = slot;
	}
	return oldest;
}

static struct once_slot *claim_oldest(struct once_slots *slots)
{
	struct once_slot *slot;
	uint32_t state;

	while ((slot = oldest_dead(slots))) {
		state = state_of(slot);
		if (state & ONCE_DEAD && try_claim(slot, state))
			return claimed(slot);
	}
	return NULL;
}

struct once_slot *once_slots_claim(struct once_slots *slots, unsigned *hint)
{
	unsigned i, index;

	for (i = 0; i < slots->count; i++) {
		index = (*hint + i) % slots->count;
		if (index >= atomic_load_explicit(&slots->head->used,
						  memory_order_relaxed))
			note_use(slots, index);
		if (state_of(&slots->slots[index]) == ONCE_FREE &&
		    try_claim(&slots->slots[index], ONCE_FREE)) {
			*hint = index;
			return claimed(&slots->slots[index]);
		}
	}
	return claim_oldest(slots);
}

void once_slot_begin(struct once_slot *slot, uint64_t unique, uint32_t opcode)
{
	slot->unique = unique;
	slot->opcode = opcode;
	publish(slot, ONCE_BEGUN);
}

struct once_slot *once_slots_find(struct once_slots *slots, uint64_t unique)
{
	unsigned i, used = atomic_load(&slots->head->used);
	uint32_t state;

	for (i = 0; i < used; i++) {
		struct once_slot *slot = &slots->slots[i];

		state = state_of(slot);
		if (state & ONCE_DEAD && slot->unique == unique &&
		    is_valid(slot, state & ~ONCE_DEAD) &&
		    atomic_compare_exchange_strong(&slot->state, &state,
						   state & ~ONCE_DEAD))
			return slot;
	}
	return NULL;
}

unsigned once_slots_missing(const struct once_slots *slots)
{
	unsigned i, n = 0, used = atomic_load(&slots->head->used);

	for (i = 0; i < used; i++)
		n += state_of(&slots->slots[i]) == (ONCE_BEGUN | ONCE_DEAD);
	return n;
}
