/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A raw pool's metadata over a medium that records every write and flush.
 * Then the power fails at each of them: what was flushed is there, of the
 * rest any blocks are, in any combination. What opens then is a state that
 * there was, and none older than the last commit that was answered; and each
 * cluster that it maps holds the data it had in that state: it was written
 * before it was mapped, and not given to another before it was free durably.
 *
 * SEED=N repeats a run, STEPS=N makes it longer.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "blockd/raw_store.h"

#define MEDIUM  (UINT64_C(10) << 20)
#define SMALL   (MEDIUM - (UINT64_C(2) << 20)) /* what it grows from */
#define OBJECTS 8
#define LENGTH  40 /* clusters of an object */

/* ---- the medium ---- */

struct event {
	uint64_t offset;          /* of one block; UINT64_MAX: a flush */
	uint8_t *data;            /* owned, RAW_BLOCK bytes */
	uint64_t durable, newest; /* tickets at that time */
};

struct recorder {
	struct raw_medium medium;
	uint8_t *bytes; /* as a reader sees it */
	struct event *events;
	size_t n, room;
	bool recording;
	struct raw_store *store;
	uint64_t answered; /* tickets that a commit has answered for */
	int fail_writes;   /* -errno, for all */
};

static int recorder_read(struct raw_medium *medium, void *data, size_t length,
			 uint64_t offset)
{
	struct recorder *rec = (struct recorder *)medium;

	assert_true(offset + length <= medium->size);
	memcpy(data, rec->bytes + offset, length);
	return 0;
}

static void record(struct recorder *rec, uint64_t offset, const void *data)
{
	struct event *event;

	if (!rec->recording)
		return;
	if (rec->n == rec->room) {
		rec->room = rec->room ? 2 * rec->room : 1024;
		rec->events = reallocarray(rec->events, rec->room,
					   sizeof(*rec->events));
		assert_non_null(rec->events);
	}
	event = &rec->events[rec->n++];
	*event = (struct event){
		.offset = offset,
		.durable = rec->answered,
		.newest = rec->store ? raw_store_newest(rec->store) : 0,
	};
	if (data) {
		event->data = malloc(RAW_BLOCK);
		assert_non_null(event->data);
		memcpy(event->data, data, RAW_BLOCK);
	}
}

static int recorder_write(struct raw_medium *medium, const void *data,
			  size_t length, uint64_t offset)
{
	struct recorder *rec = (struct recorder *)medium;

	assert_true(offset + length <= medium->size);
	assert_true(offset % RAW_BLOCK == 0 && length % RAW_BLOCK == 0);
	if (rec->fail_writes)
		return rec->fail_writes;
	memcpy(rec->bytes + offset, data, length);
	for (size_t at = 0; at < length; at += RAW_BLOCK)
		record(rec, offset + at, (const uint8_t *)data + at);
	return 0;
}

static int recorder_flush(struct raw_medium *medium)
{
	record((struct recorder *)medium, UINT64_MAX, NULL);
	return 0;
}

static const struct raw_medium_ops recorder_ops = {
	.read = recorder_read,
	.write = recorder_write,
	.flush = recorder_flush,
};

static void recorder_init(struct recorder *rec)
{
	*rec = (struct recorder){
		.medium = {.ops = &recorder_ops, .size = SMALL},
	};
	rec->bytes = calloc(1, MEDIUM);
	assert_non_null(rec->bytes);
}

static void recorder_done(struct recorder *rec)
{
	for (size_t i = 0; i < rec->n; i++)
		free(rec->events[i].data);
	free(rec->events);
	free(rec->bytes);
}

/* ---- what a state is ---- */

static uint32_t fingerprint_object(uint32_t crc, const struct raw_object *o)
{
	uint64_t n = raw_map_clusters(&o->map);

	crc = crc32c(crc, o->text, o->text_length);
	for (uint64_t i = 0; i < n; i++) {
		uint32_t entry = raw_map_get(&o->map, i);

		crc = crc32c(crc, &entry, sizeof(entry));
	}
	return crc;
}

static uint32_t fingerprint(struct raw_store *store)
{
	struct raw_state *state = raw_store_lock(store);
	uint32_t crc = crc32c(0, state->pool_text, state->pool_text_length);

	for (uint32_t id = 1; id <= OBJECTS; id++) {
		const struct raw_object *o = raw_state_object(state, id);

		crc = crc32c(crc, &id, sizeof(id));
		if (o)
			crc = fingerprint_object(crc, o);
	}
	raw_store_unlock(store);
	return crc;
}

