/* SPDX-License-Identifier: Apache-2.0 */
/* Steps on a store and its model, by chance. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "blockd/testkit/power_run.h"

/* ---- writing ---- */

static void write_block(struct run *run, uint32_t id, uint32_t cluster,
			unsigned which);
static void write_after_fill(struct run *run, uint32_t id, uint32_t cluster,
			     unsigned which);

static bool concerns(unsigned block, unsigned which)
{
	return which == BOTH || which == block;
}

static struct raw_record mark(uint32_t id, uint32_t cluster, uint32_t entry,
			      unsigned block)
{
	return (struct raw_record){
		.type = RAW_WRITTEN,
		.object = id,
		.logical = cluster,
		.physical = RAW_PHYSICAL(entry),
		.count = 1,
		.blocks.bits[0] = power_run_mark_of(block),
	};
}

/* In a cluster that is written in part: data, then the mark. */
static void write_and_mark(struct run *run, uint32_t id, uint32_t cluster,
			   unsigned block)
{
	const uint32_t entry = power_run_entry_of(run, id, cluster);
	const struct raw_record record = mark(id, cluster, entry, block);
	const uint32_t value = ++run->value;

	run->marks++;
	if (run->flaw != MARKS_EARLY)
		power_run_put(run, RAW_PHYSICAL(entry), block, value);
	power_run_change(run, &record, 1);
	power_run_becomes(run, id, cluster, block, value);
	if (run->flaw != MARKS_EARLY)
		return;
	if (!run->inside)
		power_run_must(
			run,
			raw_store_commit(run->store,
					 power_states_newest(&run->states),
					 &run->err),
			"commit");
	power_run_put(run, RAW_PHYSICAL(entry), block, value);
}

static void write_in_place(struct run *run, uint32_t id, uint32_t cluster,
			   unsigned which)
{
	for (unsigned b = 0; b < BLOCKS; b++) {
		struct history *history = &run->blocks[id][cluster][b];
		uint32_t entry = power_run_entry_of(run, id, cluster);

		if (!concerns(b, which))
			continue;
		if (!power_run_is_marked(run->store, entry, b)) {
			write_and_mark(run, id, cluster, b);
			continue;
		}
		/* With what it is written to, whenever that was mapped. */
		power_run_remember(
			run, history,
			(struct version){
				.ticket = history->versions[history->n - 1]
						  .ticket,
				.value = ++run->value,
				.in_place = true,
			});
		power_run_put(run, RAW_PHYSICAL(entry), b, run->value);
	}
	run->in_place++;
}

static void fill_write(struct run *run)
{
	for (unsigned b = 0; b < BLOCKS; b++)
		if (!run->fill.partial || concerns(b, run->fill.block))
			power_run_put(run, run->fill.physical, b,
				      run->fill.values[b]);
}

static int fill_map(struct run *run)
{
	const struct fill *fill = &run->fill;
	const bool partial = fill->partial && run->flaw != MAPS_WHOLE;
	const struct raw_record map[2] = {
		{.type = RAW_MAP,
		 .object = fill->object,
		 .logical = fill->cluster,
		 .physical = fill->physical,
		 .count = 1,
		 .unwritten = partial},
		mark(fill->object, fill->cluster, fill->physical,
		     fill->block % BLOCKS),
	};

	return raw_store_change_if(
		run->store, map, partial ? 2 : 1,
		run->flaw == MAPS_STALE_COPIES ? NULL : &fill->look, &run->err);
}

/* The flaw: mapped data is written only now, after the map was made durable. */
static void write_late(struct run *run, const struct fill *fill)
{
	if (!run->inside)
		power_run_must(
			run,
			raw_store_commit(run->store,
					 power_states_newest(&run->states),
					 &run->err),
			"commit");
	for (unsigned b = 0; b < BLOCKS; b++)
		power_run_put(run, fill->physical, b, fill->values[b]);
}

