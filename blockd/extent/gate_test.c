/* SPDX-License-Identifier: Apache-2.0 */
/* A gate with devices on two loops, over devices that do as they are told. */
#include "blockd/extent/extent_dev.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/size.h"

#define BLOCK 4096

/* ---- a device whose writes end when they are let ---- */

struct fake {
	struct blockdev dev;
	atomic_bool keeps; /* writes do not end */
	atomic_uint under_way;
	atomic_uint writes; /* begun */
	atomic_uint others; /* reads, flushes */
	struct op *kept[EXTENT_DEV_REQUESTS];
	unsigned n_kept;
	struct loop_batch batch;
};

static struct fake *fake_of(struct blockdev *dev)
{
	return container_of(dev, struct fake, dev);
}

static void fake_end(struct loop_batch *batch)
{
	struct fake *fake = container_of(batch, struct fake, batch);

	while (!atomic_load(&fake->keeps) && fake->n_kept > 0) {
		struct op *op = fake->kept[--fake->n_kept];

		atomic_fetch_sub(&fake->under_way, 1);
		op->done(op, 0);
	}
}

static void fake_begin(struct fake *fake, struct op *op)
{
	atomic_fetch_add(&fake->under_way, 1);
	fake->kept[fake->n_kept++] = op;
	loop_batch_add(fake->dev.loop, &fake->batch);
}

static void fake_read(struct blockdev *dev, struct op *op, void *data,
		      uint32_t length, uint64_t offset)
{
	(void)offset;
	memset(data, 0, length);
	atomic_fetch_add(&fake_of(dev)->others, 1);
	fake_begin(fake_of(dev), op);
}

static void fake_write(struct blockdev *dev, struct op *op, const void *data,
		       uint32_t length, uint64_t offset, unsigned flags)
{
	(void)data;
	(void)flags;
	(void)offset;
	(void)length;
	atomic_fetch_add(&fake_of(dev)->writes, 1);
	fake_begin(fake_of(dev), op);
}

static void fake_flush(struct blockdev *dev, struct op *op)
{
	atomic_fetch_add(&fake_of(dev)->others, 1);
	fake_begin(fake_of(dev), op);
}

static void fake_discard(struct blockdev *dev, struct op *op, uint64_t offset,
			 uint64_t length, unsigned flags)
{
	fake_write(dev, op, NULL, (uint32_t)length, offset, flags);
}

static void fake_close(struct blockdev *dev)
{
	free(fake_of(dev));
}

static const struct blockdev_ops fake_ops = {
	.read = fake_read,
	.write = fake_write,
	.flush = fake_flush,
	.discard = fake_discard,
	.close = fake_close,
};

/* ---- a loop with one ---- */

struct side {
	struct gate *gate;
	struct loop *loop;
	pthread_t thread;
	struct fake *fake;
	struct blockdev *dev;
};

struct request {
	struct op op;
	struct side *side;
	void (*start)(struct request *request);
	atomic_bool done;
	uint8_t data[BLOCK];
};

struct kit {
	struct gate gate;
	struct side sides[2];
};

static void *run_loop(void *context)
{
	(void)loop_run(context);
	return NULL;
}

static int open_side(void *context)
{
	struct side *side = context;

	side->fake = calloc(1, sizeof(*side->fake));
	side->fake->dev = (struct blockdev){
		.ops = &fake_ops,
		.loop = side->loop,
		.size = MIB,
		.block_size = 512,
		.preferred_size = BLOCK,
	};
	side->fake->batch.run = fake_end;
	return extent_dev_new(side->gate, &side->fake->dev, NULL, &side->dev,
			      NULL);
}

static int close_side(void *context)
{
	blockdev_close(((struct side *)context)->dev);
	return 0;
}

