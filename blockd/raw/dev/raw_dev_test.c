/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of a raw pool as devices, against a model in memory: many requests
 * at once, on two loops, with snapshots in between. SEED=N repeats a run,
 * STEPS=N makes it longer.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "blockd/testkit/raw_dev_kit.h"

/* ---- many at once, against a model ---- */

struct object {
	uint8_t bytes[SIZE]; /* what it reads as */
	struct blockdev *devs[LOOPS];
};

static void object_open(struct pool *pool, struct object *object, uint32_t id)
{
	for (int i = 0; i < LOOPS; i++)
		object->devs[i] = raw_dev_kit_dev_open(pool, i, id);
}

static void object_close(struct pool *pool, struct object *object)
{
	for (int i = 0; i < LOOPS; i++)
		raw_dev_kit_dev_close(pool, i, object->devs[i]);
}

static void check_object(struct pool *pool, struct object *object)
{
	uint8_t *data = malloc(SIZE);

	assert_non_null(data);
	assert_int_equal(
		raw_dev_kit_one(pool,
				object->devs[raw_dev_kit_below(pool, LOOPS)],
				READ, data, SIZE, 0, 0),
		0);
	for (uint64_t i = 0; i < SIZE; i += BLOCK)
		if (memcmp(data + i, object->bytes + i, BLOCK) != 0)
			fail_msg("block %lu differs",
				 (unsigned long)(i / BLOCK));
	free(data);
}

/* A discard may leave anything of a cluster it does not cover. */
static void after_discard(struct pool *pool, struct object *object,
			  const struct io *io)
{
	assert_int_equal(raw_dev_kit_one(pool, object->devs[0], READ,
					 object->bytes + io->offset, io->length,
					 io->offset, 0),
			 0);
}

/* Requests in one round do not overlap, but do meet in clusters. */
static void round_(struct pool *pool, struct object *object)
{
	struct io ios[AT_ONCE];
	uint64_t at = BLOCK * raw_dev_kit_below(pool, 40);
	unsigned n = 0;
	sem_t done;

	assert_int_equal(sem_init(&done, 0, 0), 0);
	while (n < AT_ONCE && at < SIZE) {
		uint64_t length = BLOCK * (1 + raw_dev_kit_below(pool, 40));
		struct io *io = &ios[n++];
		static const enum what whats[] = {WRITE, WRITE, WRITE, ZERO,
						  DISCARD};

		if (length > SIZE - at)
			length = SIZE - at;
		*io = (struct io){
			.message.run = raw_dev_kit_io_start,
			.op.done = raw_dev_kit_io_done,
			.pool = pool,
			.dev = &object->devs[raw_dev_kit_below(pool, LOOPS)],
			.what = whats[raw_dev_kit_below(pool, 5)],
			.offset = at,
			.length = length,
			.flags = raw_dev_kit_below(pool, 4) == 0 ? BLOCKDEV_FUA
								 : 0,
			.done = &done,
		};
		if (io->what == ZERO && raw_dev_kit_below(pool, 3) == 0)
			io->flags |= BLOCKDEV_NO_HOLE;
		io->data = aligned_alloc(BLOCK, length);
		assert_non_null(io->data);
		for (uint64_t i = 0; i < length; i += BLOCK)
			memset(io->data + i,
			       1 + (int)raw_dev_kit_below(pool, 255), BLOCK);
		at += length + BLOCK * raw_dev_kit_below(pool, 12);
	}
	for (unsigned i = 0; i < n; i++)
		loop_post((*ios[i].dev)->loop, &ios[i].message);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(sem_wait(&done), 0);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(ios[i].res, 0);
		if (ios[i].what == WRITE)
			memcpy(object->bytes + ios[i].offset, ios[i].data,
			       ios[i].length);
		else if (ios[i].what == ZERO)
			memset(object->bytes + ios[i].offset, 0, ios[i].length);
		else
			after_discard(pool, object, &ios[i]);
		free(ios[i].data);
	}
	(void)sem_destroy(&done);
}

