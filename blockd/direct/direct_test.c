/* SPDX-License-Identifier: Apache-2.0 */
/* What a random model may miss: blockd/direct/direct.h, case by case. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "blockd/testkit/direct_kit.h"

static struct direct_kit kit;
static struct run run;

static void test_make(struct run *of)
{
	model_raw.make(of);
	direct_kit_init(&kit, of->path);
}

static int test_open(struct run *of)
{
	kit.dead = false;
	kit.fails_in = 0;
	return model_raw.open(of);
}

static void test_kill(struct run *of)
{
	kit.dead = true;
	model_raw.kill(of);
}

static void test_remove(struct run *of)
{
	direct_kit_done(&kit);
	model_raw.remove(of);
}

static const struct model_kind model_direct = {
	.exact = true,
	.make = test_make,
	.open = test_open,
	.kill = test_kill,
	.remove = test_remove,
};

static void see_nothing(void *context, const struct pool_found *found)
{
	(void)context;
	(void)found;
}

static void note_nothing(void *context, const char *text)
{
	(void)context;
	(void)text;
}

static const struct pool_visitor nobody = {see_nothing, note_nothing, NULL};

static struct direct *direct_of(void)
{
	return pool_raw_of(run.pool)->direct;
}

static struct raw_store *store_of(void)
{
	return pool_raw_of(run.pool)->store;
}

static uint32_t id_of(const struct object *object)
{
	return pool_raw_find(pool_raw_of(run.pool), object->record.name, NULL);
}

static void refresh(const struct object *object)
{
	MUST(&run, direct_refresh(direct_of(), id_of(object), &run.err));
}

static uint64_t clusters_of(const struct object *object)
{
	return direct_count(direct_of(), id_of(object)).clusters;
}

static void is_right(void)
{
	const char *wrong = direct_kit_wrong(&kit, &run);

	if (wrong)
		fail_msg("%s", wrong);
}

/* Requests do not wait for ever: the device was resumed. */
static void goes_on(struct object *object)
{
	model_check_blocks(&run, object, 0, 1, false);
}

/* An extent with a device, and two clusters that it has direct runs of. */
static struct object *direct_extent(bool thick)
{
	struct object *object;

	model_run_begin(&run, &model_direct, 1);
	object = model_extent_make(&run, thick);
	(void)direct_kit_attach(&kit, &run, object);
	model_write_at(&run, object, WRITE, 0, 32, BLOCKDEV_FUA);
	refresh(object);
	if (thick) /* zeroes are written ahead to the others */
		assert_true(clusters_of(object) >= 2);
	else
		assert_int_equal(clusters_of(object), 2);
	return object;
}

static void end(struct object *object)
{
	struct direct_kit_device *device = direct_kit_find(&kit, object);

	is_right();
	model_check_all(&run, object, false);
	if (device)
		direct_kit_detach(device, &run, object);
	model_check_all(&run, object, false);
	model_run_end(&run);
}

static void what_is_written_whole_goes_straight_to_the_medium(void **unused)
{
	struct object *object = direct_extent(false);
	uint64_t before = kit.direct_writes;

	(void)unused;
	model_write_at(&run, object, WRITE, 3, 20, 0);
	assert_true(kit.direct_writes > before);
	/* A write to a hole fills its cluster. Other holes stay. */
	model_write_at(&run, object, WRITE, 34, 3, 0);
	refresh(object);
	assert_int_equal(clusters_of(object), 3);
	end(object);
}

/* The part was written before the extent had a device. */
static void what_is_written_in_part_does_so_when_it_is_whole(void **unused)
{
	struct object *object;

	(void)unused;
	model_run_begin(&run, &model_direct, 1);
	object = model_extent_make(&run, false);
	model_write_at(&run, object, WRITE, 0, 8, 0);
	(void)direct_kit_attach(&kit, &run, object);
	refresh(object);
	assert_int_equal(clusters_of(object), 0);
	model_write_at(&run, object, WRITE, 8, 8, 0);
	refresh(object);
	assert_int_equal(clusters_of(object), 1);
	end(object);
}

