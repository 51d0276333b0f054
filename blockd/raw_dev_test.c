/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of a raw pool as devices, against a model in memory: many requests
 * at once, on two loops, with snapshots in between. SEED=N repeats a run,
 * STEPS=N makes it longer.
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
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "blockd/raw_dev.h"

#define CLUSTER    (UINT64_C(1) << RAW_CLUSTER_SHIFT_MIN)
#define BLOCK      4096u
#define CLUSTERS   24
#define SIZE       (CLUSTERS * CLUSTER - 5 * BLOCK) /* the last one is cut */
#define LOOPS      2
#define AT_ONCE    16
#define MEDIUM_MIN ((UINT64_C(6) << 20) + 64 * CLUSTER)

struct pool {
	char path[64];
	int fd;
	struct raw_file_medium medium;
	struct raw_store *store;
	struct raw_users *users;
	struct loop *loops[LOOPS];
	pthread_t threads[LOOPS];
	struct error err;
	unsigned random;
	atomic_uint faults; /* of the medium, that were told of */
};

static unsigned below(struct pool *pool, unsigned n)
{
	pool->random = pool->random * 1103515245 + 12345;
	return (pool->random >> 8) % n;
}

static void must(struct pool *pool, int r, const char *what)
{
	if (r < 0)
		fail_msg("%s: %s", what, error_text(&pool->err));
}

static void *run_loop(void *loop)
{
	assert_int_equal(loop_run(loop), 0);
	return NULL;
}

static void note_fault(void *context)
{
	struct pool *pool = context;

	atomic_fetch_add(&pool->faults, 1);
}

static void pool_open_(struct pool *pool)
{
	struct raw_users_options options = {
		.path = pool->path,
		.fault = note_fault,
		.context = pool,
	};
	struct raw_report report;

	must(pool,
	     raw_store_open(&pool->medium.medium, &pool->store, &report,
			    &pool->err),
	     "open");
	options.store = pool->store;
	must(pool, raw_users_new(&options, &pool->users, &pool->err), "users");
	for (int i = 0; i < LOOPS; i++) {
		struct loop_options lo = {.name = "test"};

		must(pool, loop_new(&lo, &pool->loops[i], &pool->err), "loop");
		assert_int_equal(pthread_create(&pool->threads[i], NULL,
						run_loop, pool->loops[i]),
				 0);
	}
}

static void pool_close_(struct pool *pool)
{
	for (int i = 0; i < LOOPS; i++) {
		loop_stop(pool->loops[i]);
		assert_int_equal(pthread_join(pool->threads[i], NULL), 0);
		loop_free(pool->loops[i]);
	}
	raw_users_free(pool->users);
	raw_store_close(pool->store);
}

static unsigned from_environment(const char *name, unsigned otherwise)
{
	const char *text = getenv(name);

	return text ? (unsigned)strtoul(text, NULL, 0) : otherwise;
}

static void pool_make_without(struct pool *pool, uint64_t size,
			      uint64_t features)
{
	const struct raw_format_options options = {
		.cluster_shift = RAW_CLUSTER_SHIFT_MIN,
		.without = features,
		.text = "",
	};

	*pool = (struct pool){.random = from_environment("SEED", 1)};
	(void)snprintf(pool->path, sizeof(pool->path), "%.40s/raw-test.XXXXXX",
		       getenv("TMPDIR") ?: "/tmp");
	pool->fd = mkstemp(pool->path);
	assert_true(pool->fd >= 0);
	assert_int_equal(ftruncate(pool->fd, (off_t)size), 0);
	raw_file_medium_init(&pool->medium, pool->fd, size);
	must(pool, raw_store_format(&pool->medium.medium, &options, &pool->err),
	     "format");
	pool_open_(pool);
}

static void pool_make(struct pool *pool, uint64_t size)
{
	pool_make_without(pool, size, 0);
}

static void pool_remove(struct pool *pool)
{
	pool_close_(pool);
	(void)close(pool->fd);
	(void)unlink(pool->path);
}

static void object_make(struct pool *pool, uint32_t id, uint32_t from)
{
	struct raw_record records[2] = {
		{.type = RAW_OBJECT,
		 .object = id,
		 .clusters = CLUSTERS,
		 .text = ""},
		{.type = RAW_SHARE, .object = id, .from = from},
	};

	must(pool,
	     raw_store_change(pool->store, records, from ? 2 : 1, NULL,
			      &pool->err),
	     "make an object");
}