static int setup(void **state)
{
	struct kit *k = calloc(1, sizeof(*k));

	gate_init(&k->gate);
	for (size_t i = 0; i < array_size(k->sides); i++) {
		struct side *side = &k->sides[i];

		side->gate = &k->gate;
		assert_int_equal(
			loop_new(&(struct loop_options){0}, &side->loop, NULL),
			0);
		assert_int_equal(pthread_create(&side->thread, NULL, run_loop,
						side->loop),
				 0);
		assert_int_equal(loop_call(side->loop, open_side, side), 0);
	}
	*state = k;
	return 0;
}

static int teardown(void **state)
{
	struct kit *k = *state;

	for (size_t i = 0; i < array_size(k->sides); i++) {
		struct side *side = &k->sides[i];

		(void)loop_call(side->loop, close_side, side);
		loop_stop(side->loop);
		(void)pthread_join(side->thread, NULL);
		loop_free(side->loop);
	}
	gate_done(&k->gate);
	free(k);
	return 0;
}

static void request_done(struct op *op, int res)
{
	struct request *request = container_of(op, struct request, op);

	assert_int_equal(res, 0);
	atomic_store(&request->done, true);
}

static void start_write(struct request *r)
{
	blockdev_write(r->side->dev, &r->op, r->data, BLOCK, 0, 0);
}

static void start_read(struct request *r)
{
	blockdev_read(r->side->dev, &r->op, r->data, BLOCK, 0);
}

static void start_flush(struct request *r)
{
	blockdev_flush(r->side->dev, &r->op);
}

static void start_discard(struct request *r)
{
	blockdev_discard(r->side->dev, &r->op, 0, BLOCK, 0);
}

static int start_request(void *context)
{
	struct request *request = context;

	request->op.done = request_done;
	request->start(request);
	return 0;
}

static void begin(struct request *request, struct side *side,
		  void (*start)(struct request *request))
{
	*request = (struct request){.side = side, .start = start};
	(void)loop_call(side->loop, start_request, request);
}

static int nothing(void *context)
{
	(void)context;
	return 0;
}

/* Wait until everything that was to happen on the loop has. */
static void settle(struct side *side)
{
	for (unsigned i = 0; i < 8; i++)
		(void)loop_call(side->loop, nothing, NULL);
}

static void wait_done(struct request *request)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	int64_t until_ms = clock_ms() + 20000;

	while (!atomic_load(&request->done)) {
		assert_true(clock_ms() < until_ms);
		(void)nanosleep(&pause, NULL);
	}
}

static int look_again(void *context)
{
	struct fake *fake = context;

	loop_batch_add(fake->dev.loop, &fake->batch);
	return 0;
}

static void keep(struct side *side, bool keeps)
{
	atomic_store(&side->fake->keeps, keeps);
	(void)loop_call(side->loop, look_again, side->fake);
}

/* ---- quiesces ---- */

static void holds_what_changes_the_data_and_nothing_else(void **state)
{
	struct kit *k = *state;
	struct side *side = &k->sides[0];
	struct request write, discard, read, flush, later;

	assert_int_equal(gate_close(&k->gate, clock_ms() + 20000), 0);
	assert_true(gate_is_closed(&k->gate));
	begin(&write, side, start_write);
	begin(&discard, side, start_discard);
	begin(&read, side, start_read);
	begin(&flush, side, start_flush);
	wait_done(&read);
	wait_done(&flush);
	settle(side);
	assert_int_equal(atomic_load(&side->fake->writes), 0);
	assert_false(atomic_load(&write.done));
	gate_open(&k->gate);
	wait_done(&write);
	wait_done(&discard);
	assert_false(gate_is_closed(&k->gate));
	begin(&later, side, start_write);
	wait_done(&later);
}

static void waits_for_what_is_under_way_and_gives_up_in_time(void **state)
{
	struct kit *k = *state;
	struct side *side = &k->sides[1];
	struct request one, other;

	keep(side, true);
	begin(&one, side, start_write);
	assert_int_equal(gate_close(&k->gate, clock_ms() + 20), -ETIMEDOUT);
	assert_false(gate_is_closed(&k->gate));
	begin(&other, side, start_write);
	settle(side);
	assert_int_equal(atomic_load(&side->fake->writes), 2);
	keep(side, false);
	assert_int_equal(gate_close(&k->gate, clock_ms() + 20000), 0);
	wait_done(&one);
	wait_done(&other);
	gate_open(&k->gate);
}