/* The table of a removed or fenced device is no obstacle to a change. */
static void a_device_that_is_gone_holds_nothing_up(void **unused)
{
	struct object *object = direct_extent(false);
	struct direct_kit_device *device = direct_kit_find(&kit, object);

	(void)unused;
	device->gone = true;
	MUST(&run, direct_hold(direct_of(), id_of(object), 0, &run.err));
	assert_int_equal(clusters_of(object), 0);
	assert_int_equal(direct_release(direct_of(), id_of(object)), 0);
	refresh(object);
	assert_int_equal(clusters_of(object), 0);
	direct_runs_done(&device->live);
	device->gone = false;
	end(object);
}

/* What a snapshot waits for is not let go of by another call. */
static void a_frozen_device_is_not_detached(void **unused)
{
	struct object *object = direct_extent(false);

	(void)unused;
	MUST(&run,
	     direct_hold(direct_of(), id_of(object), DIRECT_FREEZE, &run.err));
	assert_int_equal(
		direct_detach(direct_of(), id_of(object), false, &run.err),
		-EAGAIN);
	assert_true(direct_kit_find(&kit, object)->suspended);
	assert_int_equal(direct_release(direct_of(), id_of(object)), 0);
	end(object);
}

static void a_hold_that_somebody_else_ends_is_told(void **unused)
{
	struct object *object = direct_extent(false);
	struct direct_kit_device *device = direct_kit_find(&kit, object);

	(void)unused;
	MUST(&run,
	     direct_hold(direct_of(), id_of(object), DIRECT_FREEZE, &run.err));
	(void)pthread_mutex_lock(&device->lock);
	direct_runs_done(&device->live);
	device->suspended = false;
	(void)pthread_mutex_unlock(&device->lock);
	assert_int_equal(direct_release(direct_of(), id_of(object)), -ESTALE);
	end(object);
}

/* Without being told. */
static void the_loader_adds_runs_by_itself(void **unused)
{
	struct object *object;

	(void)unused;
	model_run_begin(&run, &model_direct, 1);
	object = model_extent_make(&run, false);
	(void)direct_kit_attach(&kit, &run, object);
	model_write_at(&run, object, WRITE, 0, 32, 0);
	while (clusters_of(object) < 2)
		(void)usleep(1000);
	end(object);
}

/* ---- changes that would break the invariant ---- */

static int change(struct raw_record record)
{
	return raw_store_change(store_of(), &record, 1, NULL, &run.err);
}

static void a_change_of_a_cluster_in_a_table_is_refused(void **unused)
{
	struct object *object = direct_extent(false);
	struct object *other = model_extent_make(&run, false);
	const uint32_t id = id_of(object), other_id = id_of(other);
	uint32_t free_one;

	(void)unused;
	assert_int_equal(raw_store_take(store_of(), 1, RAW_HOLE, &free_one), 1);
	assert_int_equal(change((struct raw_record){.type = RAW_UNMAP,
						    .object = id,
						    .logical = 1,
						    .count = 8}),
			 -ETXTBSY);
	assert_int_equal(change((struct raw_record){.type = RAW_MAP,
						    .object = id,
						    .logical = 0,
						    .physical = free_one,
						    .count = 1}),
			 -ETXTBSY);
	assert_int_equal(
		change((struct raw_record){.type = RAW_DROP, .object = id}),
		-ETXTBSY);
	assert_int_equal(change((struct raw_record){.type = RAW_SHARE,
						    .object = other_id,
						    .from = id}),
			 -ETXTBSY);
	assert_int_equal(change((struct raw_record){.type = RAW_SHARE,
						    .object = id,
						    .from = other_id}),
			 -ETXTBSY);
	/* Elsewhere in the same map it is done. */
	assert_int_equal(change((struct raw_record){.type = RAW_UNMAP,
						    .object = id,
						    .logical = 2,
						    .count = 1}),
			 0);
	raw_store_untake(store_of(), free_one, 1);
	assert_int_equal(direct_count(direct_of(), id).refused, 5);
	end(object);
}