/* ---- the workload ---- */

#define CLUSTERS_MAX 128 /* of the medium */

/* Data that was written to a cluster, to be mapped by the change @ticket. */
struct stamp {
	struct stamp *before; /* owned */
	uint64_t ticket;
	uint64_t value;
};

struct run {
	struct recorder rec;
	struct raw_store *store;
	unsigned random;
	uint32_t *states; /* fingerprint after each ticket */
	size_t n_states, room;
	struct stamp *stamps[CLUSTERS_MAX]; /* newest first; owned */
	uint64_t n_stamps;
	struct error err;
};

static unsigned below(struct run *run, unsigned n)
{
	run->random = run->random * 1103515245 + 12345;
	return (run->random >> 8) % n;
}

static void must(struct run *run, int r, const char *what)
{
	if (r < 0)
		fail_msg("%s: %s", what, error_text(&run->err));
}

static void note_state(struct run *run)
{
	if (run->n_states == run->room) {
		run->room = run->room ? 2 * run->room : 256;
		run->states = reallocarray(run->states, run->room,
					   sizeof(*run->states));
		assert_non_null(run->states);
	}
	run->states[run->n_states++] = fingerprint(run->store);
}

static void change(struct run *run, const struct raw_record *records, size_t n)
{
	uint64_t ticket;

	must(run, raw_store_change(run->store, records, n, &ticket, &run->err),
	     "change");
	assert_int_equal(ticket, run->n_states);
	note_state(run);
}

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

	memset(text, 'a' + (int)below(run, 26), sizeof(text));
	records[0].text_length = below(run, sizeof(text));
	change(run, records, from ? 2 : 1);
}

static bool exists(struct run *run, uint32_t id)
{
	struct raw_state *state = raw_store_lock(run->store);
	bool there = raw_state_object(state, id);

	raw_store_unlock(run->store);
	return there;
}

static uint64_t offset_of(const struct raw_store *store, uint32_t cluster)
{
	const struct raw_super *super = raw_store_super(store);

	return super->data_start + ((uint64_t)cluster << super->cluster_shift);
}

static void write_stamp(struct run *run, uint32_t cluster)
{
	static uint64_t block[RAW_BLOCK / sizeof(uint64_t)];
	struct raw_medium *medium = &run->rec.medium;
	struct stamp *stamp = calloc(1, sizeof(*stamp));

	assert_non_null(stamp);
	assert_true(cluster < CLUSTERS_MAX);
	block[0] = ++run->n_stamps;
	stamp->ticket = run->n_states;
	stamp->value = block[0];
	stamp->before = run->stamps[cluster];
	run->stamps[cluster] = stamp;
	assert_int_equal(medium->ops->write(medium, block, sizeof(block),
					    offset_of(run->store, cluster)),
			 0);
}

/* What @cluster held when the change @ticket was the newest. */
static uint64_t stamp_at(const struct run *run, uint32_t cluster,
			 uint64_t ticket)
{
	const struct stamp *stamp = run->stamps[cluster];

	while (stamp && stamp->ticket > ticket)
		stamp = stamp->before;
	return stamp ? stamp->value : 0;
}

static void map_some(struct run *run, uint32_t id)
{
	struct raw_record map = {.type = RAW_MAP, .object = id};
	uint32_t want = 1 + below(run, 4);

	map.logical = below(run, LENGTH - want + 1);
	map.count = raw_store_take(run->store, want, RAW_HOLE, &map.physical);
	for (uint32_t i = 0; i < map.count; i++)
		write_stamp(run, map.physical + i);
	if (map.count)
		change(run, &map, 1);
}

static void reuse(struct run *run)
{
	struct raw_leaving leaving;

	if (raw_store_leave(run->store, &leaving))
		raw_store_left(run->store, &leaving);
}

static void grow(struct run *run)
{
	struct raw_medium *medium = &run->rec.medium;

	if (medium->size < MEDIUM)
		medium->size += UINT64_C(1) << 18;
	must(run, raw_store_extend(run->store, medium->size, &run->err),
	     "extend");
}

