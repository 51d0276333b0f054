/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of raw pools: fingerprints of a store's state after each of its
 * changes. With them a test tells that the state opened after a failure is one
 * of these.
 */
#ifndef BLOCKD_POWER_STATES_H
#define BLOCKD_POWER_STATES_H

#include "blockd/raw/store/raw_store.h"

struct power_states {
	uint32_t *prints; /* owned; by ticket */
	size_t n, room;
};

/* Of everything in it, which parts of clusters are written included. */
uint32_t power_fingerprint(struct raw_store *store);

/* The state of @store is the next one. */
void power_states_note(struct power_states *states, struct raw_store *store);
void power_states_done(struct power_states *states);

/*
 * Carry out @n records and note the state. 0 or what raw_store_change()
 * returns; its ticket is the number of the state.
 */
int power_states_change(struct power_states *states, struct raw_store *store,
			const struct raw_record *records, size_t n,
			struct error *err);

/* The newest ticket. */
static inline uint64_t power_states_newest(const struct power_states *states)
{
	return states->n - 1;
}

/* Which blocks of an entry's cluster are written, when it is so in part. */
struct raw_blocks power_written_of(const struct raw_state *state,
				   uint32_t entry);

#endif
