/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A raw pool's state against a model that is plain arrays, over thousands of
 * random changes; replayed from its log and from its checkpoint it is the
 * same. SEED=N repeats a run, STEPS=N makes it longer.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "blockd/raw/store/raw_state.h"

#define POOL_CLUSTERS 6000
#define OBJECTS       24
#define OBJECT_MAX    5000 /* clusters: several leaves */
#define SALT          0x1234
#define BLOCKS        16u /* of a cluster of the smallest size */
#define BLOCKS_ALL    ((1u << BLOCKS) - 1)

struct model {
	bool exists;
	uint32_t clusters;
	uint32_t entries[OBJECT_MAX];
	char text[32];
};

struct world {
	struct model *model; /* OBJECTS */
	struct raw_state state;
	struct raw_state copy; /* by replay of each batch */
	struct raw_batch batch;
	struct raw_frozen *frozen;
	uint64_t bytes;                  /* of a checkpoint */
	uint32_t written[POOL_CLUSTERS]; /* blocks, of those written in part */
	unsigned random;
	struct error err;
};

static unsigned below(struct world *w, unsigned n)
{
	w->random = w->random * 1103515245 + 12345;
	return (w->random >> 8) % n;
}

static int replay(void *context, const struct raw_record *record)
{
	struct world *w = context;

	return raw_state_replay(&w->copy, record, &w->err);
}

/* As a pool does it: applied, logged; the log is read elsewhere. */
static void change(struct world *w, const struct raw_record *record)
{
	uint64_t most = raw_state_bytes(&w->state) +
			raw_state_growth(&w->state, record);
	size_t length;
	int r = raw_state_apply(&w->state, record, &w->err);

	if (r < 0)
		fail_msg("%s", error_text(&w->err));
	assert_true(raw_state_bytes(&w->state) <= most);
	raw_batch_clear(&w->batch);
	assert_int_equal(raw_batch_add(&w->batch, record), 0);
	length = raw_batch_seal(&w->batch, 1, SALT);
	r = raw_batch_read(w->batch.data, length, SALT, replay, w);
	if (r < 0)
		fail_msg("replay: %s", error_text(&w->err));
	for (uint32_t i = 0; i < w->state.alloc.n_freed; i++)
		raw_alloc_give(&w->state.alloc, w->state.alloc.freed[i]);
	w->state.alloc.n_freed = 0;
	if (!w->frozen)
		raw_trash_empty(&w->state.trash);
	raw_bitmaps_free(raw_bitmaps_dead(&w->state.alloc.bitmaps));
}

/* ---- the changes ---- */

static void do_object(struct world *w, unsigned id)
{
	struct model *m = &w->model[id - 1];
	uint32_t from = m->exists ? m->clusters : 0;
	struct raw_record record = {.type = RAW_OBJECT, .object = id};

	if (from < OBJECT_MAX)
		from += below(w, OBJECT_MAX - from);
	record.clusters = from;
	for (uint32_t i = m->exists ? m->clusters : 0; i < from; i++)
		m->entries[i] = RAW_HOLE;
	m->exists = true;
	m->clusters = from;
	record.text = m->text;
	record.text_length = (uint32_t)snprintf(m->text, sizeof(m->text),
						"text %u", below(w, 1000));
	change(w, &record);
}

static void do_drop(struct world *w, unsigned id)
{
	change(w, &(struct raw_record){.type = RAW_DROP, .object = id});
	w->model[id - 1].exists = false;
}

static void do_map(struct world *w, unsigned id)
{
	struct model *m = &w->model[id - 1];
	struct raw_record record = {.type = RAW_MAP, .object = id};
	uint32_t want = 1 + below(w, 40);

	if (!m->clusters)
		return;
	record.unwritten = below(w, 4) == 0;
	record.logical = below(w, m->clusters);
	if (want > m->clusters - record.logical)
		want = m->clusters - (uint32_t)record.logical;
	record.count = raw_alloc_take(&w->state.alloc, want, RAW_HOLE,
				      &record.physical);
	if (!record.count)
		return;
	for (uint32_t i = 0; i < record.count; i++)
		m->entries[record.logical + i] =
			(record.physical + i) |
			(record.unwritten ? RAW_UNWRITTEN : 0);
	change(w, &record);
}

