/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A check of a raw pool finds nothing where nothing is wrong. Errors are found
 * wherever they are: in memory, on the medium, or clusters taken by nobody.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "blockd/raw/store/raw_store_internal.h"

#define MEDIUM (UINT64_C(10) << 20)
#define LENGTH 40 /* clusters of an object */

struct pool {
	struct raw_medium medium;
	uint8_t *bytes; /* owned */
	struct raw_store *store;
	struct error err;
	char last[512]; /* finding */
	unsigned found, repaired;
};

static int memory_read(struct raw_medium *medium, void *data, size_t length,
		       uint64_t offset)
{
	memcpy(data, ((struct pool *)medium)->bytes + offset, length);
	return 0;
}

static int memory_write(struct raw_medium *medium, const void *data,
			size_t length, uint64_t offset)
{
	memcpy(((struct pool *)medium)->bytes + offset, data, length);
	return 0;
}

static int memory_flush(struct raw_medium *medium)
{
	(void)medium;
	return 0;
}

static void must(struct pool *pool, int r, const char *what)
{
	if (r < 0)
		fail_msg("%s: %s", what, error_text(&pool->err));
}

static void change(struct pool *pool, const struct raw_record *record,
		   bool commit)
{
	uint64_t ticket;

	must(pool,
	     raw_store_change(pool->store, record, 1, &ticket, &pool->err),
	     "change");
	if (commit)
		must(pool, raw_store_commit(pool->store, ticket, &pool->err),
		     "commit");
}

static void map(struct pool *pool, uint32_t id, uint64_t logical, bool commit)
{
	struct raw_record record = {
		.type = RAW_MAP, .object = id, .logical = logical};

	record.count = raw_store_take(pool->store, 1, RAW_HOLE,
				      &record.physical);
	assert_int_equal(record.count, 1);
	change(pool, &record, commit);
}

static void make(struct pool *pool, uint32_t id)
{
	change(pool,
	       &(struct raw_record){.type = RAW_OBJECT,
				    .object = id,
				    .clusters = LENGTH,
				    .text = "text",
				    .text_length = 4},
	       true);
}

static void pool_open(struct pool *pool)
{
	struct raw_report report;

	must(pool,
	     raw_store_open(&pool->medium, &pool->store, &report, &pool->err),
	     "open");
}

/* Something in the checkpoint, in the log, and in neither yet. */
static void pool_make(struct pool *pool)
{
	static const struct raw_medium_ops ops = {
		.read = memory_read,
		.write = memory_write,
		.flush = memory_flush,
	};
	const struct raw_format_options options = {
		.cluster_shift = RAW_CLUSTER_SHIFT_MIN,
		.text = "pool",
		.text_length = 4,
	};

	*pool = (struct pool){.medium = {.ops = &ops, .size = MEDIUM}};
	pool->bytes = calloc(1, MEDIUM);
	assert_non_null(pool->bytes);
	must(pool, raw_store_format(&pool->medium, &options, &pool->err),
	     "format");
	pool_open(pool);
	for (uint32_t id = 1; id <= 3; id++) {
		make(pool, id);
		map(pool, id, 1, true);
	}
	must(pool, raw_store_checkpoint(pool->store, &pool->err), "checkpoint");
	map(pool, 1, 2, true);
	change(pool,
	       &(struct raw_record){.type = RAW_SHARE, .object = 2, .from = 1},
	       true);
	map(pool, 3, 7, true);
	map(pool, 1, 1, false);
}

static void pool_done(struct pool *pool)
{
	raw_store_close(pool->store);
	free(pool->bytes);
}

static void note(void *context, const char *text, bool repaired)
{
	struct pool *pool = context;

	(void)snprintf(pool->last, sizeof(pool->last), "%s", text);
	pool->found++;
	pool->repaired += repaired;
}

/* Returns how many findings there are, and how many are left. */
static unsigned check(struct pool *pool, bool repair, unsigned *ret_left)
{
	struct raw_findings findings = {.tell = note, .context = pool};

	pool->found = pool->repaired = 0;
	pool->last[0] = '\0';
	must(pool, raw_store_check(pool->store, repair, &findings, &pool->err),
	     "check");
	assert_int_equal(findings.n, pool->found);
	assert_int_equal(findings.left, pool->found - pool->repaired);
	if (ret_left)
		*ret_left = (unsigned)findings.left;
	return pool->found;
}

