/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A raw pool whose metadata is damaged, block by block. Where one copy is
 * whole nothing is lost and both are whole again afterwards; where both are
 * damaged every object is either as it was, or is said to be damaged, and the
 * pool takes no change and gives no cluster.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "blockd/testkit/raw_damage_kit.h"

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
	layered_put(l, block, data);
	l->unreadable[block] = how == UNREADABLE;
}

/* Every object is what it was, or damaged. Returns how many are damaged. */
static uint64_t check_objects(struct damaged *pool, const char *what,
			      uint64_t at)
{
	const struct raw_state *state = raw_store_lock(pool->store);
	uint64_t n_damaged = 0, missing = 0;

	for (uint32_t id = 1; id <= OBJECTS; id++) {
		const struct raw_object *o = raw_state_object(state, id);

		n_damaged += o && o->damaged;
		missing += !o && pool->objects[id];
		if (o && !o->damaged &&
		    damaged_fingerprint(state, o) != pool->objects[id])
			fail_msg("%s %lu: object %u is not what it was", what,
				 (unsigned long)at, id);
	}
	/* An object that was made in a lost batch has left no trace. */
	if (missing > pool->report.unknown &&
	    !(pool->report.lost_batches && missing == 1))
		fail_msg("%s %lu: %lu objects are missing, %lu said", what,
			 (unsigned long)at, (unsigned long)missing,
			 (unsigned long)pool->report.unknown);
	raw_store_unlock(pool->store);
	assert_int_equal(n_damaged, pool->report.damaged);
	return n_damaged;
}

static void reopen(struct damaged *pool)
{
	raw_store_close(pool->store);
	pool->store = NULL;
	damaged_open(pool);
}

/* One copy is damaged: nothing is lost, and then both are whole. */
static void check_survived(struct damaged *pool, const char *what, uint64_t at)
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
	layered_forget(&pool->l);
}

/*
 * Both copies are damaged: objects that are not damaged are as before, and
 * nothing is changed.
 */
static void check_served(struct damaged *pool, const char *what, uint64_t at)
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
	layered_forget(&pool->l);
}

static struct raw_super super_of(const struct damaged *pool)
{
	return *raw_store_super(pool->store);
}

/* Blocks of the log that are in use; but for the last batch. */
static uint64_t log_blocks(struct damaged *pool)
{
	return pool->store->log_block - 1;
}

static void loses_nothing_with_one_copy(void **unused)
{
	struct damaged *pool = malloc(sizeof(*pool));
	struct raw_super super;
	uint64_t blocks, parts;

	(void)unused;
	assert_non_null(pool);
	damaged_make(pool);
	damaged_fill(pool);
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
	damaged_done(pool);
}

static void damage_log(struct damaged *pool, const struct raw_super *super,
		       uint64_t block, enum damage how)
{
	for (unsigned copy = 0; copy < RAW_COPIES; copy++)
		damage(&pool->l, store_log_offset(super, copy, block), how);
}

static void damage_part(struct damaged *pool, const struct raw_super *super,
			uint32_t part, enum damage how)
{
	for (unsigned copy = 0; copy < RAW_COPIES; copy++)
		damage(&pool->l, store_part_offset(super, copy, part), how);
}

static void serves_what_is_whole_when_both_copies_are_not(void **unused)
{
	struct damaged *pool = malloc(sizeof(*pool));
	struct raw_super super;
	uint64_t blocks;

	(void)unused;
	assert_non_null(pool);
	damaged_make(pool);
	damaged_fill(pool);
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
	damaged_done(pool);
}

