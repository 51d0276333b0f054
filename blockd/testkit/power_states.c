/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/testkit/power_states.h"

#include <assert.h>
#include <stdlib.h>

#include "base/wire/crc32c.h"

struct raw_blocks power_written_of(const struct raw_state *state,
				   uint32_t entry)
{
	struct raw_blocks blocks = {{0}};
	const struct raw_bitmap *part = entry != RAW_HOLE && entry & RAW_PARTIAL
						? raw_bitmaps_find(
							  &state->alloc.bitmaps,
							  RAW_PHYSICAL(entry))
						: NULL;

	if (part)
		(void)raw_bitmap_window(part, 0, &blocks);
	return blocks;
}

static uint32_t fingerprint_object(uint32_t crc, const struct raw_state *state,
				   const struct raw_object *o)
{
	uint64_t n = raw_map_clusters(&o->map);

	crc = crc32c(crc, &o->id, sizeof(o->id));
	crc = crc32c(crc, o->text, o->text_length);
	for (uint64_t i = 0; i < n; i++) {
		uint32_t entry = raw_map_get(&o->map, i);
		struct raw_blocks blocks = power_written_of(state, entry);

		crc = crc32c(crc, &entry, sizeof(entry));
		crc = crc32c(crc, &blocks, sizeof(blocks));
	}
	return crc;
}

uint32_t power_fingerprint(struct raw_store *store)
{
	struct raw_state *state = raw_store_lock(store);
	uint32_t crc = crc32c(0, state->pool_text, state->pool_text_length);

	for (uint32_t id = 1; id <= state->n_slots; id++) {
		const struct raw_object *o = raw_state_object(state, id);

		if (o)
			crc = fingerprint_object(crc, state, o);
	}
	raw_store_unlock(store);
	return crc;
}

void power_states_note(struct power_states *states, struct raw_store *store)
{
	if (states->n == states->room) {
		states->room = states->room ? 2 * states->room : 256;
		states->prints = reallocarray(states->prints, states->room,
					      sizeof(*states->prints));
		assert(states->prints);
	}
	states->prints[states->n++] = power_fingerprint(store);
}

void power_states_done(struct power_states *states)
{
	free(states->prints);
	*states = (struct power_states){0};
}

int power_states_change(struct power_states *states, struct raw_store *store,
			const struct raw_record *records, size_t n,
			struct error *err)
{
	uint64_t ticket;
	int r = raw_store_change(store, records, n, &ticket, err);

	if (r < 0)
		return r;
	assert(ticket == states->n);
	power_states_note(states, store);
	return 0;
}
