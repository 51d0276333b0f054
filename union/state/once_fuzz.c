/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whatever is in the memory that a killed server left: what is found there is
 * within bounds, and there is room for new requests or none is made up.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "union/branch/branch.h"
#include "union/state/once.h"
#include "union/state/once_slots.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SLOTS 6

static void check_found(const struct once_slot *slot)
{
	assert(slot->state == ONCE_BEGUN || slot->state == ONCE_ANSWERED);
	assert(slot->node_count <= ONCE_NODES_MAX);
	assert(slot->note <= ONCE_TAKEN);
	if (slot->note)
		assert(slot->branch < BRANCH_MAX &&
		       slot->handle.length <= HANDLE_MAX);
	if (slot->state == ONCE_ANSWERED)
		assert(slot->reply_length <= ONCE_REPLY_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t room = (SLOTS + 1) * ONCE_SLOT_SIZE;
	struct once_slots slots;
	struct once_slot *slot;
	unsigned i, found = 0, claimed = 0, hint = 0;
	/* As large as it says, so that a byte too far is seen. */
	uint8_t *memory = aligned_alloc(64, room);
	uint64_t unique;

	assert(memory);
	memset(memory, 0, room);
	memcpy(memory, data, size < room ? size : room);
	assert(once_slots_open(memory, room, &slots) == 0);
	assert(slots.count == SLOTS);
	for (i = 0; i < SLOTS; i++) {
		unique = slots.slots[i].unique;
		slot = once_slots_find(&slots, unique);
		if (!slot)
			continue;
		assert(slot->unique == unique);
		check_found(slot);
		found++;
	}
	while ((slot = once_slots_claim(&slots, &hint))) {
		assert(!slot->note && !slot->file && !slot->node_count);
		once_slot_begin(slot, UINT64_MAX >> 1, 1);
		claimed++;
	}
	assert(found + claimed <= SLOTS);
	free(memory);
	return 0;
}
