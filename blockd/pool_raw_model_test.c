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
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "blockd/pool_raw_internal.h"
#include "blockd/pool_seat.h"

#define CLUSTER      (UINT64_C(1) << RAW_CLUSTER_SHIFT_MIN)
#define BLOCK        4096u
#define BLOCKS_MAX   (40 * CLUSTER / BLOCK) /* of an extent */
#define OBJECTS      14
#define AT_ONCE_MAX  48 /* blocks of one request */
#define STAMPS       6  /* that a block may have after a kill */
#define MEDIUM_BYTES ((UINT64_C(6) << 20) + 130 * CLUSTER)
#define POOL_ID      "6ad4a1e5-52fb-4e8c-b4ab-31d3a8e6d0b5"

/* What a block may hold: the newest last. */
struct block {
	uint32_t stamps[STAMPS];
	unsigned n; /* 0: zeroes */
};

struct object {
	struct extent_record record; /* name "": there is none */
	struct block *blocks;
	size_t n;
	struct blockdev *dev;
};

struct run {
	char path[64];
	unsigned seed, random;
	uint32_t stamp;
	unsigned serial; /* of names */
	struct loop *loop;
	pthread_t thread;
	struct pool *pool;
	struct object objects[OBJECTS];
	struct error err;
	unsigned step, full, kills, reverts, groups;
	unsigned shared, reclaimable; /* steps after which there was some */
};

static unsigned below(struct run *run, unsigned n)
{
	run->random = run->random * 1103515245 + 12345;
	return (run->random >> 8) % n;
}

