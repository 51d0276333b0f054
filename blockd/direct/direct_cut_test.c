/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of extents with direct runs, and holds. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "blockd/testkit/direct_case.h"

static void wait_for_clusters(struct object *object, uint64_t n)
{
	while (direct_case_clusters(object) < n)
		(void)usleep(1000);
}

/* No cluster is anybody's yet: each has bytes that nobody may read. */
static void dirty_the_medium(void)
{
	const uint64_t start = raw_store_super(direct_case_store())->data_start;
	auto_close int fd = open(direct_case_run.path, O_WRONLY | O_CLOEXEC);
	uint8_t *dirt = malloc(CLUSTER);

	assert_true(fd >= 0 && dirt);
	memset(dirt, 0xa5, CLUSTER);
	for (uint64_t at = start; at + CLUSTER <= MEDIUM_BYTES; at += CLUSTER)
		assert_int_equal(pwrite(fd, dirt, CLUSTER, (off_t)at), CLUSTER);
	free(dirt);
}

static void a_thick_one_is_direct_before_it_is_written(void **unused)
{
	struct object *object, *snap;
	uint64_t before;

	(void)unused;
	model_run_begin(&direct_case_run, &direct_case_pool, 1);
	dirty_the_medium();
	object = model_extent_make(&direct_case_run, true);
	(void)direct_kit_attach(&direct_case_kit, &direct_case_run, object);
	wait_for_clusters(object, object->record.size / CLUSTER);
	before = direct_case_kit.direct_reads;
	model_check_all(&direct_case_run, object, false);
	assert_true(direct_case_kit.direct_reads > before);
	direct_case_verify();

	snap = direct_case_snapshot(object);
	model_write_at(&direct_case_run, object, WRITE, 0, 16, 0);
	model_check_all(&direct_case_run, snap, false);
	direct_case_end(object);
}

/* A medium whose first write of data waits until it may end. */
static struct {
	const struct raw_medium_ops *ops;
	uint64_t data_start;
	_Atomic bool began, may_end;
} slow;

static int slow_read(struct raw_medium *medium, void *data, size_t length,
		     uint64_t offset)
{
	return slow.ops->read(medium, data, length, offset);
}

static int slow_write(struct raw_medium *medium, const void *data,
		      size_t length, uint64_t offset)
{
	slow.began = slow.began || offset >= slow.data_start;
	while (offset >= slow.data_start && !slow.may_end)
		(void)usleep(100);
	return slow.ops->write(medium, data, length, offset);
}

static int slow_flush(struct raw_medium *medium)
{
	return slow.ops->flush(medium);
}

static const struct raw_medium_ops slow_ops = {
	.read = slow_read, .write = slow_write, .flush = slow_flush};

/* Long enough for a write that does not wait as it should. */
static void *end_slow_write(void *unused)
{
	(void)unused;
	(void)usleep(50000);
	slow.may_end = true;
	return NULL;
}

