/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A raw pool whose metadata is damaged, block by block. Where one copy is
 * whole nothing is lost and both are whole again afterwards; where both are
 * damaged every object is either as it was, or is said to be hurt, and the
 * pool takes no change and gives no cluster.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/crc32c.h"
#include "blockd/raw_store_internal.h"

#define MEDIUM  (UINT64_C(24) << 20)
#define BLOCKS  (MEDIUM / RAW_BLOCK)
#define OBJECTS 40
#define LENGTH  3000 /* clusters of an object: three leaves */

/* ---- a medium that forgets what was written to it ---- */

struct layered {
	struct raw_medium medium;
	uint8_t *base;            /* owned */
	uint8_t *written[BLOCKS]; /* over it; owned, NULL: none */
	bool unreadable[BLOCKS];
	unsigned writes;
};

static int layered_read(struct raw_medium *medium, void *data, size_t length,
			uint64_t offset)
{
	struct layered *l = (struct layered *)medium;

	assert_true(offset + length <= MEDIUM);
	for (size_t at = 0; at < length; at += RAW_BLOCK) {
		uint64_t block = (offset + at) / RAW_BLOCK;

		if (l->unreadable[block])
			return -EIO;
		memcpy((uint8_t *)data + at,
		       l->written[block] ? l->written[block]
					 : l->base + block * RAW_BLOCK,
		       RAW_BLOCK);
	}
	return 0;
}

static void put_block(struct layered *l, uint64_t block, const void *data)
{
	if (!l->written[block])
		l->written[block] = malloc(RAW_BLOCK);
	assert_non_null(l->written[block]);
	memcpy(l->written[block], data, RAW_BLOCK);
	l->unreadable[block] = false;
}

static int layered_write(struct raw_medium *medium, const void *data,
			 size_t length, uint64_t offset)
{
	struct layered *l = (struct layered *)medium;

	assert_true(offset + length <= MEDIUM);
	l->writes++;
	for (size_t at = 0; at < length; at += RAW_BLOCK)
		put_block(l, (offset + at) / RAW_BLOCK,
			  (const uint8_t *)data + at);
	return 0;
}

static int layered_flush(struct raw_medium *medium)
{
	(void)medium;
	return 0;
}

static void forget(struct layered *l)
{
	for (size_t i = 0; i < BLOCKS; i++) {
		free(l->written[i]);
		l->written[i] = NULL;
	}
	memset(l->unreadable, 0, sizeof(l->unreadable));
	l->writes = 0;
}

static void keep(struct layered *l)
{
	for (size_t i = 0; i < BLOCKS; i++) {
		if (l->written[i])
			memcpy(l->base + i * RAW_BLOCK, l->written[i],
			       RAW_BLOCK);
	}
	forget(l);
}

/* ---- a pool ---- */

struct pool {
	struct layered l;
	struct raw_store *store;
	struct raw_report report;
	struct error err;
	uint32_t objects[OBJECTS + 1]; /* what each is; 0: it is not there */
};

static void must(struct pool *pool, int r, const char *what)
{
	if (r < 0)
		fail_msg("%s: %s", what, error_text(&pool->err));
}

static uint32_t fingerprint(const struct raw_state *state,
			    const struct raw_object *o)
{
	uint64_t n = raw_map_clusters(&o->map);
	uint32_t crc = crc32c(1, o->text, o->text_length);

	for (uint64_t i = 0; i < n; i++) {
		uint32_t entry = raw_map_get(&o->map, i);

		if (entry != RAW_HOLE)
			crc = crc32c(crc, &i, sizeof(i));
		if (entry != RAW_HOLE)
			crc = crc32c(crc, &entry, sizeof(entry));
		if (entry != RAW_HOLE && entry & RAW_PARTLY) {
			struct raw_blocks blocks = {{0}};

			assert_true(raw_part_window(
				raw_partly_find(&state->alloc.partly,
						RAW_PHYSICAL(entry)),
				0, &blocks));
			crc = crc32c(crc, &blocks, sizeof(blocks));
		}
	}
	return crc;
}