#define MUST(run, call)                                                        \
	do {                                                                   \
		if ((call) < 0)                                                \
			fail_msg("seed %u, step %u: %s: %s", (run)->seed,      \
				 (run)->step, #call, error_text(&(run)->err)); \
	} while (0)

#define CHECK(run, what)                                              \
	do {                                                          \
		if (!(what))                                          \
			fail_msg("seed %u, step %u: %s", (run)->seed, \
				 (run)->step, #what);                 \
	} while (0)

static unsigned from_environment(const char *name, unsigned otherwise)
{
	const char *text = getenv(name);

	return text ? (unsigned)strtoul(text, NULL, 0) : otherwise;
}

/* ---- the model of a block ---- */

static uint32_t now(const struct block *block)
{
	return block->n ? block->stamps[block->n - 1] : 0;
}

static void push(struct block *block, uint32_t stamp)
{
	if (!block->n)
		block->stamps[block->n++] = 0;
	block->stamps[block->n++] = stamp;
}

static void settle(struct object *object)
{
	for (size_t i = 0; i < object->n; i++) {
		object->blocks[i].stamps[0] = now(&object->blocks[i]);
		object->blocks[i].n = 1;
	}
}

static bool may_be(const struct block *block, uint32_t stamp)
{
	for (unsigned i = 0; i < block->n; i++)
		if (block->stamps[i] == stamp)
			return true;
	return !block->n && !stamp;
}

/* ---- requests ---- */

enum what { READ, WRITE, ZERO, DISCARD, FLUSH };

struct io {
	struct loop_message message;
	struct op op;
	struct blockdev *dev;
	enum what what;
	uint64_t offset, length;
	unsigned flags;
	uint8_t *data;
	sem_t done;
	int res;
};

static void io_done(struct op *op, int res)
{
	struct io *io = container_of(op, struct io, op);

	io->res = res;
	(void)sem_post(&io->done);
}

static void io_start(struct loop_message *message)
{
	struct io *io = container_of(message, struct io, message);

	switch (io->what) {
	case READ:
		blockdev_read(io->dev, &io->op, io->data, (uint32_t)io->length,
			      io->offset);
		break;
	case WRITE:
		blockdev_write(io->dev, &io->op, io->data, (uint32_t)io->length,
			       io->offset, io->flags);
		break;
	case ZERO:
		blockdev_write_zeroes(io->dev, &io->op, io->offset, io->length,
				      io->flags);
		break;
	case DISCARD:
		blockdev_discard(io->dev, &io->op, io->offset, io->length,
				 io->flags);
		break;
	case FLUSH: blockdev_flush(io->dev, &io->op); break;
	}
}

static int one(struct object *object, enum what what, void *data, size_t at,
	       size_t n, unsigned flags)
{
	struct io io = {
		.message.run = io_start,
		.op.done = io_done,
		.dev = object->dev,
		.what = what,
		.data = data,
		.offset = at * BLOCK,
		.length = n * BLOCK,
		.flags = flags,
	};

	assert_int_equal(sem_init(&io.done, 0, 0), 0);
	loop_post(io.dev->loop, &io.message);
	assert_int_equal(sem_wait(&io.done), 0);
	(void)sem_destroy(&io.done);
	return io.res;
}

struct opening {
	struct run *run;
	struct object *object;
};

static int open_call(void *context)
{
	struct opening *o = context;
	const struct extent_record *record = &o->object->record;

	return o->run->pool->ops->open(
		o->run->pool, record->name, record->size,
		record->kind == EXTENT_KIND_SNAPSHOT ? BLOCKDEV_FILE_READ_ONLY
						     : 0,
		o->run->loop, &o->object->dev, &o->run->err);
}

static void object_open(struct run *run, struct object *object)
{
	struct opening o = {.run = run, .object = object};

	MUST(run, loop_call(run->loop, open_call, &o));
}

static int close_call(void *context)
{
	blockdev_close(context);
	return 0;
}

static void object_close(struct run *run, struct object *object)
{
	if (object->dev)
		assert_int_equal(loop_call(run->loop, close_call, object->dev),
				 0);
	object->dev = NULL;
}

/* ---- reading ---- */

static uint32_t *words(void *data, size_t block)
{
	return (uint32_t *)((uint8_t *)data + block * BLOCK);
}

/* One stamp all over. */
static uint32_t stamp_of(struct run *run, void *data, size_t block)
{
	const uint32_t *w = words(data, block);

	for (size_t i = 1; i < BLOCK / sizeof(*w); i++)
		CHECK(run, w[i] == w[0]);
	return w[0];
}

static void *buffer(size_t blocks)
{
	void *data = aligned_alloc(BLOCK, blocks * BLOCK);

	assert_non_null(data);
	return data;
}

/* @killed: what was not flushed may be gone. */
static void check_blocks(struct run *run, struct object *object, size_t at,
			 size_t n, bool killed)
{
	void *data = buffer(n);

	CHECK(run, one(object, READ, data, at, n, 0) == 0);
	for (size_t i = 0; i < n; i++) {
		struct block *block = &object->blocks[at + i];
		uint32_t stamp = stamp_of(run, data, i);

		if (killed ? !may_be(block, stamp) : stamp != now(block))
			fail_msg("seed %u, step %u: block %zu of %s is %u, "
				 "not %u",
				 run->seed, run->step, at + i,
				 object->record.name, stamp, now(block));
		if (killed) {
			block->stamps[0] = stamp;
			block->n = 1;
		}
	}
	free(data);
}

static void check_all(struct run *run, struct object *object, bool killed)
{
	for (size_t at = 0; at < object->n; at += 256)
		check_blocks(run, object, at,
			     object->n - at < 256 ? object->n - at : 256,
			     killed);
}

/* ---- choosing ---- */

static bool is_there(const struct object *object)
{
	return object->record.name[0];
}

static bool is_snapshot(const struct object *object)
{
	return object->record.kind == EXTENT_KIND_SNAPSHOT;
}

static struct object *empty_slot(struct run *run)
{
	for (size_t i = 0; i < OBJECTS; i++)
		if (!is_there(&run->objects[i]))
			return &run->objects[i];
	return NULL;
}

/* Any that is there; NULL when chance finds none. */
static struct object *any(struct run *run, bool writable)
{
	struct object *object = &run->objects[below(run, OBJECTS)];

	return is_there(object) && !(writable && is_snapshot(object)) ? object
								      : NULL;
}

static struct space_medium measure(struct run *run)
{
	struct space_medium medium;

	MUST(run, run->pool->ops->measure(run->pool, &medium, &run->err));
	return medium;
}

static struct extent_usage usage(struct run *run, const struct object *object)
{
	struct extent_usage ret;

	MUST(run, run->pool->ops->usage(run->pool, object->record.name, &ret,
					&run->err));
	return ret;
}

/* ---- writing ---- */

/* It failed half way: each block is as it was, or as it was to be. */
static void after_part(struct run *run, struct object *object, size_t at,
		       size_t n, uint32_t stamp)
{
	void *data = buffer(n);

	CHECK(run, one(object, READ, data, at, n, 0) == 0);
	for (size_t i = 0; i < n; i++) {
		struct block *block = &object->blocks[at + i];
		uint32_t found = stamp_of(run, data, i);

		CHECK(run, found == now(block) || found == stamp);
		push(block, found);
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
		CHECK(run, one(object, FLUSH, NULL, 0, 0, 0) == 0);
		settle(object);
		return;
	}
}

static void write_at(struct run *run, struct object *object, enum what what,
		     size_t at, size_t n, unsigned flags)
{
	uint32_t stamp = what == WRITE ? ++run->stamp : 0;
	struct extent_usage before;
	uint32_t *data;
	int r;

	flush_if_needed(run, object, at, n);
	before = usage(run, object);
	data = buffer(n);
	for (size_t i = 0; i < n * BLOCK / sizeof(*data); i++)
		data[i] = stamp;
	r = one(object, what, data, at, n, flags);
	free(data);
	CHECK(run, r == 0 || r == -ENOSPC);
	/* What a thick one has alone it keeps. */
	if (object->record.thick && !before.shared)
		CHECK(run, usage(run, object).allocated >= before.allocated);
	run->full += r < 0;
	if (r < 0 || what == DISCARD) { /* a hint */
		after_part(run, object, at, n, stamp);
		return;
	}
	for (size_t i = at; i < at + n; i++) {
		struct block *block = &object->blocks[i];

		push(block, stamp);
		if (flags & BLOCKDEV_FUA) {
			block->stamps[0] = stamp;
			block->n = 1;
		}
	}
}

static void write_some(struct run *run, enum what what)
{
	struct object *object = any(run, true);
	size_t n = 1 + below(run, AT_ONCE_MAX), at;
	unsigned flags = below(run, 8) == 0 ? BLOCKDEV_FUA : 0;

	if (!object)
		return;
	at = below(run, (unsigned)object->n);
	if (n > object->n - at)
		n = object->n - at;
	if (what == ZERO && below(run, 3) == 0)
		flags |= BLOCKDEV_NO_HOLE;
	write_at(run, object, what, at, n, flags);
}

/* ---- making and taking away ---- */

static void new_record(struct run *run, struct extent_record *record,
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
	uint64_t blocks = min + below(run, (unsigned)(BLOCKS_MAX - min) + 1);

	return blocks * BLOCK < least ? least : blocks * BLOCK;
}

static void object_add(struct run *run, struct object *object,
		       const struct extent_record *record,
		       const struct object *from)
{
	object->record = *record;
	object->n = record->size / BLOCK;
	object->blocks = calloc(object->n, sizeof(*object->blocks));
	assert_non_null(object->blocks);
	for (size_t i = 0; from && i < from->n; i++) {
		object->blocks[i].stamps[0] = now(&from->blocks[i]);
		object->blocks[i].n = 1;
	}
	object_open(run, object);
}

/* No room: then nothing is left of it. */
static void nothing_left(struct run *run, int r, uint64_t allocated)
{
	CHECK(run, r == -ENOSPC);
	CHECK(run, measure(run).allocated == allocated);
	run->full++;
}

static void create(struct run *run)
{
	struct object *object = empty_slot(run);
	uint64_t allocated = measure(run).allocated;
	struct extent_record record;
	int r;

	if (!object)
		return;
	new_record(run, &record, any_size(run, 0));
	record.thick = below(run, 3) == 0;
	r = run->pool->ops->create(run->pool, &record, &run->err);
	if (r < 0) {
		nothing_left(run, r, allocated);
		return;
	}
	object_add(run, object, &record, NULL);
	CHECK(run, usage(run, object).allocated ==
			   (record.thick ? (record.size + CLUSTER - 1) /
						   CLUSTER * CLUSTER
					 : 0));
}

static void origin_set(struct extent_record *record,
		       const struct object *origin, const char *cut)
{
	memcpy(record->origin.name, origin->record.name, EXTENT_NAME_SIZE);
	memcpy(record->origin.id, origin->record.id, UUID_TEXT_SIZE);
	record->origin.method = POOL_COPY_SHARED;
	if (cut)
		memcpy(record->origin.cut, cut, UUID_TEXT_SIZE);
}

/* Of up to three extents. */
static void snapshot(struct run *run)
{
	struct extent_record records[3];
	struct pool_copy copies[3];
	struct object *origins[3];
	char cut[UUID_TEXT_SIZE];
	uint64_t allocated = measure(run).allocated;
	size_t n = 0;

	(void)uuid_make(cut);
	for (unsigned i = 0; i < 3; i++) {
		struct object *origin = any(run, true);

		if (!origin || (n && below(run, 2)))
			continue;
		origins[n] = origin;
		new_record(run, &records[n], origin->record.size);
		records[n].kind = EXTENT_KIND_SNAPSHOT;
		records[n].reserved = usage(run, origin).allocated;
		origin_set(&records[n], origin, cut);
		copies[n] = (struct pool_copy){origin->record.name,
					       &records[n]};
		n++;
	}
	for (size_t i = 0, empty = 0; i < OBJECTS; i++) {
		empty += !is_there(&run->objects[i]);
		if (i == OBJECTS - 1 && empty < n)
			return;
	}
	if (!n)
		return;
	MUST(run,
	     run->pool->ops->copy(run->pool, copies, n, NULL, NULL, &run->err));
	CHECK(run, measure(run).allocated == allocated);
	run->groups++;
	for (size_t i = 0; i < n; i++) {
		struct object *object = empty_slot(run);

		settle(origins[i]);
		object_add(run, object, &records[i], origins[i]);
		CHECK(run, usage(run, object).allocated <= records[i].reserved);
		CHECK(run, usage(run, object).reclaimable == 0);
	}
}

static void make_clone(struct run *run)
{
	struct object *from = any(run, false), *object = empty_slot(run);
	uint64_t allocated = measure(run).allocated;
	struct extent_record record;
	struct pool_copy copy;
	int r;

	if (!from || !object)
		return;
	new_record(run, &record, any_size(run, from->record.size));
	if (below(run, 2))
		record.size = from->record.size;
	record.thick = below(run, 3) == 0;
	origin_set(&record, from, NULL);
	copy = (struct pool_copy){from->record.name, &record};
	r = run->pool->ops->copy(run->pool, &copy, 1, NULL, NULL, &run->err);
	if (r < 0) {
		nothing_left(run, r, allocated);
		return;
	}
	settle(from);
	object_add(run, object, &record, from);
}

static void revert(struct run *run)
{
	struct object *snap = any(run, false), *object = NULL;
	struct extent_record record;

	if (!snap || !is_snapshot(snap))
		return;
	for (size_t i = 0; i < OBJECTS; i++)
		if (is_there(&run->objects[i]) &&
		    strcmp(run->objects[i].record.name,
			   snap->record.origin.name) == 0)
			object = &run->objects[i];
	if (!object)
		return;
	record = object->record;
	/* To the size that it had, or it keeps its own. */
	if (below(run, 2))
		record.size = snap->record.size;
	object_close(run, object);
	MUST(run, run->pool->ops->revert(run->pool, &record, snap->record.name,
					 &run->err));
	free(object->blocks);
	object_add(run, object, &record, snap);
	run->reverts++;
}

static void grow(struct run *run)
{
	struct object *object = any(run, true);
	uint64_t allocated = measure(run).allocated;
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
	object_close(run, object);
	object->record = record;
	object->n = record.size / BLOCK;
	object->blocks = reallocarray(object->blocks, object->n,
				      sizeof(*object->blocks));
	assert_non_null(object->blocks);
	memset(object->blocks + had, 0,
	       (object->n - had) * sizeof(*object->blocks));
	object_open(run, object);
}

/* Exactly what it has alone is free again. */
static void erase(struct run *run, struct object *object)
{
	struct pool *pool = run->pool;
	uint64_t before = measure(run).allocated;
	uint64_t alone = usage(run, object).reclaimable;

	object_close(run, object);
	MUST(run, pool->ops->doom(pool, object->record.name, &run->err));
	if (below(run, 4)) /* else the next load does it */
		MUST(run,
		     pool->ops->erase(pool, object->record.name, &run->err));
	else
		alone = 0;
	CHECK(run, measure(run).allocated == before - alone);
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
	struct object *a = any(run, false), *b = any(run, false);
	struct listing listing = {.run = run};
	size_t start;

	if (!a || b == a)
		return;
	start = below(run, (unsigned)a->n);
	MUST(run, run->pool->ops->ranges(
			  run->pool, a->record.name, b ? b->record.name : NULL,
			  start * BLOCK, list_range, &listing, &run->err));
	CHECK(run, listing.end <= a->record.size);
	for (size_t i = 0; i < a->n; i++) {
		uint32_t had = b && i < b->n ? now(&b->blocks[i]) : 0;

		CHECK(run, i >= start || !listing.blocks[i]);
		CHECK(run, i < start || listing.blocks[i] ||
				   now(&a->blocks[i]) == had);
	}
}

/* ---- opening again ---- */

static void check_found(void *context, const struct pool_found *found)
{
	struct run *run = context;

	if (found->damage)
		fail_msg("seed %u, step %u: %s: %s", run->seed, run->step,
			 found->name, found->damage);
	for (size_t i = 0; i < OBJECTS; i++) {
		if (strcmp(run->objects[i].record.name, found->name) != 0)
			continue;
		CHECK(run, found->record->size == run->objects[i].record.size);
		return;
	}
	fail_msg("seed %u, step %u: %s is there", run->seed, run->step,
		 found->name);
}

static unsigned found_in_all;

static void count_found(void *context, const struct pool_found *found)
{
	(void)context;
	assert_null(found->damage);
	found_in_all++;
}

static void note(void *context, const char *text)
{
	(void)context;
	(void)text;
}

static void open_pool(struct run *run)
{
	const struct pool_visitor visitor = {check_found, note, run};

	MUST(run,
	     pool_raw_open(run->path, "test", POOL_ID, &run->pool, &run->err));
	MUST(run, run->pool->ops->load(run->pool, &visitor, &run->err));
	MUST(run,
	     raw_state_verify(raw_store_lock(pool_raw_of(run->pool)->store),
			      &run->err));
	raw_store_unlock(pool_raw_of(run->pool)->store);
}

/* The bytes of the medium as they are now. */
static void copy_medium(const char *from, const char *to)
{
	auto_close int in = open(from, O_RDONLY | O_CLOEXEC);
	auto_close int out = open(to, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC,
				  0600);
	char *data = malloc(1 << 20);
	ssize_t n;

	assert_true(in >= 0 && out >= 0 && data);
	while ((n = read(in, data, 1 << 20)) > 0)
		assert_int_equal(write(out, data, (size_t)n), n);
	assert_int_equal(n, 0);
	free(data);
}

/* Killed: what the process had in memory only is gone. */
static void open_again(struct run *run, bool killed)
{
	char kept[sizeof(run->path) + 8];

	for (size_t i = 0; i < OBJECTS; i++)
		object_close(run, &run->objects[i]);
	(void)snprintf(kept, sizeof(kept), "%s.kept", run->path);
	if (killed)
		copy_medium(run->path, kept);
	pool_close(run->pool);
	if (killed)
		assert_int_equal(rename(kept, run->path), 0);
	open_pool(run);
	run->kills += killed;
	for (size_t i = 0; i < OBJECTS; i++) {
		if (!is_there(&run->objects[i]))
			continue;
		object_open(run, &run->objects[i]);
		check_all(run, &run->objects[i], killed);
		settle(&run->objects[i]);
	}
}

/* ---- a run ---- */

static void check_some(struct run *run)
{
	struct object *object = any(run, false);
	size_t at;

	if (!object)
		return;
	at = below(run, (unsigned)object->n);
	check_blocks(run, object, at, object->n - at < 64 ? object->n - at : 64,
		     false);
}

static void flush_one(struct run *run)
{
	struct object *object = any(run, true);

	if (!object)
		return;
	CHECK(run, one(object, FLUSH, NULL, 0, 0, 0) == 0);
	settle(object);
}

/* ---- what they have in common ---- */

/* The numbers of snapshots; what is none, or is going, is an extent. */
static void find_snapshots(struct run *run, uint32_t *ids)
{
	for (size_t i = 0; i < OBJECTS; i++) {
		const struct object *object = &run->objects[i];

		ids[i] = is_there(object) && is_snapshot(object)
				 ? pool_raw_find(pool_raw_of(run->pool),
						 object->record.name, NULL)
				 : 0;
	}
}

static bool is_one_of(const uint32_t *ids, uint32_t id)
{
	for (size_t i = 0; i < OBJECTS; i++)
		if (ids[i] == id)
			return true;
	return false;
}

/* The clusters of one, into how many have each; or are extents. */
static void add_clusters(struct run *run, uint32_t id, bool kept,
			 unsigned *users, unsigned *keepers)
{
	struct raw_store *store = pool_raw_of(run->pool)->store;
	const struct raw_object *object = raw_state_object(
		raw_store_lock(store), id);
	const struct raw_map *map = object ? &object->map : NULL;

	for (uint64_t i = 0; map && i < raw_map_clusters(map); i++) {
		uint32_t entry = raw_map_get(map, i);

		if (entry == RAW_HOLE)
			continue;
		users[RAW_PHYSICAL(entry)]++;
		keepers[RAW_PHYSICAL(entry)] += kept;
	}
	raw_store_unlock(store);
}

/* Map by map and cluster by cluster it is the same. */
static void check_sharing(struct run *run)
{
	struct raw_store *store = pool_raw_of(run->pool)->store;
	const struct raw_state *state = raw_store_lock(store);
	const uint32_t clusters = state->alloc.clusters, ids = state->n_slots;
	unsigned *users = calloc(clusters, sizeof(*users));
	unsigned *keepers = calloc(clusters, sizeof(*keepers));
	struct pool_sharing sharing, right = {0};
	uint32_t snapshots[OBJECTS];

	raw_store_unlock(store);
	find_snapshots(run, snapshots);
	assert_true(users && keepers);
	for (uint32_t id = 1; id <= ids; id++)
		add_clusters(run, id, !is_one_of(snapshots, id), users,
			     keepers);
	for (uint32_t i = 0; i < clusters; i++) {
		right.shared += users[i] > 1 ? CLUSTER : 0;
		right.reclaimable += users[i] && !keepers[i] ? CLUSTER : 0;
	}
	free(users);
	free(keepers);
	MUST(run,
	     run->pool->ops->sharing(run->pool, NULL, 0, &sharing, &run->err));
	CHECK(run, sharing.shared == right.shared);
	CHECK(run, sharing.reclaimable == right.reclaimable);
	run->shared += sharing.shared > 0;
	run->reclaimable += sharing.reclaimable > 0;
}

static void step(struct run *run)
{
	struct object *object;
	unsigned chance = below(run, 200);

	if (chance < 80)
		write_some(run, WRITE);
	else if (chance < 92)
		write_some(run, ZERO);
	else if (chance < 108)
		write_some(run, DISCARD);
	else if (chance < 116)
		flush_one(run);
	else if (chance < 140)
		check_some(run);
	else if (chance < 150)
		create(run);
	else if (chance < 162)
		snapshot(run);
	else if (chance < 170)
		make_clone(run);
	else if (chance < 176)
		revert(run);
	else if (chance < 182)
		grow(run);
	else if (chance < 188)
		ranges(run);
	else if (chance < 197 && (object = any(run, false)))
		erase(run, object);
	else if (chance >= 198)
		open_again(run, chance == 199);
}

static void *run_loop(void *loop)
{
	assert_int_equal(loop_run(loop), 0);
	return NULL;
}

static void make_medium(struct run *run)
{
	const struct pool_record record = {.name = "test",
					   .kind = POOL_RAW_KIND,
					   .id = POOL_ID,
					   .incarnation = POOL_ID,
					   .overcommit_percent = 100};
	struct raw_format_options options = {
		.pool_id = POOL_ID, .cluster_shift = RAW_CLUSTER_SHIFT_MIN};
	struct raw_file_medium file;
	auto_close int fd = -1;
	char *text = NULL;

	/* In memory, where it can be: nothing is flushed to a disk. */
	(void)snprintf(run->path, sizeof(run->path), "%.40s/raw-model.XXXXXX",
		       access("/dev/shm", W_OK) == 0 ? "/dev/shm"
						     : getenv("TMPDIR")
							       ?: "/tmp");
	fd = mkstemp(run->path);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)MEDIUM_BYTES), 0);
	MUST(run, pool_record_encode(&record, &text, &options.text_length,
				     &run->err));
	options.text = text;
	raw_file_medium_init(&file, fd, MEDIUM_BYTES);
	MUST(run, raw_store_format(&file.medium, &options, &run->err));
	free(text);
}

