/* SPDX-License-Identifier: Apache-2.0 */
/* Devices of extents that fail, and a blockd that is killed. */
#include <errno.h>
#include <fcntl.h>

#include "blockd/testkit/direct_case.h"

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

static void a_device_of_an_extent_is_one(void **unused)
{
	struct object *object = direct_case_begin(false);
	struct direct_kit_device *device = direct_kit_find(&direct_case_kit,
							   object);
	struct run second = direct_case_run;

	(void)unused;
	/* The same one again, as another attachment would. */
	assert_int_equal(direct_kit_try_attach(device, &second, object),
			 -EEXIST);
	direct_case_end(object);
}

/* Have no run in the table, so that the next refresh loads one. */
static int take_away(uint32_t id)
{
	int r = direct_hold(direct_case_direct(), id, &direct_case_run.err);

	if (r == 0)
		direct_release(direct_case_direct(), id);
	return r;
}

#define LOAD_CALLS 3u /* load, suspend, resume */

static void a_table_that_fails_leaves_the_old_one(void **unused)
{
	struct object *object = direct_case_begin(false);
	const uint32_t id = direct_case_id(object);

	(void)unused;
	for (unsigned call = 1; call <= LOAD_CALLS; call++) {
		/* The loader may come first: then once more. */
		do {
			direct_case_kit.fails_in = 0;
			MUST(&direct_case_run, take_away(id));
			direct_case_kit.fails_in = call;
			(void)direct_refresh(direct_case_direct(), id,
					     &direct_case_run.err);
		} while (direct_case_kit.fails_in);
		direct_case_verify();
		direct_case_refresh(object);
		direct_case_verify();
		direct_case_goes_on(object);
	}
	direct_case_end(object);
}

/* A load, a table without runs, a load, and a cut of what is frozen. */
static void load_cut_load(struct object *object)
{
	const uint32_t id = direct_case_id(object);

	(void)direct_refresh(direct_case_direct(), id, &direct_case_run.err);
	(void)take_away(id);
	(void)direct_refresh(direct_case_direct(), id, &direct_case_run.err);
	if (direct_kit_freeze(direct_case_direct(), id, &direct_case_run.err) <
	    0)
		return;
	(void)direct_case_snapshot(object);
	direct_release(direct_case_direct(), id);
}

static void erase_snapshots(void)
{
	for (size_t i = 0; i < OBJECTS; i++)
		if (model_is_there(&direct_case_run.objects[i]) &&
		    model_is_snapshot(&direct_case_run.objects[i]))
			model_erase(&direct_case_run,
				    &direct_case_run.objects[i]);
	model_open_again(&direct_case_run, false);
}

#define CALLS (4 * LOAD_CALLS)

/* At each call of a device: what is left is taken over or made good. */
static void a_kill_at_any_step_is_made_good(void **unused)
{
	struct object *object = direct_case_begin(false);

	(void)unused;
	for (unsigned call = 1; call <= CALLS; call++) {
		model_write_at(&direct_case_run, object, WRITE, 16 * (call % 4),
			       32, BLOCKDEV_FUA);
		/* When there were fewer calls than that: once more. */
		for (bool died = false; !died; died = direct_case_kit.dead) {
			direct_case_kit.dies_in = 0;
			erase_snapshots();
			direct_case_kit.dies_in = call;
			load_cut_load(object);
		}
		direct_case_kit.dies_in = 0;
		model_open_again(&direct_case_run, true);
		direct_case_verify();
		direct_case_goes_on(object);
	}
	erase_snapshots();
	direct_case_end(object);
}

/* Also when the map had not been made durable by a flush. */
static void what_goes_straight_to_the_medium_survives_a_kill(void **unused)
{
	struct object *object = direct_case_begin(false);
	uint64_t direct = direct_case_kit.direct_writes;

	(void)unused;
	model_write_at(&direct_case_run, object, WRITE, 32, 16, 0);
	direct_case_refresh(object);
	model_write_at(&direct_case_run, object, WRITE, 32, 16, BLOCKDEV_FUA);
	assert_int_equal(direct_case_kit.direct_writes, direct + 1);
	model_open_again(&direct_case_run, true);
	assert_int_equal(direct_case_clusters(object), 3);
	direct_case_end(object);
}

/* A table that says what the map does not: it is not trusted. */
static void a_table_that_is_not_the_maps_is_taken_away(void **unused)
{
	struct object *object = direct_case_begin(false);
	struct direct_kit_device *device = direct_kit_find(&direct_case_kit,
							   object);

	(void)unused;
	device->live.items[0].physical++;
	model_open_again(&direct_case_run, true);
	direct_case_verify();
	direct_case_refresh(object);
	assert_int_equal(direct_case_clusters(object), 2);
	direct_case_end(object);
}

/* Then no map may be changed: the pool is not opened. */
static void a_table_that_stays_keeps_the_pool_closed(void **unused)
{
	struct object *object = direct_case_begin(false);
	struct direct_kit_device *device = direct_kit_find(&direct_case_kit,
							   object);

	(void)unused;
	device->live.items[0].physical++;
	model_object_close(&direct_case_run, object);
	pool_close(direct_case_run.pool);
	direct_case_kit.dead = true;
	assert_int_equal(model_raw.open(&direct_case_run), -EIO);
	device->live.items[0].physical--;
	MUST(&direct_case_run, direct_case_pool.open(&direct_case_run));
	assert_int_equal(direct_case_run.pool->ops->load(direct_case_run.pool,
							 &nobody,
							 &direct_case_run.err),
			 0);
	model_object_open(&direct_case_run, object);
	assert_int_equal(direct_case_clusters(object), 2);
	direct_case_end(object);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
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
