/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/testkit/power_run.h"

#include <stdlib.h>
#include <string.h>

unsigned power_run_below(struct run *run, unsigned n)
{
	run->random = run->random * 1103515245 + 12345;
	return (run->random >> 8) % n;
}

void power_run_must(struct run *run, int r, const char *what)
{
	if (r < 0)
		fail_msg("seed %u: %s: %s", run->seed, what,
			 error_text(&run->err));
}

void power_run_remember(struct run *run, struct history *history,
			struct version version)
{
	if (history->n == history->room) {
		history->room = history->room ? 2 * history->room : 8;
		history->versions = reallocarray(history->versions,
						 history->room,
						 sizeof(*history->versions));
		assert_non_null(history->versions);
	}
	version.event = run->power.n;
	history->versions[history->n++] = version;
}

uint32_t power_run_now(const struct history *history)
{
	return history->n ? history->versions[history->n - 1].value : 0;
}

void power_run_becomes(struct run *run, uint32_t id, uint32_t cluster,
		       unsigned block, uint32_t value)
{
	power_run_remember(
		run, &run->blocks[id][cluster][block],
		(struct version){.ticket = power_states_newest(&run->states),
				 .value = value});
}

void power_run_all_become(struct run *run, uint32_t id, uint32_t from)
{
	for (uint32_t i = 0; i < LENGTH; i++)
		for (unsigned b = 0; b < BLOCKS; b++)
			power_run_becomes(
				run, id, i, b,
				from ? power_run_now(&run->blocks[from][i][b])
				     : 0);
}

bool power_run_may_be(const struct history *history, uint32_t value,
		      uint64_t ticket, const struct power_event *event,
		      size_t at)
{
	size_t i = history->n;

	while (i > 0) {
		const struct version *v = &history->versions[--i];

		if (v->ticket > ticket)
			continue; /* what it was written to is not mapped */
		if (v->in_place && v->event >= at)
			continue; /* it is not written yet */
		if (v->value == value)
			return true;
		if (!v->in_place || v->event < event->promised)
			return false;
	}
	return value == 0;
}

/* ---- states ---- */

void power_run_note_state(struct run *run)
{
	power_states_note(&run->states, run->store);
}

void power_run_change(struct run *run, const struct raw_record *records,
		      size_t n)
{
	power_run_must(run,
		       power_states_change(&run->states, run->store, records, n,
					   &run->err),
		       "change");
}

/* ---- looking ---- */

const struct raw_object *power_run_object_of(struct run *run, uint32_t id)
{
	const struct raw_object *object = raw_state_object(
		raw_store_lock(run->store), id);

	raw_store_unlock(run->store); /* nobody else is here */
	return object;
}

uint32_t power_run_entry_of(struct run *run, uint32_t id, uint32_t cluster)
{
	const struct raw_object *object = power_run_object_of(run, id);

	return object ? raw_map_get(&object->map, cluster) : RAW_HOLE;
}

struct raw_look power_run_look(struct run *run, uint32_t id, uint32_t cluster)
{
	return raw_alloc_look(&run->store->state.alloc,
			      &power_run_object_of(run, id)->map, cluster, 1);
}

bool power_run_is_shared(struct run *run, uint32_t id, uint32_t cluster)
{
	const struct raw_object *object = power_run_object_of(run, id);

	return run->flaw != WRITES_SHARED &&
	       raw_alloc_shared(&run->store->state.alloc, &object->map, cluster,
				power_run_entry_of(run, id, cluster));
}

static uint64_t offset_of(const struct raw_store *store, uint32_t physical,
			  unsigned block)
{
	const struct raw_super *super = raw_store_super(store);

	return super->data_start +
	       ((uint64_t)physical << super->cluster_shift) +
	       (uint64_t)block * RAW_BLOCK;
}

uint64_t power_run_mark_of(unsigned block)
{
	const uint64_t all = (UINT64_C(1) << ALL_BLOCKS) - 1;

	return block == BLOCKS - 1 ? all & ~((UINT64_C(1) << block) - 1)
				   : UINT64_C(1) << block;
}

bool power_run_is_marked(const struct raw_store *store, uint32_t entry,
			 unsigned block)
{
	return !(entry & RAW_PARTIAL) ||
	       power_written_of(&store->state, entry).bits[0] &
		       power_run_mark_of(block);
}

uint32_t power_run_value_at(const struct raw_store *store, const uint8_t *bytes,
			    uint32_t entry, unsigned block)
{
	uint32_t value = 0;

	if (entry != RAW_HOLE && power_run_is_marked(store, entry, block))
		memcpy(&value,
		       bytes + offset_of(store, RAW_PHYSICAL(entry), block),
		       sizeof(value));
	return value;
}

void power_run_put(struct run *run, uint32_t physical, unsigned block,
		   uint32_t value)
{
	static uint32_t data[RAW_BLOCK / sizeof(uint32_t)];
	struct raw_medium *medium = &run->power.medium;

	data[0] = value;
	power_run_must(
		run,
		medium->ops->write(medium, data, sizeof(data),
				   offset_of(run->store, physical, block)),
		"write");
}

/* ---- making it durable ---- */

void power_run_commit(struct run *run)
{
	const uint64_t ticket = power_states_newest(&run->states);
	const size_t written = run->power.n;

	run->meanwhile = true;
	power_run_must(run, raw_store_commit(run->store, ticket, &run->err),
		       "commit");
	run->meanwhile = false;
	run->power.answered = ticket;
	run->power.promised = written;
}

void power_run_checkpoint(struct run *run)
{
	run->meanwhile = true;
	power_run_must(run, raw_store_checkpoint(run->store, &run->err),
		       "checkpoint");
	run->meanwhile = false;
}

void power_run_flush(struct run *run)
{
	struct raw_medium *medium = &run->power.medium;

	if (raw_store_pending(run->store)) {
		power_run_commit(run);
		return;
	}
	power_run_must(run, medium->ops->flush(medium), "flush");
	run->power.promised = run->power.n;
}

void power_run_checkpoint_ahead(struct run *run)
{
	run->meanwhile = true;
	power_run_must(run, raw_store_checkpoint_ahead(run->store, &run->err),
		       "checkpoint ahead of time");
	run->meanwhile = false;
	run->ahead++;
}
