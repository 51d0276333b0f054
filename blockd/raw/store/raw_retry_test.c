/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A medium that fails at any write or flush, for a while: nothing that was
 * answered for is lost by trying again, and when it works again the store
 * opens with all of it.
 */
#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/testkit/every.h"
#include "blockd/raw/store/raw_store_internal.h"

#define MEDIUM (UINT64_C(8) << 20)
#define NEVER  UINT64_MAX
#define BIG    7   /* records of RAW_TEXT_MAX in a batch */
#define PLACES 128 /* blocks: as far as a batch and what a turn leaves */

struct flaky {
	struct raw_medium medium;
	uint8_t *bytes;
	uint64_t n;       /* writes and flushes so far */
	uint64_t fail_at; /* from that one on */
};

struct kit {
	struct flaky flaky;
	struct raw_store *store;
	uint64_t said;     /* the newest number that was answered for */
	unsigned failures; /* told of */
	struct error err;
};

static struct flaky *flaky_of(struct raw_medium *medium)
{
	return (struct flaky *)medium; /* its first member */
}

static int flaky_read(struct raw_medium *medium, void *data, size_t length,
		      uint64_t offset)
{
	memcpy(data, flaky_of(medium)->bytes + offset, length);
	return 0;
}

/* Of one that fails half is there. */
static int flaky_write(struct raw_medium *medium, const void *data,
		       size_t length, uint64_t offset)
{
	struct flaky *flaky = flaky_of(medium);
	bool fails = flaky->n++ >= flaky->fail_at;

	assert_true(offset + length <= medium->size);
	if (fails)
		length = length / 2 / RAW_BLOCK * RAW_BLOCK;
	memcpy(flaky->bytes + offset, data, length);
	return fails ? -EIO : 0;
}

static int flaky_flush(struct raw_medium *medium)
{
	struct flaky *flaky = flaky_of(medium);

	return flaky->n++ >= flaky->fail_at ? -EIO : 0;
}

static void flaky_init(struct flaky *flaky, const uint8_t *bytes)
{
	static const struct raw_medium_ops ops = {
		.read = flaky_read,
		.write = flaky_write,
		.flush = flaky_flush,
	};

	*flaky = (struct flaky){
		.medium = {.ops = &ops, .size = MEDIUM},
		.bytes = calloc(1, MEDIUM),
		.fail_at = NEVER,
	};
	assert_non_null(flaky->bytes);
	if (bytes)
		memcpy(flaky->bytes, bytes, MEDIUM);
}

static void must(struct kit *k, int r)
{
	if (r < 0)
		fail_msg("%s", error_text(&k->err));
}

static void failed(void *context)
{
	((struct kit *)context)->failures++;
}

static void open_store(struct kit *k)
{
	struct raw_report report;

	must(k, raw_store_open(&k->flaky.medium, &k->store, &report, &k->err));
	assert_false(raw_report_lost(&report));
	raw_store_on_failed(k->store, failed, k);
}

static void setup(struct kit *k)
{
	const struct raw_format_options options = {
		.cluster_shift = RAW_CLUSTER_SHIFT_MIN,
		.text = "0",
		.text_length = 1,
	};

	*k = (struct kit){0};
	flaky_init(&k->flaky, NULL);
	must(k, raw_store_format(&k->flaky.medium, &options, &k->err));
	open_store(k);
}

static void teardown(struct kit *k)
{
	raw_store_close(k->store);
	free(k->flaky.bytes);
}

/* The pool's record is to say @number, @times over. */
static int say_soon(struct kit *k, uint64_t number, size_t length,
		    unsigned times, uint64_t *ret_ticket)
{
	char text[RAW_TEXT_MAX];
	const struct raw_record record = {.type = RAW_POOL,
					  .text = text,
					  .text_length = (uint32_t)length};
	int r = 0;

	memset(text, ' ', sizeof(text));
	(void)snprintf(text, sizeof(text), "%" PRIu64, number);
	for (unsigned i = 0; r == 0 && i < times; i++)
		r = raw_store_change(k->store, &record, 1, ret_ticket, &k->err);
	return r;
}

/* The same, durably. */
static int say_times(struct kit *k, uint64_t number, size_t length,
		     unsigned times)
{
	uint64_t ticket = 0;
	int r = say_soon(k, number, length, times, &ticket);

	if (r == 0)
		r = raw_store_commit(k->store, ticket, &k->err);
	if (r == 0)
		k->said = number;
	return r;
}

static int say(struct kit *k, uint64_t number, size_t length)
{
	return say_times(k, number, length, 1);
}

static uint64_t number_of(struct raw_store *store)
{
	const struct raw_state *state = raw_store_lock(store);
	uint64_t number = strtoull(state->pool_text, NULL, 10);

	raw_store_unlock(store);
	return number;
}

/* What a crash at this moment would leave has all that was answered for. */
static void survives(struct kit *k)
{
	struct kit after = {0};

	flaky_init(&after.flaky, k->flaky.bytes);
	open_store(&after);
	assert_in_range(number_of(after.store), k->said, k->said + 1);
	teardown(&after);
}

