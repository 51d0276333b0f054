/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/testkit/store_test_kit.h"

#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "base/uuid_name.h"
#include "volume/op/store_open.h"

struct scene scene;

int scene_prepare(void **state)
{
	(void)state;
	scene.prepared = test_server_prepare(&scene.server);
	return 0;
}

int scene_remove(void **state)
{
	(void)state;
	test_server_remove(&scene.server);
	return 0;
}

int scene_begin(void **state)
{
	(void)state;
	strcpy(scene.directory, "/tmp/store-test.XXXXXX");
	if (!mkdtemp(scene.directory))
		return -1;
	(void)snprintf(scene.local, sizeof(scene.local), "local:%s/records.db",
		       scene.directory);
	if (scene.prepared) {
		test_server_start(&scene.server);
		(void)test_server_count(&scene.server, "", "");
	}
	return 0;
}

int scene_end(void **state)
{
	static const char *const files[] = {"", "-wal", "-shm"};
	char name[128];

	(void)state;
	test_server_stop(&scene.server);
	test_server_write(&scene.server, "faults", "");
	test_server_write(&scene.server, "clock", "0");
	for (size_t i = 0; i < array_size(files); i++) {
		(void)snprintf(name, sizeof(name), "%s/records.db%s",
			       scene.directory, files[i]);
		(void)unlink(name);
	}
	return rmdir(scene.directory);
}

/* ---- the fake server's store ---- */

struct store *scene_open_as(const char *context)
{
	struct store *store = NULL;
	struct error err = {0};
	char location[256];

	if (!scene.prepared)
		skip();
	(void)snprintf(location, sizeof(location), "%s,context=%s",
		       scene.server.location, context);
	if (store_open(location, &store, &err) < 0)
		fail_msg("%s", err.msg);
	return store;
}

struct store *scene_open(void)
{
	return scene_open_as("token");
}

/* ---- records ---- */

struct volume_record *scene_volume(const char *name, const char *node)
{
	struct volume_record *record = volume_record_new();

	assert_non_null(record);
	(void)snprintf(record->name, sizeof(record->name), "%s", name);
	(void)uuid_make(record->uid);
	record->created_s = 1768000000;
	record->spec.capacity = 64 * MIB;
	assert_int_equal(volume_spec_check(&record->spec, NULL), 0);
	record->splits = calloc(1, sizeof(*record->splits));
	assert_non_null(record->splits);
	record->n_splits = 1;
	record->splits[0].size = record->spec.capacity;
	(void)snprintf(record->splits[0].node, RECORD_NAME_SIZE, "%s", node);
	strcpy(record->splits[0].pool, "p");
	strcpy(record->splits[0].extent, "e-0");
	(void)uuid_make(record->splits[0].fs_uuid);
	return record;
}

int scene_create(struct store *store, struct volume_record *record,
		 struct error *err)
{
	auto_free char *json = NULL;

	assert_int_equal(volume_record_encode(record, &json, err), 0);
	return store->ops->create(store, RECORD_KIND_VOLUME, record->name, json,
				  record->resource_version, err);
}

int scene_swap(struct store *store, struct volume_record *record,
	       struct error *err)
{
	auto_free char *json = NULL;

	assert_int_equal(volume_record_encode(record, &json, err), 0);
	return store->ops->compare_and_swap(
		store, RECORD_KIND_VOLUME, record->name,
		record->resource_version, json, record->resource_version, err);
}

struct volume_record *scene_read(struct store *store, const char *name)
{
	struct volume_record *record = NULL;
	struct store_object object;
	struct error err = {0};

	if (store->ops->get(store, RECORD_KIND_VOLUME, name, &object, &err) < 0)
		fail_msg("%s", err.msg);
	if (volume_record_decode(object.json, object.length, &record, &err) < 0)
		fail_msg("%s", err.msg);
	assert_string_equal(record->resource_version, object.version);
	store_object_done(&object);
	return record;
}

int scene_delete(struct store *store, const char *name)
{
	return store->ops->remove(store, RECORD_KIND_VOLUME, name, NULL, NULL);
}

void scene_same(struct volume_record *a, struct volume_record *b)
{
	auto_free char *json_a = NULL, *json_b = NULL;
	struct json_object *object_a, *object_b;

	a->created_s = b->created_s;
	strcpy(a->resource_version, b->resource_version);
	assert_int_equal(volume_record_encode(a, &json_a, NULL), 0);
	assert_int_equal(volume_record_encode(b, &json_b, NULL), 0);
	/* A server may put members in another order. */
	object_a = json_tokener_parse(json_a);
	object_b = json_tokener_parse(json_b);
	if (!json_object_equal(object_a, object_b))
		assert_string_equal(json_a, json_b);
	json_object_put(object_a);
	json_object_put(object_b);
}
