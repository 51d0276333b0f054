/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any content of the memory that a killed server left: the requests found there
 * are within bounds, and there is room for new requests or none is made up.
 */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "union/branch/branch.h"
#include "union/state/reply_cache.h"
#include "union/state/reply_cache_slots.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define SLOTS 6

static void check_found(const struct reply_cache_slot *slot)
{
	assert(slot->state == REPLY_CACHE_BEGUN ||
	       slot->state == REPLY_CACHE_ANSWERED);
	assert(slot->node_count <= REPLY_CACHE_NODES_MAX);
	assert(slot->note <= REPLY_CACHE_TAKEN);
	if (slot->note)
		assert(slot->branch < BRANCH_MAX &&
		       slot->handle.length <= HANDLE_MAX);
	if (slot->state == REPLY_CACHE_ANSWERED)
		assert(slot->reply_length <= REPLY_CACHE_REPLY_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const size_t room = (SLOTS + 1) * REPLY_CACHE_SLOT_SIZE;
	struct reply_cache_slots slots;
	struct reply_cache_slot *slot;
	unsigned i, found = 0, claimed = 0, hint = 0;
	/* Of exact size, so that a byte too far is seen. */
	uint8_t *memory = aligned_alloc(64, room);
	uint64_t unique;

	assert(memory);
	memset(memory, 0, room);
	memcpy(memory, data, size < room ? size : room);
	assert(reply_cache_slots_open(memory, room, &slots) == 0);
	assert(slots.count == SLOTS);
	for (i = 0; i < SLOTS; i++) {
		unique = slots.slots[i].unique;
		slot = reply_cache_slots_find(&slots, unique);
		if (!slot)
			continue;
		assert(slot->unique == unique);
		check_found(slot);
		found++;
	}
	while ((slot = reply_cache_slots_claim(&slots, &hint))) {
		assert(!slot->note && !slot->file && !slot->node_count);
		reply_cache_slot_begin(slot, UINT64_MAX >> 1, 1);
		claimed++;
	}
	assert(found + claimed <= SLOTS);
	free(memory);
	return 0;
}
