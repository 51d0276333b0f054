/* SPDX-License-Identifier: Apache-2.0 */
/* What the store of a cluster keeps, and how. */
#include "volume/testkit/store_test_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/size.h"
#include "base/uuid_name.h"
#include "volume/record/node.h"
#include "volume/record/snapshot_record.h"
#include "volume/testkit/store_conformance.h"

/* Every member that a record can have. */
static void volume_fill(struct volume_record *record)
{
	struct volume_attachment *a;

	assert_int_equal(labels_set(&record->labels, "app", "db", NULL), 0);
	assert_int_equal(labels_set(&record->labels, "a.b/c", "", NULL), 0);
	assert_int_equal(
		labels_set(&record->labels, "not/one/word", "x y", NULL), 0);
	strcpy(record->spec.policy, "epmfs");
	strcpy(record->spec.transport, "fuse");
	record->spec.min_splits = 1;
	record->spec.max_splits = 9;
	record->spec.max_extent = GIB;
	record->spec.share_pools = true;
	assert_int_equal(name_list_add(&record->spec.nodes, "n1", NULL), 0);
	assert_int_equal(name_list_add(&record->spec.exclude, "n9", NULL), 0);
	assert_int_equal(
		labels_set(&record->spec.node_labels, "zone", "a b", NULL), 0);
	record->spec.source.kind = VOLUME_SOURCE_SNAPSHOT;
	strcpy(record->spec.source.name, "s");
	(void)uuid_make(record->spec.source.uid);
	record->spec.limits.iops = 100;
	record->spec.limits.bytes_per_second = MIB;
	record->phase = VOLUME_REVERTING;
	strcpy(record->reverted, "s");
	(void)uuid_make(record->reverted_uid);
	record->epoch = 1;
	record->splits[0].state = SPLIT_READY;
	strcpy(record->splits[0].source, "snap.1-0");
	(void)uuid_make(record->splits[0].source_id);
	record->splits[0].source_state = SPLIT_READY;
	record->splits[0].grow_to = record->splits[0].size + MIB;
	record->splits[0].fs_behind = true;
	(void)uuid_make(record->splits[0].extent_id);
	record->splits[0].move = (struct split_move){
		.node = "n3",
		.pool = "p",
		.extent = "old",
		.copied = 8192,
		.left = true,
	};
	(void)uuid_make(record->splits[0].move.extent_id);
	assert_int_equal(volume_record_attach(record, "n2", &a, NULL), 0);
	a->epoch = 1;
	a->read_only = true;
	a->published = true;
	a->shared = true;
	strcpy(a->note, "SINGLE \xc3\xa9 {}");
	a->since_s = 1768000100;
	strcpy(a->mount_point, "/mnt/\xc3\xa9 'x'");
	assert_int_equal(volume_record_attach(record, "n3", &a, NULL), 0);
	a->state = ATTACHMENT_PUBLISHED;
	a->read_only = true;
	a->published = true;
	a->shared = true;
	assert_int_equal(volume_record_condition(record, "Ready", true, "Word",
						 "a \"sentence\""),
			 0);
}

static void the_kube_store_conforms(void **state)
{
	(void)state;
	if (!scene.prepared)
		skip();
	store_conformance(scene.server.location);
}

static void every_member_of_a_record_fits_the_schema(void **state)
{
	struct store *store = scene_open();
	struct volume_record *record = scene_volume("full", "n1"), *read;
	struct error err = {0};

	(void)state;
	volume_fill(record);
	if (scene_create(store, record, &err) < 0)
		fail_msg("%s", err.msg);
	read = scene_read(store, "full");
	scene_same(record, read);
	volume_record_free(read);

	/* Labels come and go; both sorts. */
	labels_done(&record->labels);
	assert_int_equal(labels_set(&record->labels, "x", "y", NULL), 0);
	assert_int_equal(scene_swap(store, record, NULL), 0);
	read = scene_read(store, "full");
	scene_same(record, read);
	volume_record_free(read);
	volume_record_free(record);
	store_close(store);
}

static void a_node_with_every_member_fits_the_schema(void **state)
{
	struct store *store = scene_open();
	struct node_record node = {
		.name = "n.1",
		.control_address = "tcp:[fd00::1]:7000",
		.data_address = "n1.example:10809",
		.initiators = {"10.0.0.1", "fd00::2"},
		.n_initiators = 2,
		.tls_ca_file = "/a",
		.tls_cert_file = "/b",
		.tls_key_file = "/c",
		.tls_server_name = "n1",
	};
	struct node_record read;
	struct store_object object;
	auto_free char *json = NULL, *again = NULL;

	(void)state;
	(void)uuid_make(node.uid);
	assert_int_equal(labels_set(&node.labels, "zone", "a", NULL), 0);
	assert_int_equal(node_record_encode(&node, &json, NULL), 0);
	assert_int_equal(store->ops->create(store, RECORD_KIND_NODE, "n.1",
					    json, NULL, NULL),
			 0);
	assert_int_equal(
		store->ops->get(store, RECORD_KIND_NODE, "n.1", &object, NULL),
		0);
	assert_int_equal(
		node_record_decode(object.json, object.length, &read, NULL), 0);
	read.created_s = node.created_s;
	read.resource_version[0] = '\0';
	assert_int_equal(node_record_encode(&read, &again, NULL), 0);
	free(json);
	assert_int_equal(node_record_encode(&node, &json, NULL), 0);
	assert_string_equal(again, json);
	store_object_done(&object);
	node_record_done(&read);
	node_record_done(&node);
	store_close(store);
}

