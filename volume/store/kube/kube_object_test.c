/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/record/json_scan.h"
#include "volume/store/kube/kube_object.h"

static const struct kube_resource resource = {
	.kind = RECORD_KIND_VOLUME,
	.plural = "volumesplits",
	.finalizer = "union.io/extents",
};

#define RECORD(labels, spec, status)                                      \
	"{\"apiVersion\":\"union.io/v1alpha1\",\"kind\":\"VolumeSplit\"," \
	"\"metadata\":{\"name\":\"v\",\"uid\":\"u-1\",\"labels\":" labels \
	"},\"spec\":" spec ",\"status\":" status "}"

static struct json_object *object_of(const char *record)
{
	struct json_object *object = NULL;
	struct error err = {0};

	if (kube_object_new(&resource, "v", record, &object, &err) < 0)
		fail_msg("%s", err.msg);
	return object;
}

/* What a server adds to one that it has. */
static struct json_object *served(const char *record)
{
	struct json_object *object = object_of(record), *meta;

	assert_true(json_object_object_get_ex(object, "metadata", &meta));
	json_add_text(meta, "uid", "server's");
	json_add_text(meta, "resourceVersion", "7");
	return object;
}

static void the_status_goes_along_until_it_is_settled(void **state)
{
	struct json_object *object = served(
		RECORD("{}", "{\"a\":1}", "{\"b\":2}"));
	struct json_object *status;
	struct store_object record;

	(void)state;
	assert_false(json_object_object_get_ex(object, "status", &status));
	for (int i = 0; i < 2; i++) {
		assert_int_equal(kube_object_record(object, &record, NULL), 0);
		assert_string_equal(record.version, "7");
		assert_non_null(strstr(record.json, "\"status\":{\"b\":2}"));
		assert_non_null(strstr(record.json, "\"uid\":\"u-1\""));
		store_object_done(&record);
		assert_int_equal(kube_object_settle(object), i == 0);
	}
	json_object_put(object);
}

static void only_what_changed_is_to_be_written(void **state)
{
	static const struct {
		const char *record;
		bool main, status;
	} rows[] = {
		{RECORD("{\"x\":\"y\",\"a b\":\"c\"}", "{\"a\":1}",
			"{\"b\":2}"),
		 false, false},
		{RECORD("{\"x\":\"y\",\"a b\":\"c\"}", "{\"a\":1}",
			"{\"b\":3}"),
		 false, true},
		{RECORD("{\"x\":\"y\",\"a b\":\"c\"}", "{\"a\":2}",
			"{\"b\":2}"),
		 true, false},
		{RECORD("{\"x\":\"z\",\"a b\":\"c\"}", "{\"a\":1}",
			"{\"b\":2}"),
		 true, false},
		{RECORD("{\"x\":\"y\",\"a b\":\"d\"}", "{\"a\":1}",
			"{\"b\":2}"),
		 true, false},
		{RECORD("{\"x\":\"y\"}", "{\"a\":1}", "{\"b\":2}"), true,
		 false},
		{RECORD("{}", "{\"a\":9}", "{\"b\":9}"), true, true},
	};

	(void)state;
	for (size_t i = 0; i < array_size(rows); i++) {
		struct json_object *object = served(rows[0].record);
		struct kube_change change;
		struct store_object record;

		assert_true(kube_object_settle(object));
		assert_int_equal(kube_object_change(object, &resource, "v",
						    rows[i].record, &change,
						    NULL),
				 0);
		assert_int_equal(change.main, rows[i].main);
		assert_int_equal(change.status, rows[i].status);
		/* Both at once go along in the first write. */
		assert_int_equal(kube_object_record(object, &record, NULL), 0);
		store_object_done(&record);
		assert_int_equal(kube_object_settle(object),
				 rows[i].main && rows[i].status);
		json_object_put(object);
	}
}

static void a_status_that_waits_is_never_hidden_by_a_new_one(void **state)
{
	struct json_object *object = served(RECORD("{}", "{}", "{\"b\":1}"));
	struct kube_change change;
	struct store_object record;

	(void)state;
	assert_int_equal(kube_object_change(object, &resource, "v",
					    RECORD("{}", "{}", "{\"b\":2}"),
					    &change, NULL),
			 0);
	assert_true(change.main);
	assert_int_equal(kube_object_record(object, &record, NULL), 0);
	assert_non_null(strstr(record.json, "\"b\":2"));
	store_object_done(&record);
	json_object_put(object);
}

static void a_status_too_large_to_go_along_is_refused(void **state)
{
	size_t room = KUBE_PENDING_MAX + 512;
	auto_free char *text = malloc(room);
	struct json_object *object = NULL;
	int head;

	(void)state;
	assert_non_null(text);
	head = snprintf(text, room, "%s",
			"{\"apiVersion\":\"union.io/v1alpha1\",\"kind\":"
			"\"VolumeSplit\",\"metadata\":{\"name\":\"v\"},"
			"\"spec\":{},\"status\":{\"x\":\"");
	memset(text + head, 'x', KUBE_PENDING_MAX);
	strcpy(text + head + KUBE_PENDING_MAX, "\"}}");
	assert_int_equal(kube_object_new(&resource, "v", text, &object, NULL),
			 -E2BIG);
	assert_null(object);
}

