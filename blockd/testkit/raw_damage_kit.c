/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/wire/crc32c.h"
#include "blockd/testkit/raw_damage_kit.h"

/* ---- a medium that forgets what was written to it ---- */

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

void layered_put(struct layered *l, uint64_t block, const void *data)
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
		layered_put(l, (offset + at) / RAW_BLOCK,
			    (const uint8_t *)data + at);
	return 0;
}

static int layered_flush(struct raw_medium *medium)
{
	(void)medium;
	return 0;
}

void layered_forget(struct layered *l)
{
	for (size_t i = 0; i < BLOCKS; i++) {
		free(l->written[i]);
		l->written[i] = NULL;
	}
	memset(l->unreadable, 0, sizeof(l->unreadable));
	l->writes = 0;
}

void layered_keep(struct layered *l)
{
	for (size_t i = 0; i < BLOCKS; i++) {
		if (l->written[i])
			memcpy(l->base + i * RAW_BLOCK, l->written[i],
			       RAW_BLOCK);
	}
	layered_forget(l);
}

/* ---- a pool ---- */

static void damaged_must(struct damaged *pool, int r, const char *what)
{
	if (r < 0)
		fail_msg("%s: %s", what, error_text(&pool->err));
}

uint32_t damaged_fingerprint(const struct raw_state *state,
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
		if (entry != RAW_HOLE && entry & RAW_PARTIAL) {
			struct raw_blocks blocks = {{0}};

			assert_true(raw_bitmap_window(
				raw_bitmaps_find(&state->alloc.bitmaps,
						 RAW_PHYSICAL(entry)),
				0, &blocks));
			crc = crc32c(crc, &blocks, sizeof(blocks));
		}
	}
	return crc;
}

static void damaged_change(struct damaged *pool,
			   const struct raw_record *records, size_t n)
{
	struct error *err = &pool->err;
	uint64_t ticket;
	int r = raw_store_change(pool->store, records, n, &ticket, err);

	if (r == 0)
		r = raw_store_commit(pool->store, ticket, err);
	damaged_must(pool, r, "change");
}

void damaged_make_object(struct damaged *pool, uint32_t id, uint32_t from)
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
	damaged_change(pool, records, from ? 2 : 1);
}

/* Every other one is written in part. */
void damaged_map(struct damaged *pool, uint32_t id, uint64_t logical)
{
	const bool partial = (id + logical) % 2;
	struct raw_record records[2] = {
		{.type = RAW_MAP,
		 .object = id,
		 .logical = logical,
		 .unwritten = partial},
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
	damaged_change(pool, records, partial ? 2 : 1);
}

void damaged_open(struct damaged *pool)
{
	pool->report = (struct raw_report){0};
	damaged_must(pool,
		     raw_store_open(&pool->l.medium, &pool->store,
				    &pool->report, &pool->err),
		     "open");
}

void damaged_make(struct damaged *pool)
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
	damaged_must(pool,
		     raw_store_format(&pool->l.medium, &options, &pool->err),
		     "format");
	damaged_open(pool);
}

/* Some is in the checkpoint, some in the log; what is there is kept. */
void damaged_fill(struct damaged *pool)
{
	const struct raw_state *state;

	for (uint32_t id = 1; id <= OBJECTS / 2; id++) {
		damaged_make_object(pool, id, 0);
		for (uint32_t i = 0; i < 4; i++)
			damaged_map(pool, id, (id * 97 + i * 1000) % LENGTH);
	}
	damaged_make_object(pool, OBJECTS / 2 + 1, 1);
	damaged_must(pool, raw_store_checkpoint(pool->store, &pool->err),
		     "checkpoint");
	for (uint32_t id = OBJECTS / 2 + 2; id < OBJECTS; id++) {
		damaged_make_object(pool, id, id % 3 ? 0 : id - 20);
		damaged_map(pool, id, id);
		damaged_map(pool, id - 20, id);
		if (id % 5 == 0)
			damaged_change(pool,
				       &(struct raw_record){.type = RAW_DROP,
							    .object = id - 4},
				       1);
	}
	state = raw_store_lock(pool->store);
	for (uint32_t id = 1; id <= OBJECTS; id++) {
		const struct raw_object *o = raw_state_object(state, id);

		if (o)
			pool->objects[id] = damaged_fingerprint(state, o);
	}
	raw_store_unlock(pool->store);
	layered_keep(&pool->l);
}

void damaged_done(struct damaged *pool)
{
	raw_store_close(pool->store);
	layered_forget(&pool->l);
	free(pool->l.base);
	free(pool);
}
