/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A raw pool against a model in memory: extents are made, written, discarded,
 * snapshotted, cloned, reverted, grown and deleted in any order, on a medium
 * that is too small for all of it; now and then the pool is opened again, or
 * killed and opened.
 *
 * SEED=N is the first seed, SEEDS=N how many follow each other, STEPS=N how
 * long each run is.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blockd/node/pool_proxy.h"
#include "blockd/testkit/model_kit.h"

static bool has_shared(const struct run *run)
{
	return run->shared && run->reclaimable;
}

static void does_as_a_model_says(void **unused)
{
	(void)unused;
	model_seeds_run(&(struct model_seeds){.kind = &model_raw,
					      .steps = 2000,
					      .after = model_check_sharing,
					      .met = has_shared});
}

/* ---- what chance may miss ---- */

static struct object *make_copy(struct run *run, struct object *from,
				bool thick)
{
	struct object *object = model_empty_slot(run);
	struct extent_record record;
	struct pool_copy copy = {from->record.name, &record};

	model_new_record(run, &record, from->record.size);
	record.thick = thick;
	model_origin_set(&record, from, NULL);
	MUST(run,
	     run->pool->ops->copy(run->pool, &copy, 1, NULL, NULL, &run->err));
	model_settle(from);
	model_object_add(run, object, &record, from);
	return object;
}

/*
 * One of two objects has written to a cluster that both had, and a kill comes
 * before the map says so. Data that the other object has written since must not
 * be its content.
 */
static void keeps_what_was_shared_until_it_is_not_for_good(void **unused)
{
	static struct run run;
	struct object *a, *b;

	(void)unused;
	model_run_begin(&run, &model_raw, 1);
	a = model_extent_make(&run, false);
	model_write_at(&run, a, WRITE, 0, 40, 0);
	b = make_copy(&run, a, false);
	model_write_at(&run, b, WRITE, 3, 2, 0);
	model_write_at(&run, a, WRITE, 0, 40, 0);
	model_open_again(&run, true);
	model_run_end(&run);
}

static void a_flush_of_the_pool_outlives_a_kill(void **unused)
{
	static struct run run;
	struct object *a;

	(void)unused;
	model_run_begin(&run, &model_raw, 1);
	a = model_extent_make(&run, false);
	model_write_at(&run, a, WRITE, 0, 40, 0);
	MUST(&run, run.pool->ops->flush(run.pool, a->record.name, &run.err));
	model_settle(a);
	model_open_again(&run, true);
	model_check_all(&run, a, false);
	model_run_end(&run);
}

/* At the floor a write has no room, and the extent lives on. */
static void is_full_at_its_floor_until_there_is_room(void **unused)
{
	static struct run run;
	struct object *a, *b;
	uint64_t free_before;

	(void)unused;
	model_run_begin(&run, &model_raw, 1);
	a = model_extent_make(&run, false);
	b = model_extent_make(&run, false);
	model_write_at(&run, a, WRITE, 0, 64, BLOCKDEV_FUA);
	free_before = model_measure(&run).free;
	run.pool->ops->keep_free(run.pool, free_before);
	assert_int_equal(run.full, 0);
	model_write_at(&run, a, WRITE, 32, 64, 0); /* half of it is there */
	assert_int_equal(run.full, 1);
	model_write_at(&run, b, WRITE, 0, 8, 0);
	assert_int_equal(run.full, 2);
	/* The floor is nothing that a pool lacks. */
	assert_int_equal(model_measure(&run).free, free_before);
	model_write_at(&run, a, WRITE, 0, 64, 0);
	model_check_all(&run, a, false);
	assert_int_equal(run.full, 2);
	/* Room comes back: by a discard, and by a lower floor. */
	model_write_at(&run, a, DISCARD, 0, 32, 0);
	model_write_at(&run, b, WRITE, 0, 8, 0);
	assert_int_equal(run.full, 2);
	run.pool->ops->keep_free(run.pool, 0);
	model_write_at(&run, a, WRITE, 0, 256, 0);
	assert_int_equal(run.full, 2);
	model_check_all(&run, a, false);
	model_check_all(&run, b, false);
	model_run_end(&run);
}

static unsigned found_in_all;

static void count_found(void *context, const struct pool_found *found)
{
	(void)context;
	assert_null(found->damage);
	found_in_all++;
}

static void tell_nobody(void *context, const char *text)
{
	(void)context;
	(void)text;
}

/* More of them, and longer records, than a batch of the log has room for. */
static void makes_a_group_that_is_larger_than_a_batch(void **unused)
{
	enum { MANY = 256 };
	struct extent_label labels[EXTENT_LABELS_MAX];
	struct extent_record *records = calloc(MANY, sizeof(*records));
	struct pool_copy *copies = calloc(MANY, sizeof(*copies));
	const struct pool_visitor all = {count_found, tell_nobody, NULL};
	static struct run run;
	char text[EXTENT_LABELS_MAX][EXTENT_LABEL_MAX + 1];
	struct object *from;

	(void)unused;
	assert_true(records && copies);
	model_run_begin(&run, &model_raw, 1);
	from = model_extent_make(&run, false);
	model_write_at(&run, from, WRITE, 0, 100, 0);
	for (int i = 0; i < EXTENT_LABELS_MAX; i++) {
		memset(text[i], 'a' + i, EXTENT_LABEL_MAX);
		text[i][EXTENT_LABEL_MAX] = '\0';
		labels[i] = (struct extent_label){text[i], text[i]};
	}
	for (int i = 0; i < MANY; i++) {
		model_new_record(&run, &records[i], from->record.size);
		records[i].kind = EXTENT_KIND_SNAPSHOT;
		model_origin_set(&records[i], from, from->record.id);
		MUST(&run,
		     extent_record_set_labels(&records[i], labels,
					      EXTENT_LABELS_MAX, &run.err));
		copies[i] = (struct pool_copy){from->record.name, &records[i]};
	}
	MUST(&run,
	     run.pool->ops->copy(run.pool, copies, MANY, NULL, NULL, &run.err));
	/* All of them are there after a kill. */
	found_in_all = 0;
	MUST(&run, run.pool->ops->load(run.pool, &all, &run.err));
	assert_int_equal(found_in_all, MANY + 1);
	for (int i = 0; i < MANY; i++) {
		MUST(&run, run.pool->ops->begin_delete(
				   run.pool, records[i].name, &run.err));
		extent_record_done(&records[i]);
	}
	model_open_again(&run, true);
	free(records);
	free(copies);
	model_run_end(&run);
}