static void reads_as_a_model_says_while_it_is_shared(void **unused)
{
	enum { OBJECTS = 3 };
	static struct object objects[OBJECTS];
	unsigned steps = raw_dev_kit_from_environment("STEPS", 120);
	struct pool pool;

	(void)unused;
	raw_dev_kit_pool_make(&pool, MEDIUM_MIN + 64 * CLUSTER);
	print_message("seed %u, %u steps\n", pool.random, steps);
	for (uint32_t i = 0; i < OBJECTS; i++) {
		raw_dev_kit_object_make(&pool, i + 1, 0);
		object_open(&pool, &objects[i], i + 1);
	}
	for (unsigned i = 0; i < steps; i++) {
		uint32_t to = raw_dev_kit_below(&pool, OBJECTS),
			 from = raw_dev_kit_below(&pool, 3);

		round_(&pool, &objects[raw_dev_kit_below(&pool, OBJECTS)]);
		check_object(&pool,
			     &objects[raw_dev_kit_below(&pool, OBJECTS)]);
		if (raw_dev_kit_below(&pool, 6) || to == from)
			continue;
		/* A snapshot, or a revert: nobody writes meanwhile. */
		raw_dev_kit_object_make(&pool, to + 1, from + 1);
		memcpy(objects[to].bytes, objects[from].bytes, SIZE);
	}
	/* All of it is there again, from the medium. */
	assert_int_equal(raw_dev_kit_one(&pool, objects[0].devs[0], FLUSH, NULL,
					 0, 0, 0),
			 0);
	for (uint32_t i = 0; i < OBJECTS; i++)
		object_close(&pool, &objects[i]);
	raw_dev_kit_pool_close(&pool);
	raw_dev_kit_pool_open(&pool);
	for (uint32_t i = 0; i < OBJECTS; i++) {
		object_open(&pool, &objects[i], i + 1);
		check_object(&pool, &objects[i]);
		object_close(&pool, &objects[i]);
	}
	raw_dev_kit_must(&pool, raw_users_clean_now(pool.users, &pool.err),
			 "clean");
	raw_dev_kit_must(
		&pool, raw_state_verify(raw_store_lock(pool.store), &pool.err),
		"verify");
	raw_store_unlock(pool.store);
	raw_dev_kit_pool_remove(&pool);
}

/* ---- requests on the same clusters, while snapshots come and go ---- */

enum {
	LIVE = 3,   /* objects that are written to: 1, 2, ... */
	FROZEN = 4, /* snapshots, of the ids behind them */
	MEETING = 24
};

struct frozen {
	bool is;
	uint8_t blocks[SIZE / BLOCK]; /* what each is full of */
};

/* For requests that meet: the values that a block may read as afterwards. */
struct may {
	bool touched;
	bool kept; /* by nothing but discards */
	bool value[256];
};

struct meeting {
	struct pool *pool;
	struct blockdev *devs[LIVE][LOOPS];
	uint8_t live[LIVE][SIZE / BLOCK];
	struct may may[LIVE][SIZE / BLOCK];
	struct frozen frozen[FROZEN];
	struct io ios[LIVE * MEETING];
	unsigned n;
	sem_t done;
};

static void allow(struct meeting *m, unsigned object, const struct io *io)
{
	const uint64_t end = (io->offset + io->length) / BLOCK;

	for (uint64_t b = io->offset / BLOCK; b < end; b++) {
		struct may *may = &m->may[object][b];

		may->kept = io->what == DISCARD && (may->kept || !may->touched);
		may->touched = true;
		may->value[io->what == WRITE ? io->data[0] : 0] = true;
	}
}