static void goes_on_when_the_last_of_two_holds_ends(void **state)
{
	struct kit *k = *state;
	struct request write;

	assert_int_equal(gate_close(&k->gate, clock_ms() + 20000), 0);
	assert_int_equal(gate_close(&k->gate, clock_ms() + 20000), 0);
	begin(&write, &k->sides[0], start_write);
	gate_open(&k->gate);
	settle(&k->sides[0]);
	assert_false(atomic_load(&write.done));
	gate_open(&k->gate);
	wait_done(&write);
}

/* ---- writers that never stop, on both loops ---- */

struct writer {
	struct request requests[8];
	atomic_bool stop;
	atomic_uint running;
};

static void write_again(struct op *op, int res)
{
	struct request *r = container_of(op, struct request, op);
	struct writer *writer = (struct writer *)(void *)(r -
							  (size_t)(r->data[0]));

	assert_int_equal(res, 0);
	if (atomic_load(&writer->stop))
		atomic_fetch_sub(&writer->running, 1);
	else
		start_write(r);
}

static int start_writer(void *context)
{
	struct writer *writer = context;

	for (size_t i = 0; i < array_size(writer->requests); i++) {
		struct request *r = &writer->requests[i];

		r->data[0] = (uint8_t)i;
		r->op.done = write_again;
		atomic_fetch_add(&writer->running, 1);
		start_write(r);
	}
	return 0;
}

static unsigned begun(struct kit *k)
{
	return atomic_load(&k->sides[0].fake->writes) +
	       atomic_load(&k->sides[1].fake->writes);
}

static void stop_writers(struct kit *k, struct writer *writers)
{
	const struct timespec pause = {.tv_nsec = 1000000};

	for (size_t i = 0; i < array_size(k->sides); i++) {
		atomic_store(&writers[i].stop, true);
		while (atomic_load(&writers[i].running))
			(void)nanosleep(&pause, NULL);
	}
}

static void start_writers(struct kit *k, struct writer *writers)
{
	for (size_t i = 0; i < array_size(k->sides); i++) {
		for (size_t j = 0; j < array_size(writers[i].requests); j++)
			writers[i].requests[j].side = &k->sides[i];
		(void)loop_call(k->sides[i].loop, start_writer, &writers[i]);
	}
}

static void nothing_is_under_way_while_it_holds(void **state)
{
	struct kit *k = *state;
	static struct writer writers[2];
	unsigned before = 0;

	start_writers(k, writers);
	for (unsigned i = 0; i < 200; i++) {
		unsigned then;

		assert_int_equal(gate_close(&k->gate, clock_ms() + 20000), 0);
		then = begun(k);
		for (size_t j = 0; j < array_size(k->sides); j++) {
			assert_int_equal(
				atomic_load(&k->sides[j].fake->under_way), 0);
			if (i % 20 == 0)
				settle(&k->sides[j]);
		}
		assert_int_equal(begun(k), then);
		gate_open(&k->gate);
		before = then;
	}
	stop_writers(k, writers);
	assert_true(before > 200); /* they went on in between */
}

/* ---- limits ---- */

static void limit(struct kit *k, uint64_t iops)
{
	const struct extent_limits limits = {.iops = iops};

	gate_set_limits(&k->gate, &limits);
}

/* With one a minute the second waits until the limit goes. */
static void lets_what_waits_go_when_the_limit_does(void **state)
{
	struct kit *k = *state;
	struct request one, two, read, flush;
	const struct extent_limits slow = {
		.bytes_per_second = EXTENT_BYTES_MIN / 1024};

	gate_set_limits(&k->gate, &slow); /* 64: a block takes a minute */
	begin(&one, &k->sides[0], start_write);
	wait_done(&one);
	begin(&two, &k->sides[1], start_write);
	begin(&read, &k->sides[0], start_read);
	begin(&flush, &k->sides[0], start_flush);
	wait_done(&flush);
	settle(&k->sides[1]);
	assert_false(atomic_load(&two.done));
	assert_false(atomic_load(&read.done));
	limit(k, 1000000);
	wait_done(&two);
	wait_done(&read);
	limit(k, 0);
}