static void change(struct pool *pool, const struct raw_record *records,
		   size_t n)
{
	struct error *err = &pool->err;
	uint64_t ticket;
	int r = raw_store_change(pool->store, records, n, &ticket, err);

	if (r == 0)
		r = raw_store_commit(pool->store, ticket, err);
	must(pool, r, "change");
}

static void make(struct pool *pool, uint32_t id, uint32_t from)
{
	static char text[6000];
	struct raw_record records[2] = {
		{.type = RAW_OBJECT,
		 .object = id,
		 .clusters = LENGTH,
		 .text = text,
		 .text_length = sizeof(text)},
		{.type = RAW_SHARE, .object = id, .from = from},
	};

	memset(text, 'a' + (int)(id % 26), sizeof(text));
	change(pool, records, from ? 2 : 1);
}

/* Every other one is written in part. */
static void map(struct pool *pool, uint32_t id, uint64_t logical)
{
	const bool partly = (id + logical) % 2;
	struct raw_record records[2] = {
		{.type = RAW_MAP,
		 .object = id,
		 .logical = logical,
		 .unwritten = partly},
		{.type = RAW_WRITTEN,
		 .object = id,
		 .logical = logical,
		 .count = 1,
		 .blocks.bits[0] = 1 + logical % 1000},
	};

	records[0].count = raw_store_take(pool->store, 1, RAW_HOLE,
					  &records[0].physical);
	records[1].physical = records[0].physical;
	assert_int_equal(records[0].count, 1);
	change(pool, records, partly ? 2 : 1);
}

static void pool_open(struct pool *pool)
{
	pool->report = (struct raw_report){0};
	must(pool,
	     raw_store_open(&pool->l.medium, &pool->store, &pool->report,
			    &pool->err),
	     "open");
}

static void pool_make(struct pool *pool)
{
	static const struct raw_medium_ops ops = {
		.read = layered_read,
		.write = layered_write,
		.flush = layered_flush,
	};
	const struct raw_format_options options = {
		.cluster_shift = RAW_CLUSTER_SHIFT_MIN,
		.text = "pool",
		.text_length = 4,
	};

	memset(pool, 0, sizeof(*pool));
	pool->l.medium = (struct raw_medium){.ops = &ops, .size = MEDIUM};
	pool->l.base = calloc(1, MEDIUM);
	assert_non_null(pool->l.base);
	must(pool, raw_store_format(&pool->l.medium, &options, &pool->err),
	     "format");
	pool_open(pool);
}

/* Some is in the checkpoint, some in the log; what is there is kept. */
static void pool_fill(struct pool *pool)
{
	const struct raw_state *state;

	for (uint32_t id = 1; id <= OBJECTS / 2; id++) {
		make(pool, id, 0);
		for (uint32_t i = 0; i < 4; i++)
			map(pool, id, (id * 97 + i * 1000) % LENGTH);
	}
	make(pool, OBJECTS / 2 + 1, 1);
	must(pool, raw_store_checkpoint(pool->store, &pool->err), "checkpoint");
	for (uint32_t id = OBJECTS / 2 + 2; id < OBJECTS; id++) {
		make(pool, id, id % 3 ? 0 : id - 20);
		map(pool, id, id);
		map(pool, id - 20, id);
		if (id % 5 == 0)
			change(pool,
			       &(struct raw_record){.type = RAW_DROP,
						    .object = id - 4},
			       1);
	}
	state = raw_store_lock(pool->store);
	for (uint32_t id = 1; id <= OBJECTS; id++) {
		const struct raw_object *o = raw_state_object(state, id);

		if (o)
			pool->objects[id] = fingerprint(state, o);
	}
	raw_store_unlock(pool->store);
	keep(&pool->l);
}