static bool is_shared(const struct world *w, unsigned id, uint32_t at)
{
	const struct raw_object *object = raw_state_object(&w->state, id);

	return raw_alloc_shared(&w->state.alloc, &object->map, at,
				w->model[id - 1].entries[at]);
}

/* An allocated cluster is written to: the same cluster, another flag. */
static void do_written(struct world *w, unsigned id)
{
	struct model *m = &w->model[id - 1];
	struct raw_record record = {.type = RAW_MAP, .object = id, .count = 1};

	if (!m->clusters)
		return;
	record.logical = below(w, m->clusters);
	if (m->entries[record.logical] == RAW_HOLE ||
	    (m->entries[record.logical] & RAW_PARTIAL &&
	     is_shared(w, id, (uint32_t)record.logical)))
		return;
	record.physical = RAW_PHYSICAL(m->entries[record.logical]);
	m->entries[record.logical] = record.physical;
	change(w, &record);
}

/* Some blocks of an allocated cluster are. */
static void do_written_in_part(struct world *w, unsigned id)
{
	struct model *m = &w->model[id - 1];
	struct raw_record record = {
		.type = RAW_WRITTEN, .object = id, .count = 1};
	uint32_t *entry, physical, before;

	if (!m->clusters)
		return;
	record.logical = below(w, m->clusters);
	entry = &m->entries[record.logical];
	if (*entry == RAW_HOLE || is_shared(w, id, (uint32_t)record.logical))
		return;
	record.physical = physical = RAW_PHYSICAL(*entry);
	record.blocks.bits[0] = 1 + below(w, BLOCKS_ALL);
	before = *entry & RAW_PARTIAL ? w->written[physical] : 0;
	change(w, &record);
	if (*entry == physical)
		return;
	w->written[physical] = before | (uint32_t)record.blocks.bits[0];
	*entry = w->written[physical] == BLOCKS_ALL ? physical
						    : physical | RAW_PARTIAL;
}

static void do_unmap(struct world *w, unsigned id)
{
	struct model *m = &w->model[id - 1];
	struct raw_record record = {.type = RAW_UNMAP, .object = id};

	if (!m->clusters)
		return;
	record.logical = below(w, m->clusters);
	record.count = 1 + below(w, m->clusters - (uint32_t)record.logical);
	for (uint32_t i = 0; i < record.count; i++)
		m->entries[record.logical + i] = RAW_HOLE;
	change(w, &record);
}

/* A cluster that was never written is not shared, and reads as a hole does. */
static uint32_t content(uint32_t entry)
{
	return entry & RAW_UNWRITTEN ? RAW_HOLE : entry;
}

/* The same, but for how much of it is written. */
static uint32_t data_of(uint32_t entry)
{
	return content(entry) == RAW_HOLE ? RAW_HOLE : RAW_PHYSICAL(entry);
}

static void do_share(struct world *w, unsigned id, unsigned from)
{
	struct model *to = &w->model[id - 1], *m = &w->model[from - 1];

	if (!m->exists || to->clusters < m->clusters)
		return;
	for (uint32_t i = 0; i < to->clusters; i++)
		to->entries[i] = i < m->clusters ? content(m->entries[i])
						 : RAW_HOLE;
	change(w, &(struct raw_record){
			  .type = RAW_SHARE, .object = id, .from = from});
}

