/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices of a raw pool whose power fails at every write and flush: many
 * requests at once, through all that is between a device and its medium (first
 * writes, first writes of a part, copies of what is shared, zeroes, discards,
 * flushes and FUA; thin and thick), with snapshots, clones, reverts and drops
 * in between. Then it fails again, while what there is after that is recovered.
 *
 * What opens has every object that was answered for, and none that was dropped
 * for good. Each sector of it has the data of the last flushed write, or of a
 * write since; a snapshot has the data of its origin at the cut.
 *
 * Where the seed is one less than a multiple of 4, no cluster is written in
 * part. SEED=N is the first seed, SEEDS=N how many follow each other, STEPS=N
 * how long each run is. A seed repeats what is asked for; the threads may come
 * to it in another order.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blockd/testkit/power_dev.h"
#include "blockd/testkit/power_lives.h"

#define SECTOR 512u
#define MEDIUM (MEDIUM_MIN + 64 * CLUSTER)
#define SPOT   64u /* blocks; most of what is asked for is in these */

/* A request, and when it began and ended. */
struct asked {
	struct io io;
	struct run *run;
	struct life *life;
	unsigned began, ended; /* moments */
	size_t began_at, ended_at;
};

struct run {
	struct power power;
	struct pool pool;
	enum power_dev_flaw flaw;
	unsigned seed;
	atomic_uint moment, devices;
	uint32_t value; /* the last one that was written */
	struct lives lives;
	struct life *leaves; /* while others are written to; NULL: none */
	unsigned requests, copies, left;
};

/* ---- requests ---- */

static unsigned below(struct run *run, unsigned n)
{
	return raw_dev_kit_below(&run->pool, n);
}

static void asked_start(struct loop_message *message)
{
	struct asked *asked = container_of(message, struct asked, io.message);

	asked->began_at = power_events(&asked->run->power);
	asked->began = atomic_fetch_add(&asked->run->moment, 1);
	raw_dev_kit_io_start(message);
}

static void asked_done(struct op *op, int res)
{
	struct asked *asked = container_of(op, struct asked, io.op);

	asked->ended = atomic_fetch_add(&asked->run->moment, 1);
	asked->ended_at = power_events(&asked->run->power);
	raw_dev_kit_io_done(op, res);
}

static void fill_data(struct run *run, struct io *io)
{
	io->data = aligned_alloc(BLOCK, io->length);
	assert_non_null(io->data);
	memset(io->data, 0xee, io->length);
	for (uint64_t at = 0; at < io->length; at += BLOCK) {
		run->value++;
		for (uint64_t s = 0; s < BLOCK; s += SECTOR)
			memcpy(io->data + at + s, &run->value,
			       sizeof(run->value));
	}
}

/* Whole clusters from *@at on; false: there is none before the end. */
static bool whole_clusters(struct run *run, uint64_t *at, uint64_t *length)
{
	*at = (*at + CLUSTER - 1) / CLUSTER * CLUSTER;
	*length = CLUSTER * (1 + below(run, 2));
	return *at + *length <= SIZE;
}

/* The next one of a round for @life, from @at on. False: it is full. */
static bool ask(struct run *run, struct asked *asked, struct life *life,
		uint64_t at, sem_t *done)
{
	static const enum what whats[] = {WRITE, WRITE, WRITE, WRITE,
					  WRITE, ZERO,  ZERO,  DISCARD};
	const enum what what = whats[below(run, 8)];
	uint64_t length = BLOCK * (1 + below(run, below(run, 4) ? 3 : 36));

	if (what == DISCARD && !whole_clusters(run, &at, &length))
		return false;
	if (at >= SIZE)
		return false;
	*asked = (struct asked){
		.io = {.message.run = asked_start,
		       .op.done = asked_done,
		       .pool = &run->pool,
		       .dev = &life->devs[below(run, LOOPS)],
		       .what = what,
		       .offset = at,
		       .length = length < SIZE - at ? length : SIZE - at,
		       .flags = below(run, 4) ? 0 : BLOCKDEV_FUA,
		       .done = done},
		.run = run,
		.life = life,
	};
	if (what == ZERO && below(run, 3) == 0)
		asked->io.flags |= BLOCKDEV_NO_HOLE;
	if (what == WRITE)
		fill_data(run, &asked->io);
	return true;
}