static void step(struct run *run)
{
	uint32_t id = 1 + below(run, OBJECTS), from = 1 + below(run, OBJECTS);

	switch (below(run, 12)) {
	case 0:
		if (exists(run, id))
			change(run,
			       &(struct raw_record){.type = RAW_DROP,
						    .object = id},
			       1);
		break;
	case 1:
	case 2:
		make_object(run, id,
			    exists(run, from) && from != id ? from : 0);
		break;
	case 3:
		if (exists(run, id))
			change(run,
			       &(struct raw_record){.type = RAW_UNMAP,
						    .object = id,
						    .logical = below(run, 20),
						    .count = 20},
			       1);
		break;
	case 4:
	case 5:
		must(run,
		     raw_store_commit(run->store, run->n_states - 1, &run->err),
		     "commit");
		run->rec.answered = run->n_states - 1;
		break;
	case 6:
		if (below(run, 8) == 0)
			must(run, raw_store_checkpoint(run->store, &run->err),
			     "checkpoint");
		else if (below(run, 4) == 0)
			grow(run);
		break;
	default:
		reuse(run);
		if (exists(run, id))
			map_some(run, id);
		break;
	}
}

static void run_open(struct run *run)
{
	struct raw_report report;

	must(run,
	     raw_store_open(&run->rec.medium, &run->store, &report, &run->err),
	     "open");
	run->rec.store = run->store;
}

static unsigned from_environment(const char *name, unsigned otherwise)
{
	const char *text = getenv(name);

	return text ? (unsigned)strtoul(text, NULL, 0) : otherwise;
}

static void run_init(struct run *run)
{
	const struct raw_format_options options = {
		.cluster_shift = RAW_CLUSTER_SHIFT_MIN,
		.text = "pool",
		.text_length = 4,
	};

	*run = (struct run){.random = from_environment("SEED", 1)};
	recorder_init(&run->rec);
	must(run, raw_store_format(&run->rec.medium, &options, &run->err),
	     "format");
	run_open(run);
	note_state(run);
}

static void run_done(struct run *run)
{
	raw_store_close(run->store);
	recorder_done(&run->rec);
	free(run->states);
	for (size_t i = 0; i < CLUSTERS_MAX; i++) {
		struct stamp *stamp = run->stamps[i];

		while (stamp) {
			struct stamp *before = stamp->before;

			free(stamp);
			stamp = before;
		}
	}
}

/* ---- the crashes ---- */

static bool object_holds(const struct run *run, const uint8_t *bytes,
			 const struct raw_object *object, uint64_t ticket)
{
	uint64_t n = raw_map_clusters(&object->map), value;

	for (uint64_t i = 0; i < n; i++) {
		uint32_t entry = raw_map_get(&object->map, i);

		if (entry == RAW_HOLE)
			continue;
		memcpy(&value, bytes + offset_of(run->store, entry),
		       sizeof(value));
		if (value != stamp_at(run, entry, ticket))
			return false;
	}
	return true;
}

/* Each mapped cluster holds what it held when @ticket was the newest. */
static bool data_holds(const struct run *run, const uint8_t *bytes,
		       struct raw_store *store, uint64_t ticket)
{
	const struct raw_state *state = raw_store_lock(store);
	bool holds = true;

	for (uint32_t id = 1; holds && id <= OBJECTS; id++) {
		const struct raw_object *object = raw_state_object(state, id);

		holds = !object || object_holds(run, bytes, object, ticket);
	}
	raw_store_unlock(store);
	return holds;
}

/* Open @bytes as it is: which ticket's state is it? */
static void check_image(struct run *run, uint8_t *bytes,
			const struct event *event, size_t at)
{
	struct recorder after = {
		.medium = {.ops = &recorder_ops, .size = MEDIUM},
		.bytes = bytes,
	};
	struct raw_store *store;
	struct raw_report report;
	struct error err;
	uint32_t found;
	bool good = false;
	int r = raw_store_open(&after.medium, &store, &report, &err);

	if (r < 0)
		fail_msg("seed %u, crash at event %zu: %s",
			 from_environment("SEED", 1), at, error_text(&err));
	found = fingerprint(store);
	for (uint64_t t = event->durable; !good && t <= event->newest; t++)
		good = run->states[t] == found &&
		       data_holds(run, bytes, store, t);
	if (!good)
		fail_msg("crash at event %zu: no state, with its data, from "
			 "%lu to %lu",
			 at, (unsigned long)event->durable,
			 (unsigned long)event->newest);
	r = raw_state_verify(raw_store_lock(store), &err);
	raw_store_unlock(store);
	if (r < 0)
		fail_msg("crash at event %zu: %s", at, error_text(&err));
	raw_store_close(store);
}