static unsigned leaked(struct pool *pool, bool repair)
{
	struct raw_findings findings = {.tell = note, .context = pool};

	must(pool, raw_store_leaked(pool->store, repair, &findings, &pool->err),
	     "leaked");
	return (unsigned)findings.n;
}

static void finds_nothing_where_nothing_is_wrong(void **unused)
{
	struct pool pool;

	(void)unused;
	pool_make(&pool);
	assert_int_equal(check(&pool, true, NULL), 0);
	must(&pool,
	     raw_store_commit(pool.store, raw_store_newest(pool.store),
			      &pool.err),
	     "commit");
	assert_int_equal(check(&pool, false, NULL), 0);
	must(&pool, raw_store_checkpoint(pool.store, &pool.err), "checkpoint");
	assert_int_equal(check(&pool, false, NULL), 0);
	pool_done(&pool);
}

/* ---- clusters of nobody ---- */

static void finds_a_cluster_of_nobody_and_gives_it_back(void **unused)
{
	struct raw_leaving leaving;
	uint32_t before, busy, freed;
	struct pool pool;

	(void)unused;
	pool_make(&pool);
	before = raw_store_available(pool.store);
	(void)raw_alloc_take_at(&raw_store_lock(pool.store)->alloc, 60);
	raw_store_unlock(pool.store);
	assert_int_equal(check(&pool, true, NULL), 0); /* it can't see it */
	/* One is under way and ends, one leaves and has left. */
	assert_int_equal(raw_store_take(pool.store, 1, RAW_HOLE, &busy), 1);
	change(&pool,
	       &(struct raw_record){.type = RAW_UNMAP,
				    .object = 3,
				    .logical = 7,
				    .count = 1},
	       true);
	assert_true(raw_store_leave(pool.store, &leaving));
	assert_int_equal(leaving.n, 2); /* what was at 1 of object 1, too */
	must(&pool, raw_store_suspect(pool.store, &pool.err), "suspect");
	raw_store_left(pool.store, &leaving);
	raw_store_untake(pool.store, busy, 1);
	assert_int_equal(raw_store_take(pool.store, 1, RAW_HOLE, &freed), 1);
	assert_int_equal(leaked(&pool, false), 1);
	assert_string_equal(pool.last, "cluster 60 is used by no object");
	raw_store_untake(pool.store, freed, 1);
	assert_int_equal(raw_store_available(pool.store), before + 2 - 1);
	must(&pool, raw_store_suspect(pool.store, &pool.err), "suspect");
	assert_int_equal(leaked(&pool, true), 1);
	assert_int_equal(raw_store_available(pool.store), before + 2);
	must(&pool, raw_store_suspect(pool.store, &pool.err), "suspect");
	assert_int_equal(leaked(&pool, true), 0);
	pool_done(&pool);
}

/* ---- memory ---- */

static void finds_what_is_wrong_in_memory(void **unused)
{
	struct raw_state *state;
	struct raw_leaf *leaf;
	struct raw_root *root;
	struct pool pool;
	unsigned left;

	(void)unused;
	pool_make(&pool);
	state = &pool.store->state;
	root = state->objects[2]->map.root;
	leaf = root->leaves[0];
	state->alloc.counts[0][leaf->entries[1]]++;
	assert_int_equal(check(&pool, true, &left), 1);
	assert_int_equal(left, 1);
	assert_non_null(strstr(pool.last, "references and counts"));
	state->alloc.counts[0][leaf->entries[1]]--;
	/* Of the wrong place: that no count says. */
	leaf->entries[3] = leaf->entries[1];
	leaf->entries[1] = RAW_HOLE;
	assert_int_equal(check(&pool, true, NULL), 1);
	assert_string_equal(pool.last, "object 3: on the medium 1 clusters "
				       "from 1 on are mapped otherwise");
	leaf->entries[1] = leaf->entries[3];
	leaf->entries[3] = RAW_HOLE;
	state->objects[0]->text[0] ^= 1;
	assert_int_equal(check(&pool, true, NULL), 1);
	assert_string_equal(pool.last,
			    "object 1: the medium has another record of it");
	state->objects[0]->text[0] ^= 1;
	assert_int_equal(check(&pool, true, NULL), 0);
	pool_done(&pool);
}