static void run_begin(struct run *run, unsigned seed)
{
	struct loop_options options = {.name = "test"};

	*run = (struct run){.seed = seed, .random = seed};
	make_medium(run);
	open_pool(run);
	MUST(run, loop_new(&options, &run->loop, &run->err));
	assert_int_equal(
		pthread_create(&run->thread, NULL, run_loop, run->loop), 0);
}

/* Whatever is deleted in whatever order: nothing is left. */
static void run_end(struct run *run)
{
	for (size_t i = 0; i < OBJECTS; i++)
		if (is_there(&run->objects[i]))
			erase(run, &run->objects[i]);
	open_again(run, false);
	CHECK(run, measure(run).allocated == 0);
	pool_close(run->pool);
	loop_stop(run->loop);
	assert_int_equal(pthread_join(run->thread, NULL), 0);
	loop_free(run->loop);
	(void)unlink(run->path);
}

static void run_seed(struct run *run, unsigned seed, unsigned steps)
{
	run_begin(run, seed);
	for (run->step = 0; run->step < steps; run->step++) {
		step(run);
		check_sharing(run);
	}
	open_again(run, true);
	run_end(run);
}

static void does_as_a_model_says(void **unused)
{
	const unsigned seed = from_environment("SEED", 1);
	const unsigned seeds = from_environment("SEEDS", 1);
	const unsigned steps = from_environment("STEPS", 2000);
	static struct run run;

	(void)unused;
	for (unsigned i = 0; i < seeds; i++) {
		print_message("seed %u, %u steps: ", seed + i, steps);
		run_seed(&run, seed + i, steps);
		print_message("%u snapshots, %u reverts, %u kills, "
			      "%u times full\n",
			      run.groups, run.reverts, run.kills, run.full);
		/* It has met what it is for. */
		assert_true(steps < 1000 ||
			    (run.groups && run.reverts && run.kills &&
			     run.full && run.shared && run.reclaimable));
	}
}