/* Every event from @since on is not flushed: any of them may be there. */
static void crash(struct run *run, const uint8_t *flushed, uint8_t *image,
		  size_t since, size_t at)
{
	unsigned chance = below(run, 5); /* none, some, all */

	memcpy(image, flushed, MEDIUM);
	for (size_t i = since; i < at; i++) {
		const struct event *event = &run->rec.events[i];

		if (below(run, 4) < chance)
			memcpy(image + event->offset, event->data, RAW_BLOCK);
	}
	check_image(run, image, &run->rec.events[at], at);
}

static void survives_a_power_failure_at_any_write(void **unused)
{
	unsigned steps = from_environment("STEPS", 500);
	uint8_t *flushed = malloc(MEDIUM), *image = malloc(MEDIUM);
	struct run run;
	size_t since = 0;

	(void)unused;
	assert_non_null(flushed);
	assert_non_null(image);
	run_init(&run);
	print_message("seed %u, %u steps\n", run.random, steps);
	memcpy(flushed, run.rec.bytes, MEDIUM);
	run.rec.recording = true;
	for (unsigned i = 0; i < steps; i++)
		step(&run);
	print_message("%zu states, %zu writes and flushes\n", run.n_states,
		      run.rec.n);
	for (size_t at = 0; at < run.rec.n; at++) {
		crash(&run, flushed, image, since, at);
		if (run.rec.events[at].offset != UINT64_MAX)
			continue;
		for (; since < at; since++)
			memcpy(flushed + run.rec.events[since].offset,
			       run.rec.events[since].data, RAW_BLOCK);
		since = at + 1;
	}
	free(flushed);
	free(image);
	run_done(&run);
}

/* The check above can fail: a medium that ignores flushes is found out. */
static void finds_out_a_medium_that_loses_flushed_writes(void **unused)
{
	struct raw_report report;
	struct raw_store *store;
	struct run run;
	uint8_t *before;
	int r;

	(void)unused;
	run_init(&run);
	before = malloc(MEDIUM);
	assert_non_null(before);
	memcpy(before, run.rec.bytes, MEDIUM);
	make_object(&run, 1, 0);
	must(&run, raw_store_commit(run.store, 1, &run.err), "commit");
	memcpy(run.rec.bytes, before, MEDIUM);
	r = raw_store_open(&run.rec.medium, &store, &report, &run.err);
	assert_int_equal(r, 0);
	assert_int_not_equal(fingerprint(store), run.states[1]);
	raw_store_close(store);
	free(before);
	run_done(&run);
}

/* ---- damage ---- */

static void reopens_with_one_superblock(void **unused)
{
	static const uint64_t copies[] = {0, RAW_SUPER_COPY_OFFSET};
	struct raw_report report;
	struct run run;
	uint32_t before;

	(void)unused;
	run_init(&run);
	for (unsigned i = 0; i < 60; i++)
		step(&run);
	must(&run, raw_store_commit(run.store, run.n_states - 1, &run.err),
	     "commit");
	before = fingerprint(run.store);
	for (size_t i = 0; i < 2; i++) {
		raw_store_close(run.store);
		run.rec.bytes[copies[i] + 100] ^= 1;
		must(&run,
		     raw_store_open(&run.rec.medium, &run.store, &report,
				    &run.err),
		     "open");
		assert_true(report.super_damaged);
		assert_int_equal(fingerprint(run.store), before);
	}
	raw_store_close(run.store);
	run_open(&run); /* both are whole again */
	run_done(&run);
}

static int open_result(struct run *run)
{
	struct raw_report report;
	struct raw_store *store = NULL;
	int r = raw_store_open(&run->rec.medium, &store, &report, &run->err);

	raw_store_close(store);
	return r;
}

static void takes_no_change_after_a_failed_commit(void **unused)
{
	struct raw_record drop = {.type = RAW_DROP, .object = 1};
	struct run run;

	(void)unused;
	run_init(&run);
	make_object(&run, 1, 0);
	run.rec.fail_writes = -EIO;
	assert_int_equal(raw_store_commit(run.store, 1, &run.err), -EIO);
	run.rec.fail_writes = 0;
	assert_int_equal(raw_store_commit(run.store, 1, &run.err), -EIO);
	assert_int_equal(raw_store_change(run.store, &drop, 1, NULL, &run.err),
			 -EIO);
	assert_string_equal(error_text(&run.err),
			    "the pool takes no changes: writing the pool's "
			    "log: Input/output error");
	assert_int_equal(open_result(&run), 0);
	run_done(&run);
}

/* ---- space ---- */

