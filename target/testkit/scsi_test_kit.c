/* SPDX-License-Identifier: Apache-2.0 */
#include "target/testkit/scsi_test_kit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

#define WAIT_SECONDS 30

static void wait_for(sem_t *sem)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += WAIT_SECONDS;
	assert_int_equal(sem_timedwait(sem, &until), 0);
}

/* ---- a device that can fail and wait, over one in memory ---- */

struct kit_device {
	struct blockdev dev;
	struct blockdev *ram;
	struct kit *kit;
};

struct kit_op {
	struct op inner;
	struct op *outer;
	struct kit *kit;
	int fail; /* its result; 0: what it is */
	struct kit_op *next;
};

static void kit_op_tell(struct kit_op *kop, int res)
{
	struct op *outer = kop->outer;

	free(kop);
	outer->done(outer, res);
}

static void kit_op_done(struct op *op, int res)
{
	struct kit_op *kop = container_of(op, struct kit_op, inner);

	if (kop->fail)
		res = kop->fail;
	if (atomic_load(&kop->kit->hold)) {
		kop->fail = res;
		kop->next = kop->kit->waiting;
		kop->kit->waiting = kop;
		sem_post(&kop->kit->held);
		return;
	}
	kit_op_tell(kop, res);
}

static struct op *wrap_result(struct blockdev *dev, struct op *op, int res)
{
	struct kit *kit = container_of(dev, struct kit_device, dev)->kit;
	struct kit_op *kop = calloc(1, sizeof(*kop));

	assert_non_null(kop);
	kop->inner.done = kit_op_done;
	kop->outer = op;
	kop->kit = kit;
	kop->fail = kit->fail ? kit->fail : res;
	kit->operations++;
	return &kop->inner;
}

static struct op *wrap(struct blockdev *dev, struct op *op)
{
	return wrap_result(dev, op, 0);
}

static struct blockdev *ram_of(struct blockdev *dev)
{
	return container_of(dev, struct kit_device, dev)->ram;
}

static void device_read(struct blockdev *dev, struct op *op, void *data,
			uint32_t length, uint64_t offset)
{
	blockdev_read(ram_of(dev), wrap(dev, op), data, length, offset);
}

static void device_write(struct blockdev *dev, struct op *op, const void *data,
			 uint32_t length, uint64_t offset, unsigned flags)
{
	struct kit *kit = container_of(dev, struct kit_device, dev)->kit;

	kit->fua_writes += (flags & BLOCKDEV_FUA) != 0;
	blockdev_write(ram_of(dev), wrap(dev, op), data, length, offset, flags);
}

static void device_flush(struct blockdev *dev, struct op *op)
{
	struct kit *kit = container_of(dev, struct kit_device, dev)->kit;

	kit->flushes++;
	blockdev_flush(ram_of(dev), wrap(dev, op));
}

static void device_zero(struct blockdev *dev, struct op *op, uint64_t offset,
			uint64_t length, unsigned flags)
{
	blockdev_write_zeroes(ram_of(dev), wrap(dev, op), offset, length,
			      flags);
}

/* Every second MiB is a hole. */
static void device_status(struct blockdev *dev, struct op *op, uint64_t offset,
			  uint64_t length, struct blockdev_status *ret,
			  unsigned max)
{
	uint64_t end = offset + length;
	unsigned n = 0;

	for (; n < max && offset < end; n++) {
		uint64_t next = ((offset >> 20) + 1) << 20;

		if (next > end)
			next = end;
		ret[n].length = next - offset;
		ret[n].flags = offset >> 20 & 1 ? BLOCKDEV_HOLE | BLOCKDEV_ZERO
						: 0;
		offset = next;
	}
	blockdev_flush(ram_of(dev), wrap_result(dev, op, (int)n));
}

static void device_close(struct blockdev *dev)
{
	free(container_of(dev, struct kit_device, dev));
}

static const struct blockdev_ops device_ops = {
	.read = device_read,
	.write = device_write,
	.flush = device_flush,
	.close = device_close,
	.discard = device_zero,
	.write_zeroes = device_zero,
	.status = device_status,
};

static struct blockdev *device_new(struct kit *kit, struct blockdev *ram)
{
	struct kit_device *device = calloc(1, sizeof(*device));

	assert_non_null(device);
	device->dev = *ram;
	device->ram = ram;
	device->dev.ops = &device_ops;
	device->dev.block_size = kit->block_size;
	device->kit = kit;
	return &device->dev;
}

/* ---- the whole ---- */

static void *thread_run(void *context)
{
	struct kit *kit = context;

	(void)loop_run(kit->loop); /* it ends when it is stopped */
	return NULL;
}

void kit_call(struct kit *kit, int (*call)(void *context), void *context)
{
	assert_int_equal(loop_call(kit->loop, call, context), 0);
}