static void ask_flush(struct run *run, struct asked *asked, struct life *life,
		      sem_t *done)
{
	*asked = (struct asked){
		.io = {.message.run = asked_start,
		       .op.done = asked_done,
		       .pool = &run->pool,
		       .dev = &life->devs[below(run, LOOPS)],
		       .what = FLUSH,
		       .done = done},
		.run = run,
		.life = life,
	};
}

/* Remember the data of a write as one more version of its blocks. */
static void came(struct asked *asked)
{
	struct io *io = &asked->io;

	for (uint64_t at = 0; at < io->length; at += BLOCK) {
		struct version version = {
			.issued = asked->began_at,
			.durable = io->flags & BLOCKDEV_FUA ? asked->ended_at
							    : NEVER,
			.ended = asked->ended,
		};

		if (io->what == WRITE)
			memcpy(&version.value, io->data + at,
			       sizeof(version.value));
		life_remember(&asked->life->blocks[(io->offset + at) / BLOCK],
			      version);
	}
	free(io->data);
}

/* Find an extent that is written to, in a few tries; or NULL. */
static struct life *any_extent(struct run *run)
{
	for (int i = 0; i < 8; i++) {
		struct life *life = run->lives.now[1 + below(run, LIVES)];

		if (life && !life->snapshot && life != run->leaves)
			return life;
	}
	return NULL;
}

/* ---- objects ---- */

static void life_open(struct run *run, struct life *life)
{
	run->pool.dev_flags = life->thick ? RAW_DEV_THICK : 0;
	for (int i = 0; i < LOOPS; i++)
		life->devs[i] = raw_dev_kit_dev_open(&run->pool, i, life->id);
}

static void life_close(struct run *run, struct life *life)
{
	for (int i = 0; i < LOOPS; i++)
		raw_dev_kit_dev_close(&run->pool, i, life->devs[i]);
}

/* Durably; earlier writes are durable then, too. */
static void change(struct run *run, const struct raw_record *records, size_t n)
{
	uint64_t ticket;

	raw_dev_kit_must(&run->pool,
			 raw_store_change(run->pool.store, records, n, &ticket,
					  &run->pool.err),
			 "change");
	raw_dev_kit_must(
		&run->pool,
		raw_store_commit(run->pool.store, ticket, &run->pool.err),
		"commit");
}

/* @text is of its life: which one it is, when it is found again. */
static void make(struct run *run, uint32_t id, const struct life *from)
{
	struct life *life = life_new(&run->lives, id, from);
	char text[32];
	struct raw_record records[2] = {
		{.type = RAW_OBJECT,
		 .object = id,
		 .clusters = CLUSTERS,
		 .text = text},
		{.type = RAW_SHARE, .object = id, .from = from ? from->id : 0},
	};

	records[0].text_length = (uint32_t)snprintf(text, sizeof(text), "%zu",
						    run->lives.n - 1);
	life->snapshot = from && below(run, 2);
	life->thick = !below(run, 3);
	change(run, records, from ? 2 : 1);
	life->made_durable = power_events(&run->power);
	life_open(run, life);
	run->copies += from != NULL;
}

static void revert(struct run *run, struct life *life, const struct life *from)
{
	const struct raw_record record = {
		.type = RAW_SHARE, .object = life->id, .from = from->id};
	struct version version = {.issued = power_events(&run->power)};

	change(run, &record, 1);
	version.durable = power_events(&run->power);
	version.ended = atomic_fetch_add(&run->moment, 1);
	for (size_t b = 0; b < BLOCKS; b++) {
		version.value = life_newest(&from->blocks[b]);
		life_remember(&life->blocks[b], version);
	}
	run->copies++;
}

