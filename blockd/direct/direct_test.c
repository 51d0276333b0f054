/* SPDX-License-Identifier: Apache-2.0 */
/* What a random model may miss: blockd/direct/direct.h, case by case. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "blockd/testkit/direct_case.h"

static void what_is_written_whole_goes_straight_to_the_medium(void **unused)
{
	struct object *object = direct_case_begin(false);
	uint64_t before = direct_case_kit.direct_writes;

	(void)unused;
	model_write_at(&direct_case_run, object, WRITE, 3, 20, 0);
	assert_true(direct_case_kit.direct_writes > before);
	/* A write to a hole fills its cluster. Other holes stay. */
	model_write_at(&direct_case_run, object, WRITE, 34, 3, 0);
	direct_case_refresh(object);
	assert_int_equal(direct_case_clusters(object), 3);
	direct_case_end(object);
}

/* The part was written before the extent had a device. */
static void what_is_written_in_part_does_so_when_it_is_whole(void **unused)
{
	struct object *object;

	(void)unused;
	model_run_begin(&direct_case_run, &direct_case_pool, 1);
	object = model_extent_make(&direct_case_run, false);
	model_write_at(&direct_case_run, object, WRITE, 0, 8, 0);
	(void)direct_kit_attach(&direct_case_kit, &direct_case_run, object);
	direct_case_refresh(object);
	assert_int_equal(direct_case_clusters(object), 0);
	model_write_at(&direct_case_run, object, WRITE, 8, 8, 0);
	direct_case_refresh(object);
	assert_int_equal(direct_case_clusters(object), 1);
	direct_case_end(object);
}

/* The table of a removed or fenced device is no obstacle to a change. */
static void a_device_that_is_gone_holds_nothing_up(void **unused)
{
	struct object *object = direct_case_begin(false);
	struct direct_kit_device *device = direct_kit_find(&direct_case_kit,
							   object);

	(void)unused;
	device->gone = true;
	MUST(&direct_case_run,
	     direct_hold(direct_case_direct(), direct_case_id(object),
			 &direct_case_run.err));
	assert_int_equal(direct_case_clusters(object), 0);
	assert_int_equal(
		direct_release(direct_case_direct(), direct_case_id(object)),
		0);
	direct_case_refresh(object);
	assert_int_equal(direct_case_clusters(object), 0);
	direct_runs_done(&device->live);
	device->gone = false;
	direct_case_end(object);
}

/* What a snapshot waits for is not let go of by another call. */
static void a_frozen_device_is_not_detached(void **unused)
{
	struct object *object = direct_case_begin(false);

	(void)unused;
	MUST(&direct_case_run,
	     direct_kit_freeze(direct_case_direct(), direct_case_id(object),
			       &direct_case_run.err));
	assert_int_equal(direct_detach(direct_case_direct(),
				       direct_case_id(object), false,
				       &direct_case_run.err),
			 -EAGAIN);
	assert_true(direct_kit_find(&direct_case_kit, object)->suspended);
	assert_int_equal(
		direct_release(direct_case_direct(), direct_case_id(object)),
		0);
	direct_case_end(object);
}

static void a_hold_that_somebody_else_ends_is_told(void **unused)
{
	struct object *object = direct_case_begin(false);
	struct direct_kit_device *device = direct_kit_find(&direct_case_kit,
							   object);

	(void)unused;
	MUST(&direct_case_run,
	     direct_kit_freeze(direct_case_direct(), direct_case_id(object),
			       &direct_case_run.err));
	(void)pthread_mutex_lock(&device->lock);
	direct_runs_done(&device->live);
	device->suspended = false;
	(void)pthread_mutex_unlock(&device->lock);
	assert_int_equal(
		direct_release(direct_case_direct(), direct_case_id(object)),
		-ESTALE);
	direct_case_end(object);
}

/* Without being told. */
static void the_loader_adds_runs_by_itself(void **unused)
{
	struct object *object;

	(void)unused;
	model_run_begin(&direct_case_run, &direct_case_pool, 1);
	object = model_extent_make(&direct_case_run, false);
	(void)direct_kit_attach(&direct_case_kit, &direct_case_run, object);
	model_write_at(&direct_case_run, object, WRITE, 0, 32, 0);
	while (direct_case_clusters(object) < 2)
		(void)usleep(1000);
	direct_case_end(object);
}

/* ---- changes that would break the invariant ---- */

static int change(struct raw_record record)
{
	return raw_store_change(direct_case_store(), &record, 1, NULL,
				&direct_case_run.err);
}

static void a_change_of_a_cluster_in_a_table_is_refused(void **unused)
{
	struct object *object = direct_case_begin(false);
	struct object *other = model_extent_make(&direct_case_run, false);
	const uint32_t id = direct_case_id(object),
		       other_id = direct_case_id(other);
	uint32_t free_one;

	(void)unused;
	assert_int_equal(
		raw_store_take(direct_case_store(), 1, RAW_HOLE, &free_one), 1);
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
	raw_store_untake(direct_case_store(), free_one, 1);
	assert_int_equal(direct_count(direct_case_direct(), id).refused, 5);
	direct_case_end(object);
}