/* A request in flight, of which blockd does not know. */
static void set_in_flight(struct object *object, unsigned n)
{
	struct direct_kit_device *device = direct_kit_find(&kit, object);

	(void)pthread_mutex_lock(&device->lock);
	device->in_flight = n;
	(void)pthread_cond_broadcast(&device->changed);
	(void)pthread_mutex_unlock(&device->lock);
}

static void *hold_it(void *context)
{
	static struct error err;

	assert_int_equal(direct_hold(direct_of(), id_of(context), 0, &err), 0);
	return NULL;
}

static void *refresh_it(void *context)
{
	static struct error err;

	assert_int_equal(direct_refresh(direct_of(), id_of(context), &err), 0);
	return NULL;
}

static void wait_suspended(struct object *object)
{
	struct direct_kit_device *device = direct_kit_find(&kit, object);
	bool suspended = false;

	while (!suspended) {
		(void)pthread_mutex_lock(&device->lock);
		suspended = device->suspended;
		(void)pthread_mutex_unlock(&device->lock);
		(void)usleep(100);
	}
}

/* Clusters of the old table, and of the one that is being loaded. */
static void is_refused_until_what_is_in_flight_has_ended(void **unused)
{
	struct object *object = direct_extent(false);
	struct raw_record unmap = {
		.type = RAW_UNMAP, .object = id_of(object), .count = 1};
	struct raw_record unmap_new = unmap;
	pthread_t thread;

	(void)unused;
	unmap_new.logical = 2;
	MUST(&run, direct_hold(direct_of(), id_of(object), 0, &run.err));
	model_write_at(&run, object, WRITE, 32, 16, 0);
	set_in_flight(object, 1);
	(void)direct_release(direct_of(), id_of(object));
	assert_int_equal(pthread_create(&thread, NULL, refresh_it, object), 0);
	wait_suspended(object);
	assert_int_equal(change(unmap_new), -ETXTBSY);
	set_in_flight(object, 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(clusters_of(object), 3);

	set_in_flight(object, 1);
	assert_int_equal(pthread_create(&thread, NULL, hold_it, object), 0);
	wait_suspended(object);
	assert_int_equal(change(unmap), -ETXTBSY);
	set_in_flight(object, 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	is_right();
	assert_int_equal(change(unmap), 0);
	model_write_at(&run, object, ZERO, 0, 16, 0);
	direct_release(direct_of(), id_of(object));
	end(object);
}

/* Nobody is asked: the check of the invariant has to say so. */
static void the_check_sees_a_broken_invariant(void **unused)
{
	struct object *object = direct_extent(false), *other;
	const struct raw_record share = {.type = RAW_SHARE,
					 .from = id_of(object)};
	struct raw_record records[2] = {
		share,
		{.type = RAW_UNMAP, .object = id_of(object), .count = 1}};

	(void)unused;
	other = model_extent_make(&run, false);
	records[0].object = id_of(other);
	is_right();
	raw_store_guard(store_of(), NULL, NULL);
	assert_int_equal(change(records[0]), 0);
	assert_non_null(strstr(direct_kit_wrong(&kit, &run), "is shared"));
	assert_int_equal(change(records[1]), 0);
	assert_non_null(
		strstr(direct_kit_wrong(&kit, &run), "is not the map's"));
	/* The pool is not used any more: it is as no pool may be. */
	kit.dead = true;
	model_object_close(&run, object);
	model_object_close(&run, other);
	free(object->blocks);
	free(other->blocks);
	pool_close(run.pool);
	loop_stop(run.loop);
	assert_int_equal(pthread_join(run.thread, NULL), 0);
	loop_free(run.loop);
	test_remove(&run);
}

/* Requests of the device may be in flight meanwhile. */
static void zeroes_from_elsewhere_leave_a_cluster_where_it_is(void **unused)
{
	struct object *object;
	const bool thick[] = {false, true};

	(void)unused;
	for (size_t i = 0; i < 2; i++) {
		struct object below;

		object = direct_extent(thick[i]);
		below = *object;
		below.top = NULL;
		/* One in the table, then one that is not. */
		model_write_at(&run, &below, WRITE, 32, 16, 0);
		model_write_at(&run, &below, ZERO, 16, 32, 0);
		is_right();
		model_write_at(&run, &below, DISCARD, 0, 16, 0);
		is_right();
		/* The loader may have added the third one. */
		assert_true(clusters_of(object) >= 2);
		end(object);
	}
}

/* ---- snapshots ---- */

static struct object *snapshot_of(struct object *object)
{
	struct object *snap = model_empty_slot(&run);
	struct extent_record record;
	struct pool_copy copy = {object->record.name, &record};
	char cut[UUID_TEXT_SIZE];

	(void)uuid_make(cut);
	model_new_record(&run, &record, object->record.size);
	record.kind = EXTENT_KIND_SNAPSHOT;
	record.reserved = model_usage(&run, object).allocated;
	model_origin_set(&record, object, cut);
	MUST(&run,
	     run.pool->ops->copy(run.pool, &copy, 1, NULL, NULL, &run.err));
	model_settle(object);
	model_object_add(&run, snap, &record, object);
	return snap;
}

static void wait_for_clusters(struct object *object, uint64_t n)
{
	while (clusters_of(object) < n)
		(void)usleep(1000);
}

/* No cluster is anybody's yet: each has bytes that nobody may read. */
static void dirty_the_medium(void)
{
	const uint64_t start = raw_store_super(store_of())->data_start;
	auto_close int fd = open(run.path, O_WRONLY | O_CLOEXEC);
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
	model_run_begin(&run, &model_direct, 1);
	dirty_the_medium();
	object = model_extent_make(&run, true);
	(void)direct_kit_attach(&kit, &run, object);
	wait_for_clusters(object, object->record.size / CLUSTER);
	before = kit.direct_reads;
	model_check_all(&run, object, false);
	assert_true(kit.direct_reads > before);
	is_right();

	snap = snapshot_of(object);
	model_write_at(&run, object, WRITE, 0, 16, 0);
	model_check_all(&run, snap, false);
	end(object);
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
	model_run_begin(&run, &model_direct, 1);
	medium = &pool_raw_of(run.pool)->medium.medium;
	object = model_extent_make(&run, true);
	slow.ops = medium->ops;
	slow.data_start = raw_store_super(store_of())->data_start;
	medium->ops = &slow_ops;
	(void)direct_kit_attach(&kit, &run, object);
	while (!slow.began)
		(void)usleep(100);
	assert_int_equal(pthread_create(&thread, NULL, end_slow_write, NULL),
			 0);
	model_write_at(&run, object, WRITE, 2, 4, 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	wait_for_clusters(object, object->record.size / CLUSTER);
	end(object);
}

static void what_a_snapshot_shares_is_direct_again_later(void **unused)
{
	struct object *object = direct_extent(false);
	struct object *snap = snapshot_of(object);

	(void)unused;
	refresh(object);
	assert_int_equal(clusters_of(object), 0);
	/* As it is written. */
	model_write_at(&run, object, WRITE, 0, 16, 0);
	refresh(object);
	assert_int_equal(clusters_of(object), 1);
	model_write_at(&run, object, WRITE, 0, 16, 0);
	model_check_all(&run, snap, false);
	/* When the snapshot goes. */
	MUST(&run, run.pool->ops->begin_delete(run.pool, snap->record.name,
					       &run.err));
	model_object_close(&run, snap);
	MUST(&run, run.pool->ops->erase(run.pool, snap->record.name, &run.err));
	free(snap->blocks);
	*snap = (struct object){0};
	refresh(object);
	assert_int_equal(clusters_of(object), 2);
	end(object);
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
		uint32_t stamp = model_stamp_of(&run, data, i);

		newest = stamp > newest ? stamp : newest;
	}
	assert_in_range(newest, before, after + 1);
	for (uint32_t i = 0; i < RING; i++) {
		/* The last one of this block up to the newest. */
		uint32_t back = ((newest - 1) % RING + RING - i) % RING;
		uint32_t right = newest > back ? newest - back : 0;

		assert_int_equal(model_stamp_of(&run, data, i), right);
	}
	free(data);
	return newest;
}

static struct object *cut_frozen(struct object *object)
{
	struct object *snap = model_empty_slot(&run);
	struct extent_record record;
	struct pool_copy copy = {object->record.name, &record};
	char cut[UUID_TEXT_SIZE];

	(void)uuid_make(cut);
	model_new_record(&run, &record, object->record.size);
	record.kind = EXTENT_KIND_SNAPSHOT;
	model_origin_set(&record, object, cut);
	MUST(&run,
	     run.pool->ops->hold(run.pool, object->record.name, &run.err));
	assert_true(direct_kit_find(&kit, object)->suspended);
	MUST(&run,
	     run.pool->ops->copy(run.pool, &copy, 1, NULL, NULL, &run.err));
	assert_true(direct_kit_find(&kit, object)->suspended);
	assert_int_equal(run.pool->ops->release(run.pool, object->record.name),
			 0);
	model_object_add(&run, snap, &record, NULL);
	return snap;
}

static void drop(struct object *object)
{
	model_object_close(&run, object);
	MUST(&run, run.pool->ops->begin_delete(run.pool, object->record.name,
					       &run.err));
	MUST(&run,
	     run.pool->ops->erase(run.pool, object->record.name, &run.err));
	free(object->blocks);
	*object = (struct object){0};
}

static void a_snapshot_under_a_writer_is_of_one_instant(void **unused)
{
	struct object *object = direct_extent(false);
	struct writer writer = {.object = object};
	pthread_t thread;

	(void)unused;
	assert_int_equal(pthread_create(&thread, NULL, write_in_turn, &writer),
			 0);
	for (unsigned cuts = 0; cuts < 20; cuts++) {
		uint64_t direct = kit.direct_writes;
		struct object *snap;
		uint32_t before, after;

		/* Some of what is written goes straight to the medium. */
		while (kit.direct_writes < direct + RING) {
			refresh(object);
			is_right();
		}
		before = writer.written;
		snap = cut_frozen(object);
		after = writer.written;
		is_right();
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
	is_right();
	model_run_end(&run);
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
			assert_int_equal(direct_hold(direct_of(),
						     id_of(s->objects[k]),
						     DIRECT_FREEZE, &err),
					 0);
		for (size_t k = 2; k-- > 0;)
			assert_int_equal(direct_release(direct_of(),
							id_of(s->objects[k])),
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
		(void)direct_refresh(direct_of(), id_of(s->objects[k]), &err);
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
		model_new_record(&run, &records[k], s->objects[k]->record.size);
		records[k].kind = EXTENT_KIND_SNAPSHOT;
		model_origin_set(&records[k], s->objects[k], cut);
		copies[k] = (struct pool_copy){s->objects[k]->record.name,
					       &records[k]};
		MUST(&run,
		     run.pool->ops->hold(run.pool, copies[k].from, &run.err));
	}
	for (size_t k = 0; k < 2; k++)
		assert_int_equal(direct_detach(direct_of(),
					       id_of(s->objects[k]), false,
					       &run.err),
				 -EAGAIN);
	MUST(&run,
	     run.pool->ops->copy(run.pool, copies, 2, NULL, NULL, &run.err));
	for (size_t k = 0; k < 2; k++)
		assert_int_equal(
			run.pool->ops->release(run.pool, copies[k].from), 0);
	for (size_t k = 0; k < 2; k++) {
		snaps[k] = model_empty_slot(&run);
		model_object_add(&run, snaps[k], &records[k], NULL);
	}
}

/* Two cuts at once, tables being loaded, growth during a cut, and a writer. */
static void a_cut_of_several_is_of_one_instant(void **unused)
{
	static void *(*const work[])(void *) = {
		write_to_each, cut_in_the_other_order, load_tables};
	struct several s = {.objects = {direct_extent(false)}};
	pthread_t threads[array_size(work)] = {0};

	(void)unused;
	s.objects[1] = model_extent_make(&run, false);
	(void)direct_kit_attach(&kit, &run, s.objects[1]);
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
		is_right();
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
	is_right();
	model_run_end(&run);
}

/* The one that is opened next resumes the device: then it was not held. */
static void a_hold_ends_with_the_pool(void **unused)
{
	struct object *object = direct_extent(false);
	struct direct_kit_device *device = direct_kit_find(&kit, object);

	(void)unused;
	MUST(&run,
	     run.pool->ops->hold(run.pool, object->record.name, &run.err));
	assert_true(device->suspended);
	model_open_again(&run, false);
	goes_on(object);
	assert_int_equal(run.pool->ops->release(run.pool, object->record.name),
			 -ESTALE);
	end(object);
}

static void *hold_and_release(void *context)
{
	const uint32_t id = *(uint32_t *)context;
	struct error err;

	for (unsigned i = 0; i < 200; i++) {
		assert_int_equal(direct_hold(direct_of(), id,
					     i % 2 ? DIRECT_FREEZE : 0, &err),
				 0);
		assert_int_equal(direct_count(direct_of(), id).clusters, 0);
		direct_release(direct_of(), id);
	}
	return NULL;
}

/* Two cuts at once, and a table being loaded. */
static void holds_of_several_threads_add_up(void **unused)
{
	struct object *object = direct_extent(false);
	uint32_t id = id_of(object);
	pthread_t threads[2];

	(void)unused;
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL,
						hold_and_release, &id),
				 0);
	for (unsigned i = 0; i < 200; i++) {
		refresh(object);
		is_right();
		model_write_at(&run, object, WRITE, i % 16, 16, 0);
	}
	for (size_t i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	goes_on(object);
	refresh(object);
	assert_int_equal(clusters_of(object), 2);
	end(object);
}

/* ---- devices that fail, and a blockd that is killed ---- */

static void a_device_of_an_extent_is_one(void **unused)
{
	struct object *object = direct_extent(false);
	struct direct_kit_device *device = direct_kit_find(&kit, object);
	struct run second = run;

	(void)unused;
	/* The same one again, as another attachment would. */
	assert_int_equal(direct_kit_try_attach(device, &second, object),
			 -EEXIST);
	end(object);
}

/* Have no run in the table, so that the next refresh loads one. */
static int take_away(uint32_t id)
{
	int r = direct_hold(direct_of(), id, 0, &run.err);

	if (r == 0)
		direct_release(direct_of(), id);
	return r;
}

#define LOAD_CALLS 3u /* load, suspend, resume */

static void a_table_that_fails_leaves_the_old_one(void **unused)
{
	struct object *object = direct_extent(false);
	const uint32_t id = id_of(object);

	(void)unused;
	for (unsigned call = 1; call <= LOAD_CALLS; call++) {
		/* The loader may come first: then once more. */
		do {
			kit.fails_in = 0;
			MUST(&run, take_away(id));
			kit.fails_in = call;
			(void)direct_refresh(direct_of(), id, &run.err);
		} while (kit.fails_in);
		is_right();
		refresh(object);
		is_right();
		goes_on(object);
	}
	end(object);
}

/* A load, a table without runs, a load, and a cut of what is frozen. */
static void load_cut_load(struct object *object)
{
	const uint32_t id = id_of(object);

	(void)direct_refresh(direct_of(), id, &run.err);
	(void)take_away(id);
	(void)direct_refresh(direct_of(), id, &run.err);
	if (direct_hold(direct_of(), id, DIRECT_FREEZE, &run.err) < 0)
		return;
	(void)snapshot_of(object);
	direct_release(direct_of(), id);
}

static void erase_snapshots(void)
{
	for (size_t i = 0; i < OBJECTS; i++)
		if (model_is_there(&run.objects[i]) &&
		    model_is_snapshot(&run.objects[i]))
			model_erase(&run, &run.objects[i]);
	model_open_again(&run, false);
}

#define CALLS (4 * LOAD_CALLS)

/* At each call of a device: what is left is taken over or made good. */
static void a_kill_at_any_step_is_made_good(void **unused)
{
	struct object *object = direct_extent(false);

	(void)unused;
	for (unsigned call = 1; call <= CALLS; call++) {
		model_write_at(&run, object, WRITE, 16 * (call % 4), 32,
			       BLOCKDEV_FUA);
		/* When there were fewer calls than that: once more. */
		for (bool died = false; !died; died = kit.dead) {
			kit.dies_in = 0;
			erase_snapshots();
			kit.dies_in = call;
			load_cut_load(object);
		}
		kit.dies_in = 0;
		model_open_again(&run, true);
		is_right();
		goes_on(object);
	}
	erase_snapshots();
	end(object);
}

/* Also when the map had not been made durable by a flush. */
static void what_goes_straight_to_the_medium_survives_a_kill(void **unused)
{
	struct object *object = direct_extent(false);
	uint64_t direct = kit.direct_writes;

	(void)unused;
	model_write_at(&run, object, WRITE, 32, 16, 0);
	refresh(object);
	model_write_at(&run, object, WRITE, 32, 16, BLOCKDEV_FUA);
	assert_int_equal(kit.direct_writes, direct + 1);
	model_open_again(&run, true);
	assert_int_equal(clusters_of(object), 3);
	end(object);
}

/* A table that says what the map does not: it is not trusted. */
static void a_table_that_is_not_the_maps_is_taken_away(void **unused)
{
	struct object *object = direct_extent(false);
	struct direct_kit_device *device = direct_kit_find(&kit, object);

	(void)unused;
	device->live.items[0].physical++;
	model_open_again(&run, true);
	is_right();
	refresh(object);
	assert_int_equal(clusters_of(object), 2);
	end(object);
}

/* Then no map may be changed: the pool is not opened. */
static void a_table_that_stays_keeps_the_pool_closed(void **unused)
{
	struct object *object = direct_extent(false);
	struct direct_kit_device *device = direct_kit_find(&kit, object);

	(void)unused;
	device->live.items[0].physical++;
	model_object_close(&run, object);
	pool_close(run.pool);
	kit.dead = true;
	assert_int_equal(model_raw.open(&run), -EIO);
	device->live.items[0].physical--;
	MUST(&run, test_open(&run));
	assert_int_equal(run.pool->ops->load(run.pool, &nobody, &run.err), 0);
	model_object_open(&run, object);
	assert_int_equal(clusters_of(object), 2);
	end(object);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			what_is_written_whole_goes_straight_to_the_medium),
		cmocka_unit_test(
			what_is_written_in_part_does_so_when_it_is_whole),
		cmocka_unit_test(a_device_that_is_gone_holds_nothing_up),
		cmocka_unit_test(a_frozen_device_is_not_detached),
		cmocka_unit_test(a_hold_that_somebody_else_ends_is_told),
		cmocka_unit_test(the_loader_adds_runs_by_itself),
		cmocka_unit_test(a_change_of_a_cluster_in_a_table_is_refused),
		cmocka_unit_test(is_refused_until_what_is_in_flight_has_ended),
		cmocka_unit_test(a_thick_one_is_direct_before_it_is_written),
		cmocka_unit_test(a_write_is_not_overtaken_by_zeroes),
		cmocka_unit_test(the_check_sees_a_broken_invariant),
		cmocka_unit_test(
			zeroes_from_elsewhere_leave_a_cluster_where_it_is),
		cmocka_unit_test(what_a_snapshot_shares_is_direct_again_later),
		cmocka_unit_test(a_snapshot_under_a_writer_is_of_one_instant),
		cmocka_unit_test(a_cut_of_several_is_of_one_instant),
		cmocka_unit_test(a_hold_ends_with_the_pool),
		cmocka_unit_test(holds_of_several_threads_add_up),
		cmocka_unit_test(a_device_of_an_extent_is_one),
		cmocka_unit_test(a_table_that_fails_leaves_the_old_one),
		cmocka_unit_test(a_kill_at_any_step_is_made_good),
		cmocka_unit_test(
			what_goes_straight_to_the_medium_survives_a_kill),
		cmocka_unit_test(a_table_that_is_not_the_maps_is_taken_away),
		cmocka_unit_test(a_table_that_stays_keeps_the_pool_closed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