static void drop(struct run *run, struct life *life)
{
	const struct raw_record deleting = {
		.type = RAW_OBJECT,
		.object = life->id,
		.clusters = CLUSTERS,
		.text = DELETING,
		.text_length = strlen(DELETING),
	};
	const struct raw_record record = {.type = RAW_DROP, .object = life->id};

	life_close(run, life);
	life->deleting = power_events(&run->power);
	change(run, &deleting, 1);
	life->deleting_durable = power_events(&run->power);
	change(run, &record, 1);
	raw_dev_kit_must(&run->pool,
			 raw_users_clean_now(run->pool.users, &run->pool.err),
			 "clean");
	run->lives.now[life->id] = NULL;
}

/*
 * Requests that don't overlap, but meet in clusters; and flushes. Meanwhile
 * one that has some of these clusters, too, may go.
 */
static void round_(struct run *run)
{
	struct asked asked[AT_ONCE];
	uint64_t at[LIVES + 1];
	unsigned n = 0, want = 1 + below(run, AT_ONCE);
	sem_t done;

	run->leaves = below(run, 8) ? NULL
				    : run->lives.now[1 + below(run, LIVES)];
	assert_int_equal(sem_init(&done, 0, 0), 0);
	for (unsigned i = 0; i <= LIVES; i++)
		at[i] = BLOCK * below(run, below(run, 3) ? SPOT : BLOCKS);
	for (unsigned i = 0; i < want; i++) {
		struct life *life = any_extent(run);

		if (life && !below(run, 6)) {
			ask_flush(run, &asked[n++], life, &done);
		} else if (life &&
			   ask(run, &asked[n], life, at[life->id], &done)) {
			at[life->id] = asked[n].io.offset + asked[n].io.length +
				       BLOCK * below(run, 8);
			n++;
		}
	}
	for (unsigned i = 0; i < n; i++)
		loop_post((*asked[i].io.dev)->loop, &asked[i].io.message);
	if (run->leaves) {
		drop(run, run->leaves);
		run->left++;
	}
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(sem_wait(&done), 0);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(asked[i].io.res, 0);
		came(&asked[i]);
	}
	for (unsigned i = 0; i < n; i++)
		if (asked[i].io.what == FLUSH)
			lives_flushed(&run->lives, asked[i].began,
				      asked[i].ended_at);
	run->leaves = NULL;
	run->requests += n;
	(void)sem_destroy(&done);
}

/* Nobody writes meanwhile: an extent's gate sees to that. */
static void copy_or_drop(struct run *run)
{
	const uint32_t id = 1 + below(run, LIVES);
	struct life *life = run->lives.now[id], *from = any_extent(run);

	if (!life)
		make(run, id, from);
	else if (below(run, 2))
		drop(run, life);
	else if (!life->snapshot && from && from != life)
		revert(run, life, from);
}

/* ---- after a failure ---- */

static bool holds(void *context, struct power *after, size_t at)
{
	struct run *run = context;
	struct raw_report report;
	struct raw_store *store;
	struct error err;
	size_t length;
	bool good = false;

	if (raw_store_open(&after->medium, &store, &report, &err) < 0) {
		(void)snprintf(run->lives.why, sizeof(run->lives.why), "%s",
			       error_text(&err));
	} else {
		good = lives_hold(&run->lives, after, store, at);
		raw_store_close(store);
	}
	if (good)
		return true;
	length = strlen(run->lives.why);
	(void)snprintf(run->lives.why + length, sizeof(run->lives.why) - length,
		       ", power failed at event %zu", at);
	return false;
}

/* ---- runs ---- */