/* Some of whole clusters, some of blocks; few places, so that they meet. */
static void draw(struct meeting *m, unsigned object)
{
	static const enum what whats[] = {WRITE, WRITE, ZERO, DISCARD};
	struct pool *pool = m->pool;
	struct io *io = &m->ios[m->n++];
	uint64_t at = CLUSTER * raw_dev_kit_below(pool, CLUSTERS);
	uint64_t length = CLUSTER * (1 + raw_dev_kit_below(pool, 3));

	if (raw_dev_kit_below(pool, 2)) {
		at += BLOCK * raw_dev_kit_below(pool, 8);
		length = BLOCK * (1 + raw_dev_kit_below(pool, 4));
	}
	if (at + length > SIZE)
		length = SIZE - at;
	*io = (struct io){
		.message.run = raw_dev_kit_io_start,
		.op.done = raw_dev_kit_io_done,
		.pool = pool,
		.dev = &m->devs[object][raw_dev_kit_below(pool, LOOPS)],
		.what = whats[raw_dev_kit_below(pool, 4)],
		.id = object,
		.offset = at,
		.length = length,
		.done = &m->done,
	};
	if (io->what == ZERO && raw_dev_kit_below(pool, 3) == 0)
		io->flags |= BLOCKDEV_NO_HOLE;
	io->data = aligned_alloc(BLOCK, length);
	assert_non_null(io->data);
	memset(io->data, 1 + (int)raw_dev_kit_below(pool, 255), length);
	allow(m, object, io);
}

static uint32_t frozen_id(unsigned i)
{
	return LIVE + 1 + i;
}

/* What its object reads as now; nobody is inside. */
static void freeze(struct meeting *m, unsigned i)
{
	const unsigned from = raw_dev_kit_below(m->pool, LIVE);

	raw_dev_kit_object_make(m->pool, frozen_id(i), from + 1);
	memcpy(m->frozen[i].blocks, m->live[from], sizeof(m->live[from]));
	m->frozen[i].is = true;
}

static void melt(struct meeting *m, unsigned i)
{
	const struct raw_record drop = {.type = RAW_DROP,
					.object = frozen_id(i)};

	raw_dev_kit_must(
		m->pool,
		raw_store_change(m->pool->store, &drop, 1, NULL, &m->pool->err),
		"drop");
	m->frozen[i].is = false;
}

/* A clone of a snapshot, as anybody may make one at any time. */
static void copy_frozen(struct meeting *m, unsigned i, unsigned to)
{
	raw_dev_kit_object_make(m->pool, frozen_id(to), frozen_id(i));
	m->frozen[to] = m->frozen[i];
}

/* Clusters that are allocated and not written, as a thick one has them. */
static void reserve(struct meeting *m, unsigned object)
{
	const struct raw_map *map =
		&raw_state_object(raw_store_lock(m->pool->store), object + 1)
			 ->map;

	raw_store_unlock(m->pool->store);
	for (unsigned c = 0; c < CLUSTERS; c++) {
		struct raw_record record = {.type = RAW_MAP,
					    .object = object + 1,
					    .logical = c,
					    .count = 1,
					    .unwritten = true};

		if (raw_map_get(map, c) == RAW_HOLE &&
		    raw_store_take(m->pool->store, 1, RAW_HOLE,
				   &record.physical))
			raw_dev_kit_must(m->pool,
					 raw_store_change(m->pool->store,
							  &record, 1, NULL,
							  &m->pool->err),
					 "map");
	}
}

static void check_blocks(struct meeting *m, struct blockdev *dev,
			 uint8_t *blocks, const struct may *may, uint32_t id)
{
	uint8_t *data = aligned_alloc(BLOCK, SIZE);

	assert_non_null(data);
	assert_int_equal(raw_dev_kit_one(m->pool, dev, READ, data, SIZE, 0, 0),
			 0);
	for (unsigned b = 0; b < SIZE / BLOCK; b++) {
		const uint8_t value = data[(size_t)b * BLOCK];
		const bool same = value == blocks[b];
		const bool ok = may && may[b].touched
					? may[b].value[value] ||
						  (may[b].kept && same)
					: same;

		if (!ok || memcmp(data + (size_t)b * BLOCK,
				  data + (size_t)b * BLOCK + 1, BLOCK - 1) != 0)
			fail_msg("object %u, block %u: %u, not %u", id, b,
				 value, blocks[b]);
		blocks[b] = value;
	}
	free(data);
}

