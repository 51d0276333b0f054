/* SPDX-License-Identifier: Apache-2.0 */
/* Steps on a pool and its model, and any of them by chance. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "blockd/testkit/model_kit.h"

/* ---- writing ---- */

/*
 * Note a write that failed half way: each block is as it was, or as it was to
 * be.
 */
static void after_part(struct run *run, struct object *object, size_t at,
		       size_t n, uint32_t stamp)
{
	void *data = model_buffer(n);

	CHECK(run, model_one(object, READ, data, at, n, 0) == 0);
	for (size_t i = 0; i < n; i++) {
		struct block *block = &object->blocks[at + i];
		uint32_t found = model_stamp_of(run, data, i);

		CHECK(run, found == model_now(block) || found == stamp);
		model_push(block, found);
	}
	free(data);
}

/* So that none gets more stamps than it has room for. */
static void flush_if_needed(struct run *run, struct object *object, size_t at,
			    size_t n)
{
	for (size_t i = at; i < at + n; i++) {
		if (object->blocks[i].n < STAMPS - 1)
			continue;
		CHECK(run, model_one(object, FLUSH, NULL, 0, 0, 0) == 0);
		model_settle(object);
		return;
	}
}

void model_write_at(struct run *run, struct object *object, enum what what,
		    size_t at, size_t n, unsigned flags)
{
	uint32_t stamp = what == WRITE ? ++run->stamp : 0;
	struct extent_usage before;
	uint32_t *data;
	int r;

	flush_if_needed(run, object, at, n);
	before = model_usage(run, object);
	data = model_buffer(n);
	for (size_t i = 0; i < n * BLOCK / sizeof(*data); i++)
		data[i] = stamp;
	r = model_one(object, what, data, at, n, flags);
	free(data);
	CHECK(run, r == 0 || r == -ENOSPC);
	/* What a thick one has alone it keeps. */
	if (run->kind->exact && object->record.thick && !before.shared)
		CHECK(run,
		      model_usage(run, object).allocated >= before.allocated);
	run->full += r < 0;
	if (r < 0 || what == DISCARD) { /* a hint */
		after_part(run, object, at, n, stamp);
		return;
	}
	for (size_t i = at; i < at + n; i++) {
		struct block *block = &object->blocks[i];

		model_push(block, stamp);
		if (flags & BLOCKDEV_FUA) {
			block->stamps[0] = stamp;
			block->n = 1;
		}
	}
}

void model_write_some(struct run *run, enum what what)
{
	struct object *object = model_any(run, true);
	size_t n = 1 + model_below(run, AT_ONCE_MAX), at;
	unsigned flags = model_below(run, 8) == 0 ? BLOCKDEV_FUA : 0;

	if (!object)
		return;
	at = model_below(run, (unsigned)object->n);
	if (n > object->n - at)
		n = object->n - at;
	if (what == ZERO && model_below(run, 3) == 0)
		flags |= BLOCKDEV_NO_HOLE;
	model_write_at(run, object, what, at, n, flags);
}

/* ---- making and taking away ---- */

void model_new_record(struct run *run, struct extent_record *record,
		      uint64_t size)
{
	*record = (struct extent_record){
		.size = size, .created_s = 1, .state = EXTENT_OK};
	(void)snprintf(record->name, sizeof(record->name), "e%u",
		       ++run->serial);
	(void)uuid_make(record->id);
	memcpy(record->pool_id, POOL_ID, sizeof(POOL_ID));
}

/* Not whole clusters, mostly. */
static uint64_t any_size(struct run *run, uint64_t least)
{
	const uint64_t min = EXTENT_SIZE_MIN / BLOCK;
	uint64_t blocks = min +
			  model_below(run, (unsigned)(BLOCKS_MAX - min) + 1);

	return blocks * BLOCK < least ? least : blocks * BLOCK;
}

void model_object_add(struct run *run, struct object *object,
		      const struct extent_record *record,
		      const struct object *from)
{
	object->record = *record;
	object->n = record->size / BLOCK;
	object->blocks = calloc(object->n, sizeof(*object->blocks));
	assert_non_null(object->blocks);
	for (size_t i = 0; from && i < from->n; i++) {
		object->blocks[i].stamps[0] = model_now(&from->blocks[i]);
		object->blocks[i].n = 1;
	}
	model_object_open(run, object);
}

/* No room: then nothing is left of it. */
static void nothing_left(struct run *run, int r, uint64_t allocated)
{
	CHECK(run, r == -ENOSPC);
	CHECK(run,
	      !run->kind->exact || model_measure(run).allocated == allocated);
	run->full++;
}

