/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A raw pool's metadata: what it does with its medium, and without one. Power
 * failures: blockd/raw_power_test.c.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "blockd/power_kit.h"
#include "blockd/power_states.h"

#define MEDIUM  (UINT64_C(10) << 20)
#define SMALL   (MEDIUM - (UINT64_C(2) << 20)) /* what it grows from */
#define OBJECTS 8
#define LENGTH  40 /* clusters of an object */

/* ---- the workload ---- */

struct run {
	struct power power;
	struct raw_store *store;
	unsigned random;
	struct power_states states;
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

static void change(struct run *run, const struct raw_record *records, size_t n)
{
	must(run,
	     power_states_change(&run->states, run->store, records, n,
				 &run->err),
	     "change");
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

static void map_some(struct run *run, uint32_t id)
{
	struct raw_record map = {.type = RAW_MAP, .object = id};
	uint32_t want = 1 + below(run, 4);

	map.logical = below(run, LENGTH - want + 1);
	map.count = raw_store_take(run->store, want, RAW_HOLE, &map.physical);
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
	struct raw_medium *medium = &run->power.medium;

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
		     raw_store_commit(run->store,
				      power_states_newest(&run->states),
				      &run->err),
		     "commit");
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
	     raw_store_open(&run->power.medium, &run->store, &report,
			    &run->err),
	     "open");
}

static void run_init(struct run *run)
{
	const struct raw_format_options options = {
		.cluster_shift = RAW_CLUSTER_SHIFT_MIN,
		.text = "pool",
		.text_length = 4,
	};

	*run = (struct run){.random = 1};
	power_init(&run->power, SMALL, MEDIUM);
	must(run, raw_store_format(&run->power.medium, &options, &run->err),
	     "format");
	run_open(run);
	power_states_note(&run->states, run->store);
}

static void run_done(struct run *run)
{
	raw_store_close(run->store);
	power_done(&run->power);
	power_states_done(&run->states);
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
	must(&run,
	     raw_store_commit(run.store, power_states_newest(&run.states),
			      &run.err),
	     "commit");
	before = power_fingerprint(run.store);
	for (size_t i = 0; i < 2; i++) {
		raw_store_close(run.store);
		run.power.bytes[copies[i] + 100] ^= 1;
		must(&run,
		     raw_store_open(&run.power.medium, &run.store, &report,
				    &run.err),
		     "open");
		assert_true(report.super_damaged);
		assert_int_equal(power_fingerprint(run.store), before);
	}
	raw_store_close(run.store);
	run_open(&run); /* both are whole again */
	run_done(&run);
}

static int open_result(struct run *run)
{
	struct raw_report report;
	struct raw_store *store = NULL;
	int r = raw_store_open(&run->power.medium, &store, &report, &run->err);

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
	run.power.fail_writes = -EIO;
	assert_int_equal(raw_store_commit(run.store, 1, &run.err), -EIO);
	run.power.fail_writes = 0;
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
	must(&run,
	     raw_store_commit(run.store, power_states_newest(&run.states),
			      &run.err),
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
	medium = &run.power.medium;
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
		change(&run, &map, 1);
	}
	assert_int_equal(n, LENGTH);
	assert_true(first > before); /* it is in the new part */
	must(&run,
	     raw_store_commit(run.store, power_states_newest(&run.states),
			      &run.err),
	     "commit");
	raw_store_close(run.store);
	run_open(&run);
	assert_int_equal(power_fingerprint(run.store),
			 run.states.prints[power_states_newest(&run.states)]);
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
	run.power.medium.size = MEDIUM;
	run.power.fail_writes = -EIO;
	assert_int_equal(raw_store_extend(run.store, MEDIUM, &run.err), -EIO);
	run.power.fail_writes = 0;
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
	must(&run,
	     raw_store_commit(run.store, power_states_newest(&run.states),
			      &run.err),
	     "commit");
	before = power_fingerprint(run.store);
	raw_store_close(run.store);
	run_open(&run);
	assert_int_equal(power_fingerprint(run.store), before);
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

struct keeper {
	pthread_t thread;
	struct raw_store *store;
	atomic_bool stopping;
	unsigned checkpoints;
	int r;
};

static void *keep(void *context)
{
	struct keeper *keeper = context;
	struct error err;

	while (keeper->r == 0 && !keeper->stopping) {
		keeper->r = raw_store_checkpoint_ahead(keeper->store, &err);
		keeper->checkpoints++;
	}
	return NULL;
}

static void serve_many_threads(struct raw_store *store)
{
	struct worker workers[OBJECTS];
	void *failure;

	for (unsigned i = 0; i < OBJECTS; i++) {
		workers[i] = (struct worker){.store = store, .id = i + 1};
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work,
						&workers[i]),
				 0);
	}
	for (unsigned i = 0; i < OBJECTS; i++) {
		assert_int_equal(pthread_join(workers[i].thread, &failure), 0);
		assert_null(failure);
	}
	assert_false(raw_store_pending(store));
}