static void fill_end(struct run *run)
{
	const struct fill fill = run->fill;
	int r;

	if (!fill.object)
		return;
	r = fill_map(run);
	run->fill.object = 0;
	if (r == -EAGAIN) {
		run->again++;
		raw_store_untake(run->store, fill.physical, 1);
		write_block(run, fill.object, fill.cluster, fill.block);
		return;
	}
	power_run_must(run, r, "map");
	power_run_note_state(run);
	for (unsigned b = 0; b < BLOCKS; b++) {
		const struct history *history =
			&run->blocks[fill.object][fill.cluster][b];

		power_run_becomes(run, fill.object, fill.cluster, b,
				  concerns(b, fill.block)
					  ? fill.values[b]
					  : power_run_now(history));
	}
	if (run->flaw == MAPS_EARLY)
		write_late(run, &fill);
}

/* Wait for a fill under way of @id, for a step that has to be alone with it. */
static void wait_for(struct run *run, uint32_t id)
{
	if (run->fill.object == id)
		fill_end(run);
}

static void fill_begin(struct run *run, uint32_t id, uint32_t cluster,
		       unsigned which)
{
	uint32_t entry = power_run_entry_of(run, id, cluster);
	struct fill *fill = &run->fill;

	*fill = (struct fill){.cluster = cluster,
			      .block = which,
			      .look = power_run_look(run, id, cluster),
			      .copied = which != BOTH && entry != RAW_HOLE};
	if (!raw_store_take(run->store, 1, RAW_HOLE, &fill->physical))
		return;
	/* A write to a shared cluster can't mark it. */
	fill->partial = which != BOTH && entry == RAW_HOLE &&
			run->flaw != WRITES_SHARED && power_run_below(run, 4);
	run->partial += fill->partial;
	fill->object = id;
	for (unsigned b = 0; b < BLOCKS; b++)
		fill->values[b] = concerns(b, which)
					  ? ++run->value
					  : power_run_value_at(run->store,
							       run->power.bytes,
							       entry, b);
	if (run->flaw != MAPS_EARLY)
		fill_write(run);
	run->copies += fill->copied;
}

static void write_block(struct run *run, uint32_t id, uint32_t cluster,
			unsigned which)
{
	if (power_run_entry_of(run, id, cluster) != RAW_HOLE &&
	    !power_run_is_shared(run, id, cluster))
		write_in_place(run, id, cluster, which);
	else if (run->fill.object)
		write_after_fill(run, id, cluster, which);
	else
		fill_begin(run, id, cluster, which);
}

/* One at a time. */
static void write_after_fill(struct run *run, uint32_t id, uint32_t cluster,
			     unsigned which)
{
	fill_end(run);
	write_block(run, id, cluster, which);
}

/* ---- the workload ---- */

/* With the content of @from; 0: holes. One that is there is reverted. */
static void make_object(struct run *run, uint32_t id, uint32_t from)
{
	char text[3000];
	struct raw_record records[2] = {
		{.type = RAW_OBJECT,
		 .object = id,
		 .clusters = LENGTH,
		 .text = text},
		{.type = RAW_SHARE, .object = id, .from = from},
	};

	wait_for(run, id);
	wait_for(run, from);
	memset(text, 'a' + (int)power_run_below(run, 26), sizeof(text));
	records[0].text_length = power_run_below(run, sizeof(text));
	power_run_change(run, records, from ? 2 : 1);
	power_run_all_become(run, id, from);
}

/* First it is nobody's any more, for good: raw_map_drop(). */
static void power_begin_delete(struct run *run, uint32_t id)
{
	const struct raw_record deleting = {
		.type = RAW_OBJECT,
		.object = id,
		.clusters = LENGTH,
		.text = DELETING,
		.text_length = strlen(DELETING),
	};

	wait_for(run, id);
	run->deleting[id] = true;
	if (run->flaw == DROPS_AT_ONCE)
		return;
	power_run_change(run, &deleting, 1);
	power_run_commit(run);
}