void model_create(struct run *run)
{
	struct object *object = model_empty_slot(run);
	uint64_t allocated = model_measure(run).allocated;
	struct extent_record record;
	int r;

	if (!object)
		return;
	model_new_record(run, &record, any_size(run, 0));
	record.thick = model_below(run, 3) == 0;
	r = run->pool->ops->create(run->pool, &record, &run->err);
	if (r < 0) {
		nothing_left(run, r, allocated);
		return;
	}
	model_object_add(run, object, &record, NULL);
	if (run->kind->exact)
		CHECK(run, model_usage(run, object).allocated ==
				   (record.thick ? (record.size + CLUSTER - 1) /
							   CLUSTER * CLUSTER
						 : 0));
}

void model_origin_set(struct extent_record *record, const struct object *origin,
		      const char *cut)
{
	memcpy(record->origin.name, origin->record.name, EXTENT_NAME_SIZE);
	memcpy(record->origin.id, origin->record.id, UUID_TEXT_SIZE);
	record->origin.method = POOL_COPY_SHARED;
	if (cut)
		memcpy(record->origin.cut, cut, UUID_TEXT_SIZE);
}

void model_snapshot(struct run *run)
{
	struct extent_record records[3];
	struct pool_copy copies[3];
	struct object *origins[3];
	char cut[UUID_TEXT_SIZE];
	uint64_t allocated = model_measure(run).allocated;
	size_t n = 0;
	int r;

	(void)uuid_make(cut);
	for (unsigned i = 0; i < 3; i++) {
		struct object *origin = model_any(run, true);

		if (!origin || (n && model_below(run, 2)))
			continue;
		origins[n] = origin;
		model_new_record(run, &records[n], origin->record.size);
		records[n].kind = EXTENT_KIND_SNAPSHOT;
		records[n].reserved = model_usage(run, origin).allocated;
		model_origin_set(&records[n], origin, cut);
		copies[n] = (struct pool_copy){origin->record.name,
					       &records[n]};
		n++;
	}
	for (size_t i = 0, empty = 0; i < OBJECTS; i++) {
		empty += !model_is_there(&run->objects[i]);
		if (i == OBJECTS - 1 && empty < n)
			return;
	}
	if (!n)
		return;
	r = run->pool->ops->copy(run->pool, copies, n, NULL, NULL, &run->err);
	if (r == -ENOSPC && !run->kind->exact) { /* it copies bytes */
		nothing_left(run, r, allocated);
		return;
	}
	MUST(run, r);
	CHECK(run,
	      !run->kind->exact || model_measure(run).allocated == allocated);
	run->groups++;
	for (size_t i = 0; i < n; i++) {
		struct object *object = model_empty_slot(run);

		model_settle(origins[i]);
		model_object_add(run, object, &records[i], origins[i]);
		if (!run->kind->exact)
			continue;
		CHECK(run, model_usage(run, object).allocated <=
				   records[i].reserved);
		CHECK(run, model_usage(run, object).reclaimable == 0);
	}
}

void model_make_clone(struct run *run)
{
	struct object *from = model_any(run, false),
		      *object = model_empty_slot(run);
	uint64_t allocated = model_measure(run).allocated;
	struct extent_record record;
	struct pool_copy copy;
	int r;

	if (!from || !object)
		return;
	model_new_record(run, &record, any_size(run, from->record.size));
	if (model_below(run, 2))
		record.size = from->record.size;
	record.thick = model_below(run, 3) == 0;
	model_origin_set(&record, from, NULL);
	copy = (struct pool_copy){from->record.name, &record};
	r = run->pool->ops->copy(run->pool, &copy, 1, NULL, NULL, &run->err);
	if (r < 0) {
		nothing_left(run, r, allocated);
		return;
	}
	model_settle(from);
	model_object_add(run, object, &record, from);
}

void model_revert(struct run *run)
{
	struct object *snap = model_any(run, false), *object = NULL;
	struct extent_record record;
	int r;

	if (!snap || !model_is_snapshot(snap))
		return;
	for (size_t i = 0; i < OBJECTS; i++)
		if (model_is_there(&run->objects[i]) &&
		    strcmp(run->objects[i].record.name,
			   snap->record.origin.name) == 0)
			object = &run->objects[i];
	if (!object)
		return;
	record = object->record;
	/* To the size that it had, or it keeps its own. */
	if (model_below(run, 2))
		record.size = snap->record.size;
	model_object_close(run, object);
	r = run->pool->ops->revert(run->pool, &record, snap->record.name,
				   &run->err);
	if (r == -ENOSPC && !run->kind->exact) { /* it is as it was */
		run->full++;
		model_object_open(run, object);
		return;
	}
	MUST(run, r);
	free(object->blocks);
	model_object_add(run, object, &record, snap);
	run->reverts++;
}