static void serves_many_threads(void **unused)
{
	struct run run;

	(void)unused;
	run_init(&run);
	serve_many_threads(run.store);
	raw_store_close(run.store);
	run_open(&run);
	for (uint32_t id = 1; id <= OBJECTS; id++)
		assert_true(exists(&run, id));
	run_done(&run);
}

static void serves_them_while_checkpoints_are_written(void **unused)
{
	struct keeper keeper = {0};
	struct run run;
	uint32_t before;

	(void)unused;
	run_init(&run);
	keeper.store = run.store;
	assert_int_equal(pthread_create(&keeper.thread, NULL, keep, &keeper),
			 0);
	serve_many_threads(run.store);
	keeper.stopping = true;
	assert_int_equal(pthread_join(keeper.thread, NULL), 0);
	assert_int_equal(keeper.r, 0);
	assert_true(keeper.checkpoints > 0);
	before = power_fingerprint(run.store);
	raw_store_close(run.store);
	run_open(&run);
	assert_int_equal(power_fingerprint(run.store), before);
	run_done(&run);
}

/* ---- checkpoints ahead of time ---- */

static void count_call(void *context)
{
	++*(unsigned *)context;
}

/* Whoever is told once has time for it: no commit finds the log full. */
static void says_when_a_checkpoint_is_due(void **unused)
{
	uint64_t generation;
	unsigned told = 0;
	struct run run;

	(void)unused;
	run_init(&run);
	generation = raw_store_super(run.store)->generation;
	raw_store_on_filling(run.store, count_call, &told);
	for (unsigned round = 1; round <= 3; round++) {
		while (!raw_store_filling(run.store)) {
			assert_int_equal(told, round - 1);
			make_object(&run, 1, 0);
			must(&run,
			     raw_store_commit(run.store,
					      power_states_newest(&run.states),
					      &run.err),
			     "commit");
		}
		make_object(&run, 1, 0);
		must(&run,
		     raw_store_commit(run.store,
				      power_states_newest(&run.states),
				      &run.err),
		     "commit");
		assert_int_equal(told, round);
		assert_int_equal(raw_store_super(run.store)->generation,
				 generation + round - 1);
		must(&run, raw_store_checkpoint_ahead(run.store, &run.err),
		     "checkpoint ahead of time");
		assert_false(raw_store_filling(run.store));
	}
	run_done(&run);
}

/* Somebody who comes while a checkpoint is written. */
struct other {
	pthread_t thread;
	struct raw_store *store;
	int (*call)(struct raw_store *store, struct error *err);
	bool begun;
	int r;
};

static void *other_run(void *context)
{
	struct other *other = context;
	struct error err;

	other->r = other->call(other->store, &err);
	return NULL;
}

static void other_begin(void *context, uint64_t offset)
{
	struct other *other = context;
	const struct timespec while_it_runs = {.tv_nsec = 20 * 1000 * 1000};

	(void)offset;
	if (other->begun)
		return;
	other->begun = true;
	assert_int_equal(pthread_create(&other->thread, NULL, other_run, other),
			 0);
	(void)nanosleep(&while_it_runs, NULL);
}

/* @checkpoint may fail when the other one is quicker. */
static void run_beside(struct run *run,
		       int (*checkpoint)(struct raw_store *store,
					 struct error *err),
		       int (*call)(struct raw_store *store, struct error *err))
{
	struct other other = {.store = run->store, .call = call};

	run->power.before_write = other_begin;
	run->power.context = &other;
	(void)checkpoint(run->store, &run->err);
	assert_true(other.begun);
	assert_int_equal(pthread_join(other.thread, NULL), 0);
	assert_int_equal(other.r, 0);
	run->power.before_write = NULL;
}

static void no_finding(void *context, const char *text, bool repaired)
{
	(void)context;
	(void)repaired;
	fail_msg("%s", text);
}

static void takes_no_new_checkpoint_for_a_leak(void **unused)
{
	struct raw_findings findings = {.tell = no_finding};
	struct run run;

	(void)unused;
	run_init(&run);
	make_object(&run, 1, 0);
	run_beside(&run, raw_store_checkpoint, raw_store_suspect);
	must(&run, raw_store_leaked(run.store, true, &findings, &run.err),
	     "leaked");
	run_beside(&run, raw_store_checkpoint_ahead, raw_store_suspect);
	must(&run, raw_store_leaked(run.store, true, &findings, &run.err),
	     "leaked");
	run_done(&run);
}

static void stays_deleted_when_a_checkpoint_was_under_way(void **unused)
{
	struct run run;

	(void)unused;
	run_init(&run);
	run_beside(&run, raw_store_checkpoint, raw_store_erase);
	assert_int_equal(open_result(&run), -ENODATA);
	run_done(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
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
		cmocka_unit_test(serves_them_while_checkpoints_are_written),
		cmocka_unit_test(says_when_a_checkpoint_is_due),
		cmocka_unit_test(takes_no_new_checkpoint_for_a_leak),
		cmocka_unit_test(stays_deleted_when_a_checkpoint_was_under_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