static void gives_a_cluster_again_only_when_it_is_free_for_good(void **unused)
{
	struct raw_record map = {.type = RAW_MAP, .object = 1, .count = 1};
	struct raw_leaving leaving;
	struct run run;
	uint32_t before;

	(void)unused;
	run_init(&run);
	make_object(&run, 1, 0);
	before = raw_store_available(run.store);
	assert_int_equal(raw_store_take(run.store, 1, RAW_HOLE, &map.physical),
			 1);
	change(&run, &map, 1);
	map.type = RAW_UNMAP;
	change(&run, &map, 1);
	(void)raw_store_leave(run.store, &leaving); /* not durable */
	assert_int_equal(leaving.n, 0);
	raw_store_left(run.store, &leaving);
	assert_int_equal(raw_store_available(run.store), before - 1);
	must(&run, raw_store_commit(run.store, run.n_states - 1, &run.err),
	     "commit");
	assert_int_equal(raw_store_available(run.store), before - 1);
	assert_true(raw_store_leave(run.store, &leaving));
	assert_int_equal(leaving.n, 1);
	raw_store_left(run.store, &leaving);
	assert_int_equal(raw_store_available(run.store), before);
	run_done(&run);
}

static void keeps_room_for_a_checkpoint(void **unused)
{
	struct raw_record map = {.type = RAW_MAP, .object = 1};
	struct run run;
	uint32_t first;

	(void)unused;
	run_init(&run);
	make_object(&run, 1, 0);
	for (;;) {
		map.count = raw_store_take(run.store, 8, RAW_HOLE,
					   &map.physical);
		if (!map.count)
			break;
		map.logical = (map.logical + 8) % 32;
		change(&run, &map, 1);
	}
	assert_int_equal(raw_store_available(run.store), 0);
	for (int i = 0; i < 5; i++)
		must(&run, raw_store_checkpoint(run.store, &run.err),
		     "checkpoint");
	assert_int_equal(raw_store_take(run.store, 1, RAW_HOLE, &first), 0);
	run_done(&run);
}

static void uses_a_medium_that_has_grown(void **unused)
{
	struct raw_medium *medium;
	struct run run;
	uint32_t before, first = 0, n = 0;

	(void)unused;
	run_init(&run);
	medium = &run.rec.medium;
	before = raw_store_available(run.store);
	assert_int_equal(
		raw_store_extend(run.store, SMALL - RAW_BLOCK, &run.err),
		-EINVAL);
	medium->size = MEDIUM;
	for (int i = 0; i < 2; i++) {
		must(&run, raw_store_extend(run.store, MEDIUM, &run.err),
		     "extend");
		assert_int_equal(raw_store_available(run.store),
				 before + ((MEDIUM - SMALL) >> 16));
	}
	make_object(&run, 1, 0);
	for (uint32_t i = 0; i < LENGTH; i++) {
		struct raw_record map = {
			.type = RAW_MAP, .object = 1, .logical = i, .count = 1};

		n += raw_store_take(run.store, 1, RAW_HOLE, &map.physical);
		first = map.physical;
		write_stamp(&run, first);
		change(&run, &map, 1);
	}
	assert_int_equal(n, LENGTH);
	assert_true(first > before); /* it is in the new part */
	must(&run, raw_store_commit(run.store, run.n_states - 1, &run.err),
	     "commit");
	raw_store_close(run.store);
	run_open(&run);
	assert_int_equal(fingerprint(run.store), run.states[run.n_states - 1]);
	raw_store_close(run.store);
	run.store = NULL;
	medium->size = MEDIUM - RAW_BLOCK;
	assert_int_equal(open_result(&run), -EBADMSG);
	run_done(&run);
}

/* The size is in the superblocks or not, whatever write was the last. */
static void stays_as_it_was_when_it_cannot_grow(void **unused)
{
	struct run run;
	uint32_t before;

	(void)unused;
	run_init(&run);
	before = raw_store_super(run.store)->clusters;
	run.rec.medium.size = MEDIUM;
	run.rec.fail_writes = -EIO;
	assert_int_equal(raw_store_extend(run.store, MEDIUM, &run.err), -EIO);
	run.rec.fail_writes = 0;
	assert_int_equal(raw_store_extend(run.store, MEDIUM, &run.err), -EIO);
	raw_store_close(run.store);
	run_open(&run);
	assert_int_equal(raw_store_super(run.store)->clusters, before);
	must(&run, raw_store_extend(run.store, MEDIUM, &run.err), "extend");
	run_done(&run);
}

