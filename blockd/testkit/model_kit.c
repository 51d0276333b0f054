/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/testkit/model_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

unsigned model_below(struct run *run, unsigned n)
{
	run->random = run->random * 1103515245 + 12345;
	return (run->random >> 8) % n;
}

unsigned model_from_environment(const char *name, unsigned otherwise)
{
	const char *text = getenv(name);

	return text ? (unsigned)strtoul(text, NULL, 0) : otherwise;
}

/* ---- the model of a block ---- */

uint32_t model_now(const struct block *block)
{
	return block->n ? block->stamps[block->n - 1] : 0;
}

void model_push(struct block *block, uint32_t stamp)
{
	if (!block->n)
		block->stamps[block->n++] = 0;
	block->stamps[block->n++] = stamp;
}

void model_settle(struct object *object)
{
	for (size_t i = 0; i < object->n; i++) {
		object->blocks[i].stamps[0] = model_now(&object->blocks[i]);
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

int model_one(struct object *object, enum what what, void *data, size_t at,
	      size_t n, unsigned flags)
{
	return object->top ? object->top(object, what, data, at, n, flags)
			   : model_one_below(object, what, data, at, n, flags);
}

int model_one_below(struct object *object, enum what what, void *data,
		    size_t at, size_t n, unsigned flags)
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

	return extent_dev_open(
		&o->object->gate, o->run->pool, record->name, record->size,
		record->kind == EXTENT_KIND_SNAPSHOT ? BLOCKDEV_FILE_READ_ONLY
						     : 0,
		o->run->loop, &o->object->dev, &o->run->err);
}

void model_object_open(struct run *run, struct object *object)
{
	struct opening o = {.run = run, .object = object};

	gate_init(&object->gate);
	MUST(run, loop_call(run->loop, open_call, &o));
}

static int close_call(void *context)
{
	blockdev_close(context);
	return 0;
}

void model_object_close(struct run *run, struct object *object)
{
	if (!object->dev)
		return;
	assert_int_equal(loop_call(run->loop, close_call, object->dev), 0);
	gate_done(&object->gate);
	object->dev = NULL;
}

/* ---- reading ---- */

static uint32_t *words(void *data, size_t block)
{
	return (uint32_t *)((uint8_t *)data + block * BLOCK);
}

uint32_t model_stamp_of(struct run *run, void *data, size_t block)
{
	const uint32_t *w = words(data, block);

	for (size_t i = 1; i < BLOCK / sizeof(*w); i++)
		CHECK(run, w[i] == w[0]);
	return w[0];
}

void *model_buffer(size_t blocks)
{
	void *data = aligned_alloc(BLOCK, blocks * BLOCK);

	assert_non_null(data);
	return data;
}

void model_check_blocks(struct run *run, struct object *object, size_t at,
			size_t n, bool killed)
{
	void *data = model_buffer(n);

	CHECK(run, model_one(object, READ, data, at, n, 0) == 0);
	for (size_t i = 0; i < n; i++) {
		struct block *block = &object->blocks[at + i];
		uint32_t stamp = model_stamp_of(run, data, i);

		if (killed ? !may_be(block, stamp) : stamp != model_now(block))
			fail_msg("seed %u, step %u: block %zu of %s is %u, "
				 "not %u",
				 run->seed, run->step, at + i,
				 object->record.name, stamp, model_now(block));
		if (killed) {
			block->stamps[0] = stamp;
			block->n = 1;
		}
	}
	free(data);
}

void model_check_all(struct run *run, struct object *object, bool killed)
{
	for (size_t at = 0; at < object->n; at += 256)
		model_check_blocks(run, object, at,
				   object->n - at < 256 ? object->n - at : 256,
				   killed);
}

/* ---- choosing ---- */

bool model_is_there(const struct object *object)
{
	return object->record.name[0];
}

bool model_is_snapshot(const struct object *object)
{
	return object->record.kind == EXTENT_KIND_SNAPSHOT;
}

struct object *model_empty_slot(struct run *run)
{
	for (size_t i = 0; i < OBJECTS; i++)
		if (!model_is_there(&run->objects[i]))
			return &run->objects[i];
	return NULL;
}

struct object *model_any(struct run *run, bool writable)
{
	struct object *object = &run->objects[model_below(run, OBJECTS)];

	return model_is_there(object) &&
			       !(writable && model_is_snapshot(object))
		       ? object
		       : NULL;
}

struct space_medium model_measure(struct run *run)
{
	struct space_medium medium;

	MUST(run, run->pool->ops->measure(run->pool, &medium, &run->err));
	return medium;
}

struct extent_usage model_usage(struct run *run, const struct object *object)
{
	struct extent_usage ret;

	MUST(run, run->pool->ops->usage(run->pool, object->record.name, &ret,
					&run->err));
	return ret;
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

static void note(void *context, const char *text)
{
	(void)context;
	(void)text;
}

static void open_pool(struct run *run)
{
	const struct pool_visitor visitor = {check_found, note, run};

	MUST(run, run->kind->open(run));
	MUST(run, run->pool->ops->load(run->pool, &visitor, &run->err));
	if (run->kind->verify)
		run->kind->verify(run);
}

void model_open_again(struct run *run, bool killed)
{
	for (size_t i = 0; i < OBJECTS; i++)
		model_object_close(run, &run->objects[i]);
	if (run->kind->closing)
		run->kind->closing(run);
	if (killed)
		run->kind->kill(run);
	else
		pool_close(run->pool);
	open_pool(run);
	run->kills += killed;
	for (size_t i = 0; i < OBJECTS; i++) {
		if (!model_is_there(&run->objects[i]))
			continue;
		model_object_open(run, &run->objects[i]);
		model_check_all(run, &run->objects[i], killed);
		model_settle(&run->objects[i]);
	}
}

static void *run_loop(void *loop)
{
	assert_int_equal(loop_run(loop), 0);
	return NULL;
}

void model_run_begin(struct run *run, const struct model_kind *kind,
		     unsigned seed)
{
	struct loop_options options = {.name = "test"};

	*run = (struct run){.kind = kind, .seed = seed, .random = seed};
	kind->make(run);
	open_pool(run);
	MUST(run, loop_new(&options, &run->loop, &run->err));
	assert_int_equal(
		pthread_create(&run->thread, NULL, run_loop, run->loop), 0);
}

void model_run_end(struct run *run)
{
	for (size_t i = 0; i < OBJECTS; i++)
		if (model_is_there(&run->objects[i]))
			model_erase(run, &run->objects[i]);
	model_open_again(run, false);
	CHECK(run, model_measure(run).allocated == 0);
	if (run->kind->closing)
		run->kind->closing(run);
	pool_close(run->pool);
	loop_stop(run->loop);
	assert_int_equal(pthread_join(run->thread, NULL), 0);
	loop_free(run->loop);
	run->kind->remove(run);
}