/* ---- what chance may miss ---- */

static struct object *make_extent(struct run *run, bool thick)
{
	struct object *object = empty_slot(run);
	struct extent_record record;

	new_record(run, &record, EXTENT_SIZE_MIN);
	record.thick = thick;
	MUST(run, run->pool->ops->create(run->pool, &record, &run->err));
	object_add(run, object, &record, NULL);
	return object;
}

static struct object *make_copy(struct run *run, struct object *from,
				bool thick)
{
	struct object *object = empty_slot(run);
	struct extent_record record;
	struct pool_copy copy = {from->record.name, &record};

	new_record(run, &record, from->record.size);
	record.thick = thick;
	origin_set(&record, from, NULL);
	MUST(run,
	     run->pool->ops->copy(run->pool, &copy, 1, NULL, NULL, &run->err));
	settle(from);
	object_add(run, object, &record, from);
	return object;
}

/*
 * One of two has written to a cluster that both had, and is killed before the
 * map says so: what the other one has written since must not be its content.
 */
static void keeps_what_was_shared_until_it_is_not_for_good(void **unused)
{
	static struct run run;
	struct object *a, *b;

	(void)unused;
	run_begin(&run, 1);
	a = make_extent(&run, false);
	write_at(&run, a, WRITE, 0, 40, 0);
	b = make_copy(&run, a, false);
	write_at(&run, b, WRITE, 3, 2, 0);
	write_at(&run, a, WRITE, 0, 40, 0);
	open_again(&run, true);
	run_end(&run);
}

