/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A raw pool is checked again and again while it is written to, discarded,
 * copied and dropped from: nothing is found that is not wrong, and a cluster
 * that is nobody's is found and given back; and a checkpoint that is due has
 * its turn between two of them. SEED=N, STEPS=N.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blockd/raw/store/raw_store_internal.h"
#include "blockd/testkit/raw_dev_kit.h"

#define EXTENTS  3u
#define SNAPSHOT (EXTENTS + 1)
#define MEDIUM   (MEDIUM_MIN + 128 * CLUSTER)

struct checker {
	struct pool *pool;
	pthread_t thread;
	atomic_bool stop;
	atomic_uint checks, left;
	unsigned repaired;
	char found[400];     /* the last that was left */
	char mended[4][400]; /* the first that were repaired */
	struct error err;
};

static void told(void *context, const char *text, bool repaired)
{
	struct checker *checker = context;

	if (repaired && checker->repaired < array_size(checker->mended))
		(void)snprintf(checker->mended[checker->repaired],
			       sizeof(checker->mended[0]), "check %u: %s",
			       atomic_load(&checker->checks), text);
	checker->repaired += repaired;
	if (!repaired)
		(void)snprintf(checker->found, sizeof(checker->found), "%s",
			       text);
}

/* As blockd/raw/pool_raw_check.c does it. */
static int check(struct checker *checker)
{
	struct raw_findings findings = {.tell = told, .context = checker};
	struct pool *pool = checker->pool;
	int r = raw_store_check(pool->store, true, &findings, &checker->err);

	if (r == 0)
		r = raw_store_suspect(pool->store, &checker->err);
	if (r == 0)
		r = raw_users_settle_now(pool->users, &checker->err);
	if (r == 0)
		r = raw_store_leaked(pool->store, true, &findings,
				     &checker->err);
	atomic_fetch_add(&checker->left, (unsigned)findings.left);
	atomic_fetch_add(&checker->checks, 1);
	return r;
}

static void *checker_run(void *context)
{
	struct checker *checker = context;
	int r = 0;

	while (r == 0 && !atomic_load(&checker->left) &&
	       !atomic_load(&checker->stop))
		r = check(checker);
	return (void *)(intptr_t)r;
}

static struct io *ask(struct pool *pool, struct blockdev **dev, uint64_t slot,
		      sem_t *done)
{
	static const enum what whats[] = {WRITE, WRITE,   WRITE, ZERO,
					  FLUSH, DISCARD, WRITE, WRITE};
	struct io *io = calloc(1, sizeof(*io));

	assert_non_null(io);
	*io = (struct io){
		.message.run = raw_dev_kit_io_start,
		.op.done = raw_dev_kit_io_done,
		.pool = pool,
		.dev = dev,
		.what = whats[raw_dev_kit_below(pool, 8)],
		.offset = slot * CLUSTER + BLOCK * raw_dev_kit_below(pool, 8),
		.length = BLOCK * (1 + raw_dev_kit_below(pool, 8)),
		.done = done,
	};
	if (io->what == DISCARD) {
		io->offset = slot * CLUSTER;
		io->length = CLUSTER;
	}
	io->data = aligned_alloc(BLOCK, io->length);
	assert_non_null(io->data);
	memset(io->data, 7, io->length);
	return io;
}

static void round_(struct pool *pool, struct blockdev *devs[][LOOPS])
{
	struct io *ios[AT_ONCE];
	sem_t done;

	assert_int_equal(sem_init(&done, 0, 0), 0);
	for (unsigned i = 0; i < AT_ONCE; i++) {
		ios[i] = ask(pool,
			     &devs[raw_dev_kit_below(pool, EXTENTS)]
				  [raw_dev_kit_below(pool, LOOPS)],
			     i, &done);
		loop_post((*ios[i]->dev)->loop, &ios[i]->message);
	}
	for (unsigned i = 0; i < AT_ONCE; i++)
		assert_int_equal(sem_wait(&done), 0);
	for (unsigned i = 0; i < AT_ONCE; i++) {
		assert_int_equal(ios[i]->res, 0);
		free(ios[i]->data);
		free(ios[i]);
	}
	(void)sem_destroy(&done);
}