static void a_bypass_has_no_limit(void **state)
{
	struct kit *k = *state;
	struct request one, two, three;
	const struct extent_limits slow = {
		.bytes_per_second = EXTENT_BYTES_MIN / 1024};

	gate_set_limits(&k->gate, &slow);
	begin(&one, &k->sides[0], start_write);
	begin(&two, &k->sides[0], start_write);
	settle(&k->sides[0]);
	assert_false(atomic_load(&two.done));
	gate_bypass_begin(&k->gate);
	wait_done(&two);
	begin(&three, &k->sides[1], start_write);
	wait_done(&three);
	gate_bypass_end(&k->gate);
	limit(k, 0);
}

static void a_limit_does_not_break_a_hold(void **state)
{
	struct kit *k = *state;
	struct request one, two;
	const struct extent_limits slow = {
		.bytes_per_second = EXTENT_BYTES_MIN / 1024};

	gate_set_limits(&k->gate, &slow);
	begin(&one, &k->sides[0], start_write);
	wait_done(&one);
	begin(&two, &k->sides[0], start_write);
	assert_int_equal(gate_close(&k->gate, clock_ms() + 20000), 0);
	limit(k, 0);
	settle(&k->sides[0]);
	assert_false(atomic_load(&two.done));
	gate_open(&k->gate);
	wait_done(&two);
}

static void limits_come_and_go_under_writers(void **state)
{
	struct kit *k = *state;
	static struct writer writers[2];

	start_writers(k, writers);
	for (unsigned i = 0; i < 50; i++) {
		limit(k, i % 2 ? 0 : 1000 + i);
		assert_int_equal(gate_close(&k->gate, clock_ms() + 20000), 0);
		assert_int_equal(
			atomic_load(&k->sides[0].fake->under_way) +
				atomic_load(&k->sides[1].fake->under_way),
			0);
		gate_open(&k->gate);
	}
	limit(k, 0);
	stop_writers(k, writers);
}

/* ---- the device ---- */

static void can_what_the_medium_can(void **state)
{
	struct kit *k = *state;
	const struct blockdev *dev = k->sides[0].dev;

	assert_non_null(dev->ops->discard);
	assert_null(dev->ops->write_zeroes);
	assert_null(dev->ops->status);
	assert_int_equal(dev->size, MIB);
	assert_int_equal(dev->preferred_size, BLOCK);
}

static int grow_and_write(void *context)
{
	struct request *r = context;

	r->op.done = request_done;
	blockdev_grown(r->side->dev, 2 * MIB);
	blockdev_write(r->side->dev, &r->op, r->data, BLOCK, 2 * MIB - BLOCK,
		       0);
	return 0;
}

static void reaches_the_end_of_what_has_grown(void **state)
{
	struct kit *k = *state;
	struct request r = {.side = &k->sides[0]};

	(void)loop_call(r.side->loop, grow_and_write, &r);
	wait_done(&r);
}

int main(void)
{
#define WITH_KIT(test) cmocka_unit_test_setup_teardown(test, setup, teardown)
	const struct CMUnitTest tests[] = {
		WITH_KIT(holds_what_changes_the_data_and_nothing_else),
		WITH_KIT(waits_for_what_is_under_way_and_gives_up_in_time),
		WITH_KIT(goes_on_when_the_last_of_two_holds_ends),
		WITH_KIT(nothing_is_under_way_while_it_holds),
		WITH_KIT(lets_what_waits_go_when_the_limit_does),
		WITH_KIT(a_bypass_has_no_limit),
		WITH_KIT(a_limit_does_not_break_a_hold),
		WITH_KIT(limits_come_and_go_under_writers),
		WITH_KIT(can_what_the_medium_can),
		WITH_KIT(reaches_the_end_of_what_has_grown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