/* Returned owned, in the order in which we write it. */
static char *rewritten(const char *kind, const char *json)
{
	struct snapshot_record *snapshot = NULL;
	struct group_record *group = NULL;
	char *text = NULL;

	if (strcmp(kind, RECORD_KIND_SNAPSHOT) == 0) {
		assert_int_equal(snapshot_record_decode(json, strlen(json),
							&snapshot, NULL),
				 0);
		snapshot->created_s = 1;
		snapshot->resource_version[0] = '\0';
		assert_int_equal(snapshot_record_encode(snapshot, &text, NULL),
				 0);
	} else {
		assert_int_equal(
			group_record_decode(json, strlen(json), &group, NULL),
			0);
		group->created_s = 1;
		group->resource_version[0] = '\0';
		assert_int_equal(group_record_encode(group, &text, NULL), 0);
	}
	snapshot_record_free(snapshot);
	group_record_free(group);
	return text;
}

/* Through the schemas of deploy/crd, which drop what they do not know. */
static void snapshots_come_back_whole(void **state)
{
	static const char *const kinds[][3] = {
		{RECORD_KIND_SNAPSHOT, "s", "snapshot"},
		{RECORD_KIND_GROUP, "g", "group"},
	};
	struct store *store = scene_open();

	(void)state;
	for (size_t i = 0; i < array_size(kinds); i++) {
		auto_free char *path = NULL, *json = NULL, *a = NULL, *b = NULL;
		struct store_object object;
		struct error err = {0};
		size_t length;

		assert_true(asprintf(&path,
				     "tests/corpus/snapshot_record_fuzz/%s",
				     kinds[i][2]) > 0);
		assert_int_equal(file_read(AT_FDCWD, path, 1 << 16, &json,
					   &length, NULL),
				 0);
		if (store->ops->create(store, kinds[i][0], kinds[i][1], json,
				       NULL, &err) < 0)
			fail_msg("%s", err.msg);
		assert_int_equal(store->ops->get(store, kinds[i][0],
						 kinds[i][1], &object, NULL),
				 0);
		a = rewritten(kinds[i][0], json);
		b = rewritten(kinds[i][0], object.json);
		assert_string_equal(a, b);
		store_object_done(&object);
		assert_int_equal(store->ops->remove(store, kinds[i][0],
						    kinds[i][1], NULL, NULL),
				 0);
	}
	store_close(store);
}

static void what_the_schema_refuses_is_invalid(void **state)
{
	static const char bad[] =
		"{\"apiVersion\":\"union.io/v1alpha1\",\"kind\":\"VolumeSplit\","
		"\"metadata\":{\"name\":\"bad\"},"
		"\"spec\":{\"capacity\":1,\"layout\":\"union\","
		"\"fsType\":\"ext4\"}}";
	struct store *store = scene_open();
	struct error err = {0};

	(void)state;
	assert_int_equal(store->ops->create(store, RECORD_KIND_VOLUME, "bad",
					    bad, NULL, &err),
			 -EINVAL);
	assert_non_null(strstr(err.msg, "spec.capacity"));
	/* A document of another name or kind does not even get there. */
	assert_int_equal(store->ops->create(store, RECORD_KIND_VOLUME, "good",
					    bad, NULL, &err),
			 -EINVAL);
	assert_int_equal(store->ops->create(store, RECORD_KIND_NODE, "bad", bad,
					    NULL, &err),
			 -EPROTONOSUPPORT);
	assert_int_equal(
		store->ops->create(store, "Thing", "bad", bad, NULL, &err),
		-EINVAL);
	store_close(store);
}

static void names_that_kubernetes_refuses_are_refused_with_the_rule(
	void **state)
{
	static const char *const names[] = {"a_b", "a.-b", "A", "a/b",
					    "..",  "a%2f", ""};
	struct store *store = scene_open();
	struct store_object object;

	(void)state;
	for (size_t i = 0; i < array_size(names); i++) {
		assert_int_equal(store->ops->get(store, RECORD_KIND_VOLUME,
						 names[i], &object, NULL),
				 -EINVAL);
		assert_int_equal(store->ops->lease(store, RECORD_KIND_VOLUME,
						   names[i], "testing", NULL),
				 -EINVAL);
	}
	assert_int_equal(test_server_count(&scene.server, "", "/"), 0);
	store_close(store);
}

static void a_change_of_one_part_is_one_write(void **state)
{
	struct store *store = scene_open();
	struct volume_record *record = scene_volume("v", "n1"), *read;

	(void)state;
	assert_int_equal(scene_create(store, record, NULL), 0);
	(void)test_server_count(&scene.server, "", "");
	record->epoch++;
	assert_int_equal(scene_swap(store, record, NULL), 0);
	assert_int_equal(test_server_count(&scene.server, "PUT", ""), 1);
	strcpy(record->spec.policy, "ff");
	assert_int_equal(scene_swap(store, record, NULL), 0);
	assert_int_equal(test_server_count(&scene.server, "PUT", ""), 1);
	read = scene_read(store, "v");
	scene_same(record, read);
	volume_record_free(read);
	volume_record_free(record);
	store_close(store);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		SCENE_TEST(the_kube_store_conforms),
		SCENE_TEST(every_member_of_a_record_fits_the_schema),
		SCENE_TEST(a_node_with_every_member_fits_the_schema),
		SCENE_TEST(snapshots_come_back_whole),
		SCENE_TEST(what_the_schema_refuses_is_invalid),
		SCENE_TEST(
			names_that_kubernetes_refuses_are_refused_with_the_rule),
		SCENE_TEST(a_change_of_one_part_is_one_write),
	};
	int r = store_conformance_child(argc, argv);

	return r >= 0 ? r
		      : cmocka_run_group_tests(tests, scene_prepare,
					       scene_remove);
}