static void step(struct world *w)
{
	unsigned id = 1 + below(w, OBJECTS);

	if (!w->model[id - 1].exists) {
		do_object(w, id);
		return;
	}
	switch (below(w, 16)) {
	case 0: do_object(w, id); break;
	case 1: do_drop(w, id); break;
	case 2:
	case 3: do_unmap(w, id); break;
	case 4:
	case 5: do_share(w, id, 1 + below(w, OBJECTS)); break;
	case 6:
	case 7: do_written(w, id); break;
	case 8:
	case 9:
	case 10: do_written_in_part(w, id); break;
	default: do_map(w, id); break;
	}
}

/* ---- and whether they were right ---- */

static void check_object(const struct world *w, const struct raw_state *state,
			 unsigned id)
{
	const struct model *m = &w->model[id - 1];
	const struct raw_object *object = raw_state_object(state, id);

	if (!m->exists) {
		assert_null(object);
		return;
	}
	assert_non_null(object);
	assert_string_equal(object->text, m->text);
	assert_int_equal(raw_map_clusters(&object->map), m->clusters);
	for (uint32_t i = 0; i < m->clusters;) {
		uint32_t entry;
		uint64_t n = raw_map_run(&object->map, i, m->clusters - i,
					 &entry);

		for (uint64_t j = 0; j < n; j++, i++)
			assert_int_equal(m->entries[i],
					 entry == RAW_HOLE
						 ? entry
						 : entry + (uint32_t)j);
		if (i < m->clusters) /* it is the longest run */
			assert_int_not_equal(m->entries[i],
					     entry == RAW_HOLE
						     ? entry
						     : entry + (uint32_t)n);
	}
}

static void check_parts(const struct world *w, const struct raw_state *state,
			const struct model *m)
{
	for (uint32_t i = 0; m->exists && i < m->clusters; i++) {
		uint32_t physical = RAW_PHYSICAL(m->entries[i]);
		const struct raw_bitmap *part;
		struct raw_blocks blocks;

		if (m->entries[i] == RAW_HOLE || !(m->entries[i] & RAW_PARTIAL))
			continue;
		part = raw_bitmaps_find(&state->alloc.bitmaps, physical);
		assert_non_null(part);
		assert_true(raw_bitmap_window(part, 0, &blocks));
		if (w->frozen) { /* more may be known to be written by now */
			blocks.bits[0] &= w->written[physical];
			assert_int_equal(blocks.bits[0], w->written[physical]);
			continue;
		}
		assert_int_equal(blocks.bits[0], w->written[physical]);
		for (uint32_t b = 0; b < BLOCKS;) {
			bool written;
			uint32_t n = raw_bitmap_run(part, b, BLOCKS - b,
						    &written);

			assert_int_not_equal(n, 0);
			for (; n; n--, b++)
				assert_int_equal(w->written[physical] >> b & 1,
						 written);
		}
	}
}

static void check_state(struct world *w, const struct raw_state *state)
{
	for (unsigned id = 1; id <= OBJECTS; id++)
		check_object(w, state, id);
	for (unsigned id = 1; id <= OBJECTS; id++)
		check_parts(w, state, &w->model[id - 1]);
	if (raw_state_verify(state, &w->err) < 0)
		fail_msg("%s", error_text(&w->err));
	assert_int_equal(state->alloc.taken, state->alloc.used);
	assert_int_equal(state->alloc.shared, w->state.alloc.shared);
	assert_int_equal(state->alloc.used, w->state.alloc.used);
}

static void check_difference(struct world *w)
{
	unsigned a = 1 + below(w, OBJECTS), b = 1 + below(w, OBJECTS);
	const struct model *ma = &w->model[a - 1], *mb = &w->model[b - 1];
	uint64_t start, count, at = 0;

	if (!ma->exists || !mb->exists)
		return;
	for (uint32_t i = 0; i < OBJECT_MAX; i++) {
		uint32_t ea = i < ma->clusters ? data_of(ma->entries[i])
					       : RAW_HOLE;
		uint32_t eb = i < mb->clusters ? data_of(mb->entries[i])
					       : RAW_HOLE;

		if (i >= at) {
			raw_map_difference(&raw_state_object(&w->state, a)->map,
					   &raw_state_object(&w->state, b)->map,
					   i, &start, &count);
			at = count ? start + count : OBJECT_MAX;
		}
		assert_int_equal(ea != eb, count && i >= start && i < at);
	}
}