static void check_frozen(struct meeting *m, unsigned i)
{
	struct blockdev *dev;

	if (!m->frozen[i].is)
		return;
	dev = raw_dev_kit_dev_open(m->pool, 0, frozen_id(i));
	check_blocks(m, dev, m->frozen[i].blocks, NULL, frozen_id(i));
	raw_dev_kit_dev_close(m->pool, 0, dev);
}

/*
 * While the requests run: snapshots go, and are cloned, and freed clusters are
 * free again.
 */
static void disturb(struct meeting *m)
{
	struct pool *pool = m->pool;

	for (unsigned i = 0; i < FROZEN; i++) {
		const unsigned to = raw_dev_kit_below(pool, FROZEN);

		for (volatile unsigned wait = raw_dev_kit_below(pool, 100000);
		     wait; wait--)
			;
		if (!m->frozen[i].is)
			continue;
		if (raw_dev_kit_below(pool, 3) == 0 && !m->frozen[to].is)
			copy_frozen(m, i, to);
		if (raw_dev_kit_below(pool, 2))
			melt(m, i);
		if (raw_dev_kit_below(pool, 2))
			raw_dev_kit_must(
				pool,
				raw_store_commit(pool->store,
						 raw_store_newest(pool->store),
						 &pool->err),
				"commit");
	}
}

static void meet(struct meeting *m)
{
	struct pool *pool = m->pool;
	const unsigned i = raw_dev_kit_below(pool, FROZEN);

	if (!m->frozen[i].is)
		freeze(m, i);
	if (raw_dev_kit_below(pool, 3) == 0)
		reserve(m, raw_dev_kit_below(pool, LIVE));
	memset(m->may, 0, sizeof(m->may));
	m->n = 0;
	for (unsigned object = 0; object < LIVE; object++)
		for (unsigned n = 0; n < MEETING; n++)
			draw(m, object);
	for (unsigned n = 0; n < m->n; n++)
		loop_post((*m->ios[n].dev)->loop, &m->ios[n].message);
	disturb(m);
	for (unsigned n = 0; n < m->n; n++)
		assert_int_equal(sem_wait(&m->done), 0);
	for (unsigned n = 0; n < m->n; n++) {
		assert_int_equal(m->ios[n].res, 0);
		free(m->ios[n].data);
	}
	for (unsigned object = 0; object < LIVE; object++)
		check_blocks(m, m->devs[object][0], m->live[object],
			     m->may[object], object + 1);
	check_frozen(m, raw_dev_kit_below(pool, FROZEN));
}

static void tell_finding(void *context, const char *text, bool repaired)
{
	(void)context;
	(void)repaired;
	print_message("%s\n", text);
}

static void meeting_verify(struct meeting *m)
{
	struct pool *pool = m->pool;
	struct raw_findings lost = {.tell = tell_finding};

	for (unsigned i = 0; i < FROZEN; i++)
		check_frozen(m, i);
	raw_dev_kit_must(pool, raw_users_clean_now(pool->users, &pool->err),
			 "clean");
	raw_dev_kit_must(
		pool, raw_state_verify(raw_store_lock(pool->store), &pool->err),
		"verify");
	raw_store_unlock(pool->store);
	/* Clusters that were taken and not mapped were given back, once. */
	raw_dev_kit_must(pool, raw_store_suspect(pool->store, &pool->err),
			 "suspect");
	raw_dev_kit_must(
		pool, raw_store_leaked(pool->store, false, &lost, &pool->err),
		"leaked");
	assert_int_equal(lost.n, 0);
}