static bool is_plain(const char *key, const char *value)
{
	struct json_object *labels = json_object_new_object();
	struct json_object *object, *meta, *plain;
	char text[1024];
	bool found;

	json_add(labels, key, json_object_new_string(value));
	(void)snprintf(text, sizeof(text),
		       "{\"apiVersion\":\"union.io/v1alpha1\",\"kind\":"
		       "\"VolumeSplit\",\"metadata\":{\"name\":\"v\","
		       "\"labels\":%s},\"spec\":{}}",
		       json_object_to_json_string(labels));
	object = object_of(text);
	assert_true(json_object_object_get_ex(object, "metadata", &meta));
	assert_true(json_object_object_get_ex(meta, "labels", &plain));
	found = json_object_object_length(plain) == 1;
	json_object_put(labels);
	json_object_put(object);
	return found;
}

static void labels_that_kubernetes_refuses_go_into_the_annotation(void **state)
{
	static const char long_word[] = "0123456789012345678901234567890123456"
					"789012345678901234567890123";

	(void)state;
	assert_true(is_plain("a", ""));
	assert_true(is_plain("a.b-c_D", "x.y-z_1"));
	assert_true(is_plain("example.com/a", "b"));
	assert_true(is_plain("a-b.c--d/a", "b"));
	assert_false(is_plain("a b", "c"));
	assert_false(is_plain("a", "c d"));
	assert_false(is_plain("a", "-c"));
	assert_false(is_plain("a.", "c"));
	assert_false(is_plain("a/b/c", "d"));
	assert_false(is_plain("/a", "d"));
	assert_false(is_plain("A.b/a", "d"));
	assert_false(is_plain("a..b/a", "d"));
	assert_false(is_plain("a.-b/a", "d"));
	assert_false(is_plain("a-.b/a", "d"));
	assert_false(is_plain("a-/a", "d"));
	assert_false(is_plain("a/", "d"));
	assert_false(is_plain(long_word, "d"));
	assert_false(is_plain("a", long_word));
}

/* Annotations, finalizers and owners of others. */
static void what_others_wrote_is_kept(void **state)
{
	struct json_object *object = served(RECORD("{}", "{}", "{}"));
	struct json_object *meta, *notes, *list;
	struct kube_change change;

	(void)state;
	assert_true(kube_object_settle(object));
	assert_true(json_object_object_get_ex(object, "metadata", &meta));
	assert_true(json_object_object_get_ex(meta, "annotations", &notes));
	assert_true(json_object_object_get_ex(meta, "finalizers", &list));
	json_add_text(notes, "theirs", "x");
	(void)json_object_array_add(list, json_object_new_string("theirs"));
	assert_int_equal(kube_object_change(object, &resource, "v",
					    RECORD("{\"n\":\"m\"}", "{\"a\":1}",
						   "{\"b\":1}"),
					    &change, NULL),
			 0);
	assert_string_equal(kube_text(notes, NULL, "theirs"), "x");
	assert_true(kube_object_has_finalizer(object, "theirs"));
	(void)json_object_array_add(list,
				    json_object_new_string(resource.finalizer));
	kube_object_drop_finalizer(object, resource.finalizer);
	assert_false(kube_object_has_finalizer(object, resource.finalizer));
	assert_true(kube_object_has_finalizer(object, "theirs"));
	json_object_put(object);
}

static void an_object_made_by_hand_is_read_too(void **state)
{
	struct json_object *object = json_tokener_parse(
		"{\"apiVersion\":\"union.io/v1alpha1\",\"kind\":\"StorageNode\","
		"\"metadata\":{\"name\":\"n\",\"uid\":\"u\","
		"\"resourceVersion\":\"3\",\"annotations\":{"
		"\"union.io/pending-status\":\"not JSON\"}},\"spec\":{}}");
	struct store_object record;

	(void)state;
	assert_int_equal(kube_object_record(object, &record, NULL), 0);
	assert_non_null(strstr(record.json, "\"uid\":\"u\""));
	assert_null(strstr(record.json, "status"));
	store_object_done(&record);
	json_object_put(object);
	object = json_tokener_parse("{\"metadata\":{\"name\":5}}");
	assert_int_equal(kube_object_record(object, &record, NULL), -EUCLEAN);
	json_object_put(object);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_status_goes_along_until_it_is_settled),
		cmocka_unit_test(only_what_changed_is_to_be_written),
		cmocka_unit_test(
			a_status_that_waits_is_never_hidden_by_a_new_one),
		cmocka_unit_test(a_status_too_large_to_go_along_is_refused),
		cmocka_unit_test(
			labels_that_kubernetes_refuses_go_into_the_annotation),
		cmocka_unit_test(what_others_wrote_is_kept),
		cmocka_unit_test(an_object_made_by_hand_is_read_too),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