/* ---- requests ---- */

enum what { READ, WRITE, ZERO, DISCARD, FLUSH, STATUS, OPEN, CLOSE };

struct io {
	struct loop_message message;
	struct op op;
	struct pool *pool;
	struct blockdev **dev; /* of its loop */
	enum what what;
	uint32_t id;
	uint64_t offset, length;
	unsigned flags;
	uint8_t *data;
	struct blockdev_status status[CLUSTERS + 1];
	sem_t *done;
	int res;
	bool starting;
};

static void io_done(struct op *op, int res)
{
	struct io *io = container_of(op, struct io, op);

	assert_false(io->starting); /* never from inside the call */
	io->res = res;
	(void)sem_post(io->done);
}

static void io_start(struct loop_message *message)
{
	struct io *io = container_of(message, struct io, message);
	struct blockdev *dev = *io->dev;

	io->starting = true;
	switch (io->what) {
	case READ:
		blockdev_read(dev, &io->op, io->data, (uint32_t)io->length,
			      io->offset);
		break;
	case WRITE:
		blockdev_write(dev, &io->op, io->data, (uint32_t)io->length,
			       io->offset, io->flags);
		break;
	case ZERO:
		blockdev_write_zeroes(dev, &io->op, io->offset, io->length,
				      io->flags);
		break;
	case DISCARD:
		blockdev_discard(dev, &io->op, io->offset, io->length,
				 io->flags);
		break;
	case FLUSH: blockdev_flush(dev, &io->op); break;
	case STATUS:
		blockdev_get_status(dev, &io->op, io->offset, io->length,
				    io->status, CLUSTERS + 1);
		break;
	case OPEN:
	case CLOSE: break;
	}
	io->starting = false;
}

struct opening {
	struct pool *pool;
	struct loop *loop;
	struct blockdev *dev;
	uint32_t id;
};

static int open_call(void *context)
{
	struct opening *o = context;

	return raw_dev_open(o->pool->users, o->id, SIZE, false, o->loop,
			    &o->dev, &o->pool->err);
}

static int close_call(void *context)
{
	blockdev_close(context);
	return 0;
}

static struct blockdev *dev_open(struct pool *pool, int loop, uint32_t id)
{
	struct opening o = {.pool = pool, .loop = pool->loops[loop], .id = id};

	must(pool, loop_call(o.loop, open_call, &o), "open a device");
	return o.dev;
}

static void dev_close(struct pool *pool, int loop, struct blockdev *dev)
{
	assert_int_equal(loop_call(pool->loops[loop], close_call, dev), 0);
}

static int one(struct pool *pool, struct blockdev *dev, enum what what,
	       void *data, uint64_t length, uint64_t offset, unsigned flags)
{
	sem_t done;
	struct io io = {
		.message.run = io_start,
		.op.done = io_done,
		.pool = pool,
		.dev = &dev,
		.what = what,
		.data = data,
		.length = length,
		.offset = offset,
		.flags = flags,
		.done = &done,
	};

	assert_int_equal(sem_init(&done, 0, 0), 0);
	loop_post(dev->loop, &io.message);
	assert_int_equal(sem_wait(&done), 0);
	(void)sem_destroy(&done);
	return io.res;
}

/* ---- many at once, against a model ---- */

struct object {
	uint8_t bytes[SIZE]; /* what it reads as */
	struct blockdev *devs[LOOPS];
};

static void object_open(struct pool *pool, struct object *object, uint32_t id)
{
	for (int i = 0; i < LOOPS; i++)
		object->devs[i] = dev_open(pool, i, id);
}

static void object_close(struct pool *pool, struct object *object)
{
	for (int i = 0; i < LOOPS; i++)
		dev_close(pool, i, object->devs[i]);
}

static void check_object(struct pool *pool, struct object *object)
{
	uint8_t *data = malloc(SIZE);

	assert_non_null(data);
	assert_int_equal(one(pool, object->devs[below(pool, LOOPS)], READ, data,
			     SIZE, 0, 0),
			 0);
	for (uint64_t i = 0; i < SIZE; i += BLOCK)
		if (memcmp(data + i, object->bytes + i, BLOCK) != 0)
			fail_msg("block %lu differs",
				 (unsigned long)(i / BLOCK));
	free(data);
}