/* At the floor a write has no room, and the extent lives on. */
static void is_full_at_its_floor_until_there_is_room(void **unused)
{
	static struct run run;
	struct object *a, *b;
	uint64_t free_before;

	(void)unused;
	run_begin(&run, 1);
	a = make_extent(&run, false);
	b = make_extent(&run, false);
	write_at(&run, a, WRITE, 0, 64, BLOCKDEV_FUA);
	free_before = measure(&run).free;
	run.pool->ops->keep_free(run.pool, free_before);
	assert_int_equal(run.full, 0);
	write_at(&run, a, WRITE, 32, 64, 0); /* half of it is there */
	assert_int_equal(run.full, 1);
	write_at(&run, b, WRITE, 0, 8, 0);
	assert_int_equal(run.full, 2);
	/* The floor is nothing that a pool lacks. */
	assert_int_equal(measure(&run).free, free_before);
	write_at(&run, a, WRITE, 0, 64, 0);
	check_all(&run, a, false);
	assert_int_equal(run.full, 2);
	/* Room comes back: by a discard, and by a lower floor. */
	write_at(&run, a, DISCARD, 0, 32, 0);
	write_at(&run, b, WRITE, 0, 8, 0);
	assert_int_equal(run.full, 2);
	run.pool->ops->keep_free(run.pool, 0);
	write_at(&run, a, WRITE, 0, 256, 0);
	assert_int_equal(run.full, 2);
	check_all(&run, a, false);
	check_all(&run, b, false);
	run_end(&run);
}