static void reads_as_it_may_while_snapshots_go(void **unused)
{
	static struct meeting m;
	static struct pool pool;
	unsigned steps = raw_dev_kit_from_environment("STEPS", 400);

	(void)unused;
	raw_dev_kit_pool_make(&pool, MEDIUM_MIN + 256 * CLUSTER);
	print_message("seed %u, %u steps\n", pool.random, steps);
	m = (struct meeting){.pool = &pool};
	assert_int_equal(sem_init(&m.done, 0, 0), 0);
	for (unsigned object = 0; object < LIVE; object++) {
		raw_dev_kit_object_make(&pool, object + 1, 0);
		pool.dev_flags = object ? RAW_DEV_THICK : 0;
		for (int i = 0; i < LOOPS; i++)
			m.devs[object][i] = raw_dev_kit_dev_open(&pool, i,
								 object + 1);
	}
	for (unsigned i = 0; i < steps; i++)
		meet(&m);
	meeting_verify(&m);
	for (unsigned object = 0; object < LIVE; object++)
		for (int i = 0; i < LOOPS; i++)
			raw_dev_kit_dev_close(&pool, i, m.devs[object][i]);
	(void)sem_destroy(&m.done);
	raw_dev_kit_pool_remove(&pool);
}

/* ---- a medium that fails ---- */

/* Where on the medium a cluster of an object ends. */
static uint64_t medium_end(struct pool *pool, uint32_t id, uint64_t cluster)
{
	const struct raw_state *state = raw_store_lock(pool->store);
	uint32_t at = raw_map_get(&raw_state_object(state, id)->map, cluster);

	raw_store_unlock(pool->store);
	return raw_store_super(pool->store)->data_start +
	       (uint64_t)(RAW_PHYSICAL(at) + 1) * CLUSTER;
}

static void fails_only_what_the_medium_fails(void **unused)
{
	uint8_t *data = aligned_alloc(BLOCK, CLUSTER);
	struct blockdev *first, *second;
	struct pool pool;
	struct stat st;

	(void)unused;
	assert_non_null(data);
	memset(data, 7, CLUSTER);
	raw_dev_kit_pool_make(&pool, (UINT64_C(6) << 20) + 20 * CLUSTER);
	raw_dev_kit_object_make(&pool, 1, 0);
	raw_dev_kit_object_make(&pool, 2, 0);
	first = raw_dev_kit_dev_open(&pool, 0, 1);
	second = raw_dev_kit_dev_open(&pool, 1, 2);
	assert_int_equal(
		raw_dev_kit_one(&pool, first, WRITE, data, CLUSTER, 0, 0), 0);
	assert_int_equal(
		raw_dev_kit_one(&pool, second, WRITE, data, CLUSTER, 0, 0), 0);
	assert_int_equal(raw_dev_kit_one(&pool, second, WRITE, data, CLUSTER,
					 CLUSTER, 0),
			 0);
	/* The last of them can't be read any more. */
	assert_int_equal(fstat(pool.fd, &st), 0);
	assert_int_equal(ftruncate(pool.fd, (off_t)medium_end(&pool, 2, 0)), 0);
	assert_int_equal(
		raw_dev_kit_one(&pool, second, READ, data, CLUSTER, CLUSTER, 0),
		-EIO);
	assert_true(atomic_load(&pool.faults) == 1);
	assert_int_equal(
		raw_dev_kit_one(&pool, second, READ, data, CLUSTER, 0, 0), 0);
	assert_int_equal(data[CLUSTER - 1], 7);
	assert_int_equal(
		raw_dev_kit_one(&pool, first, READ, data, CLUSTER, 0, 0), 0);
	assert_int_equal(
		raw_dev_kit_one(&pool, first, WRITE, data, CLUSTER, 0, 0), 0);
	assert_true(atomic_load(&pool.faults) == 1);
	assert_false(raw_store_broken(pool.store, NULL));
	assert_int_equal(ftruncate(pool.fd, st.st_size), 0);
	raw_dev_kit_dev_close(&pool, 0, first);
	raw_dev_kit_dev_close(&pool, 1, second);
	free(data);
	raw_dev_kit_pool_remove(&pool);
}