static void grow(struct run *run)
{
	struct object *object = model_any(run, true);
	uint64_t allocated = model_measure(run).allocated;
	struct extent_record record;
	size_t had;
	int r;

	if (!object)
		return;
	had = object->n;
	record = object->record;
	record.size = any_size(run, record.size);
	r = run->pool->ops->grow(run->pool, &record, &run->err);
	if (r < 0) {
		nothing_left(run, r, allocated);
		return;
	}
	model_object_close(run, object);
	object->record = record;
	object->n = record.size / BLOCK;
	object->blocks = reallocarray(object->blocks, object->n,
				      sizeof(*object->blocks));
	assert_non_null(object->blocks);
	memset(object->blocks + had, 0,
	       (object->n - had) * sizeof(*object->blocks));
	model_object_open(run, object);
}

void model_erase(struct run *run, struct object *object)
{
	struct pool *pool = run->pool;
	uint64_t before = model_measure(run).allocated;
	uint64_t alone = model_usage(run, object).reclaimable;

	model_object_close(run, object);
	MUST(run,
	     pool->ops->begin_delete(pool, object->record.name, &run->err));
	if (model_below(run, 4)) /* else the next load does it */
		MUST(run,
		     pool->ops->erase(pool, object->record.name, &run->err));
	else
		alone = 0;
	CHECK(run, !run->kind->exact ||
			   model_measure(run).allocated == before - alone);
	free(object->blocks);
	*object = (struct object){0};
}

/* ---- ranges ---- */

struct listing {
	struct run *run;
	bool blocks[BLOCKS_MAX];
	uint64_t end;
};

static int list_range(void *context, uint64_t offset, uint64_t length)
{
	struct listing *listing = context;

	CHECK(listing->run,
	      length && offset % BLOCK == 0 && length % BLOCK == 0);
	/* In order, and neighbours are joined. */
	CHECK(listing->run, !listing->end || offset > listing->end);
	listing->end = offset + length;
	for (uint64_t i = offset; i < offset + length; i += BLOCK)
		listing->blocks[i / BLOCK] = true;
	return 0;
}

static void ranges(struct run *run)
{
	struct object *a = model_any(run, false), *b = model_any(run, false);
	struct listing listing = {.run = run};
	size_t start;

	if (!a || b == a)
		return;
	start = model_below(run, (unsigned)a->n);
	MUST(run, run->pool->ops->ranges(
			  run->pool, a->record.name, b ? b->record.name : NULL,
			  start * BLOCK, list_range, &listing, &run->err));
	CHECK(run, listing.end <= a->record.size);
	for (size_t i = 0; i < a->n; i++) {
		uint32_t had = b && i < b->n ? model_now(&b->blocks[i]) : 0;

		CHECK(run, i >= start || !listing.blocks[i]);
		CHECK(run, i < start || listing.blocks[i] ||
				   model_now(&a->blocks[i]) == had);
	}
}

/* ---- a run ---- */

static void check_some(struct run *run)
{
	struct object *object = model_any(run, false);
	size_t at;

	if (!object)
		return;
	at = model_below(run, (unsigned)object->n);
	model_check_blocks(run, object, at,
			   object->n - at < 64 ? object->n - at : 64, false);
}

static void flush_one(struct run *run)
{
	struct object *object = model_any(run, true);

	if (!object)
		return;
	CHECK(run, model_one(object, FLUSH, NULL, 0, 0, 0) == 0);
	model_settle(object);
}

void model_step(struct run *run)
{
	struct object *object;
	unsigned chance = model_below(run, 200);

	if (chance < 80)
		model_write_some(run, WRITE);
	else if (chance < 92)
		model_write_some(run, ZERO);
	else if (chance < 108)
		model_write_some(run, DISCARD);
	else if (chance < 116)
		flush_one(run);
	else if (chance < 140)
		check_some(run);
	else if (chance < 150)
		model_create(run);
	else if (chance < 162)
		model_snapshot(run);
	else if (chance < 170)
		model_make_clone(run);
	else if (chance < 176)
		model_revert(run);
	else if (chance < 182)
		grow(run);
	else if (chance < 188)
		ranges(run);
	else if (chance < 197 && (object = model_any(run, false)))
		model_erase(run, object);
	else if (chance >= 198)
		model_open_again(run, chance == 199);
}