static void finds_blocks_that_are_written_in_memory_only(void **unused)
{
	struct raw_record records[2] = {
		{.type = RAW_MAP,
		 .object = 3,
		 .logical = 20,
		 .count = 1,
		 .unwritten = true},
		{.type = RAW_WRITTEN,
		 .object = 3,
		 .logical = 20,
		 .count = 1,
		 .blocks.bits[0] = 5},
	};
	const struct raw_blocks more = {.bits = {8}};
	struct raw_bitmaps *bitmaps;
	struct pool pool;
	bool whole;

	(void)unused;
	pool_make(&pool);
	bitmaps = &pool.store->state.alloc.bitmaps;
	assert_int_equal(
		raw_store_take(pool.store, 1, RAW_HOLE, &records[0].physical),
		1);
	records[1].physical = records[0].physical;
	must(&pool, raw_store_change(pool.store, records, 2, NULL, &pool.err),
	     "change");
	assert_int_equal(check(&pool, true, NULL), 0);
	must(&pool, raw_store_checkpoint(pool.store, &pool.err), "checkpoint");
	assert_int_equal(check(&pool, true, NULL), 0);
	assert_int_equal(
		raw_bitmaps_add(bitmaps, records[0].physical, 0, &more, &whole),
		0);
	assert_int_equal(check(&pool, true, NULL), 1);
	assert_string_equal(pool.last, "object 3: on the medium other blocks "
				       "of cluster 20 are written");
	raw_bitmaps_drop(bitmaps, records[0].physical);
	assert_true(check(&pool, false, NULL) > 0);
	pool_done(&pool);
}

/* ---- the medium ---- */

static void check_repair(struct pool *pool, const uint64_t *places, size_t n)
{
	unsigned left;

	for (size_t i = 0; i < n; i++)
		pool->bytes[places[i] + 100] ^= 1;
	if (check(pool, false, &left) == 0 || !left)
		fail_msg("damage at %lu was not found",
			 (unsigned long)places[0]);
	if (check(pool, true, &left) == 0 || left)
		fail_msg("damage at %lu was not repaired: %s",
			 (unsigned long)places[0], pool->last);
	assert_int_equal(check(pool, false, NULL), 0);
}

static void repairs_the_medium_with_what_is_in_memory(void **unused)
{
	struct pool pool;

	(void)unused;
	pool_make(&pool);
	for (unsigned copies = 1; copies <= 3; copies++) {
		const struct raw_super *super = &pool.store->super;
		uint64_t places[3][2];
		size_t n = 0;

		map(&pool, 3, 10 + copies, true); /* so that there is a log */
		for (unsigned copy = 0; copy < RAW_COPIES; copy++) {
			if (!(copies >> copy & 1))
				continue;
			places[0][n] = copy * RAW_SUPER_COPY_OFFSET;
			places[1][n] = store_log_offset(super, copy,
							super->log_block);
			places[2][n++] = store_part_offset(super, copy, 0);
		}
		check_repair(&pool, places[1], n);
		map(&pool, 3, 20 + copies, true);
		for (unsigned i = 0; i < n; i++)
			places[2][i] = store_part_offset(
				super, copies == 2 ? 1 : i, 0);
		check_repair(&pool, places[2], n);
		check_repair(&pool, places[0], n);
	}
	raw_store_close(pool.store);
	pool_open(&pool);
	assert_int_equal(check(&pool, false, NULL), 0);
	pool_done(&pool);
}

/* Without the right to write it is found all the same. */
static void only_looks_when_it_is_to(void **unused)
{
	struct raw_report report;
	struct pool pool;
	uint8_t *before;
	unsigned left;

	(void)unused;
	pool_make(&pool);
	raw_store_close(pool.store);
	before = malloc(MEDIUM);
	assert_non_null(before);
	pool.bytes[RAW_SUPER_COPY_OFFSET + 50] ^= 1;
	pool.bytes[RAW_LOG_START + RAW_BLOCK * 6 + 50] ^= 1;
	memcpy(before, pool.bytes, MEDIUM);
	must(&pool,
	     raw_store_look(&pool.medium, &pool.store, &report, &pool.err),
	     "look");
	assert_int_equal(check(&pool, false, &left), 2);
	assert_int_equal(left, 2);
	assert_int_equal(raw_store_checkpoint(pool.store, &pool.err), -EIO);
	assert_memory_equal(pool.bytes, before, MEDIUM);
	free(before);
	pool_done(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_nothing_where_nothing_is_wrong),
		cmocka_unit_test(finds_a_cluster_of_nobody_and_gives_it_back),
		cmocka_unit_test(finds_what_is_wrong_in_memory),
		cmocka_unit_test(finds_blocks_that_are_written_in_memory_only),
		cmocka_unit_test(repairs_the_medium_with_what_is_in_memory),
		cmocka_unit_test(only_looks_when_it_is_to),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