static void pool_done(struct pool *pool)
{
	raw_store_close(pool->store);
	forget(&pool->l);
	free(pool->l.base);
	free(pool);
}

/* ---- damage ---- */

enum damage { FLIP, ZERO, OTHER, UNREADABLE, N_DAMAGES };

static void damage(struct layered *l, uint64_t offset, enum damage how)
{
	uint64_t block = offset / RAW_BLOCK;
	uint8_t data[RAW_BLOCK];

	memcpy(data, l->base + block * RAW_BLOCK, sizeof(data));
	switch (how) {
	case FLIP: data[32 + (block * 37) % 32] ^= 4; break;
	case ZERO: memset(data, 0, sizeof(data)); break;
	case OTHER: memset(data, 0xa5, sizeof(data)); break;
	default: break;
	}
	put_block(l, block, data);
	l->unreadable[block] = how == UNREADABLE;
}

/* Every object is what it was, or hurt. Returns how many are hurt. */
static uint64_t check_objects(struct pool *pool, const char *what, uint64_t at)
{
	const struct raw_state *state = raw_store_lock(pool->store);
	uint64_t n_hurt = 0, missing = 0;

	for (uint32_t id = 1; id <= OBJECTS; id++) {
		const struct raw_object *o = raw_state_object(state, id);

		n_hurt += o && o->hurt;
		missing += !o && pool->objects[id];
		if (o && !o->hurt && fingerprint(state, o) != pool->objects[id])
			fail_msg("%s %lu: object %u is not what it was", what,
				 (unsigned long)at, id);
	}
	/* One that was made where something is lost has left no trace. */
	if (missing > pool->report.unknown &&
	    !(pool->report.lost_batches && missing == 1))
		fail_msg("%s %lu: %lu objects are missing, %lu said", what,
			 (unsigned long)at, (unsigned long)missing,
			 (unsigned long)pool->report.unknown);
	raw_store_unlock(pool->store);
	assert_int_equal(n_hurt, pool->report.hurt);
	return n_hurt;
}

static void reopen(struct pool *pool)
{
	raw_store_close(pool->store);
	pool->store = NULL;
	pool_open(pool);
}

/* One copy is damaged: nothing is lost, and then both are whole. */
static void check_survived(struct pool *pool, const char *what, uint64_t at)
{
	reopen(pool);
	if (raw_report_lost(&pool->report) ||
	    check_objects(pool, what, at) != 0)
		fail_msg("%s %lu: something is lost", what, (unsigned long)at);
	assert_int_equal(
		raw_state_verify(raw_store_lock(pool->store), &pool->err), 0);
	raw_store_unlock(pool->store);
	reopen(pool);
	assert_int_equal(pool->report.copies_damaged, 0);
	assert_false(pool->report.super_damaged || pool->report.super_stale);
	assert_int_equal(check_objects(pool, what, at), 0);
	raw_store_close(pool->store);
	pool->store = NULL;
	forget(&pool->l);
}

/* Both are: who is not hurt is as before, and nothing is changed. */
static void check_served(struct pool *pool, const char *what, uint64_t at)
{
	struct raw_record drop = {.type = RAW_DROP, .object = 1};
	uint32_t first;

	reopen(pool);
	(void)check_objects(pool, what, at);
	if (!raw_report_lost(&pool->report))
		fail_msg("%s %lu: it was not noticed", what, (unsigned long)at);
	assert_int_equal(
		raw_store_change(pool->store, &drop, 1, NULL, &pool->err),
		-EIO);
	assert_int_equal(raw_store_take(pool->store, 1, RAW_HOLE, &first), 0);
	assert_int_equal(raw_store_available(pool->store), 0);
	assert_int_equal(raw_store_checkpoint(pool->store, &pool->err), -EIO);
	assert_int_equal(pool->l.writes, 0);
	assert_int_equal(
		raw_state_verify(raw_store_lock(pool->store), &pool->err), 0);
	raw_store_unlock(pool->store);
	raw_store_close(pool->store);
	pool->store = NULL;
	forget(&pool->l);
}