/*
 * What takes no cluster may make a checkpoint larger, too: holes in what is
 * shared. On a full medium that ends before the checkpoint has no room.
 */
static void takes_no_change_that_a_checkpoint_has_no_room_for(void **unused)
{
	struct raw_record map = {.type = RAW_MAP, .object = 1, .count = 1};
	struct raw_record make[3] = {
		{.type = RAW_OBJECT, .clusters = LENGTH, .text = ""},
		{.type = RAW_SHARE, .from = 1},
		{.type = RAW_UNMAP, .count = 1},
	};
	struct run run;
	uint32_t id = 2;
	int r = 0;

	(void)unused;
	run_init(&run);
	make_object(&run, 1, 0);
	while (map.logical < LENGTH &&
	       raw_store_take(run.store, 1, RAW_HOLE, &map.physical)) {
		change(&run, &map, 1);
		map.logical++;
	}
	while (raw_store_take(run.store, 8, RAW_HOLE, &map.physical))
		; /* by others */
	for (; r == 0; id++) {
		for (size_t i = 0; i < 3; i++)
			make[i].object = id;
		r = raw_store_change(run.store, make, 3, NULL, &run.err);
	}
	assert_int_equal(r, -ENOSPC);
	assert_true(id > 50);
	must(&run, raw_store_checkpoint(run.store, &run.err), "checkpoint");
	/* Less is always possible, and makes room. */
	must(&run,
	     raw_store_change(
		     run.store,
		     &(struct raw_record){.type = RAW_DROP, .object = 2}, 1,
		     NULL, &run.err),
	     "drop");
	must(&run, raw_store_checkpoint(run.store, &run.err), "checkpoint");
	run_done(&run);
}

/* Many more changes than the ring has room for. */
static void goes_round_the_ring(void **unused)
{
	struct run run;
	uint32_t before;

	(void)unused;
	run_init(&run);
	for (unsigned i = 0; i < 5000; i++)
		make_object(&run, 1 + i % OBJECTS, 0);
	must(&run, raw_store_commit(run.store, run.n_states - 1, &run.err),
	     "commit");
	before = fingerprint(run.store);
	raw_store_close(run.store);
	run_open(&run);
	assert_int_equal(fingerprint(run.store), before);
	run_done(&run);
}

/* ---- threads ---- */

struct worker {
	pthread_t thread;
	struct raw_store *store;
	uint32_t id;
	uint64_t flushes;
};

static void *work(void *context)
{
	struct worker *worker = context;
	struct raw_record object = {.type = RAW_OBJECT,
				    .object = worker->id,
				    .clusters = LENGTH,
				    .text = "x",
				    .text_length = 1};
	struct error err;
	uint64_t ticket;

	for (int i = 0; i < 300; i++) {
		if (raw_store_change(worker->store, &object, 1, &ticket, &err) <
			    0 ||
		    raw_store_commit(worker->store, ticket, &err) < 0)
			return (void *)error_text(&err);
	}
	return NULL;
}

static void serves_many_threads(void **unused)
{
	struct worker workers[OBJECTS];
	struct run run;
	void *failure;

	(void)unused;
	run_init(&run);
	for (unsigned i = 0; i < OBJECTS; i++) {
		workers[i] = (struct worker){.store = run.store, .id = i + 1};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work,
						&workers[i]),
				 0);
	}
	for (unsigned i = 0; i < OBJECTS; i++) {
		assert_int_equal(pthread_join(workers[i].thread, &failure), 0);
		assert_null(failure);
	}
	assert_false(raw_store_pending(run.store));
	raw_store_close(run.store);
	run_open(&run);
	for (uint32_t id = 1; id <= OBJECTS; id++)
		assert_true(exists(&run, id));
	run_done(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(survives_a_power_failure_at_any_write),
		cmocka_unit_test(finds_out_a_medium_that_loses_flushed_writes),
		cmocka_unit_test(reopens_with_one_superblock),
		cmocka_unit_test(takes_no_change_after_a_failed_commit),
		cmocka_unit_test(
			gives_a_cluster_again_only_when_it_is_free_for_good),
		cmocka_unit_test(keeps_room_for_a_checkpoint),
		cmocka_unit_test(
			takes_no_change_that_a_checkpoint_has_no_room_for),
		cmocka_unit_test(uses_a_medium_that_has_grown),
		cmocka_unit_test(stays_as_it_was_when_it_cannot_grow),
		cmocka_unit_test(goes_round_the_ring),
		cmocka_unit_test(serves_many_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