/* A request in flight, of which blockd does not know. */
static void set_in_flight(struct object *object, unsigned n)
{
	struct direct_kit_device *device = direct_kit_find(&direct_case_kit,
							   object);

	(void)pthread_mutex_lock(&device->lock);
	device->in_flight = n;
	(void)pthread_cond_broadcast(&device->changed);
	(void)pthread_mutex_unlock(&device->lock);
}

static void *hold_it(void *context)
{
	static struct error err;

	assert_int_equal(direct_hold(direct_case_direct(),
				     direct_case_id(context), &err),
			 0);
	return NULL;
}

static void *refresh_it(void *context)
{
	static struct error err;

	assert_int_equal(direct_refresh(direct_case_direct(),
					direct_case_id(context), &err),
			 0);
	return NULL;
}

static void wait_suspended(struct object *object)
{
	struct direct_kit_device *device = direct_kit_find(&direct_case_kit,
							   object);
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
	struct object *object = direct_case_begin(false);
	struct raw_record unmap = {.type = RAW_UNMAP,
				   .object = direct_case_id(object),
				   .count = 1};
	struct raw_record unmap_new = unmap;
	pthread_t thread;

	(void)unused;
	unmap_new.logical = 2;
	MUST(&direct_case_run,
	     direct_hold(direct_case_direct(), direct_case_id(object),
			 &direct_case_run.err));
	model_write_at(&direct_case_run, object, WRITE, 32, 16, 0);
	set_in_flight(object, 1);
	(void)direct_release(direct_case_direct(), direct_case_id(object));
	assert_int_equal(pthread_create(&thread, NULL, refresh_it, object), 0);
	wait_suspended(object);
	assert_int_equal(change(unmap_new), -ETXTBSY);
	set_in_flight(object, 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(direct_case_clusters(object), 3);

	set_in_flight(object, 1);
	assert_int_equal(pthread_create(&thread, NULL, hold_it, object), 0);
	wait_suspended(object);
	assert_int_equal(change(unmap), -ETXTBSY);
	set_in_flight(object, 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	direct_case_verify();
	assert_int_equal(change(unmap), 0);
	model_write_at(&direct_case_run, object, ZERO, 0, 16, 0);
	direct_release(direct_case_direct(), direct_case_id(object));
	direct_case_end(object);
}

/* Nobody is asked: the check of the invariant has to say so. */
static void the_check_sees_a_broken_invariant(void **unused)
{
	struct object *object = direct_case_begin(false), *other;
	const struct raw_record share = {.type = RAW_SHARE,
					 .from = direct_case_id(object)};
	struct raw_record records[2] = {share,
					{.type = RAW_UNMAP,
					 .object = direct_case_id(object),
					 .count = 1}};

	(void)unused;
	other = model_extent_make(&direct_case_run, false);
	records[0].object = direct_case_id(other);
	direct_case_verify();
	raw_store_guard(direct_case_store(), NULL, NULL);
	assert_int_equal(change(records[0]), 0);
	assert_non_null(
		strstr(direct_kit_wrong(&direct_case_kit, &direct_case_run),
		       "is shared"));
	assert_int_equal(change(records[1]), 0);
	assert_non_null(
		strstr(direct_kit_wrong(&direct_case_kit, &direct_case_run),
		       "is not the map's"));
	/* The pool is not used any more: it is as no pool may be. */
	direct_case_kit.dead = true;
	model_object_close(&direct_case_run, object);
	model_object_close(&direct_case_run, other);
	free(object->blocks);
	free(other->blocks);
	pool_close(direct_case_run.pool);
	loop_stop(direct_case_run.loop);
	assert_int_equal(pthread_join(direct_case_run.thread, NULL), 0);
	loop_free(direct_case_run.loop);
	direct_case_pool.remove(&direct_case_run);
}

/* Requests of the device may be in flight meanwhile. */
static void zeroes_from_elsewhere_leave_a_cluster_where_it_is(void **unused)
{
	struct object *object;
	const bool thick[] = {false, true};

	(void)unused;
	for (size_t i = 0; i < 2; i++) {
		struct object below;

		object = direct_case_begin(thick[i]);
		below = *object;
		below.top = NULL;
		/* One in the table, then one that is not. */
		model_write_at(&direct_case_run, &below, WRITE, 32, 16, 0);
		model_write_at(&direct_case_run, &below, ZERO, 16, 32, 0);
		direct_case_verify();
		model_write_at(&direct_case_run, &below, DISCARD, 0, 16, 0);
		direct_case_verify();
		/* The loader may have added the third one. */
		assert_true(direct_case_clusters(object) >= 2);
		direct_case_end(object);
	}
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
		cmocka_unit_test(the_check_sees_a_broken_invariant),
		cmocka_unit_test(
			zeroes_from_elsewhere_leave_a_cluster_where_it_is),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