static void drop_doomed(struct run *run, uint32_t id)
{
	const struct raw_record record = {.type = RAW_DROP, .object = id};

	if (!run->deleting[id])
		return;
	run->deleting[id] = false;
	power_run_change(run, &record, 1);
	power_run_all_become(run, id, 0);
}

static void drop(struct run *run, uint32_t id)
{
	if (!run->deleting[id])
		power_begin_delete(run, id);
	drop_doomed(run, id);
}

static void make_or_revert(struct run *run, uint32_t id, uint32_t from)
{
	const bool was = power_run_object_of(run, id);

	if (from == id || !power_run_object_of(run, from) ||
	    run->deleting[from])
		from = 0;
	if (was && (!from || run->snapshot[id] || run->deleting[id]))
		return;
	make_object(run, id, from);
	if (!was)
		run->snapshot[id] = from && power_run_below(run, 2);
}

static void discard(struct run *run, uint32_t id)
{
	const struct raw_record record = {
		.type = RAW_UNMAP,
		.object = id,
		.logical = power_run_below(run, LENGTH - 4),
		.count = 1 + power_run_below(run, 4),
	};

	power_run_change(run, &record, 1);
	for (uint32_t i = 0; i < record.count; i++)
		for (unsigned b = 0; b < BLOCKS; b++)
			power_run_becomes(run, id, (uint32_t)record.logical + i,
					  b, 0);
}

/* Use freed clusters again, as nobody looks at them any more. */
static void reuse(struct run *run)
{
	struct raw_leaving leaving;
	bool any;

	if (run->flaw == REUSES_EARLY)
		run->store->freed_durable = store_freed(run->store);
	any = raw_store_leave(run->store, &leaving);
	fill_end(run);
	if (any)
		raw_store_left(run->store, &leaving);
}

static void grow(struct run *run)
{
	struct raw_medium *medium = &run->power.medium;

	if (medium->size < MEDIUM)
		medium->size += UINT64_C(1) << 18;
	power_run_must(run,
		       raw_store_extend(run->store, medium->size, &run->err),
		       "extend");
}

static void write_some(struct run *run, uint32_t id)
{
	/* Few places, so that they are shared and written to again. */
	uint32_t cluster = power_run_below(
		run, power_run_below(run, 4) ? 6 : LENGTH);
	unsigned which = power_run_below(run, 4) ? power_run_below(run, BLOCKS)
						 : BOTH;

	write_block(run, id, cluster, which);
	if (power_run_below(run, 3))
		fill_end(run);
}

/*
 * While a cluster is copied, all others that have it take leave of it, for
 * good; and it is written to once more.
 */
static void part(struct run *run)
{
	const struct fill fill = run->fill;

	for (uint32_t id = 1; id <= OBJECTS; id++)
		if (id != fill.object &&
		    power_run_entry_of(run, id, fill.cluster) ==
			    power_run_entry_of(run, fill.object, fill.cluster))
			drop(run, id);
	if (power_run_below(run, 4))
		power_run_flush(run);
	write_block(run, fill.object, fill.cluster,
		    power_run_below(run, BLOCKS));
	fill_end(run);
}

/* Find an extent that is written to, in a few tries; or 0. */
static uint32_t any_extent(struct run *run)
{
	for (int i = 0; i < 8; i++) {
		uint32_t id = 1 + power_run_below(run, OBJECTS);

		if (power_run_object_of(run, id) && !run->snapshot[id] &&
		    !run->deleting[id])
			return id;
	}
	return 0;
}

/* What commits nothing, and so may happen while something is committed. */
static void other_step(struct run *run)
{
	uint32_t id = 1 + power_run_below(run, OBJECTS),
		 from = 1 + power_run_below(run, OBJECTS);
	unsigned what = power_run_below(run, 8);

	if (what < 2)
		drop_doomed(run, id);
	else if (what < 4)
		make_or_revert(run, id, from);
	else if ((id = any_extent(run)))
		write_some(run, id);
}