/* ---- space ---- */

static void grow(struct pool *pool, uint64_t size)
{
	assert_int_equal(ftruncate(pool->fd, (off_t)size), 0);
	raw_dev_kit_must(pool, raw_store_extend(pool->store, size, &pool->err),
			 "extend");
}

static void is_full_for_one_write_and_goes_on(void **unused)
{
	uint8_t *data = aligned_alloc(BLOCK, CLUSTER);
	struct blockdev *dev;
	struct pool pool;
	uint64_t at = 0;
	int r = 0;

	(void)unused;
	assert_non_null(data);
	memset(data, 7, CLUSTER);
	raw_dev_kit_pool_make(&pool, (UINT64_C(6) << 20) + 20 * CLUSTER);
	raw_dev_kit_object_make(&pool, 1, 0);
	dev = raw_dev_kit_dev_open(&pool, 0, 1);
	while (at + CLUSTER <= SIZE && r == 0) {
		r = raw_dev_kit_one(&pool, dev, WRITE, data, BLOCK, at, 0);
		at += CLUSTER;
	}
	assert_int_equal(r, -ENOSPC);
	at -= CLUSTER;
	/* Clusters that are there are served and written to. */
	assert_int_equal(
		raw_dev_kit_one(&pool, dev, WRITE, data, CLUSTER, 0, 0), 0);
	assert_int_equal(raw_dev_kit_one(&pool, dev, READ, data, CLUSTER, 0, 0),
			 0);
	assert_int_equal(data[CLUSTER - 1], 7);
	/* Space that comes back serves the write that had none. */
	assert_int_equal(
		raw_dev_kit_one(&pool, dev, DISCARD, NULL, CLUSTER, 0, 0), 0);
	assert_int_equal(raw_dev_kit_one(&pool, dev, WRITE, data, BLOCK, at, 0),
			 0);
	assert_int_equal(raw_dev_kit_one(&pool, dev, READ, data, CLUSTER, 0, 0),
			 0);
	assert_int_equal(data[0], 0);
	/* So does that of a medium that has grown. */
	assert_int_equal(raw_dev_kit_one(&pool, dev, WRITE, data, BLOCK, 0, 0),
			 -ENOSPC);
	grow(&pool, (UINT64_C(6) << 20) + 22 * CLUSTER);
	memset(data, 9, BLOCK);
	assert_int_equal(raw_dev_kit_one(&pool, dev, WRITE, data, BLOCK, 0, 0),
			 0);
	memset(data, 0, BLOCK);
	assert_int_equal(raw_dev_kit_one(&pool, dev, READ, data, CLUSTER, 0, 0),
			 0);
	assert_int_equal(data[BLOCK - 1], 9);
	raw_dev_kit_dev_close(&pool, 0, dev);
	free(data);
	raw_dev_kit_pool_remove(&pool);
}