/* One lost batch is no blanket judgement: most objects are not damaged. */
static void damages_only_objects_of_the_lost_batch(void **unused)
{
	struct damaged *pool = malloc(sizeof(*pool));
	struct raw_super super;
	const struct raw_state *state;

	(void)unused;
	assert_non_null(pool);
	damaged_make(pool);
	for (uint32_t id = 1; id <= 9; id++)
		damaged_make_object(pool, id, 0);
	super = super_of(pool);
	for (uint32_t id = 1; id <= 9; id++)
		damaged_map(pool, id, 5);
	damaged_make_object(pool, 5,
			    0); /* its text, again: it says which is damaged */
	layered_keep(&pool->l);
	/* Each of those above has written two blocks, each of these one. */
	damage_log(pool, &super, 18 + 4, ZERO);
	reopen(pool);
	assert_int_equal(pool->report.lost_batches, 1);
	assert_int_equal(pool->report.damaged, 1);
	assert_int_equal(pool->report.unknown, 0);
	state = raw_store_lock(pool->store);
	assert_true(raw_state_object(state, 5)->damaged);
	assert_int_equal(raw_state_object(state, 5)->text[0], 'a' + 5);
	assert_int_equal(raw_map_mapped(&raw_state_object(state, 5)->map), 0);
	assert_int_equal(raw_map_mapped(&raw_state_object(state, 6)->map), 1);
	raw_store_unlock(pool->store);
	damaged_done(pool);
}

/* An end that can't be read is no end. */
static void does_not_take_what_it_cannot_read_for_the_end(void **unused)
{
	struct damaged *pool = malloc(sizeof(*pool));
	struct raw_super super;
	uint64_t last;

	(void)unused;
	assert_non_null(pool);
	damaged_make(pool);
	damaged_make_object(pool, 1, 0);
	damaged_map(pool, 1, 0);
	super = super_of(pool);
	last = pool->store->log_block - 1;
	layered_keep(&pool->l);
	raw_store_close(pool->store);
	pool->store = NULL;
	damage_log(pool, &super, last, UNREADABLE);
	assert_int_equal(raw_store_open(&pool->l.medium, &pool->store,
					&pool->report, &pool->err),
			 -EIO);
	layered_forget(&pool->l);
	/* Of a block that was never written to one copy's word is enough. */
	damage(&pool->l, store_log_offset(&super, 0, last + 1), UNREADABLE);
	damaged_open(pool);
	assert_false(raw_report_lost(&pool->report));
	damaged_done(pool);
}

/* Parts that can't be read for a while are not lost, and are tried again. */
static void is_whole_again_when_all_can_be_read(void **unused)
{
	struct damaged *pool = malloc(sizeof(*pool));
	struct raw_super super;

	(void)unused;
	assert_non_null(pool);
	damaged_make(pool);
	damaged_fill(pool);
	super = super_of(pool);
	for (unsigned i = 0; i < 3; i++) {
		if (i != 1)
			damage_part(pool, &super, 1, UNREADABLE);
		if (i != 0)
			damage_log(pool, &super, super.log_block + 7,
				   UNREADABLE);
		reopen(pool);
		assert_true(check_objects(pool, "unreadable", i) > 0);
		assert_int_equal(pool->report.unreadable, 1 + i / 2);
		assert_int_equal(raw_store_retry(pool->store, &pool->err),
				 -EIO);
		assert_int_equal(pool->l.writes, 0);
		layered_forget(&pool->l);
		assert_int_equal(raw_store_retry(pool->store, &pool->err), 1);
		check_survived(pool, "readable", i);
	}
	/* Damage is not tried again. */
	damage_part(pool, &super, 1, FLIP);
	reopen(pool);
	assert_int_equal(pool->report.unreadable, 0);
	assert_int_equal(raw_store_retry(pool->store, &pool->err), 0);
	damaged_done(pool);
}

static void is_not_opened_without_both_superblocks(void **unused)
{
	struct damaged *pool = malloc(sizeof(*pool));

	(void)unused;
	assert_non_null(pool);
	damaged_make(pool);
	layered_keep(&pool->l);
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
	damaged_done(pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(loses_nothing_with_one_copy),
		cmocka_unit_test(serves_what_is_whole_when_both_copies_are_not),
		cmocka_unit_test(damages_only_objects_of_the_lost_batch),
		cmocka_unit_test(does_not_take_what_it_cannot_read_for_the_end),
		cmocka_unit_test(is_whole_again_when_all_can_be_read),
		cmocka_unit_test(is_not_opened_without_both_superblocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