void kit_open(struct kit *kit, const struct scsi_unit_options *options)
{
	static const struct scsi_unit_options plain = {
		.block_size = 512, .thin = true, .low_space = 10};
	struct scsi_unit_options o = options ? *options : plain;

	memset(kit, 0, sizeof(*kit));
	if (o.size == 0)
		o.size = (uint64_t)KIT_BLOCKS * o.block_size;
	o.uuid[0] = 0xd1;
	o.uuid[15] = 0x07;
	kit->block_size = o.block_size;
	sem_init(&kit->held, 0, 0);
	assert_int_equal(loop_new(&(struct loop_options){0}, &kit->loop, NULL),
			 0);
	assert_int_equal(
		blockdev_ram_open(kit->loop, o.size * 2, &kit->ram, NULL), 0);
	assert_int_equal(
		scsi_target_new("iqn.2026-11.test:kit", &kit->target, NULL), 0);
	assert_int_equal(scsi_unit_new(&o, &kit->unit, NULL), 0);
	assert_int_equal(scsi_target_add(kit->target, 0, kit->unit, NULL), 0);
	assert_int_equal(pthread_create(&kit->thread, NULL, thread_run, kit),
			 0);
}

void kit_close(struct kit *kit)
{
	loop_stop(kit->loop);
	pthread_join(kit->thread, NULL);
	scsi_target_unref(kit->target);
	scsi_unit_unref(kit->unit);
	blockdev_close(kit->ram);
	blockdev_close(kit->more);
	loop_free(kit->loop);
	sem_destroy(&kit->held);
}

/* ---- sessions ---- */

static int path_open(struct scsi_path *path, void *context)
{
	struct kit *kit = context;

	path->dev = device_new(kit, path->lun ? kit->more : kit->ram);
	return 0;
}

static int login(void *context)
{
	struct kit_session *s = context;
	char name[64];
	uint8_t isid[6] = {0x40, 0, 0, 0, 0, (uint8_t)s->who};

	(void)snprintf(name, sizeof(name), "iqn.2026-11.test:initiator-%u",
		       s->who);
	if (scsi_nexus_new(s->kit->target, s->kit->loop, name, isid,
			   &s->nexus) < 0)
		return -1;
	scsi_nexus_set_ops(s->nexus,
			   &(struct scsi_nexus_ops){.open = path_open}, s->kit);
	return 0;
}

struct kit_session *kit_login(struct kit *kit, unsigned who)
{
	struct kit_session *s = aligned_alloc(4096, sizeof(*s));

	assert_non_null(s);
	memset(s, 0, sizeof(*s));
	s->kit = kit;
	s->who = who;
	s->attribute = SCSI_SIMPLE;
	sem_init(&s->done, 0, 0);
	kit_call(kit, login, s);
	/* POWER ON */
	assert_int_equal(kit_ready(s), SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_UNIT_ATTENTION, SCSI_ASC_POWER_ON);
	return s;
}

static void path_close(struct scsi_path *path, void *context)
{
	(void)context;
	blockdev_close(path->dev);
	path->dev = NULL;
}

static int logout(void *context)
{
	struct kit_session *s = context;

	scsi_nexus_each_path(s->nexus, path_close, NULL);
	scsi_nexus_free(s->nexus);
	return 0;
}

void kit_logout(struct kit_session *s)
{
	kit_call(s->kit, logout, s);
	sem_destroy(&s->done);
	free(s);
}

int kit_pair_open(void **state, const struct scsi_unit_options *options)
{
	struct kit_pair *pair = calloc(1, sizeof(*pair));

	kit_open(&pair->kit, options);
	pair->a = kit_login(&pair->kit, 1);
	pair->b = kit_login(&pair->kit, 2);
	*state = pair;
	return 0;
}

int kit_pair_close(void **state)
{
	struct kit_pair *pair = *state;

	kit_logout(pair->a);
	kit_logout(pair->b);
	kit_close(&pair->kit);
	free(pair);
	return 0;
}

/* ---- commands ---- */

static void task_done(struct scsi_task *task)
{
	struct kit_session *s = container_of(task, struct kit_session, task);

	sem_post(&s->done);
}

static void task_begin(struct loop_message *message)
{
	struct kit_session *s = container_of(message, struct kit_session,
					     message);
	struct scsi_task *task = &s->task;

	scsi_task_parse(task);
	assert_true(task->out_length <= task->expected_out);
	assert_true(task->out_length <= KIT_DATA && task->in_size <= KIT_DATA);
	assert_true(task->scratch_size <= SCSI_SCRATCH_MAX);
	if (task->needs_device && !task->path->dev)
		(void)path_open(task->path, s->kit); /* it can't fail */
	scsi_task_start(task);
}