static void change(struct run *run, struct raw_record *record, const char *text)
{
	record->text = text;
	record->text_length = (uint32_t)strlen(text);
	MUST(run, pool_raw_change(pool_raw_of(run->pool), record, &run->err));
}

/* As a crash leaves it: before the first object goes, and after that. */
static void finishes_or_undoes_a_group_that_was_cut_short(void **unused)
{
	struct raw_record record = {.type = RAW_OBJECT, .clusters = 16};
	struct extent_record extents[2];
	static struct run run;
	struct object *object;
	char *text, *with;
	size_t length;

	(void)unused;
	model_run_begin(&run, &model_raw, 1);
	record.object = 5;
	record.clusters = 0;
	change(&run, &record, POOL_RAW_MAKING);
	record.clusters = 16;
	for (uint32_t i = 0; i < 2; i++) {
		model_new_record(&run, &extents[i], EXTENT_SIZE_MIN);
		MUST(&run, extent_record_encode(&extents[i], &text, &length,
						&run.err));
		/* The first one's is there, the second one's is gone. */
		assert_true(asprintf(&with, "%s%u\n%.*s", POOL_RAW_MADE_WITH,
				     5 + 4 * i, (int)length, text) > 0);
		record.object = 2 + i;
		change(&run, &record, with);
		free(with);
		free(text);
	}
	object = model_empty_slot(&run);
	object->record = extents[1];
	object->n = EXTENT_SIZE_MIN / BLOCK;
	object->blocks = calloc(object->n, sizeof(*object->blocks));
	/* Opening says so when another one is told of. */
	model_open_again(&run, false);
	model_run_end(&run);
}

struct counter {
	struct pool *pool;
	atomic_bool stop;
};

static void *count_on(void *counter_)
{
	struct counter *counter = counter_;
	struct pool_sharing sharing;
	struct error err;

	do {
		assert_int_equal(counter->pool->ops->sharing(counter->pool,
							     NULL, 0, &sharing,
							     &err),
				 0);
		assert_true(sharing.shared <= MEDIUM_BYTES);
		assert_true(sharing.reclaimable <= MEDIUM_BYTES);
	} while (!atomic_load(&counter->stop));
	return NULL;
}

static void counts_what_is_shared_while_it_changes(void **unused)
{
	struct counter counter = {0};
	static struct run run;
	pthread_t thread;

	(void)unused;
	model_run_begin(&run, &model_raw, 1);
	counter.pool = run.pool;
	assert_int_equal(pthread_create(&thread, NULL, count_on, &counter), 0);
	for (unsigned i = 0; i < 60; i++) {
		struct object *object = model_any(&run, false);

		model_create(&run);
		for (unsigned k = 0; k < 4; k++)
			model_write_some(&run, k % 3 ? WRITE : DISCARD);
		model_snapshot(&run);
		model_make_clone(&run);
		model_revert(&run);
		if (object)
			model_erase(&run, object);
	}
	atomic_store(&counter.stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	model_check_sharing(&run);
	model_run_end(&run);
}

/* A pool on a seat: nothing that it can do is forgotten. */
static void can_the_same_when_its_medium_may_go(void **unused)
{
	enum { MEMBERS = sizeof(struct pool_ops) / sizeof(void *) };
	static struct run run;
	void *can[MEMBERS], *seated[MEMBERS];
	struct pool *seat;

	(void)unused;
	model_run_begin(&run, &model_raw, 1);
	MUST(&run, pool_proxy_new(run.pool, &seat, &run.err));
	memcpy(can, run.pool->ops, sizeof(can));
	memcpy(seated, seat->ops, sizeof(seated));
	for (size_t i = 0; i < MEMBERS; i++)
		if (i != offsetof(struct pool_ops, load) / sizeof(void *) &&
		    !can[i] != !seated[i])
			fail_msg("member %zu of struct pool_ops", i);
	run.pool = seat;
	model_run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(does_as_a_model_says),
		cmocka_unit_test(
			keeps_what_was_shared_until_it_is_not_for_good),
		cmocka_unit_test(a_flush_of_the_pool_outlives_a_kill),
		cmocka_unit_test(is_full_at_its_floor_until_there_is_room),
		cmocka_unit_test(counts_what_is_shared_while_it_changes),
		cmocka_unit_test(can_the_same_when_its_medium_may_go),
		cmocka_unit_test(makes_a_group_that_is_larger_than_a_batch),
		cmocka_unit_test(finishes_or_undoes_a_group_that_was_cut_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
