/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/ident.h"
#include "base/size.h"
#include "volume/kube_lease.h"
#include "volume/kube_test_server.h"
#include "volume/node.h"
#include "volume/store.h"
#include "volume/store_conformance.h"

static struct test_server server;
static bool prepared;

static int begin(void **state)
{
	(void)state;
	if (prepared) {
		test_server_start(&server);
		(void)test_server_count(&server, "", "");
	}
	return 0;
}

static int end(void **state)
{
	(void)state;
	test_server_stop(&server);
	test_server_write(&server, "faults", "");
	test_server_write(&server, "clock", "0");
	return 0;
}

/* Of the fake server's kubeconfig, as the user @context. */
static struct store *opened_as(const char *context)
{
	struct store *store = NULL;
	struct error err = {0};
	char location[256];

	if (!prepared)
		skip();
	(void)snprintf(location, sizeof(location), "%s,context=%s",
		       server.location, context);
	if (store_open(location, &store, &err) < 0)
		fail_msg("%s", err.msg);
	return store;
}

static struct store *opened(void)
{
	return opened_as("token");
}

/* ---- records ---- */

static struct volume_record *volume_make(const char *name)
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
	strcpy(record->splits[0].node, "n1");
	strcpy(record->splits[0].pool, "p");
	strcpy(record->splits[0].extent, "e-0");
	(void)uuid_make(record->splits[0].fs_uuid);
	return record;
}

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
	record->phase = VOLUME_READY;
	record->epoch = 1;
	record->splits[0].state = SPLIT_READY;
	record->splits[0].grow_to = record->splits[0].size + MIB;
	record->splits[0].fs_behind = true;
	(void)uuid_make(record->splits[0].extent_id);
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

static int volume_create(struct store *store, struct volume_record *record,
			 struct error *err)
{
	auto_free char *json = NULL;

	assert_int_equal(volume_record_encode(record, &json, err), 0);
	return store->ops->create(store, STORE_KIND_VOLUME, record->name, json,
				  record->resource_version, err);
}

static int volume_swap(struct store *store, struct volume_record *record,
		       struct error *err)
{
	auto_free char *json = NULL;

	assert_int_equal(volume_record_encode(record, &json, err), 0);
	return store->ops->compare_and_swap(
		store, STORE_KIND_VOLUME, record->name,
		record->resource_version, json, record->resource_version, err);
}

static struct volume_record *volume_read(struct store *store, const char *name)
{
	struct volume_record *record = NULL;
	struct store_object object;
	struct error err = {0};

	if (store->ops->get(store, STORE_KIND_VOLUME, name, &object, &err) < 0)
		fail_msg("%s", err.msg);
	if (volume_record_decode(object.json, object.length, &record, &err) < 0)
		fail_msg("%s", err.msg);
	assert_string_equal(record->resource_version, object.version);
	store_object_done(&object);
	return record;
}

/* All but what the store sets. */
static void same_record(struct volume_record *a, struct volume_record *b)
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

static int volume_remove(struct store *store, const char *name)
{
	return store->ops->remove(store, STORE_KIND_VOLUME, name, NULL, NULL);
}

/* ---- tests ---- */

static void the_kube_store_conforms(void **state)
{
	(void)state;
	if (!prepared)
		skip();
	store_conformance(server.location);
}

static void every_member_of_a_record_fits_the_schema(void **state)
{
	struct store *store = opened();
	struct volume_record *record = volume_make("full"), *read;
	struct error err = {0};

	(void)state;
	volume_fill(record);
	if (volume_create(store, record, &err) < 0)
		fail_msg("%s", err.msg);
	read = volume_read(store, "full");
	same_record(record, read);
	volume_record_free(read);

	/* Labels come and go; both sorts. */
	labels_done(&record->labels);
	assert_int_equal(labels_set(&record->labels, "x", "y", NULL), 0);
	assert_int_equal(volume_swap(store, record, NULL), 0);
	read = volume_read(store, "full");
	same_record(record, read);
	volume_record_free(read);
	volume_record_free(record);
	store_close(store);
}