static int open_medium(void *context, struct loop *loop, struct blockdev **ret,
		       struct error *err)
{
	struct pool *pool = context;
	struct run *run = container_of(pool, struct run, pool);
	const struct power_dev_options options = {
		.power = &run->power,
		.seed = run->seed + atomic_fetch_add(&run->devices, 1),
		.flaw = run->flaw,
	};

	return power_dev_open(&options, loop, ret, err);
}

static void run_end(struct run *run)
{
	for (uint32_t id = 1; id <= LIVES; id++)
		if (run->lives.now[id])
			life_close(run, run->lives.now[id]);
	raw_dev_kit_pool_remove(&run->pool);
}

/* What a run has brought to light goes to @ret_why; "": nothing. */
static void run_one(unsigned seed, unsigned steps, enum power_dev_flaw flaw,
		    unsigned flushes_lost, char ret_why[200])
{
	struct run *run = calloc(1, sizeof(*run));

	assert_non_null(run);
	run->flaw = flaw;
	run->seed = seed;
	atomic_store(&run->moment, 1); /* 0: it was so from the beginning */
	run->lives.power = &run->power;
	power_init(&run->power, MEDIUM, MEDIUM);
	raw_dev_kit_pool_make_on(&run->pool, &run->power.medium,
				 seed % 4 == 3 ? RAW_INCOMPAT_PARTIAL : 0,
				 open_medium);
	run->pool.random = seed;
	run->power.flushes_lost = flushes_lost;
	power_record(&run->power);
	for (unsigned i = 0; i < steps; i++) {
		round_(run);
		if (!below(run, 3))
			copy_or_drop(run);
	}
	run_end(run);
	power_fail_everywhere(&run->power, seed, holds, run);
	print_message(
		"seed %u: %u requests, %zu objects, %u gone in a round, %u "
		"copies and reverts, %zu writes and flushes\n",
		seed, run->requests, run->lives.n, run->left, run->copies,
		run->power.n);
	memcpy(ret_why, run->lives.why, sizeof(run->lives.why));
	lives_done(&run->lives);
	power_done(&run->power);
	free(run);
}

static void survives_a_power_failure_at_any_write(void **unused)
{
	const unsigned first = raw_dev_kit_from_environment("SEED", 1);
	const unsigned seeds = raw_dev_kit_from_environment("SEEDS", 1);
	const unsigned steps = raw_dev_kit_from_environment("STEPS", 40);
	char why[200];

	(void)unused;
	for (unsigned seed = first; seed < first + seeds; seed++) {
		run_one(seed, steps, POWER_DEV_SOUND, 0, why);
		if (why[0])
			fail_msg("seed %u: %s", seed, why);
	}
}

/* The test above can fail: one of these seeds finds it out. Of SEED=1 only. */
static void finds_out(enum power_dev_flaw flaw, unsigned flushes_lost)
{
	char why[200] = "";

	if (raw_dev_kit_from_environment("SEED", 1) != 1)
		skip(); /* it is the same for each */
	for (unsigned seed = 1; seed <= 10 && !why[0]; seed++)
		run_one(seed, 60, flaw, flushes_lost, why);
	if (!why[0])
		fail_msg("nothing was found");
	print_message("%s\n", why);
}

static void finds_out_what_a_flush_does_not_have(void **unused)
{
	(void)unused;
	finds_out(POWER_DEV_LOSES_WRITES, 0);
}

static void finds_out_a_write_through_that_is_none(void **unused)
{
	(void)unused;
	finds_out(POWER_DEV_LOSES_FUA, 0);
}

static void finds_out_a_medium_that_loses_flushes(void **unused)
{
	(void)unused;
	finds_out(POWER_DEV_SOUND, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(survives_a_power_failure_at_any_write),
		cmocka_unit_test(finds_out_what_a_flush_does_not_have),
		cmocka_unit_test(finds_out_a_write_through_that_is_none),
		cmocka_unit_test(finds_out_a_medium_that_loses_flushes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
