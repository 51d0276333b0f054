/* SPDX-License-Identifier: Apache-2.0 */
#include "union/state/reply_cache_slots.h"

#include <errno.h>
#include <string.h>

#include "union/state/reply_cache.h"
#include "union/sys/branch_flags.h"

#define MAGIC UINT64_C(0x312065636e6f6e75) /* "unonce 1" */

static uint32_t state_of(const struct reply_cache_slot *slot)
{
	return atomic_load_explicit(&slot->state, memory_order_acquire);
}

static bool note_is_valid(const struct reply_cache_slot *slot)
{
	uint32_t note = atomic_load(&slot->note);

	return note <= REPLY_CACHE_TAKEN &&
	       (!note || (slot->branch < BRANCH_MAX &&
			  slot->handle.length <= HANDLE_MAX));
}

/* @state: its own, without REPLY_CACHE_DEAD. */
static bool is_valid(const struct reply_cache_slot *slot, uint32_t state)
{
	if (state != REPLY_CACHE_BEGUN && state != REPLY_CACHE_ANSWERED)
		return false;
	if (slot->unique & REPLY_CACHE_RESENT || !note_is_valid(slot) ||
	    atomic_load(&slot->node_count) > REPLY_CACHE_NODES_MAX)
		return false;
	return state == REPLY_CACHE_BEGUN ||
	       slot->reply_length <= REPLY_CACHE_REPLY_MAX;
}

/* Take over a slot that no thread writes any more. */
static void take_over(struct reply_cache_slot *slot)
{
	uint32_t state = state_of(slot) & ~REPLY_CACHE_DEAD;

	reply_cache_slot_publish(slot, is_valid(slot, state)
					       ? state | REPLY_CACHE_DEAD
					       : REPLY_CACHE_FREE);
}

int reply_cache_slots_open(void *memory, size_t size,
			   struct reply_cache_slots *ret)
{
	struct reply_cache_slots slots = {.head = memory};
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

/* Note the use before the slot is claimed, so that the next server reads it. */
static void note_use(struct reply_cache_slots *slots, unsigned index)
{
	uint32_t used = atomic_load(&slots->head->used);

	while (used <= index && !atomic_compare_exchange_weak(
					&slots->head->used, &used, index + 1))
		;
}

/* Claim a slot in state @from, and empty it. False: it is in another by now. */
static bool claim_slot(struct reply_cache_slot *slot, uint32_t from)
{
	if (!atomic_compare_exchange_strong(&slot->state, &from,
					    REPLY_CACHE_CLAIMED))
		return false;
	atomic_store_explicit(&slot->note, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->file, 0, memory_order_relaxed);
	atomic_store_explicit(&slot->node_count, 0, memory_order_relaxed);
	slot->reply_length = 0;
	return true;
}

/* Find the oldest: the numbers of requests only grow. */
static struct reply_cache_slot *oldest_dead(
	const struct reply_cache_slots *slots)
{
	struct reply_cache_slot *slot, *oldest = NULL;
	unsigned i;

	for (i = 0; i < slots->count; i++) {
		slot = &slots->slots[i];
		if (state_of(slot) & REPLY_CACHE_DEAD &&
		    (!oldest || slot->unique < oldest->unique))
			oldest = slot;
	}
	return oldest;
}

static struct reply_cache_slot *claim_oldest(struct reply_cache_slots *slots)
{
	struct reply_cache_slot *slot;
	uint32_t state;

	while ((slot = oldest_dead(slots))) {
		state = state_of(slot);
		if (state & REPLY_CACHE_DEAD && claim_slot(slot, state))
			return slot;
	}
	return NULL;
}

struct reply_cache_slot *reply_cache_slots_claim(
	struct reply_cache_slots *slots, unsigned *hint)
{
	unsigned i, index;

	for (i = 0; i < slots->count; i++) {
		index = (*hint + i) % slots->count;
		if (index >= atomic_load_explicit(&slots->head->used,
						  memory_order_relaxed))
			note_use(slots, index);
		if (state_of(&slots->slots[index]) == REPLY_CACHE_FREE &&
		    claim_slot(&slots->slots[index], REPLY_CACHE_FREE)) {
			*hint = index;
			return &slots->slots[index];
		}
	}
	return claim_oldest(slots);
}

struct reply_cache_slot *reply_cache_slots_find(struct reply_cache_slots *slots,
						uint64_t unique)
{
	unsigned i, used = atomic_load(&slots->head->used);
	uint32_t state;

	for (i = 0; i < used; i++) {
		struct reply_cache_slot *slot = &slots->slots[i];

		state = state_of(slot);
		if (state & REPLY_CACHE_DEAD && slot->unique == unique &&
		    is_valid(slot, state & ~REPLY_CACHE_DEAD) &&
		    atomic_compare_exchange_strong(&slot->state, &state,
						   state & ~REPLY_CACHE_DEAD))
			return slot;
	}
	return NULL;
}

unsigned reply_cache_slots_missing(const struct reply_cache_slots *slots)
{
	unsigned i, n = 0, used = atomic_load(&slots->head->used);

	for (i = 0; i < used; i++)
		n += state_of(&slots->slots[i]) ==
		     (REPLY_CACHE_BEGUN | REPLY_CACHE_DEAD);
	return n;
}