static void tells_holes_from_data(void **unused)
{
	struct raw_record map = {.type = RAW_MAP,
				 .object = 1,
				 .logical = 5,
				 .count = 1,
				 .unwritten = true};
	uint8_t *data = aligned_alloc(BLOCK, 2 * CLUSTER);
	struct blockdev *dev;
	struct pool pool;
	struct io io;
	sem_t done;

	(void)unused;
	assert_non_null(data);
	memset(data, 1, 2 * CLUSTER);
	raw_dev_kit_pool_make(&pool, MEDIUM_MIN);
	raw_dev_kit_object_make(&pool, 1, 0);
	dev = raw_dev_kit_dev_open(&pool, 0, 1);
	assert_int_equal(raw_dev_kit_one(&pool, dev, WRITE, data,
					 CLUSTER + BLOCK, 3 * CLUSTER, 0),
			 0);
	assert_int_equal(raw_store_take(pool.store, 1, RAW_HOLE, &map.physical),
			 1);
	raw_dev_kit_must(&pool,
			 raw_store_change(pool.store, &map, 1, NULL, &pool.err),
			 "map");
	assert_int_equal(sem_init(&done, 0, 0), 0);
	io = (struct io){.message.run = raw_dev_kit_io_start,
			 .op.done = raw_dev_kit_io_done,
			 .dev = &dev,
			 .what = STATUS,
			 .offset = CLUSTER,
			 .length = SIZE - CLUSTER,
			 .done = &done};
	loop_post(dev->loop, &io.message);
	assert_int_equal(sem_wait(&done), 0);
	(void)sem_destroy(&done);
	assert_int_equal(io.res, 4);
	assert_int_equal(io.status[0].length, 2 * CLUSTER);
	assert_int_equal(io.status[0].flags, BLOCKDEV_HOLE | BLOCKDEV_ZERO);
	assert_int_equal(io.status[1].length, CLUSTER + BLOCK);
	assert_int_equal(io.status[1].flags, 0);
	/* Blocks that were never written, and a cluster that was not. */
	assert_int_equal(io.status[2].length, 2 * CLUSTER - BLOCK);
	assert_int_equal(io.status[2].flags, BLOCKDEV_ZERO);
	assert_int_equal(io.status[3].flags, BLOCKDEV_HOLE | BLOCKDEV_ZERO);
	/* Allocated and never written: zeroes around what is written now. */
	assert_int_equal(raw_dev_kit_one(&pool, dev, WRITE, data, BLOCK,
					 5 * CLUSTER + BLOCK, 0),
			 0);
	assert_int_equal(raw_dev_kit_one(&pool, dev, READ, data, CLUSTER,
					 5 * CLUSTER, 0),
			 0);
	assert_int_equal(data[BLOCK - 1], 0);
	assert_int_equal(data[BLOCK], 1);
	assert_int_equal(data[2 * BLOCK], 0);
	raw_dev_kit_dev_close(&pool, 0, dev);
	free(data);
	raw_dev_kit_pool_remove(&pool);
}

enum { HOLES = 500 };

struct holes {
	struct loop_message message;
	struct op op;
	struct blockdev *dev;
	unsigned left;
	uint8_t *data;
	sem_t done;
};

static void hole_read(struct op *op, int res)
{
	struct holes *holes = container_of(op, struct holes, op);

	assert_int_equal(res, 0);
	if (holes->left-- == 0)
		(void)sem_post(&holes->done);
	else
		blockdev_read(holes->dev, op, holes->data, BLOCK, 0);
}

static void holes_start(struct loop_message *message)
{
	struct holes *holes = container_of(message, struct holes, message);

	hole_read(&holes->op, 0);
}

/* Calls of write() by this process. -1: the kernel does not say. */
static long calls_of_write(void)
{
	FILE *file = fopen("/proc/self/io", "re");
	char line[64];
	long n = -1;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "syscw: %ld", &n) == 1)
			break;
	if (file)
		(void)fclose(file);
	return n;
}

/* Its end is known at once: no call of the kernel tells the loop. */
static void reads_holes_without_a_call_each(void **unused)
{
	struct holes holes = {.message.run = holes_start,
			      .op.done = hole_read,
			      .left = HOLES};
	struct pool pool;
	long before;

	(void)unused;
	holes.data = aligned_alloc(BLOCK, BLOCK);
	assert_non_null(holes.data);
	assert_int_equal(sem_init(&holes.done, 0, 0), 0);
	raw_dev_kit_pool_make(&pool, MEDIUM_MIN);
	raw_dev_kit_object_make(&pool, 1, 0);
	holes.dev = raw_dev_kit_dev_open(&pool, 0, 1);
	before = calls_of_write();
	loop_post(holes.dev->loop, &holes.message);
	assert_int_equal(sem_wait(&holes.done), 0);
	if (before >= 0)
		assert_true(calls_of_write() - before < HOLES / 2);
	raw_dev_kit_dev_close(&pool, 0, holes.dev);
	(void)sem_destroy(&holes.done);
	free(holes.data);
	raw_dev_kit_pool_remove(&pool);
}