/* The log has room, and nobody writes to it. */
static bool may_commit(const struct run *run)
{
	return !run->store->busy &&
	       run->store->log_used <
		       raw_ring_size(raw_store_super(run->store)) / 2;
}

static void before_write(void *context, uint64_t offset)
{
	struct run *run = context;
	uint32_t id = 1 + power_run_below(run, OBJECTS);

	(void)offset;
	if (!run->meanwhile || power_run_below(run, 4))
		return;
	if (may_commit(run)) { /* a checkpoint is written ahead of time */
		run->meanwhile = false;
		if (power_run_below(run, 2))
			power_run_flush(run);
		else if (power_run_object_of(run, id) && !run->deleting[id] &&
			 !power_run_below(run, 6))
			power_begin_delete(run, id);
		else if (power_run_below(run, 2))
			reuse(run);
		else
			other_step(run);
		run->meanwhile = true;
		return;
	}
	run->meanwhile = false;
	run->inside = true;
	other_step(run);
	run->inside = false;
	run->meanwhile = true;
}

void power_run_step(struct run *run)
{
	uint32_t id = 1 + power_run_below(run, OBJECTS),
		 from = 1 + power_run_below(run, OBJECTS);
	const bool there = power_run_object_of(run, id);
	unsigned what = power_run_below(run, 32);

	if (run->flaw == OWNS_EARLY) {
		struct raw_alloc *alloc = &run->store->state.alloc;

		raw_alloc_sure(alloc, alloc->round);
	}
	if (what < 1 && there)
		drop(run, id);
	else if (what < 2 && there && !run->deleting[id])
		power_begin_delete(run, id);
	else if (what < 3)
		drop_doomed(run, id);
	else if (what < 7)
		make_or_revert(run, id, from);
	else if (what < 8 && (id = any_extent(run)))
		discard(run, id);
	else if (what < 10)
		power_run_flush(run);
	else if (what < 11 && power_run_below(run, 8) == 0)
		power_run_checkpoint(run);
	else if (what < 12 && power_run_below(run, 8) == 0)
		grow(run);
	else if (what < 13 && power_run_below(run, 6) == 0)
		power_run_checkpoint_ahead(run);
	else if (what < 16)
		reuse(run);
	else if (run->fill.object && run->fill.copied &&
		 power_run_below(run, 2))
		part(run);
	else if ((id = any_extent(run)))
		write_some(run, id);
}

void power_run_init(struct run *run, unsigned seed, enum flaw flaw)
{
	const struct raw_format_options options = {
		.cluster_shift = RAW_CLUSTER_SHIFT_MIN,
		.text = "pool",
		.text_length = 4,
	};
	struct raw_report report;

	*run = (struct run){.seed = seed, .random = seed, .flaw = flaw};
	power_init(&run->power, SMALL, MEDIUM);
	power_run_must(
		run, raw_store_format(&run->power.medium, &options, &run->err),
		"format");
	power_run_must(run,
		       raw_store_open(&run->power.medium, &run->store, &report,
				      &run->err),
		       "open");
	run->power.store = run->store;
	run->power.before_write = before_write;
	run->power.context = run;
	run->power.flushes_lost = flaw == LOSES_FLUSHES ? 3 : 0;
	run->power.briefly = flaw != NO_FLAW; /* that finds each */
	power_run_note_state(run);
	power_record(&run->power);
}

void power_run_done(struct run *run)
{
	raw_store_close(run->store);
	power_done(&run->power);
	power_states_done(&run->states);
	for (unsigned id = 0; id <= OBJECTS; id++)
		for (unsigned i = 0; i < LENGTH; i++)
			for (unsigned b = 0; b < BLOCKS; b++)
				free(run->blocks[id][i][b].versions);
}