static void copy_and_drop(struct pool *pool)
{
	const struct raw_record drop = {.type = RAW_DROP, .object = SNAPSHOT};

	raw_dev_kit_object_make(pool, SNAPSHOT,
				1 + raw_dev_kit_below(pool, EXTENTS));
	if (raw_dev_kit_below(pool, 2))
		raw_dev_kit_must(pool,
				 raw_store_commit(pool->store,
						  raw_store_newest(pool->store),
						  &pool->err),
				 "commit");
	raw_dev_kit_must(
		pool, raw_store_change(pool->store, &drop, 1, NULL, &pool->err),
		"drop");
	raw_users_clean(pool->users);
}

/* Each checkpoint is one more. */
static uint64_t generation(struct pool *pool)
{
	uint64_t n;

	(void)raw_store_lock(pool->store);
	n = pool->store->super.generation;
	raw_store_unlock(pool->store);
	return n;
}

static void is_checked_while_it_is_used(void **unused)
{
	const unsigned steps = raw_dev_kit_from_environment("STEPS", 150);
	struct blockdev *devs[EXTENTS][LOOPS];
	struct checker checker = {0};
	struct pool pool;
	uint32_t leak = 0;
	uint64_t first;
	void *result;

	(void)unused;
	raw_dev_kit_pool_make(&pool, MEDIUM);
	checker.pool = &pool;
	for (unsigned i = 0; i < EXTENTS; i++) {
		raw_dev_kit_object_make(&pool, i + 1, 0);
		for (int loop = 0; loop < LOOPS; loop++)
			devs[i][loop] = raw_dev_kit_dev_open(&pool, loop,
							     i + 1);
	}
	/* Taken for a change that never comes. */
	assert_int_equal(raw_store_take(pool.store, 1, RAW_HOLE, &leak), 1);
	assert_int_equal(
		pthread_create(&checker.thread, NULL, checker_run, &checker),
		0);
	first = generation(&pool);
	/* Until it was looked at often enough, or something was found. */
	for (unsigned i = 0; i < steps || atomic_load(&checker.checks) < 5 ||
			     generation(&pool) == first;
	     i++) {
		round_(&pool, devs);
		if (!raw_dev_kit_below(&pool, 4))
			copy_and_drop(&pool);
		if (atomic_load(&checker.left))
			break;
	}
	atomic_store(&checker.stop, true);
	assert_int_equal(pthread_join(checker.thread, &result), 0);
	if (result)
		fail_msg("a check failed: %s", error_text(&checker.err));
	if (atomic_load(&checker.left))
		fail_msg("a check found: %s", checker.found);
	for (unsigned i = 0;
	     i < checker.repaired && i < array_size(checker.mended); i++)
		print_message("# cluster %u leaked; %s\n", leak,
			      checker.mended[i]);
	assert_int_equal(checker.repaired, 1); /* the one that leaked */
	print_message("%u checks\n", atomic_load(&checker.checks));
	for (unsigned i = 0; i < EXTENTS; i++)
		for (int loop = 0; loop < LOOPS; loop++)
			raw_dev_kit_dev_close(&pool, loop, devs[i][loop]);
	raw_dev_kit_pool_remove(&pool);
}

/* Or it would read batches of a new pool that are just being written. */
static void a_look_ends_where_it_is_told(void **unused)
{
	static const uint64_t ends[] = {0, 1, STORE_LOG_END};
	struct raw_report report;
	struct raw_store *loaded;
	struct pool pool;

	(void)unused;
	raw_dev_kit_pool_make(&pool, MEDIUM);
	for (unsigned i = 0; i < 2; i++) {
		raw_dev_kit_object_make(&pool, i + 1, 0);
		raw_dev_kit_must(&pool,
				 raw_store_commit(pool.store,
						  raw_store_newest(pool.store),
						  &pool.err),
				 "commit");
	}
	assert_int_equal(pool.store->super.log_sequence, 0);
	assert_true(pool.store->log_sequence >= 2);
	for (size_t i = 0; i < array_size(ends); i++) {
		report = (struct raw_report){0};
		assert_int_equal(store_load(pool.store->medium,
					    &pool.store->super, ends[i],
					    &report, &loaded, &pool.err),
				 0);
		assert_int_equal(loaded->log_sequence,
				 ends[i] == STORE_LOG_END
					 ? pool.store->log_sequence
					 : ends[i]);
		raw_store_close(loaded);
	}
	raw_dev_kit_pool_remove(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_look_ends_where_it_is_told),
		cmocka_unit_test(is_checked_while_it_is_used),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