/* Commits, and a checkpoint of each kind. Until one fails. */
static int work(struct kit *k)
{
	int r = 0;

	for (unsigned i = 0; r == 0 && i < 3; i++)
		r = say(k, k->said + 1, 10);
	if (r == 0)
		r = raw_store_checkpoint(k->store, &k->err);
	if (r == 0)
		r = say(k, k->said + 1, RAW_TEXT_MAX);
	if (r == 0)
		r = raw_store_checkpoint_ahead(k->store, &k->err);
	return r == 0 ? say(k, k->said + 1, 10) : r;
}

static void comes_back(struct kit *k)
{
	assert_int_equal(k->failures, 1);
	survives(k);
	assert_int_equal(raw_store_retry(k->store, &k->err), -EIO);
	survives(k);
	/* The medium takes some of it, then it fails again. */
	for (uint64_t n = 1; n <= 6; n++) {
		k->flaky.fail_at = k->flaky.n + n;
		if (raw_store_retry(k->store, &k->err) == 1)
			break;
		survives(k);
	}
	k->flaky.fail_at = NEVER;
	assert_int_equal(raw_store_retry(k->store, &k->err), 1);
	survives(k);
	assert_int_equal(say(k, k->said + 1, 10), -EIO);
	raw_store_close(k->store);
	open_store(k);
	assert_in_range(number_of(k->store), k->said, k->said + 1);
	must(k, work(k));
	assert_int_equal(raw_store_retry(k->store, &k->err), 0);
}

static void a_failure_of_any_write_is_gone_with_the_cause(void **unused)
{
	unsigned failures = 0;
	int r = -1;

	(void)unused;
	for (uint64_t n = every_first(); r < 0; n += every()) {
		struct kit k;

		setup(&k);
		must(&k, work(&k));
		k.flaky.fail_at = k.flaky.n + n;
		r = work(&k);
		if (r < 0) {
			failures++;
			comes_back(&k);
		}
		teardown(&k);
	}
	assert_in_range(failures * every(), 31 - every(), 59 + every());
}

/*
 * A log that is full, with what it begins with at one place or another; false:
 * there is room for one batch more.
 */
static bool fill(struct kit *k, unsigned place)
{
	const struct raw_super *super = &k->store->super;

	for (unsigned i = 0; i < place; i++)
		must(k, say(k, k->said + 1, 10));
	must(k, raw_store_checkpoint(k->store, &k->err));
	while (!store_log_full(k->store))
		must(k, say_times(k, k->said + 1, RAW_TEXT_MAX, BIG));
	return k->store->log_used + RAW_BATCH_MAX > raw_ring_size(super);
}

/* The place of the next batch may be one that is still needed. */
static void a_full_log_is_left_alone(void **unused)
{
	unsigned failures = 0, tight = 0;

	(void)unused;
	for (unsigned place = 0; place < PLACES; place += 8) {
		for (uint64_t n = 2 * every_first(); n < 8; n += 2 * every()) {
			struct kit k;

			setup(&k);
			tight += fill(&k, place);
			k.flaky.fail_at = k.flaky.n + n;
			if (say(&k, k.said + 1, 10) < 0) {
				failures++;
				comes_back(&k);
			}
			teardown(&k);
		}
	}
	assert_true(failures * every() > 20);
	assert_true(tight > 0);
}

static void a_checkpoint_ahead_leaves_a_full_log_alone(void **unused)
{
	unsigned tight = 0;

	(void)unused;
	for (unsigned place = 0; place < PLACES; place += 8) {
		for (uint64_t n = 2 * every_first(); n < 12; n += 2 * every()) {
			uint64_t ticket;
			struct kit k;

			setup(&k);
			tight += fill(&k, place);
			must(&k, say_soon(&k, k.said + 1, RAW_TEXT_MAX, BIG,
					  &ticket));
			k.flaky.fail_at = k.flaky.n + n;
			if (raw_store_checkpoint_ahead(k.store, &k.err) == 0)
				k.said++;
			survives(&k);
			teardown(&k);
		}
	}
	assert_true(tight > 0);
}

static void what_is_damaged_is_not_tried_again(void **unused)
{
	struct raw_report report;
	struct kit k;

	(void)unused;
	setup(&k);
	must(&k, work(&k));
	must(&k, say(&k, k.said + 1, 10));
	must(&k, say(&k, k.said + 1, 10));
	for (unsigned copy = 0; copy < RAW_COPIES; copy++)
		memset(k.flaky.bytes + store_log_offset(&k.store->super, copy,
							k.store->log_block - 2),
		       0, RAW_BLOCK);
	raw_store_close(k.store);
	must(&k, raw_store_open(&k.flaky.medium, &k.store, &report, &k.err));
	assert_true(raw_report_lost(&report));
	assert_int_equal(raw_store_retry(k.store, &k.err), 0);
	assert_true(raw_store_broken(k.store, NULL));
	teardown(&k);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_failure_of_any_write_is_gone_with_the_cause),
		cmocka_unit_test(a_full_log_is_left_alone),
		cmocka_unit_test(a_checkpoint_ahead_leaves_a_full_log_alone),
		cmocka_unit_test(what_is_damaged_is_not_tried_again),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
