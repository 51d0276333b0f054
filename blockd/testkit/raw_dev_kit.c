/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/testkit/raw_dev_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

unsigned raw_dev_kit_below(struct pool *pool, unsigned n)
{
	pool->random = pool->random * 1103515245 + 12345;
	return (pool->random >> 8) % n;
}

void raw_dev_kit_must(struct pool *pool, int r, const char *what)
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

static struct raw_medium *pool_medium(struct pool *pool)
{
	return pool->instead ? pool->instead : &pool->medium.medium;
}

void raw_dev_kit_pool_open(struct pool *pool)
{
	struct raw_users_options options = {
		.path = pool->path,
		.fault = note_fault,
		.open_medium = pool->open_medium,
		.context = pool,
	};
	struct raw_report report;

	raw_dev_kit_must(pool,
			 raw_store_open(pool_medium(pool), &pool->store,
					&report, &pool->err),
			 "open");
	options.store = pool->store;
	raw_dev_kit_must(pool,
			 raw_users_new(&options, &pool->users, &pool->err),
			 "users");
	for (int i = 0; i < LOOPS; i++) {
		struct loop_options lo = {.name = "test"};

		raw_dev_kit_must(pool,
				 loop_new(&lo, &pool->loops[i], &pool->err),
				 "loop");
		assert_int_equal(pthread_create(&pool->threads[i], NULL,
						run_loop, pool->loops[i]),
				 0);
	}
}

void raw_dev_kit_pool_close(struct pool *pool)
{
	for (int i = 0; i < LOOPS; i++) {
		loop_stop(pool->loops[i]);
		assert_int_equal(pthread_join(pool->threads[i], NULL), 0);
		loop_free(pool->loops[i]);
	}
	raw_users_free(pool->users);
	raw_store_close(pool->store);
}

unsigned raw_dev_kit_from_environment(const char *name, unsigned otherwise)
{
	const char *text = getenv(name);

	return text ? (unsigned)strtoul(text, NULL, 0) : otherwise;
}

void raw_dev_kit_pool_make_without(struct pool *pool, uint64_t size,
				   uint64_t features)
{
	const struct raw_format_options options = {
		.cluster_shift = RAW_CLUSTER_SHIFT_MIN,
		.without = features,
		.text = "",
	};

	*pool = (struct pool){
		.random = raw_dev_kit_from_environment("SEED", 1)};
	(void)snprintf(pool->path, sizeof(pool->path), "%.40s/raw-test.XXXXXX",
		       getenv("TMPDIR") ?: "/tmp");
	pool->fd = mkstemp(pool->path);
	assert_true(pool->fd >= 0);
	assert_int_equal(ftruncate(pool->fd, (off_t)size), 0);
	raw_file_medium_init(&pool->medium, pool->fd, size);
	raw_dev_kit_must(
		pool,
		raw_store_format(&pool->medium.medium, &options, &pool->err),
		"format");
	raw_dev_kit_pool_open(pool);
}

void raw_dev_kit_pool_make_on(
	struct pool *pool, struct raw_medium *medium, uint64_t without,
	int (*open_medium)(void *context, struct loop *loop,
			   struct blockdev **ret, struct error *err))
{
	const struct raw_format_options options = {
		.cluster_shift = RAW_CLUSTER_SHIFT_MIN,
		.without = without,
		.text = "",
	};

	*pool = (struct pool){
		.random = raw_dev_kit_from_environment("SEED", 1),
		.fd = -1,
		.instead = medium,
		.open_medium = open_medium,
	};
	raw_dev_kit_must(pool, raw_store_format(medium, &options, &pool->err),
			 "format");
	raw_dev_kit_pool_open(pool);
}

void raw_dev_kit_pool_make(struct pool *pool, uint64_t size)
{
	raw_dev_kit_pool_make_without(pool, size, 0);
}

void raw_dev_kit_pool_remove(struct pool *pool)
{
	raw_dev_kit_pool_close(pool);
	if (pool->instead)
		return;
	(void)close(pool->fd);
	(void)unlink(pool->path);
}

void raw_dev_kit_object_make(struct pool *pool, uint32_t id, uint32_t from)
{
	struct raw_record records[2] = {
		{.type = RAW_OBJECT,
		 .object = id,
		 .clusters = CLUSTERS,
		 .text = ""},
		{.type = RAW_SHARE, .object = id, .from = from},
	};

	raw_dev_kit_must(pool,
			 raw_store_change(pool->store, records, from ? 2 : 1,
					  NULL, &pool->err),
			 "make an object");
}

/* ---- requests ---- */

void raw_dev_kit_io_done(struct op *op, int res)
{
	struct io *io = container_of(op, struct io, op);

	assert_false(io->starting); /* never from inside the call */
	io->res = res;
	(void)sem_post(io->done);
}

void raw_dev_kit_io_start(struct loop_message *message)
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

	return raw_dev_open(o->pool->users, o->id, SIZE, o->pool->dev_flags,
			    o->loop, &o->dev, &o->pool->err);
}

static int close_call(void *context)
{
	blockdev_close(context);
	return 0;
}

struct blockdev *raw_dev_kit_dev_open(struct pool *pool, int loop, uint32_t id)
{
	struct opening o = {.pool = pool, .loop = pool->loops[loop], .id = id};

	raw_dev_kit_must(pool, loop_call(o.loop, open_call, &o),
			 "open a device");
	return o.dev;
}

void raw_dev_kit_dev_close(struct pool *pool, int loop, struct blockdev *dev)
{
	assert_int_equal(loop_call(pool->loops[loop], close_call, dev), 0);
}

int raw_dev_kit_one(struct pool *pool, struct blockdev *dev, enum what what,
		    void *data, uint64_t length, uint64_t offset,
		    unsigned flags)
{
	sem_t done;
	struct io io = {
		.message.run = raw_dev_kit_io_start,
		.op.done = raw_dev_kit_io_done,
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