static struct raw_super super_of(const struct pool *pool)
{
	return *raw_store_super(pool->store);
}

/* Blocks of the log that are in use; but for the last batch. */
static uint64_t log_blocks(struct pool *pool)
{
	return pool->store->log_block - 1;
}

static void loses_nothing_with_one_copy(void **unused)
{
	struct pool *pool = malloc(sizeof(*pool));
	struct raw_super super;
	uint64_t blocks, parts;

	(void)unused;
	assert_non_null(pool);
	pool_make(pool);
	pool_fill(pool);
	super = super_of(pool);
	blocks = log_blocks(pool);
	parts = super.checkpoint_parts;
	assert_true(blocks > 40 && parts > 2);
	for (unsigned copy = 0; copy < RAW_COPIES; copy++) {
		for (uint64_t i = 0; i < RAW_SUPER_SIZE / RAW_BLOCK; i++) {
			damage(&pool->l,
			       copy * RAW_SUPER_COPY_OFFSET + i * RAW_BLOCK,
			       (enum damage)(i % N_DAMAGES));
			check_survived(pool, "superblock", i);
		}
		for (uint64_t i = super.log_block; i <= blocks; i++) {
			damage(&pool->l, store_log_offset(&super, copy, i),
			       (enum damage)(i % N_DAMAGES));
			check_survived(pool, "log", i);
		}
		for (uint32_t i = 0; i < parts; i++) {
			damage(&pool->l,
			       store_part_offset(&super, copy, i) +
				       i % 4 * RAW_BLOCK,
			       (enum damage)(i % N_DAMAGES));
			check_survived(pool, "checkpoint", i);
		}
	}
	/* All of a copy, too. */
	for (unsigned copy = 0; copy < RAW_COPIES; copy++) {
		damage(&pool->l, copy * RAW_SUPER_COPY_OFFSET, ZERO);
		for (uint64_t i = 0; i < raw_ring_size(&super) / RAW_BLOCK; i++)
			damage(&pool->l, store_log_offset(&super, copy, i),
			       ZERO);
		for (uint32_t i = 0; i < parts; i++)
			damage(&pool->l, store_part_offset(&super, copy, i),
			       ZERO);
		check_survived(pool, "copy", copy);
	}
	pool_done(pool);
}

static void damage_log(struct pool *pool, const struct raw_super *super,
		       uint64_t block, enum damage how)
{
	for (unsigned copy = 0; copy < RAW_COPIES; copy++)
		damage(&pool->l, store_log_offset(super, copy, block), how);
}

static void damage_part(struct pool *pool, const struct raw_super *super,
			uint32_t part, enum damage how)
{
	for (unsigned copy = 0; copy < RAW_COPIES; copy++)
		damage(&pool->l, store_part_offset(super, copy, part), how);
}

static void serves_what_is_whole_when_both_copies_are_not(void **unused)
{
	struct pool *pool = malloc(sizeof(*pool));
	struct raw_super super;
	uint64_t blocks;

	(void)unused;
	assert_non_null(pool);
	pool_make(pool);
	pool_fill(pool);
	super = super_of(pool);
	blocks = log_blocks(pool);
	for (uint64_t i = super.log_block; i < blocks; i++) {
		damage_log(pool, &super, i, (enum damage)(i % N_DAMAGES));
		check_served(pool, "batch", i);
	}
	for (uint64_t i = super.log_block; i + 5 < blocks; i += 3) {
		for (uint64_t n = 0; n < 5; n++)
			damage_log(pool, &super, i + n,
				   (enum damage)(i % N_DAMAGES));
		check_served(pool, "batches", i);
	}
	for (uint32_t i = 0; i < super.checkpoint_parts; i++) {
		damage_part(pool, &super, i, (enum damage)(i % N_DAMAGES));
		check_served(pool, "part", i);
		damage_part(pool, &super, i, (enum damage)(i % N_DAMAGES));
		damage_log(pool, &super, super.log_block + 7, FLIP);
		check_served(pool, "part and batch", i);
	}
	pool_done(pool);
}