/* More of them, and longer records, than a batch of the log has room for. */
static void makes_a_group_that_is_larger_than_a_batch(void **unused)
{
	enum { MANY = 256 };
	struct extent_label labels[EXTENT_LABELS_MAX];
	struct extent_record *records = calloc(MANY, sizeof(*records));
	struct pool_copy *copies = calloc(MANY, sizeof(*copies));
	const struct pool_visitor all = {count_found, note, NULL};
	static struct run run;
	char text[EXTENT_LABELS_MAX][EXTENT_LABEL_MAX + 1];
	struct object *from;

	(void)unused;
	assert_true(records && copies);
	run_begin(&run, 1);
	from = make_extent(&run, false);
	write_at(&run, from, WRITE, 0, 100, 0);
	for (int i = 0; i < EXTENT_LABELS_MAX; i++) {
		memset(text[i], 'a' + i, EXTENT_LABEL_MAX);
		text[i][EXTENT_LABEL_MAX] = '\0';
		labels[i] = (struct extent_label){text[i], text[i]};
	}
	for (int i = 0; i < MANY; i++) {
		new_record(&run, &records[i], from->record.size);
		records[i].kind = EXTENT_KIND_SNAPSHOT;
		origin_set(&records[i], from, from->record.id);
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
		MUST(&run,
		     run.pool->ops->doom(run.pool, records[i].name, &run.err));
		extent_record_done(&records[i]);
	}
	open_again(&run, true);
	free(records);
	free(copies);
	run_end(&run);
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
	run_begin(&run, 1);
	record.object = 5;
	record.clusters = 0;
	change(&run, &record, POOL_RAW_MAKING);
	record.clusters = 16;
	for (uint32_t i = 0; i < 2; i++) {
		new_record(&run, &extents[i], EXTENT_SIZE_MIN);
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
	object = empty_slot(&run);
	object->record = extents[1];
	object->n = EXTENT_SIZE_MIN / BLOCK;
	object->blocks = calloc(object->n, sizeof(*object->blocks));
	/* No other one is told of: check_found(). */
	open_again(&run, false);
	run_end(&run);
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
	run_begin(&run, 1);
	counter.pool = run.pool;
	assert_int_equal(pthread_create(&thread, NULL, count_on, &counter), 0);
	for (unsigned i = 0; i < 60; i++) {
		struct object *object = any(&run, false);

		create(&run);
		for (unsigned k = 0; k < 4; k++)
			write_some(&run, k % 3 ? WRITE : DISCARD);
		snapshot(&run);
		make_clone(&run);
		revert(&run);
		if (object)
			erase(&run, object);
	}
	atomic_store(&counter.stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	check_sharing(&run);
	run_end(&run);
}

/* A pool on a seat: nothing that it can do is forgotten. */
static void can_the_same_when_its_medium_may_go(void **unused)
{
	enum { MEMBERS = sizeof(struct pool_ops) / sizeof(void *) };
	static struct run run;
	void *can[MEMBERS], *seated[MEMBERS];
	struct pool *seat;

	(void)unused;
	run_begin(&run, 1);
	MUST(&run, pool_seat_new(run.pool, &seat, &run.err));
	memcpy(can, run.pool->ops, sizeof(can));
	memcpy(seated, seat->ops, sizeof(seated));
	for (size_t i = 0; i < MEMBERS; i++)
		if (i != offsetof(struct pool_ops, load) / sizeof(void *) &&
		    !can[i] != !seated[i])
			fail_msg("member %zu of struct pool_ops", i);
	run.pool = seat;
	run_end(&run);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(does_as_a_model_says),
		cmocka_unit_test(
			keeps_what_was_shared_until_it_is_not_for_good),
		cmocka_unit_test(is_full_at_its_floor_until_there_is_room),
		cmocka_unit_test(counts_what_is_shared_while_it_changes),
		cmocka_unit_test(can_the_same_when_its_medium_may_go),
		cmocka_unit_test(makes_a_group_that_is_larger_than_a_batch),
		cmocka_unit_test(finishes_or_undoes_a_group_that_was_cut_short),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