static void a_node_with_every_member_fits_the_schema(void **state)
{
	struct store *store = opened();
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
	assert_int_equal(store->ops->create(store, STORE_KIND_NODE, "n.1", json,
					    NULL, NULL),
			 0);
	assert_int_equal(
		store->ops->get(store, STORE_KIND_NODE, "n.1", &object, NULL),
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

static void what_the_schema_refuses_is_invalid(void **state)
{
	static const char bad[] =
		"{\"apiVersion\":\"union.io/v1alpha1\",\"kind\":\"VolumeSplit\","
		"\"metadata\":{\"name\":\"bad\"},"
		"\"spec\":{\"capacity\":1,\"layout\":\"union\","
		"\"fsType\":\"ext4\"}}";
	struct store *store = opened();
	struct error err = {0};

	(void)state;
	assert_int_equal(store->ops->create(store, STORE_KIND_VOLUME, "bad",
					    bad, NULL, &err),
			 -EINVAL);
	assert_non_null(strstr(err.msg, "spec.capacity"));
	/* A document of another name or kind does not even get there. */
	assert_int_equal(store->ops->create(store, STORE_KIND_VOLUME, "good",
					    bad, NULL, &err),
			 -EINVAL);
	assert_int_equal(store->ops->create(store, STORE_KIND_NODE, "bad", bad,
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
	struct store *store = opened();
	struct store_object object;

	(void)state;
	for (size_t i = 0; i < array_size(names); i++) {
		assert_int_equal(store->ops->get(store, STORE_KIND_VOLUME,
						 names[i], &object, NULL),
				 -EINVAL);
		assert_int_equal(store->ops->lease(store, STORE_KIND_VOLUME,
						   names[i], "testing", NULL),
				 -EINVAL);
	}
	assert_int_equal(test_server_count(&server, "", "/"), 0);
	store_close(store);
}

static void a_change_of_one_part_is_one_write(void **state)
{
	struct store *store = opened();
	struct volume_record *record = volume_make("v"), *read;

	(void)state;
	assert_int_equal(volume_create(store, record, NULL), 0);
	(void)test_server_count(&server, "", "");
	record->epoch++;
	assert_int_equal(volume_swap(store, record, NULL), 0);
	assert_int_equal(test_server_count(&server, "PUT", ""), 1);
	strcpy(record->spec.policy, "ff");
	assert_int_equal(volume_swap(store, record, NULL), 0);
	assert_int_equal(test_server_count(&server, "PUT", ""), 1);
	read = volume_read(store, "v");
	same_record(record, read);
	volume_record_free(read);
	volume_record_free(record);
	store_close(store);
}

/* As the record says, and what was left behind hides no later status. */
static void stays_whole(struct store *store, struct volume_record *record)
{
	struct volume_record *read = volume_read(store, record->name);

	same_record(record, read);
	volume_record_free(read);
	test_server_faults(&server, "");
	record->epoch++;
	assert_int_equal(volume_swap(store, record, NULL), 0);
	read = volume_read(store, record->name);
	same_record(record, read);
	volume_record_free(read);
}

/* The crash is a server that does not take the later requests. */
static void a_crash_between_its_writes_leaves_a_record_whole(void **state)
{
	static const char *const creates[] = {
		"PUT /status 2 cut\n",
		"PUT /status 2 cut-after\n",
		"PUT /v$ 2 cut\n",
	};
	struct store *store = opened();

	(void)state;
	for (size_t i = 0; i < array_size(creates); i++) {
		struct volume_record *record = volume_make("v");

		test_server_faults(&server, creates[i]);
		assert_int_equal(volume_create(store, record, NULL), 0);
		stays_whole(store, record);
		/* Now with a change of both parts; the last leaves nothing. */
		test_server_faults(&server, i < 2 ? creates[i] : "");
		record->spec.capacity += 4096;
		record->splits[0].size += 4096;
		assert_int_equal(volume_swap(store, record, NULL), 0);
		stays_whole(store, record);
		assert_int_equal(volume_remove(store, "v"), 0);
		assert_int_equal(volume_remove(store, "v"), -ENOENT);
		volume_record_free(record);
	}
	store_close(store);
}

static void a_crash_in_a_remove_is_finished_by_the_next(void **state)
{
	struct store *store = opened();
	struct volume_record *record = volume_make("v");

	(void)state;
	assert_int_equal(volume_create(store, record, NULL), 0);
	/* Twice: curl sends again what a kept connection did not take. */
	test_server_faults(&server, "PUT /v$ 2 cut\n");
	assert_int_equal(volume_remove(store, "v"), -EHOSTUNREACH);
	volume_record_free(volume_read(store, "v")); /* it is still there */
	assert_int_equal(volume_remove(store, "v"), 0);
	assert_int_equal(volume_remove(store, "v"), -ENOENT);
	assert_int_equal(volume_create(store, record, NULL), 0);
	volume_record_free(record);
	store_close(store);
}

static void a_create_whose_answer_was_lost_succeeds_when_repeated(void **state)
{
	struct store *store = opened();
	struct volume_record *record = volume_make("v");
	struct volume_record *other = volume_make("v");

	(void)state;
	test_server_faults(&server, "POST . 1 cut-after\n");
	assert_int_equal(volume_create(store, record, NULL), 0);
	/* But not another's of that name. */
	assert_int_equal(volume_create(store, other, NULL), -EEXIST);
	volume_record_free(record);
	volume_record_free(other);
	store_close(store);
}

static void a_write_that_may_have_been_done_says_so(void **state)
{
	struct store *store = opened();
	struct volume_record *record = volume_make("v");
	struct error err = {0};

	(void)state;
	assert_int_equal(volume_create(store, record, NULL), 0);
	test_server_faults(&server, "PUT . 1 half\n");
	record->epoch = 9;
	assert_int_equal(volume_swap(store, record, &err), -EHOSTUNREACH);
	assert_non_null(strstr(err.msg, "may have been done"));
	volume_record_free(record);
	record = volume_read(store, "v");
	assert_int_equal(record->epoch, 9);
	volume_record_free(record);
	store_close(store);
}

static void a_conflict_is_stale(void **state)
{
	struct store *store = opened();
	struct volume_record *record = volume_make("v");

	(void)state;
	assert_int_equal(volume_create(store, record, NULL), 0);
	test_server_faults(&server, "PUT . 1 status 409\n");
	record->epoch = 9;
	assert_int_equal(volume_swap(store, record, NULL), -ESTALE);
	assert_int_equal(volume_swap(store, record, NULL), 0);
	volume_record_free(record);
	store_close(store);
}

static void a_server_that_says_slow_down_is_obeyed(void **state)
{
	struct store *store = opened();
	struct volume_record *record = volume_make("v");
	int64_t start_ms;

	(void)state;
	test_server_faults(&server, "POST . 1 status 429 1\n");
	start_ms = clock_ms();
	assert_int_equal(volume_create(store, record, NULL), 0);
	assert_true(clock_ms() - start_ms >= 1000);
	/* Longer than we can wait. */
	test_server_faults(&server, "GET . 9 status 429 100\n");
	start_ms = clock_ms();
	{
		struct store_object object;
		struct error err = {0};

		assert_int_equal(store->ops->get(store, STORE_KIND_VOLUME, "v",
						 &object, &err),
				 -EHOSTUNREACH);
		assert_non_null(strstr(err.msg, "overloaded"));
		/* What a server says is shown, but not as it is. */
		assert_non_null(strstr(err.msg, "made to fail"));
		assert_null(strchr(err.msg, '\x1b'));
	}
	assert_true(clock_ms() - start_ms < 5000);
	volume_record_free(record);
	store_close(store);
}

static void reading_survives_a_server_that_stumbles(void **state)
{
	static const char *const faults[] = {
		"GET . 2 status 500\n", "GET . 2 status 503\n", "GET . 2 cut\n",
		"GET . 2 half\n",       "GET . 1 slow 0.5\n",
	};
	struct store *store = opened();
	struct volume_record *record = volume_make("v"), *read;

	(void)state;
	assert_int_equal(volume_create(store, record, NULL), 0);
	for (size_t i = 0; i < array_size(faults); i++) {
		test_server_faults(&server, faults[i]);
		read = volume_read(store, "v");
		same_record(record, read);
		volume_record_free(read);
	}
	volume_record_free(record);
	store_close(store);
}

static void nonsense_is_no_answer(void **state)
{
	struct store *store = opened();
	struct store_object object;
	struct error err = {0};

	(void)state;
	test_server_faults(&server, "GET . 1 garbage\n");
	assert_int_equal(
		store->ops->get(store, STORE_KIND_VOLUME, "v", &object, &err),
		-EPROTO);
	test_server_faults(&server, "GET . 1 big\n");
	assert_int_equal(
		store->ops->get(store, STORE_KIND_VOLUME, "v", &object, &err),
		-EMSGSIZE);
	store_close(store);
}

static void volumes_make(struct store *store, unsigned n)
{
	char name[16];

	for (unsigned i = 0; i < n; i++) {
		struct volume_record *record;

		(void)snprintf(name, sizeof(name), "v%05u", i);
		record = volume_make(name);
		assert_int_equal(volume_create(store, record, NULL), 0);
		volume_record_free(record);
	}
}

static void a_long_list_comes_in_pages(void **state)
{
	struct store *store = opened();
	struct store_object *objects;
	size_t n;

	(void)state;
	volumes_make(store, 520);
	(void)test_server_count(&server, "", "");
	assert_int_equal(
		store->ops->list(store, STORE_KIND_VOLUME, &objects, &n, NULL),
		0);
	assert_int_equal(n, 520);
	assert_string_equal(objects[0].name, "v00000");
	assert_string_equal(objects[519].name, "v00519");
	store_objects_free(objects, n);
	assert_int_equal(test_server_count(&server, "GET", "limit=500"), 2);

	/* One that got too old between the pages begins again. */
	test_server_faults(&server, "GET continue= 1 status 410\n");
	assert_int_equal(
		store->ops->list(store, STORE_KIND_VOLUME, &objects, &n, NULL),
		0);
	assert_int_equal(n, 520);
	store_objects_free(objects, n);
	assert_int_equal(test_server_count(&server, "GET", "limit=500"), 4);

	/* Pages larger than we take become smaller. */
	test_server_faults(&server, "GET limit=500 1 big\n");
	assert_int_equal(
		store->ops->list(store, STORE_KIND_VOLUME, &objects, &n, NULL),
		0);
	assert_int_equal(n, 520);
	store_objects_free(objects, n);
	assert_int_equal(test_server_count(&server, "GET", "limit=62"), 9);

	test_server_faults(&server, "GET continue= 9 status 410\n");
	assert_int_equal(
		store->ops->list(store, STORE_KIND_VOLUME, &objects, &n, NULL),
		-EHOSTUNREACH);
	store_close(store);
}

static void a_server_that_is_down_is_unreachable_and_comes_back(void **state)
{
	struct store *store = opened();
	struct store_object object;
	struct error err = {0};
	int64_t start_ms = clock_ms();

	(void)state;
	test_server_stop(&server);
	assert_int_equal(
		store->ops->get(store, STORE_KIND_VOLUME, "v", &object, &err),
		-EHOSTUNREACH);
	assert_int_equal(store->ops->create(store, STORE_KIND_VOLUME, "v", "{}",
					    NULL, &err),
			 -EINVAL); /* looked at first */
	assert_int_equal(store->ops->lease(store, STORE_KIND_VOLUME, "v",
					   "testing", &err),
			 -EHOSTUNREACH);
	assert_true(clock_ms() - start_ms < 20000);
	assert_null(strstr(err.msg, TEST_TOKEN));
	store_close(store);
}

static void who_may_not_is_told_what_to_grant(void **state)
{
	struct store *store = opened_as("weak");
	struct volume_record *record = volume_make("v");
	struct error err = {0};

	(void)state;
	assert_int_equal(volume_create(store, record, &err), -EACCES);
	assert_non_null(strstr(err.msg, "forbidden"));
	assert_non_null(strstr(err.msg, "RoleBinding"));
	volume_record_free(record);
	store_close(store);
}

static void what_a_starting_server_forbids_is_tried_again(void **state)
{
	struct store *store = opened();
	struct volume_record *record = volume_make("v");

	(void)state;
	test_server_faults(&server, "POST volumesplits 2 status 403\n"
				    "GET readyz 1 status 403\n");
	assert_int_equal(volume_create(store, record, NULL), 0);
	assert_int_equal(test_server_count(&server, "GET", "readyz"), 2);
	/* Ready since it forbade, or before. */
	test_server_faults(&server, "DELETE volumesplits 1 status 401\n");
	assert_int_equal(volume_remove(store, "v"), 0);
	/* A server that is ready means it. */
	(void)test_server_count(&server, "", "");
	test_server_faults(&server, "POST volumesplits 9 status 403\n");
	assert_int_equal(volume_create(store, record, NULL), -EACCES);
	assert_int_equal(test_server_count(&server, "POST", "volumesplits"), 2);
	volume_record_free(record);
	store_close(store);
}

static void a_token_is_read_again_when_it_changed(void **state)
{
	struct store *store;
	struct store_object object;
	struct error err = {0};

	(void)state;
	if (!prepared)
		skip();
	test_server_write(&server, "token", "outdated-token\n");
	store = opened_as("file");
	assert_int_equal(
		store->ops->get(store, STORE_KIND_VOLUME, "v", &object, &err),
		-EACCES);
	assert_null(strstr(err.msg, "outdated"));
	test_server_write(&server, "token", "fresh-token\n");
	assert_int_equal(
		store->ops->get(store, STORE_KIND_VOLUME, "v", &object, &err),
		-ENOENT);
	/* One that would break out of its header; one that is gone. */
	test_server_write(&server, "token", "a b\n");
	assert_int_equal(
		store->ops->get(store, STORE_KIND_VOLUME, "v", &object, &err),
		-EACCES);
	store_close(store);
}

static void a_client_certificate_is_enough(void **state)
{
	struct store *store = opened_as("certificate");
	struct volume_record *record = volume_make("v");

	(void)state;
	assert_int_equal(volume_create(store, record, NULL), 0);
	volume_record_free(record);
	store_close(store);
}

static void a_server_of_another_authority_gets_nothing(void **state)
{
	struct store *store;
	struct store_object object;
	struct error err = {0};
	char text[256], location[160];

	(void)state;
	if (!prepared)
		skip();
	(void)snprintf(text, sizeof(text),
		       "current-context: c\n"
		       "clusters: [{name: c, cluster: {certificate-authority: "
		       "other.pem, server: 'https://127.0.0.1:%d'}}]\n"
		       "users: [{name: c, user: {token: t}}]\n"
		       "contexts: [{name: c, context: {cluster: c, user: c}}]",
		       server.port);
	test_server_write(&server, "other-config", text);
	(void)snprintf(location, sizeof(location), "kube:,kubeconfig=%s/%s",
		       server.directory, "other-config");
	assert_int_equal(store_open(location, &store, NULL), 0);
	assert_int_equal(
		store->ops->get(store, STORE_KIND_VOLUME, "v", &object, &err),
		-EACCES);
	assert_non_null(strstr(err.msg, "trust"));
	assert_int_equal(test_server_count(&server, "", "/"), 0);
	store_close(store);
}

static void a_missing_namespace_is_told_from_a_missing_object(void **state)
{
	struct volume_record *record = volume_make("v");
	struct store *store;
	struct error err = {0};
	char location[200];

	(void)state;
	if (!prepared)
		skip();
	(void)snprintf(location, sizeof(location),
		       "kube:missing,kubeconfig=%s/config", server.directory);
	assert_int_equal(store_open(location, &store, NULL), 0);
	assert_int_equal(volume_create(store, record, &err), -ENXIO);
	assert_non_null(strstr(err.msg, "create namespace"));
	volume_record_free(record);
	store_close(store);
}

/* ---- leases ---- */

/* Past the store, as somebody else would. */
static struct kube_http *past_the_store(void)
{
	struct kube_config config;
	struct kube_http *http = NULL;

	assert_int_equal(kube_config_load(server.location + strlen("kube:"),
					  &config, NULL),
			 0);
	assert_int_equal(kube_http_new(&config, &http, NULL), 0);
	return http;
}

#define LEASES "/apis/coordination.k8s.io/v1/namespaces/tributary/leases"

static void a_lease_of_another_machine_lasts_until_it_expires(void **state)
{
	struct store *store = opened();
	struct kube_http *http = past_the_store();
	struct json_object *lease;
	struct error err = {0};
	char text[640], when[32];
	time_t now = time(NULL);
	struct tm tm;

	(void)state;
	(void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S.500000Z",
		       gmtime_r(&now, &tm));
	(void)snprintf(text, sizeof(text),
		       "{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":"
		       "\"Lease\",\"metadata\":{\"name\":\"volumesplit-v\","
		       "\"annotations\":{\"union.io/doing\":\"resting\"}},"
		       "\"spec\":{\"holderIdentity\":\"far/12/34/56/"
		       "11111111-2222-4333-8444-555555555555/x\","
		       "\"leaseDurationSeconds\":15,\"acquireTime\":\"%s\","
		       "\"renewTime\":\"%s\"}}",
		       when, when);
	lease = json_tokener_parse(text);
	assert_int_equal(
		kube_call(http, "POST", LEASES, lease, false, NULL, NULL), 0);
	json_object_put(lease);
	assert_int_equal(store->ops->lease(store, STORE_KIND_VOLUME, "v",
					   "testing", &err),
			 -EAGAIN);
	assert_non_null(strstr(err.msg, "process 12 on far"));
	assert_non_null(strstr(err.msg, "resting"));
	/* By the server's clock, not by ours. */
	test_server_write(&server, "clock", "20");
	assert_int_equal(store->ops->lease(store, STORE_KIND_VOLUME, "v",
					   "testing", NULL),
			 0);
	store->ops->release(store, STORE_KIND_VOLUME, "v");
	assert_int_equal(kube_call(http, "GET", LEASES "/volumesplit-v", NULL,
				   true, NULL, NULL),
			 -ENOENT);
	kube_http_free(http);
	store_close(store);
}

static void a_lease_is_renewed_and_one_that_was_lost_stops_its_writes(
	void **state)
{
	struct store *store = opened();
	struct volume_record *record = volume_make("v");
	struct kube_http *http = past_the_store();
	struct json_object *before, *after;
	struct error err = {0};

	(void)state;
	assert_int_equal(volume_create(store, record, NULL), 0);
	assert_int_equal(store->ops->lease(store, STORE_KIND_VOLUME, "v",
					   "testing", NULL),
			 0);
	assert_int_equal(
		store->ops->lease(store, STORE_KIND_NODE, "v", "testing", NULL),
		0);
	assert_int_equal(kube_call(http, "GET", LEASES "/storagenode-v", NULL,
				   true, &before, NULL),
			 0);
	assert_int_equal(kube_call(http, "DELETE", LEASES "/volumesplit-v",
				   NULL, false, NULL, NULL),
			 0);
	/* The answer to a renewal gets lost; it is still ours. */
	test_server_faults(&server, "PUT storagenode-v 1 after 409\n");
	(void)poll(NULL, 0, (KUBE_LEASE_RENEW_S + 2) * 1000);

	assert_int_equal(kube_call(http, "GET", LEASES "/storagenode-v", NULL,
				   true, &after, NULL),
			 0);
	assert_string_not_equal(kube_text(before, "spec", "renewTime"),
				kube_text(after, "spec", "renewTime"));
	assert_string_equal(kube_text(before, "spec", "acquireTime"),
			    kube_text(after, "spec", "acquireTime"));
	record->epoch++;
	assert_int_equal(volume_swap(store, record, &err), -ESTALE);
	assert_non_null(strstr(err.msg, "lease"));
	assert_int_equal(
		store->ops->remove(store, STORE_KIND_VOLUME, "v", NULL, NULL),
		-ESTALE);
	/* Given back and taken again, it is good again. */
	store->ops->release(store, STORE_KIND_VOLUME, "v");
	assert_int_equal(store->ops->lease(store, STORE_KIND_VOLUME, "v",
					   "testing", NULL),
			 0);
	assert_int_equal(volume_swap(store, record, NULL), 0);
	store->ops->release(store, STORE_KIND_VOLUME, "v");
	store->ops->release(store, STORE_KIND_NODE, "v");
	json_object_put(before);
	json_object_put(after);
	volume_record_free(record);
	kube_http_free(http);
	store_close(store);
}

static void a_flood_of_notices_is_dropped(void **state)
{
	struct store *store = opened();
	struct volume_record *record = volume_make("v");

	(void)state;
	assert_int_equal(volume_create(store, record, NULL), 0);
	(void)test_server_count(&server, "", "");
	for (int i = 0; i < 100; i++)
		assert_int_equal(store_tell(store, STORE_KIND_VOLUME, "v", true,
					    "Test", NULL, "number %d", i),
				 0);
	assert_in_range(test_server_count(&server, "POST", "/events"), 20, 25);
	/* One that is not there is nobody's business. */
	assert_int_equal(store_tell(store, STORE_KIND_VOLUME, "none", true,
				    "Test", NULL, "hello"),
			 0);
	volume_record_free(record);
	store_close(store);
}

/* ---- watching ---- */

/* Told of what is there after changes that meet @fault on their way. */
static void watched_through(const char *fault)
{
	struct store *store = opened();
	struct volume_record *a = volume_make("a"), *b = volume_make("b");
	struct watching *w;
	char words[256];

	assert_int_equal(volume_create(store, a, NULL), 0);
	test_server_faults(&server, fault);
	w = watching_start(server.location);
	watching_wait_synced(w);
	assert_int_equal(volume_create(store, b, NULL), 0);
	a->epoch++;
	assert_int_equal(volume_swap(store, a, NULL), 0);
	(void)snprintf(words, sizeof(words), "a=%s b=%s", a->resource_version,
		       b->resource_version);
	watching_wait(w, words);
	assert_int_equal(volume_remove(store, "a"), 0);
	(void)snprintf(words, sizeof(words), "b=%s", b->resource_version);
	watching_wait(w, words);
	/* One stumble is nobody's business. */
	assert_int_equal(watching_cuts(w), 0);
	assert_int_equal(volume_remove(store, "b"), 0);
	watching_wait(w, "");
	watching_stop(w);
	volume_record_free(a);
	volume_record_free(b);
	store_close(store);
}

static void a_watch_survives_a_server_that_stumbles(void **state)
{
	static const char *const faults[] = {
		"GET watch=1 1 gone\n",       "GET watch=1 1 status 410\n",
		"GET watch=1 1 cut\n",        "GET watch=1 1 cut-line\n",
		"GET watch=1 9 twice\n",      "GET watch=1 1 bookmark\n",
		"GET watch=1 1 end\n",        "GET watch=1 1 big\n",
		"GET watch=1 1 status 403\n", "GET watch=1 1 garbage\n",
		"GET watch=1 1 status 500\n",
	};

	(void)state;
	for (size_t i = 0; i < array_size(faults); i++)
		watched_through(faults[i]);
}

static void a_watch_told_to_slow_down_does(void **state)
{
	int64_t start_ms = clock_ms();

	(void)state;
	watched_through("GET watch=1 1 status 429 2\n");
	assert_true(clock_ms() - start_ms >= 2000);
	assert_true(test_server_count(&server, "GET", "watch=1") <= 2);
}

static void what_happened_while_cut_off_is_told_afterwards(void **state)
{
	struct store *store = opened();
	struct volume_record *a = volume_make("a"), *b = volume_make("b");
	struct watching *w;
	char words[256];

	(void)state;
	assert_int_equal(volume_create(store, a, NULL), 0);
	/* The first stream ends with its first event; no other begins. */
	test_server_faults(&server, "GET watch=1 1 end\nGET watch=1 99 cut\n");
	w = watching_start(server.location);
	watching_wait_synced(w);
	assert_int_equal(volume_create(store, b, NULL), 0);
	for (int ms = 0; watching_cuts(w) == 0; ms += 20) {
		assert_true(ms < 30000);
		(void)poll(NULL, 0, 20);
	}
	assert_int_equal(volume_remove(store, "a"), 0);
	test_server_faults(&server, "");
	watching_wait_synced(w);
	(void)snprintf(words, sizeof(words), "b=%s", b->resource_version);
	watching_wait(w, words);
	assert_int_equal(watching_cuts(w), 1);
	watching_stop(w);
	volume_record_free(a);
	volume_record_free(b);
	store_close(store);
}

static void who_may_not_watch_is_told_what_to_grant(void **state)
{
	struct store *store = opened();
	struct error err = {0};

	(void)state;
	test_server_faults(&server, "GET volumesplits 2 status 403\n");
	assert_int_equal(store->ops->watch(store, STORE_KIND_VOLUME, -1, NULL,
					   NULL, &err),
			 -EACCES);
	assert_non_null(strstr(err.msg, "grant"));
	store_close(store);
}

#define KUBE_TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		KUBE_TEST(the_kube_store_conforms),
		KUBE_TEST(every_member_of_a_record_fits_the_schema),
		KUBE_TEST(a_node_with_every_member_fits_the_schema),
		KUBE_TEST(what_the_schema_refuses_is_invalid),
		KUBE_TEST(
			names_that_kubernetes_refuses_are_refused_with_the_rule),
		KUBE_TEST(a_change_of_one_part_is_one_write),
		KUBE_TEST(a_crash_between_its_writes_leaves_a_record_whole),
		KUBE_TEST(a_crash_in_a_remove_is_finished_by_the_next),
		KUBE_TEST(
			a_create_whose_answer_was_lost_succeeds_when_repeated),
		KUBE_TEST(a_write_that_may_have_been_done_says_so),
		KUBE_TEST(a_conflict_is_stale),
		KUBE_TEST(a_server_that_says_slow_down_is_obeyed),
		KUBE_TEST(reading_survives_a_server_that_stumbles),
		KUBE_TEST(nonsense_is_no_answer),
		KUBE_TEST(a_long_list_comes_in_pages),
		KUBE_TEST(a_server_that_is_down_is_unreachable_and_comes_back),
		KUBE_TEST(who_may_not_is_told_what_to_grant),
		KUBE_TEST(what_a_starting_server_forbids_is_tried_again),
		KUBE_TEST(a_token_is_read_again_when_it_changed),
		KUBE_TEST(a_client_certificate_is_enough),
		KUBE_TEST(a_server_of_another_authority_gets_nothing),
		KUBE_TEST(a_missing_namespace_is_told_from_a_missing_object),
		KUBE_TEST(a_lease_of_another_machine_lasts_until_it_expires),
		KUBE_TEST(
			a_lease_is_renewed_and_one_that_was_lost_stops_its_writes),
		KUBE_TEST(a_flood_of_notices_is_dropped),
		KUBE_TEST(a_watch_survives_a_server_that_stumbles),
		KUBE_TEST(a_watch_told_to_slow_down_does),
		KUBE_TEST(what_happened_while_cut_off_is_told_afterwards),
		KUBE_TEST(who_may_not_watch_is_told_what_to_grant),
	};
	int r = store_conformance_child(argc, argv);

	if (r >= 0)
		return r;
	prepared = test_server_prepare(&server);
	r = cmocka_run_group_tests(tests, NULL, NULL);
	test_server_remove(&server);
	return r;
}