/* A cluster that was another's reads as zeroes where it is not written. */
static void shows_nothing_of_what_was_there_before(void **unused)
{
	uint8_t *data = aligned_alloc(BLOCK, CLUSTER);
	struct blockdev *dev;
	struct pool pool;

	(void)unused;
	assert_non_null(data);
	raw_dev_kit_pool_make(&pool, (UINT64_C(6) << 20) + 20 * CLUSTER);
	raw_dev_kit_object_make(&pool, 1, 0);
	dev = raw_dev_kit_dev_open(&pool, 0, 1);
	for (int i = 0; i < 60; i++) {
		memset(data, 9, CLUSTER);
		assert_int_equal(
			raw_dev_kit_one(&pool, dev, WRITE, data, CLUSTER, 0, 0),
			0);
		assert_int_equal(raw_dev_kit_one(&pool, dev, DISCARD, NULL,
						 CLUSTER, 0, 0),
				 0);
		assert_int_equal(raw_dev_kit_one(&pool, dev, WRITE, data, BLOCK,
						 CLUSTER, 0),
				 0);
		assert_int_equal(raw_dev_kit_one(&pool, dev, READ, data,
						 CLUSTER, CLUSTER, 0),
				 0);
		for (uint64_t j = BLOCK; j < CLUSTER; j++)
			assert_int_equal(data[j], 0);
		assert_int_equal(raw_dev_kit_one(&pool, dev, DISCARD, NULL,
						 CLUSTER, CLUSTER, 0),
				 0);
	}
	raw_dev_kit_dev_close(&pool, 0, dev);
	free(data);
	raw_dev_kit_pool_remove(&pool);
}

/* ---- the log ---- */

static void fill_log(struct pool *pool)
{
	char text[3000];
	const struct raw_record record = {
		.type = RAW_OBJECT,
		.object = 1,
		.clusters = 1,
		.text = text,
		.text_length = sizeof(text),
	};
	uint64_t ticket;

	memset(text, 'x', sizeof(text));
	while (!raw_store_filling(pool->store)) {
		raw_dev_kit_must(pool,
				 raw_store_change(pool->store, &record, 1,
						  &ticket, &pool->err),
				 "change");
		raw_dev_kit_must(
			pool, raw_store_commit(pool->store, ticket, &pool->err),
			"commit");
	}
}

/* Nobody commits any more, and still there is one. */
static void takes_a_checkpoint_before_the_log_is_full(void **unused)
{
	const struct timespec pause = {.tv_nsec = 1000 * 1000};
	struct pool pool;
	uint64_t before;

	(void)unused;
	raw_dev_kit_pool_make(&pool, UINT64_C(16) << 20);
	for (int round = 0; round < 2; round++) {
		before = raw_store_super(pool.store)->generation;
		fill_log(&pool);
		for (int i = 0; raw_store_filling(pool.store); i++) {
			assert_true(i < 10000);
			(void)nanosleep(&pause, NULL);
		}
		assert_true(raw_store_super(pool.store)->generation > before);
	}
	raw_dev_kit_pool_remove(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_as_a_model_says_while_it_is_shared),
		cmocka_unit_test(reads_as_it_may_while_snapshots_go),
		cmocka_unit_test(fails_only_what_the_medium_fails),
		cmocka_unit_test(is_full_for_one_write_and_goes_on),
		cmocka_unit_test(tells_holes_from_data),
		cmocka_unit_test(reads_holes_without_a_call_each),
		cmocka_unit_test(shows_nothing_of_what_was_there_before),
		cmocka_unit_test(takes_a_checkpoint_before_the_log_is_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