void kit_begin(struct kit_session *s, const uint8_t *cdb, size_t cdb_length,
	       uint32_t out_length, uint32_t in_length)
{
	struct scsi_task *task = &s->task;

	memset(task, 0, sizeof(*task));
	task->nexus = s->nexus;
	memcpy(task->lun, s->lun, sizeof(s->lun));
	memcpy(task->cdb, cdb, cdb_length);
	task->attribute = s->attribute;
	task->expected_out = out_length;
	task->expected_in = in_length;
	task->out = s->out;
	task->in = s->in;
	task->scratch = s->scratch;
	task->done = task_done;
	s->message.run = task_begin;
	loop_post(s->kit->loop, &s->message);
}

static int task_finish(void *context)
{
	scsi_task_finish(context);
	return 0;
}

int kit_end(struct kit_session *s)
{
	wait_for(&s->done);
	kit_call(s->kit, task_finish, &s->task);
	return s->task.status;
}

bool kit_is_done(struct kit_session *s)
{
	int value;

	sem_getvalue(&s->done, &value);
	return value > 0;
}

int kit_do(struct kit_session *s, const uint8_t *cdb, size_t cdb_length,
	   uint32_t out_length, uint32_t in_length)
{
	kit_begin(s, cdb, cdb_length, out_length, in_length);
	return kit_end(s);
}

static int abort_task(void *context)
{
	struct kit_session *s = context;

	scsi_task_abort(&s->task);
	return 0;
}

void kit_abort(struct kit_session *s)
{
	kit_call(s->kit, abort_task, s);
}

/* ---- task management ---- */

struct reset {
	struct scsi_reset reset;
	struct loop_message message;
	struct kit_session *s;
	enum scsi_function function;
	sem_t done;
};

static void reset_done(struct scsi_reset *reset)
{
	sem_post(&container_of(reset, struct reset, reset)->done);
}

static void reset_begin(struct loop_message *message)
{
	struct reset *r = container_of(message, struct reset, message);

	r->reset.done = reset_done;
	scsi_reset_start(&r->reset, r->s->nexus, r->function, r->s->lun);
}

struct reset *kit_reset_begin(struct kit_session *s,
			      enum scsi_function function)
{
	struct reset *r = calloc(1, sizeof(*r));

	assert_non_null(r);
	r->s = s;
	r->function = function;
	r->message.run = reset_begin;
	sem_init(&r->done, 0, 0);
	loop_post(s->kit->loop, &r->message);
	return r;
}

bool kit_reset_is_done(struct reset *r)
{
	int value;

	sem_getvalue(&r->done, &value);
	return value > 0;
}

int kit_nothing(void *context)
{
	(void)context;
	return 0;
}

int kit_reset_end(struct reset *r)
{
	int res;

	wait_for(&r->done);
	res = r->reset.res;
	sem_destroy(&r->done);
	free(r);
	return res;
}

int kit_reset(struct kit_session *s, enum scsi_function function)
{
	return kit_reset_end(kit_reset_begin(s, function));
}

/* ---- what waits at the medium ---- */

void kit_wait_held(struct kit *kit)
{
	wait_for(&kit->held);
}

static int step(void *context)
{
	struct kit *kit = context;

	while (kit->waiting) {
		struct kit_op *kop = kit->waiting;

		kit->waiting = kop->next;
		kit_op_tell(kop, kop->fail);
	}
	return 0;
}

void kit_step(struct kit *kit)
{
	kit_call(kit, step, kit);
}

static int let_go(void *context)
{
	struct kit *kit = context;

	atomic_store(&kit->hold, false);
	return step(kit);
}

void kit_let_go(struct kit *kit)
{
	kit_call(kit, let_go, kit);
}

int kit_ready(struct kit_session *s)
{
	return KIT_DO(s, 0, 0, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0);
}

/* ---- results ---- */

void kit_assert_sense(const struct kit_session *s, enum scsi_sense_key key,
		      enum scsi_asc asc)
{
	const uint8_t *sense = s->task.sense;
	bool descriptors = sense[0] == 0x72;

	assert_int_equal(s->task.status, SCSI_CHECK_CONDITION);
	assert_true(descriptors || (sense[0] & 0x7f) == 0x70);
	assert_int_equal(sense[descriptors ? 1 : 2], key);
	assert_int_equal(scsi_be16(sense + (descriptors ? 2 : 12)), asc);
}

int kit_field(const struct kit_session *s)
{
	const uint8_t *specific = s->task.sense + 15;

	return specific[0] & 0x80 ? scsi_be16(specific + 1) : -1;
}

uint32_t kit_information(const struct kit_session *s)
{
	assert_true(s->task.sense[0] & 0x80); /* VALID */
	return scsi_be32(s->task.sense + 3);
}