/* A discard may leave what it likes of a cluster it does not cover. */
static void after_discard(struct pool *pool, struct object *object,
			  const struct io *io)
{
	assert_int_equal(one(pool, object->devs[0], READ,
			     object->bytes + io->offset, io->length, io->offset,
			     0),
			 0);
}

/* Requests in one round do not overlap, but do meet in clusters. */
static void round_(struct pool *pool, struct object *object)
{
	struct io ios[AT_ONCE];
	uint64_t at = BLOCK * below(pool, 40);
	unsigned n = 0;
	sem_t done;

	assert_int_equal(sem_init(&done, 0, 0), 0);
	while (n < AT_ONCE && at < SIZE) {
		uint64_t length = BLOCK * (1 + below(pool, 40));
		struct io *io = &ios[n++];
		static const enum what whats[] = {WRITE, WRITE, WRITE, ZERO,
						  DISCARD};

		if (length > SIZE - at)
			length = SIZE - at;
		*io = (struct io){
			.message.run = io_start,
			.op.done = io_done,
			.pool = pool,
			.dev = &object->devs[below(pool, LOOPS)],
			.what = whats[below(pool, 5)],
			.offset = at,
			.length = length,
			.flags = below(pool, 4) == 0 ? BLOCKDEV_FUA : 0,
			.done = &done,
		};
		if (io->what == ZERO && below(pool, 3) == 0)
			io->flags |= BLOCKDEV_NO_HOLE;
		io->data = aligned_alloc(BLOCK, length);
		assert_non_null(io->data);
		for (uint64_t i = 0; i < length; i += BLOCK)
			memset(io->data + i, 1 + (int)below(pool, 255), BLOCK);
		at += length + BLOCK * below(pool, 12);
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
	unsigned steps = from_environment("STEPS", 120);
	struct pool pool;

	(void)unused;
	pool_make(&pool, MEDIUM_MIN + 64 * CLUSTER);
	print_message("seed %u, %u steps\n", pool.random, steps);
	for (uint32_t i = 0; i < OBJECTS; i++) {
		object_make(&pool, i + 1, 0);
		object_open(&pool, &objects[i], i + 1);
	}
	for (unsigned i = 0; i < steps; i++) {
		uint32_t to = below(&pool, OBJECTS), from = below(&pool, 3);

		round_(&pool, &objects[below(&pool, OBJECTS)]);
		check_object(&pool, &objects[below(&pool, OBJECTS)]);
		if (below(&pool, 6) || to == from)
			continue;
		/* A snapshot, or a revert: nobody writes meanwhile. */
		object_make(&pool, to + 1, from + 1);
		memcpy(objects[to].bytes, objects[from].bytes, SIZE);
	}
	/* All of it is there again, from the medium. */
	assert_int_equal(one(&pool, objects[0].devs[0], FLUSH, NULL, 0, 0, 0),
			 0);
	for (uint32_t i = 0; i < OBJECTS; i++)
		object_close(&pool, &objects[i]);
	pool_close_(&pool);
	pool_open_(&pool);
	for (uint32_t i = 0; i < OBJECTS; i++) {
		object_open(&pool, &objects[i], i + 1);
		check_object(&pool, &objects[i]);
		object_close(&pool, &objects[i]);
	}
	must(&pool, raw_users_clean_now(pool.users, &pool.err), "clean");
	must(&pool, raw_state_verify(raw_store_lock(pool.store), &pool.err),
	     "verify");
	raw_store_unlock(pool.store);
	pool_remove(&pool);
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
	pool_make(&pool, (UINT64_C(6) << 20) + 20 * CLUSTER);
	object_make(&pool, 1, 0);
	object_make(&pool, 2, 0);
	first = dev_open(&pool, 0, 1);
	second = dev_open(&pool, 1, 2);
	assert_int_equal(one(&pool, first, WRITE, data, CLUSTER, 0, 0), 0);
	assert_int_equal(one(&pool, second, WRITE, data, CLUSTER, 0, 0), 0);
	assert_int_equal(one(&pool, second, WRITE, data, CLUSTER, CLUSTER, 0),
			 0);
	/* The last of them can't be read any more. */
	assert_int_equal(fstat(pool.fd, &st), 0);
	assert_int_equal(ftruncate(pool.fd, (off_t)medium_end(&pool, 2, 0)), 0);
	assert_int_equal(one(&pool, second, READ, data, CLUSTER, CLUSTER, 0),
			 -EIO);
	assert_true(atomic_load(&pool.faults) == 1);
	assert_int_equal(one(&pool, second, READ, data, CLUSTER, 0, 0), 0);
	assert_int_equal(data[CLUSTER - 1], 7);
	assert_int_equal(one(&pool, first, READ, data, CLUSTER, 0, 0), 0);
	assert_int_equal(one(&pool, first, WRITE, data, CLUSTER, 0, 0), 0);
	assert_true(atomic_load(&pool.faults) == 1);
	assert_false(raw_store_broken(pool.store, NULL));
	assert_int_equal(ftruncate(pool.fd, st.st_size), 0);
	dev_close(&pool, 0, first);
	dev_close(&pool, 1, second);
	free(data);
	pool_remove(&pool);
}

/* ---- space ---- */

static void grow(struct pool *pool, uint64_t size)
{
	assert_int_equal(ftruncate(pool->fd, (off_t)size), 0);
	raw_users_grown(pool->users, size);
	must(pool, raw_store_extend(pool->store, size, &pool->err), "extend");
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
	pool_make(&pool, (UINT64_C(6) << 20) + 20 * CLUSTER);
	object_make(&pool, 1, 0);
	dev = dev_open(&pool, 0, 1);
	while (at + CLUSTER <= SIZE && r == 0) {
		r = one(&pool, dev, WRITE, data, BLOCK, at, 0);
		at += CLUSTER;
	}
	assert_int_equal(r, -ENOSPC);
	at -= CLUSTER;
	/* What is there is served and written to. */
	assert_int_equal(one(&pool, dev, WRITE, data, CLUSTER, 0, 0), 0);
	assert_int_equal(one(&pool, dev, READ, data, CLUSTER, 0, 0), 0);
	assert_int_equal(data[CLUSTER - 1], 7);
	/* Space that comes back serves the write that had none. */
	assert_int_equal(one(&pool, dev, DISCARD, NULL, CLUSTER, 0, 0), 0);
	assert_int_equal(one(&pool, dev, WRITE, data, BLOCK, at, 0), 0);
	assert_int_equal(one(&pool, dev, READ, data, CLUSTER, 0, 0), 0);
	assert_int_equal(data[0], 0);
	/* So does that of a medium that has grown. */
	assert_int_equal(one(&pool, dev, WRITE, data, BLOCK, 0, 0), -ENOSPC);
	grow(&pool, (UINT64_C(6) << 20) + 22 * CLUSTER);
	memset(data, 9, BLOCK);
	assert_int_equal(one(&pool, dev, WRITE, data, BLOCK, 0, 0), 0);
	memset(data, 0, BLOCK);
	assert_int_equal(one(&pool, dev, READ, data, CLUSTER, 0, 0), 0);
	assert_int_equal(data[BLOCK - 1], 9);
	dev_close(&pool, 0, dev);
	free(data);
	pool_remove(&pool);
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
	pool_make(&pool, MEDIUM_MIN);
	object_make(&pool, 1, 0);
	dev = dev_open(&pool, 0, 1);
	assert_int_equal(
		one(&pool, dev, WRITE, data, CLUSTER + BLOCK, 3 * CLUSTER, 0),
		0);
	assert_int_equal(raw_store_take(pool.store, 1, RAW_HOLE, &map.physical),
			 1);
	must(&pool, raw_store_change(pool.store, &map, 1, NULL, &pool.err),
	     "map");
	assert_int_equal(sem_init(&done, 0, 0), 0);
	io = (struct io){.message.run = io_start,
			 .op.done = io_done,
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
	assert_int_equal(
		one(&pool, dev, WRITE, data, BLOCK, 5 * CLUSTER + BLOCK, 0), 0);
	assert_int_equal(one(&pool, dev, READ, data, CLUSTER, 5 * CLUSTER, 0),
			 0);
	assert_int_equal(data[BLOCK - 1], 0);
	assert_int_equal(data[BLOCK], 1);
	assert_int_equal(data[2 * BLOCK], 0);
	dev_close(&pool, 0, dev);
	free(data);
	pool_remove(&pool);
}

/* A cluster that was another's reads as zeroes where it is not written. */
static void shows_nothing_of_what_was_there_before(void **unused)
{
	uint8_t *data = aligned_alloc(BLOCK, CLUSTER);
	struct blockdev *dev;
	struct pool pool;

	(void)unused;
	assert_non_null(data);
	pool_make(&pool, (UINT64_C(6) << 20) + 20 * CLUSTER);
	object_make(&pool, 1, 0);
	dev = dev_open(&pool, 0, 1);
	for (int i = 0; i < 60; i++) {
		memset(data, 9, CLUSTER);
		assert_int_equal(one(&pool, dev, WRITE, data, CLUSTER, 0, 0),
				 0);
		assert_int_equal(one(&pool, dev, DISCARD, NULL, CLUSTER, 0, 0),
				 0);
		assert_int_equal(
			one(&pool, dev, WRITE, data, BLOCK, CLUSTER, 0), 0);
		assert_int_equal(
			one(&pool, dev, READ, data, CLUSTER, CLUSTER, 0), 0);
		for (uint64_t j = BLOCK; j < CLUSTER; j++)
			assert_int_equal(data[j], 0);
		assert_int_equal(
			one(&pool, dev, DISCARD, NULL, CLUSTER, CLUSTER, 0), 0);
	}
	dev_close(&pool, 0, dev);
	free(data);
	pool_remove(&pool);
}

/* ---- clusters that are written in part ---- */

static uint64_t mediums_writes(struct pool *pool, uint32_t from)
{
	const struct raw_super *super = raw_store_super(pool->store);
	uint8_t *data = malloc(CLUSTER);
	uint64_t n = 0;

	assert_non_null(data);
	assert_int_equal(pread(pool->fd, data, CLUSTER,
			       (off_t)(super->data_start + from * CLUSTER)),
			 (ssize_t)CLUSTER);
	for (uint64_t i = 0; i < CLUSTER; i += BLOCK)
		n += data[i] != 0xee;
	free(data);
	return n;
}

static uint32_t entry_of(struct pool *pool, uint32_t id, uint64_t cluster)
{
	struct raw_state *state = raw_store_lock(pool->store);
	uint32_t entry = raw_map_get(&raw_state_object(state, id)->map,
				     cluster);

	raw_store_unlock(pool->store);
	return entry;
}

/* All of the medium's clusters have something in them. */
static void scribble(struct pool *pool)
{
	const struct raw_super *super = raw_store_super(pool->store);
	uint8_t *data = malloc(CLUSTER);

	assert_non_null(data);
	memset(data, 0xee, CLUSTER);
	for (uint32_t i = 0; i < super->clusters; i++) {
		bool used = false;

		for (uint32_t j = 0; j < super->n_checkpoint; j++)
			used = used || super->checkpoint[j] == i;
		if (!used)
			assert_int_equal(pwrite(pool->fd, data, CLUSTER,
						(off_t)(super->data_start +
							i * CLUSTER)),
					 (ssize_t)CLUSTER);
	}
	free(data);
}

static void check_blocks(struct pool *pool, struct blockdev *dev, uint32_t mask)
{
	uint8_t *data = aligned_alloc(BLOCK, CLUSTER);

	assert_non_null(data);
	assert_int_equal(one(pool, dev, READ, data, CLUSTER, CLUSTER, 0), 0);
	for (uint64_t i = 0; i < CLUSTER; i++)
		assert_int_equal(data[i], mask >> i / BLOCK & 1 ? 7 : 0);
	free(data);
}

/* Nothing around it is zeroed, also when it is the last one that was not. */
static void writes_only_what_is_written(void **unused)
{
	uint8_t *data = aligned_alloc(BLOCK, CLUSTER);
	const unsigned n = CLUSTER / BLOCK;
	struct blockdev *dev;
	struct pool pool;
	uint32_t entry, mask = 0;

	(void)unused;
	assert_non_null(data);
	memset(data, 7, CLUSTER);
	pool_make(&pool, MEDIUM_MIN);
	scribble(&pool);
	object_make(&pool, 1, 0);
	dev = dev_open(&pool, 0, 1);
	for (unsigned i = 0; i < n; i++) {
		unsigned at = (i * 5 + 3) % n;

		assert_int_equal(one(&pool, dev, WRITE, data, BLOCK,
				     CLUSTER + at * BLOCK, BLOCKDEV_FUA),
				 0);
		mask |= 1u << at;
		check_blocks(&pool, dev, mask);
		entry = entry_of(&pool, 1, 1);
		assert_int_equal(!!(entry & RAW_PARTLY), i + 1 < n);
		assert_int_equal(mediums_writes(&pool, RAW_PHYSICAL(entry)),
				 i + 1);
		if (i % 4 == 2) { /* so it is when it is opened again */
			dev_close(&pool, 0, dev);
			pool_close_(&pool);
			pool_open_(&pool);
			dev = dev_open(&pool, 0, 1);
			check_blocks(&pool, dev, mask);
		}
	}
	dev_close(&pool, 0, dev);
	free(data);
	pool_remove(&pool);
}

/* A snapshot has what was written at the cut, the origin goes on alone. */
static void copies_only_what_is_written(void **unused)
{
	uint8_t *data = aligned_alloc(BLOCK, CLUSTER);
	struct blockdev *dev, *snapshot;
	struct pool pool;

	(void)unused;
	assert_non_null(data);
	memset(data, 7, CLUSTER);
	pool_make(&pool, MEDIUM_MIN);
	scribble(&pool);
	object_make(&pool, 1, 0);
	dev = dev_open(&pool, 0, 1);
	assert_int_equal(
		one(&pool, dev, WRITE, data, 2 * BLOCK, CLUSTER + 3 * BLOCK, 0),
		0);
	object_make(&pool, 2, 1);
	snapshot = dev_open(&pool, 0, 2);
	check_blocks(&pool, snapshot, 3u << 3);
	assert_int_equal(
		one(&pool, dev, WRITE, data, BLOCK, CLUSTER + 9 * BLOCK, 0), 0);
	check_blocks(&pool, snapshot, 3u << 3);
	check_blocks(&pool, dev, 3u << 3 | 1u << 9);
	assert_int_equal(one(&pool, dev, ZERO, NULL, 2 * BLOCK,
			     CLUSTER + 4 * BLOCK, BLOCKDEV_NO_HOLE),
			 0);
	check_blocks(&pool, snapshot, 3u << 3);
	check_blocks(&pool, dev, 1u << 3 | 1u << 9);
	dev_close(&pool, 0, snapshot);
	dev_close(&pool, 0, dev);
	free(data);
	pool_remove(&pool);
}

/* A pool that was made before there were such clusters goes on as it was. */
static void zeroes_around_it_without_the_feature(void **unused)
{
	uint8_t *data = aligned_alloc(BLOCK, CLUSTER);
	struct blockdev *dev;
	struct pool pool;
	uint32_t entry;

	(void)unused;
	assert_non_null(data);
	memset(data, 7, CLUSTER);
	pool_make_without(&pool, MEDIUM_MIN, RAW_INCOMPAT_PARTLY);
	scribble(&pool);
	object_make(&pool, 1, 0);
	dev = dev_open(&pool, 0, 1);
	assert_int_equal(
		one(&pool, dev, WRITE, data, BLOCK, CLUSTER + BLOCK, 0), 0);
	entry = entry_of(&pool, 1, 1);
	assert_int_equal(entry, RAW_PHYSICAL(entry));
	assert_int_equal(mediums_writes(&pool, entry), CLUSTER / BLOCK);
	check_blocks(&pool, dev, 2);
	dev_close(&pool, 0, dev);
	free(data);
	pool_remove(&pool);
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
		must(pool,
		     raw_store_change(pool->store, &record, 1, &ticket,
				      &pool->err),
		     "change");
		must(pool, raw_store_commit(pool->store, ticket, &pool->err),
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
	pool_make(&pool, UINT64_C(16) << 20);
	for (int round = 0; round < 2; round++) {
		before = raw_store_super(pool.store)->generation;
		fill_log(&pool);
		for (int i = 0; raw_store_filling(pool.store); i++) {
			assert_true(i < 10000);
			(void)nanosleep(&pause, NULL);
		}
		assert_true(raw_store_super(pool.store)->generation > before);
	}
	pool_remove(&pool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_as_a_model_says_while_it_is_shared),
		cmocka_unit_test(fails_only_what_the_medium_fails),
		cmocka_unit_test(is_full_for_one_write_and_goes_on),
		cmocka_unit_test(tells_holes_from_data),
		cmocka_unit_test(shows_nothing_of_what_was_there_before),
		cmocka_unit_test(writes_only_what_is_written),
		cmocka_unit_test(copies_only_what_is_written),
		cmocka_unit_test(zeroes_around_it_without_the_feature),
		cmocka_unit_test(takes_a_checkpoint_before_the_log_is_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