/* It is no blanket judgement: most are not hurt by one lost batch. */
static void hurts_only_who_the_lost_batch_was_about(void **unused)
{
	struct pool *pool = malloc(sizeof(*pool));
	struct raw_super super;
	const struct raw_state *state;

	(void)unused;
	assert_non_null(pool);
	pool_make(pool);
	for (uint32_t id = 1; id <= 9; id++)
		make(pool, id, 0);
	super = super_of(pool);
	for (uint32_t id = 1; id <= 9; id++)
		map(pool, id, 5);
	make(pool, 5, 0); /* its text, again: it says who is hurt */
	keep(&pool->l);
	/* Each of those above has written two blocks, each of these one. */
	damage_log(pool, &super, 18 + 4, ZERO);
	reopen(pool);
	assert_int_equal(pool->report.lost_batches, 1);
	assert_int_equal(pool->report.hurt, 1);
	assert_int_equal(pool->report.unknown, 0);
	state = raw_store_lock(pool->store);
	assert_true(raw_state_object(state, 5)->hurt);
	assert_int_equal(raw_state_object(state, 5)->text[0], 'a' + 5);
	assert_int_equal(raw_map_mapped(&raw_state_object(state, 5)->map), 0);
	assert_int_equal(raw_map_mapped(&raw_state_object(state, 6)->map), 1);
	raw_store_unlock(pool->store);
	pool_done(pool);
}

/* An end that can't be read is no end. */
static void does_not_take_what_it_cannot_read_for_the_end(void **unused)
{
	struct pool *pool = malloc(sizeof(*pool));
	struct raw_super super;
	uint64_t last;

	(void)unused;
	assert_non_null(pool);
	pool_make(pool);
	make(pool, 1, 0);
	map(pool, 1, 0);
	super = super_of(pool);
	last = pool->store->log_block - 1;
	keep(&pool->l);
	raw_store_close(pool->store);
	pool->store = NULL;
	damage_log(pool, &super, last, UNREADABLE);
	assert_int_equal(raw_store_open(&pool->l.medium, &pool->store,
					&pool->report, &pool->err),
			 -EIO);
	forget(&pool->l);
	/* One that was never written to is one copy's word. */
	damage(&pool->l, store_log_offset(&super, 0, last + 1), UNREADABLE);
	pool_open(pool);
	assert_false(raw_report_lost(&pool->report));
	pool_done(pool);
}

static void is_not_opened_without_both_superblocks(void **unused)
{
	struct pool *pool = malloc(sizeof(*pool));

	(void)unused;
	assert_non_null(pool);
	pool_make(pool);
	keep(&pool->l);
	raw_store_close(pool->store);
	pool->store = NULL;
	damage(&pool->l, 0, FLIP);
	damage(&pool->l, RAW_SUPER_COPY_OFFSET, FLIP);
	assert_int_equal(raw_store_open(&pool->l.medium, &pool->store,
					&pool->report, &pool->err),
			 -EBADMSG);
	assert_string_equal(error_text(&pool->err),
			    "a superblock's checksum is wrong");
	damage(&pool->l, 0, ZERO);
	damage(&pool->l, RAW_SUPER_COPY_OFFSET, ZERO);
	assert_int_equal(raw_store_open(&pool->l.medium, &pool->store,
					&pool->report, &pool->err),
			 -ENODATA);
	pool_done(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loses_nothing_with_one_copy),
		cmocka_unit_test(serves_what_is_whole_when_both_copies_are_not),
		cmocka_unit_test(hurts_only_who_the_lost_batch_was_about),
		cmocka_unit_test(does_not_take_what_it_cannot_read_for_the_end),
		cmocka_unit_test(is_not_opened_without_both_superblocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