static void a_write_is_not_overtaken_by_zeroes(void **unused)
{
	struct raw_medium *medium;
	struct object *object;
	pthread_t thread;

	(void)unused;
	model_run_begin(&direct_case_run, &direct_case_pool, 1);
	medium = &pool_raw_of(direct_case_run.pool)->medium.medium;
	object = model_extent_make(&direct_case_run, true);
	slow.ops = medium->ops;
	slow.data_start = raw_store_super(direct_case_store())->data_start;
	medium->ops = &slow_ops;
	(void)direct_kit_attach(&direct_case_kit, &direct_case_run, object);
	while (!slow.began)
		(void)usleep(100);
	assert_int_equal(pthread_create(&thread, NULL, end_slow_write, NULL),
			 0);
	model_write_at(&direct_case_run, object, WRITE, 2, 4, 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	wait_for_clusters(object, object->record.size / CLUSTER);
	direct_case_end(object);
}

static void what_a_snapshot_shares_is_direct_again_later(void **unused)
{
	struct object *object = direct_case_begin(false);
	struct object *snap = direct_case_snapshot(object);

	(void)unused;
	direct_case_refresh(object);
	assert_int_equal(direct_case_clusters(object), 0);
	/* As it is written. */
	model_write_at(&direct_case_run, object, WRITE, 0, 16, 0);
	direct_case_refresh(object);
	assert_int_equal(direct_case_clusters(object), 1);
	model_write_at(&direct_case_run, object, WRITE, 0, 16, 0);
	model_check_all(&direct_case_run, snap, false);
	/* When the snapshot goes. */
	MUST(&direct_case_run, direct_case_run.pool->ops->begin_delete(
				       direct_case_run.pool, snap->record.name,
				       &direct_case_run.err));
	model_object_close(&direct_case_run, snap);
	MUST(&direct_case_run, direct_case_run.pool->ops->erase(
				       direct_case_run.pool, snap->record.name,
				       &direct_case_run.err));
	free(snap->blocks);
	*snap = (struct object){0};
	direct_case_refresh(object);
	assert_int_equal(direct_case_clusters(object), 2);
	direct_case_end(object);
}

struct writer {
	struct object *object;
	atomic_bool stop;
	atomic_uint written;
};

#define RING 96u /* blocks: six clusters */

/* Block N % RING gets stamp N + 1; the next one when that is done. */
static void *write_in_turn(void *context)
{
	struct writer *writer = context;
	uint32_t *data = model_buffer(1);

	for (uint32_t n = 0; !writer->stop; n++) {
		for (size_t i = 0; i < BLOCK / sizeof(*data); i++)
			data[i] = n + 1;
		assert_int_equal(
			model_one(writer->object, WRITE, data, n % RING, 1, 0),
			0);
		atomic_store(&writer->written, n + 1);
	}
	free(data);
	return NULL;
}

/*
 * A snapshot has what was written up to a moment of the call, and nothing
 * later. Returns the newest.
 */
static uint32_t check_instant(struct object *snap, uint32_t before,
			      uint32_t after)
{
	uint32_t *data = model_buffer(RING), newest = 0;

	assert_int_equal(model_one(snap, READ, data, 0, RING, 0), 0);
	for (size_t i = 0; i < RING; i++) {
		uint32_t stamp = model_stamp_of(&direct_case_run, data, i);

		newest = stamp > newest ? stamp : newest;
	}
	assert_in_range(newest, before, after + 1);
	for (uint32_t i = 0; i < RING; i++) {
		/* The last one of this block up to the newest. */
		uint32_t back = ((newest - 1) % RING + RING - i) % RING;
		uint32_t right = newest > back ? newest - back : 0;

		assert_int_equal(model_stamp_of(&direct_case_run, data, i),
				 right);
	}
	free(data);
	return newest;
}

static void prepare(const char *name)
{
	assert_int_equal(
		direct_case_run.pool->ops->prepare(direct_case_run.pool, name,
						   &direct_case_run.err),
		1);
}

static void hold(const char *name)
{
	prepare(name);
	MUST(&direct_case_run,
	     direct_case_run.pool->ops->hold(direct_case_run.pool, name,
					     &direct_case_run.err));
}

static struct object *cut_frozen(struct object *object)
{
	struct object *snap = model_empty_slot(&direct_case_run);
	struct extent_record record;
	struct pool_copy copy = {object->record.name, &record};

	direct_case_snapshot_record(object, &record);
	hold(object->record.name);
	assert_true(direct_kit_find(&direct_case_kit, object)->suspended);
	MUST(&direct_case_run,
	     direct_case_run.pool->ops->copy(direct_case_run.pool, &copy, 1,
					     NULL, NULL, &direct_case_run.err));
	assert_true(direct_kit_find(&direct_case_kit, object)->suspended);
	assert_int_equal(direct_case_run.pool->ops->release(
				 direct_case_run.pool, object->record.name),
			 0);
	model_object_add(&direct_case_run, snap, &record, NULL);
	return snap;
}

static void drop(struct object *object)
{
	model_object_close(&direct_case_run, object);
	MUST(&direct_case_run,
	     direct_case_run.pool->ops->begin_delete(direct_case_run.pool,
						     object->record.name,
						     &direct_case_run.err));
	MUST(&direct_case_run,
	     direct_case_run.pool->ops->erase(direct_case_run.pool,
					      object->record.name,
					      &direct_case_run.err));
	free(object->blocks);
	*object = (struct object){0};
}

/*
 * Calls of a device, while it is frozen, are its resume alone: no process
 * starts, and no table is loaded. Runs are in use until then.
 */
static void only_the_cut_lies_within_a_freeze(void **unused)
{
	struct object *object = direct_case_begin(false), *snap;
	const char *const name = object->record.name;
	const uint64_t runs = direct_case_clusters(object);
	const uint64_t before = direct_case_kit.direct_writes;
	unsigned calls;

	(void)unused;
	prepare(name);
	assert_true(runs > 0 && direct_case_clusters(object) == runs);
	model_write_at(&direct_case_run, object, WRITE, 0, 1, 0);
	assert_true(direct_case_kit.direct_writes > before);
	calls = direct_case_kit.calls;
	snap = cut_frozen(object); /* prepares once more: it is ready */
	assert_int_equal(direct_case_kit.frozen_calls, 0);
	assert_int_equal(direct_case_kit.calls, calls + 2);
	assert_true(direct_kit_find(&direct_case_kit, object)->suspended);
	assert_int_equal(
		direct_case_run.pool->ops->release(direct_case_run.pool, name),
		0);
	assert_int_equal(direct_case_kit.frozen_calls, 0);
	direct_case_goes_on(object);
	drop(snap);
	direct_case_end(object);
}

/* A hold that is prepared and not carried out leaves all as it was. */
static void what_is_only_prepared_has_its_runs(void **unused)
{
	struct object *object = direct_case_begin(false);
	const struct direct_kit_device *device = direct_kit_find(
		&direct_case_kit, object);
	const uint64_t runs = direct_case_clusters(object);

	(void)unused;
	prepare(object->record.name);
	assert_true(device->prepared && device->waits);
	assert_int_equal(direct_case_run.pool->ops->release(
				 direct_case_run.pool, object->record.name),
			 0);
	assert_false(device->prepared || device->waits || device->suspended);
	assert_int_equal(direct_case_clusters(object), runs);
	/* Nor does a hold of another kind in between do harm. */
	prepare(object->record.name);
	assert_int_equal(direct_hold(direct_case_direct(),
				     direct_case_id(object),
				     &direct_case_run.err),
			 0);
	assert_int_equal(direct_case_clusters(object), 0);
	(void)direct_release(direct_case_direct(), direct_case_id(object));
	MUST(&direct_case_run,
	     direct_case_run.pool->ops->hold(direct_case_run.pool,
					     object->record.name,
					     &direct_case_run.err));
	assert_true(device->suspended);
	assert_int_equal(direct_case_run.pool->ops->release(
				 direct_case_run.pool, object->record.name),
			 0);
	direct_case_goes_on(object);
	direct_case_end(object);
}

static void a_snapshot_under_a_writer_is_of_one_instant(void **unused)
{
	struct object *object = direct_case_begin(false);
	struct writer writer = {.object = object};
	pthread_t thread;

	(void)unused;
	assert_int_equal(pthread_create(&thread, NULL, write_in_turn, &writer),
			 0);
	for (unsigned cuts = 0; cuts < 20; cuts++) {
		uint64_t direct = direct_case_kit.direct_writes;
		struct object *snap;
		uint32_t before, after;

		/* Some of what is written goes straight to the medium. */
		while (direct_case_kit.direct_writes < direct + RING) {
			direct_case_refresh(object);
			direct_case_verify();
		}
		before = writer.written;
		snap = cut_frozen(object);
		after = writer.written;
		direct_case_verify();
		check_instant(snap, before, after);
		/* The snapshot stays as it is while the writer goes on. */
		while (writer.written < after + RING)
			(void)usleep(100);
		check_instant(snap, before, after);
		drop(snap);
	}
	writer.stop = true;
	assert_int_equal(pthread_join(thread, NULL), 0);
	drop(object);
	direct_case_verify();
	model_run_end(&direct_case_run);
}

/* ---- a device of several extents ---- */

struct several {
	struct object *objects[2];
	atomic_bool stop;
	atomic_uint written, cuts;
};

/* As write_in_turn(): each block to the first extent, then to the second. */
static void *write_to_each(void *context)
{
	struct several *s = context;
	uint32_t *data = model_buffer(1);

	for (uint32_t n = 0; !s->stop; n++) {
		for (size_t i = 0; i < BLOCK / sizeof(*data); i++)
			data[i] = n + 1;
		for (size_t k = 0; k < 2; k++)
			assert_int_equal(model_one(s->objects[k], WRITE, data,
						   n % RING, 1, 0),
					 0);
		atomic_store(&s->written, n + 1);
	}
	free(data);
	return NULL;
}

/* Another cut, that takes them in the other order. */
static void *cut_in_the_other_order(void *context)
{
	struct several *s = context;
	struct error err;

	while (!s->stop) {
		for (size_t k = 2; k-- > 0;)
			assert_int_equal(
				direct_kit_freeze(direct_case_direct(),
						  direct_case_id(s->objects[k]),
						  &err),
				0);
		for (size_t k = 2; k-- > 0;)
			assert_int_equal(
				direct_release(direct_case_direct(),
					       direct_case_id(s->objects[k])),
				0);
		s->cuts++;
	}
	return NULL;
}

static void *load_tables(void *context)
{
	struct several *s = context;
	struct error err;

	for (size_t k = 0; !s->stop; k ^= 1)
		(void)direct_refresh(direct_case_direct(),
				     direct_case_id(s->objects[k]), &err);
	return NULL;
}

/* Hold all, then cut all, then release all. A growth in between is refused. */
static void cut_several(struct several *s, struct object *snaps[2])
{
	struct extent_record records[2];
	struct pool_copy copies[2];
	char cut[UUID_TEXT_SIZE];

	(void)uuid_make(cut);
	for (size_t k = 0; k < 2; k++) {
		model_new_record(&direct_case_run, &records[k],
				 s->objects[k]->record.size);
		records[k].kind = EXTENT_KIND_SNAPSHOT;
		model_origin_set(&records[k], s->objects[k], cut);
		copies[k] = (struct pool_copy){s->objects[k]->record.name,
					       &records[k]};
		hold(copies[k].from);
	}
	for (size_t k = 0; k < 2; k++)
		assert_int_equal(direct_detach(direct_case_direct(),
					       direct_case_id(s->objects[k]),
					       false, &direct_case_run.err),
				 -EAGAIN);
	MUST(&direct_case_run,
	     direct_case_run.pool->ops->copy(direct_case_run.pool, copies, 2,
					     NULL, NULL, &direct_case_run.err));
	for (size_t k = 0; k < 2; k++)
		assert_int_equal(direct_case_run.pool->ops->release(
					 direct_case_run.pool, copies[k].from),
				 0);
	for (size_t k = 0; k < 2; k++) {
		snaps[k] = model_empty_slot(&direct_case_run);
		model_object_add(&direct_case_run, snaps[k], &records[k], NULL);
	}
}

/* Two cuts at once, tables being loaded, growth during a cut, and a writer. */
static void a_cut_of_several_is_of_one_instant(void **unused)
{
	static void *(*const work[])(void *) = {
		write_to_each, cut_in_the_other_order, load_tables};
	struct several s = {.objects = {direct_case_begin(false)}};
	pthread_t threads[array_size(work)] = {0};

	(void)unused;
	s.objects[1] = model_extent_make(&direct_case_run, false);
	(void)direct_kit_attach(&direct_case_kit, &direct_case_run,
				s.objects[1]);
	for (size_t i = 0; i < array_size(work); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, work[i], &s),
				 0);
	while (s.written < RING) /* over what was there */
		(void)usleep(100);
	for (unsigned i = 0; i < 10; i++) {
		const uint32_t before = s.written, cuts = s.cuts;
		struct object *snaps[2];
		uint32_t after, newest[2];

		cut_several(&s, snaps);
		after = s.written;
		direct_case_verify();
		for (size_t k = 0; k < 2; k++)
			newest[k] = check_instant(snaps[k], before, after);
		assert_in_range(newest[0] - newest[1], 0, 1);
		/* All go on. */
		while (s.written < after + RING || s.cuts == cuts)
			(void)usleep(100);
		for (size_t k = 0; k < 2; k++)
			drop(snaps[k]);
	}
	s.stop = true;
	for (size_t i = 0; i < array_size(work); i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	for (size_t k = 0; k < 2; k++)
		drop(s.objects[k]);
	direct_case_verify();
	model_run_end(&direct_case_run);
}

/* The one that is opened next resumes the device: then it was not held. */
static void a_hold_ends_with_the_pool(void **unused)
{
	struct object *object = direct_case_begin(false);
	struct direct_kit_device *device = direct_kit_find(&direct_case_kit,
							   object);

	(void)unused;
	hold(object->record.name);
	assert_true(device->suspended);
	model_open_again(&direct_case_run, false);
	direct_case_goes_on(object);
	assert_int_equal(direct_case_run.pool->ops->release(
				 direct_case_run.pool, object->record.name),
			 -ESTALE);
	direct_case_end(object);
}

static void *hold_and_release(void *context)
{
	const uint32_t id = *(uint32_t *)context;
	struct error err = {.code = 0};

	for (unsigned i = 0; i < 200; i++) {
		assert_int_equal((i % 2 ? direct_kit_freeze : direct_hold)(
					 direct_case_direct(), id, &err),
				 0);
		assert_int_equal(
			direct_count(direct_case_direct(), id).clusters, 0);
		direct_release(direct_case_direct(), id);
	}
	return NULL;
}

/* Two cuts at once, and a table being loaded. */
static void holds_of_several_threads_add_up(void **unused)
{
	struct object *object = direct_case_begin(false);
	uint32_t id = direct_case_id(object);
	pthread_t threads[2];

	(void)unused;
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
						hold_and_release, &id),
				 0);
	for (unsigned i = 0; i < 200; i++) {
		direct_case_refresh(object);
		direct_case_verify();
		model_write_at(&direct_case_run, object, WRITE, i % 16, 16, 0);
	}
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	direct_case_goes_on(object);
	direct_case_refresh(object);
	assert_int_equal(direct_case_clusters(object), 2);
	direct_case_end(object);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_thick_one_is_direct_before_it_is_written),
		cmocka_unit_test(a_write_is_not_overtaken_by_zeroes),
		cmocka_unit_test(what_a_snapshot_shares_is_direct_again_later),
		cmocka_unit_test(only_the_cut_lies_within_a_freeze),
		cmocka_unit_test(what_is_only_prepared_has_its_runs),
		cmocka_unit_test(a_snapshot_under_a_writer_is_of_one_instant),
		cmocka_unit_test(a_cut_of_several_is_of_one_instant),
		cmocka_unit_test(a_hold_ends_with_the_pool),
		cmocka_unit_test(holds_of_several_threads_add_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
