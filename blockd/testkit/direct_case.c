/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/testkit/direct_case.h"

#include <stdlib.h>

struct direct_kit direct_case_kit;
struct run direct_case_run;

static void test_make(struct run *of)
{
	model_raw.make(of);
	direct_kit_init(&direct_case_kit, of->path);
}

static int test_open(struct run *of)
{
	direct_case_kit.dead = false;
	direct_case_kit.fails_in = 0;
	return model_raw.open(of);
}

static void test_kill(struct run *of)
{
	direct_case_kit.dead = true;
	model_raw.kill(of);
}

static void test_remove(struct run *of)
{
	direct_kit_done(&direct_case_kit);
	model_raw.remove(of);
}

const struct model_kind direct_case_pool = {
	.exact = true,
	.make = test_make,
	.open = test_open,
	.kill = test_kill,
	.remove = test_remove,
};

struct direct *direct_case_direct(void)
{
	return pool_raw_of(direct_case_run.pool)->direct;
}

struct raw_store *direct_case_store(void)
{
	return pool_raw_of(direct_case_run.pool)->store;
}

uint32_t direct_case_id(const struct object *object)
{
	return pool_raw_find(pool_raw_of(direct_case_run.pool),
			     object->record.name, NULL);
}

void direct_case_refresh(const struct object *object)
{
	MUST(&direct_case_run,
	     direct_refresh(direct_case_direct(), direct_case_id(object),
			    &direct_case_run.err));
}

uint64_t direct_case_clusters(const struct object *object)
{
	return direct_count(direct_case_direct(), direct_case_id(object))
		.clusters;
}

void direct_case_verify(void)
{
	const char *wrong = direct_kit_wrong(&direct_case_kit,
					     &direct_case_run);

	if (wrong)
		fail_msg("%s", wrong);
}

/* Requests do not wait for ever: the device was resumed. */
void direct_case_goes_on(struct object *object)
{
	model_check_blocks(&direct_case_run, object, 0, 1, false);
}

/* An extent with a device, and two clusters that it has direct runs of. */
struct object *direct_case_begin(bool thick)
{
	struct object *object;

	model_run_begin(&direct_case_run, &direct_case_pool, 1);
	object = model_extent_make(&direct_case_run, thick);
	(void)direct_kit_attach(&direct_case_kit, &direct_case_run, object);
	model_write_at(&direct_case_run, object, WRITE, 0, 32, BLOCKDEV_FUA);
	direct_case_refresh(object);
	if (thick) /* zeroes are written ahead to the others */
		assert_true(direct_case_clusters(object) >= 2);
	else
		assert_int_equal(direct_case_clusters(object), 2);
	return object;
}

void direct_case_end(struct object *object)
{
	struct direct_kit_device *device = direct_kit_find(&direct_case_kit,
							   object);

	direct_case_verify();
	model_check_all(&direct_case_run, object, false);
	if (device)
		direct_kit_detach(device, &direct_case_run, object);
	model_check_all(&direct_case_run, object, false);
	model_run_end(&direct_case_run);
}

void direct_case_snapshot_record(struct object *object,
				 struct extent_record *ret)
{
	char cut[UUID_TEXT_SIZE];

	(void)uuid_make(cut);
	model_new_record(&direct_case_run, ret, object->record.size);
	ret->kind = EXTENT_KIND_SNAPSHOT;
	model_origin_set(ret, object, cut);
}

struct object *direct_case_snapshot(struct object *object)
{
	struct object *snap = model_empty_slot(&direct_case_run);
	struct extent_record record;
	struct pool_copy copy = {object->record.name, &record};

	direct_case_snapshot_record(object, &record);
	record.reserved = model_usage(&direct_case_run, object).allocated;
	MUST(&direct_case_run,
	     direct_case_run.pool->ops->copy(direct_case_run.pool, &copy, 1,
					     NULL, NULL, &direct_case_run.err));
	model_settle(object);
	model_object_add(&direct_case_run, snap, &record, object);
	return snap;
}