static int into_copy(void *context, const struct raw_record *record)
{
	struct world *w = context;

	w->bytes += raw_record_size(record);
	return replay(context, record);
}

static void check_checkpoint(struct world *w)
{
	w->bytes = 0;
	raw_state_done(&w->copy);
	assert_int_equal(
		raw_state_init(&w->copy, POOL_CLUSTERS, RAW_CLUSTER_SHIFT_MIN),
		0);
	if (raw_state_emit(&w->state, into_copy, w) < 0 ||
	    raw_state_replayed(&w->copy, &w->err) < 0)
		fail_msg("checkpoint: %s", error_text(&w->err));
	check_state(w, &w->copy);
	assert_true(w->bytes <= raw_state_bytes(&w->state));
	assert_int_equal(raw_state_bytes(&w->copy), raw_state_bytes(&w->state));
}

static void freeze(struct world *w, struct world *then)
{
	w->frozen = raw_state_freeze(&w->state);
	assert_non_null(w->frozen);
	*then = *w;
	then->model = calloc(OBJECTS, sizeof(*w->model));
	assert_non_null(then->model);
	memcpy(then->model, w->model, OBJECTS * sizeof(*w->model));
}

/* Check that later changes are not in the frozen state. */
static void check_frozen(struct world *w, struct world *then)
{
	assert_int_equal(raw_state_init(&then->copy, POOL_CLUSTERS,
					RAW_CLUSTER_SHIFT_MIN),
			 0);
	if (raw_frozen_emit(w->frozen, into_copy, then) < 0 ||
	    raw_state_replayed(&then->copy, &then->err) < 0 ||
	    raw_state_verify(&then->copy, &then->err) < 0)
		fail_msg("frozen: %s", error_text(&then->err));
	for (unsigned id = 1; id <= OBJECTS; id++) {
		check_object(then, &then->copy, id);
		check_parts(then, &then->copy, &then->model[id - 1]);
	}
	raw_state_thaw(&w->state);
	raw_frozen_free(w->frozen);
	w->frozen = NULL;
	raw_state_done(&then->copy);
	free(then->model);
}

static unsigned from_environment(const char *name, unsigned otherwise)
{
	const char *text = getenv(name);

	return text ? (unsigned)strtoul(text, NULL, 0) : otherwise;
}

static void is_what_a_model_says_after_each_change(void **unused)
{
	static struct world w, then;
	unsigned steps = from_environment("STEPS", 6000);

	(void)unused;
	w = (struct world){.random = from_environment("SEED", 1)};
	print_message("seed %u, %u steps\n", w.random, steps);
	w.model = calloc(OBJECTS, sizeof(*w.model));
	assert_non_null(w.model);
	assert_int_equal(
		raw_state_init(&w.state, POOL_CLUSTERS, RAW_CLUSTER_SHIFT_MIN),
		0);
	assert_int_equal(
		raw_state_init(&w.copy, POOL_CLUSTERS, RAW_CLUSTER_SHIFT_MIN),
		0);
	assert_int_equal(raw_batch_init(&w.batch, RAW_BLOCK), 0);
	for (unsigned i = 1; i <= steps; i++) {
		step(&w);
		if (i % 500 == 100)
			freeze(&w, &then);
		if (i % 500 == 100 + 10 * (i / 500 % 20))
			check_frozen(&w, &then);
		if (i % 50 == 0 && !w.frozen) {
			check_state(&w, &w.state);
			check_state(&w, &w.copy);
			check_difference(&w);
		}
		if (i % 500 == 0)
			check_checkpoint(&w);
	}
	raw_batch_done(&w.batch);
	raw_state_done(&w.copy);
	raw_state_done(&w.state);
	free(w.model);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_what_a_model_says_after_each_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
