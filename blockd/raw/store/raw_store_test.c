/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A raw pool's metadata, with its medium and without one. Power failures:
 * blockd/raw/store/raw_power_test.c.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "blockd/testkit/raw_store_kit.h"
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
		run_step(&run);
	run_must(&run,
		 raw_store_commit(run.store, power_states_newest(&run.states),
				  &run.err),
		 "commit");
	before = power_fingerprint(run.store);
	for (size_t i = 0; i < 2; i++) {
		raw_store_close(run.store);
		run.power.bytes[copies[i] + 100] ^= 1;
		run_must(&run,
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

static void takes_no_change_after_a_failed_commit(void **unused)
{
	struct raw_record drop = {.type = RAW_DROP, .object = 1};
	struct run run;

	(void)unused;
	run_init(&run);
	run_make_object(&run, 1, 0);
	run.power.fail_writes = -EIO;
	assert_int_equal(raw_store_commit(run.store, 1, &run.err), -EIO);
	run.power.fail_writes = 0;
	assert_int_equal(raw_store_commit(run.store, 1, &run.err), -EIO);
	assert_int_equal(raw_store_change(run.store, &drop, 1, NULL, &run.err),
			 -EIO);
	assert_string_equal(error_text(&run.err),
			    "the pool takes no changes: writing the pool's "
			    "log: Input/output error");
	assert_int_equal(run_open_result(&run), 0);
	run_done(&run);
}

static void gives_a_cluster_again_only_when_it_is_free_for_good(void **unused)
{
	struct raw_record map = {.type = RAW_MAP, .object = 1, .count = 1};
	struct raw_leaving leaving;
	struct run run;
	uint32_t before;

	(void)unused;
	run_init(&run);
	run_make_object(&run, 1, 0);
	before = raw_store_available(run.store);
	assert_int_equal(raw_store_take(run.store, 1, RAW_HOLE, &map.physical),
			 1);
	run_change(&run, &map, 1);
	map.type = RAW_UNMAP;
	run_change(&run, &map, 1);
	(void)raw_store_leave(run.store, &leaving); /* not durable */
	assert_int_equal(leaving.n, 0);
	raw_store_left(run.store, &leaving);
	assert_int_equal(raw_store_available(run.store), before - 1);
	run_must(&run,
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

/* Many more changes than the ring has room for. */
static void goes_round_the_ring(void **unused)
{
	struct run run;
	uint32_t before;

	(void)unused;
	run_init(&run);
	for (unsigned i = 0; i < 5000; i++)
		run_make_object(&run, 1 + i % OBJECTS, 0);
	run_must(&run,
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
	atomic_uint checkpoints;
	int r;
};

static void *keep(void *context)
{
	struct keeper *keeper = context;
	struct error err;

	while (keeper->r == 0 && !keeper->stopping) {
		keeper->r = raw_store_checkpoint_ahead(keeper->store, &err);
		atomic_fetch_add(&keeper->checkpoints, 1);
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
		assert_true(run_exists(&run, id));
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
	while (!atomic_load(&keeper.checkpoints))
		(void)sched_yield(); /* it may begin late */
	serve_many_threads(run.store);
	keeper.stopping = true;
	assert_int_equal(pthread_join(keeper.thread, NULL), 0);
	assert_int_equal(keeper.r, 0);
	before = power_fingerprint(run.store);
	raw_store_close(run.store);
	run_open(&run);
	assert_int_equal(power_fingerprint(run.store), before);
	run_done(&run);
}

/* ---- commits that wait for each other ---- */

#define WRITERS 12

struct group {
	struct raw_store *store;
	uint64_t ring;       /* bytes, of one copy of the log */
	uint64_t awaited;    /* tickets, before the first batch is written */
	atomic_bool begun;   /* it is being written */
	atomic_uint batches; /* blocks of the log's first copy: one each */
	atomic_uint next;    /* place for a writer's cluster */
	_Atomic(const char *) failure;
};

static void nap(void)
{
	const struct timespec ms = {.tv_nsec = 1000 * 1000};

	(void)nanosleep(&ms, NULL);
}

static void hold_first_batch(void *context, uint64_t offset)
{
	struct group *group = context;

	if (offset < RAW_LOG_START || offset >= RAW_LOG_START + group->ring)
		return;
	if (atomic_fetch_add(&group->batches, 1) > 0)
		return;
	group->begun = true;
	for (unsigned i = 0;
	     raw_store_newest(group->store) < group->awaited && i < 30000; i++)
		nap();
}

/* As the first write to a cluster, and a flush after it. */
static void *write_first(void *context)
{
	struct group *group = context;
	struct raw_record map = {
		.type = RAW_MAP,
		.object = 1,
		.logical = atomic_fetch_add(&group->next, 1),
		.count = 1,
	};
	struct error err;
	uint64_t ticket;

	if (!raw_store_take(group->store, 1, RAW_HOLE, &map.physical))
		group->failure = "no cluster";
	else if (raw_store_change(group->store, &map, 1, &ticket, &err) < 0)
		group->failure = "change";
	else if (raw_store_commit(group->store, ticket, &err) < 0)
		group->failure = "commit";
	return NULL;
}

static void begin_writers(struct group *group, pthread_t *threads, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, write_first, group),
			0);
}

/* One is writing the log: all that come meanwhile are in the next batch. */
static void writes_the_log_once_for_all_that_wait(void **unused)
{
	pthread_t threads[WRITERS];
	struct group group = {0};
	struct run run;
	unsigned flushes;

	(void)unused;
	run_init(&run);
	run_make_object(&run, 1, 0);
	run_must(&run,
		 raw_store_commit(run.store, power_states_newest(&run.states),
				  &run.err),
		 "commit");
	group.store = run.store;
	group.ring = raw_ring_size(raw_store_super(run.store));
	group.awaited = raw_store_newest(run.store) + WRITERS;
	run.power.before_write = hold_first_batch;
	run.power.context = &group;
	flushes = run.power.flushes;
	begin_writers(&group, threads, 1);
	for (unsigned i = 0; !group.begun && i < 30000; i++)
		nap();
	assert_true(group.begun);
	begin_writers(&group, threads + 1, WRITERS - 1);
	for (unsigned i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_null(group.failure);
	assert_false(raw_store_pending(run.store));
	assert_int_equal(group.batches, 2);
	/* Of each the data before it, and it. */
	assert_int_equal(run.power.flushes - flushes, 2 * 2);
	run.power.before_write = NULL;
	run_done(&run);
}

/* ---- checkpoints ahead of time ---- */

static void count_call(void *context)
{
	++*(unsigned *)context;
}

/* A caller that is told once has time for it: no commit finds the log full. */
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
			run_make_object(&run, 1, 0);
			run_must(&run,
				 raw_store_commit(
					 run.store,
					 power_states_newest(&run.states),
					 &run.err),
				 "commit");
		}
		run_make_object(&run, 1, 0);
		run_must(&run,
			 raw_store_commit(run.store,
					  power_states_newest(&run.states),
					  &run.err),
			 "commit");
		assert_int_equal(told, round);
		assert_int_equal(raw_store_super(run.store)->generation,
				 generation + round - 1);
		run_must(&run, raw_store_checkpoint_ahead(run.store, &run.err),
			 "checkpoint ahead of time");
		assert_false(raw_store_filling(run.store));
	}
	run_done(&run);
}

/* A thread that comes while a checkpoint is written. */
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
	run_make_object(&run, 1, 0);
	run_beside(&run, raw_store_checkpoint, raw_store_suspect);
	run_must(&run, raw_store_leaked(run.store, true, &findings, &run.err),
		 "leaked");
	run_beside(&run, raw_store_checkpoint_ahead, raw_store_suspect);
	run_must(&run, raw_store_leaked(run.store, true, &findings, &run.err),
		 "leaked");
	run_done(&run);
}

static void stays_deleted_when_a_checkpoint_was_under_way(void **unused)
{
	struct run run;

	(void)unused;
	run_init(&run);
	run_beside(&run, raw_store_checkpoint, raw_store_erase);
	assert_int_equal(run_open_result(&run), -ENODATA);
	run_done(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reopens_with_one_superblock),
		cmocka_unit_test(takes_no_change_after_a_failed_commit),
		cmocka_unit_test(
			gives_a_cluster_again_only_when_it_is_free_for_good),
		cmocka_unit_test(goes_round_the_ring),
		cmocka_unit_test(serves_many_threads),
		cmocka_unit_test(serves_them_while_checkpoints_are_written),
		cmocka_unit_test(writes_the_log_once_for_all_that_wait),
		cmocka_unit_test(says_when_a_checkpoint_is_due),
		cmocka_unit_test(takes_no_new_checkpoint_for_a_leak),
		cmocka_unit_test(stays_deleted_when_a_checkpoint_was_under_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
