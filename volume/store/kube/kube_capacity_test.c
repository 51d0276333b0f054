/* SPDX-License-Identifier: Apache-2.0 */
/* The room for claims of each class, at a fake API server. */
#include "volume/testkit/store_test_kit.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/store/kube/api/kube_call.h"
#include "volume/store/kube/api/kube_config.h"

#define DRIVER  "union.csi.union.io"
#define CLASSES "/apis/storage.k8s.io/v1/storageclasses"
#define CAPACITIES \
	"/apis/storage.k8s.io/v1/namespaces/tributary/csistoragecapacities"

/* Past the store, as an administrator does. */
static struct kube_http *http;

static void http_begin(void)
{
	struct kube_config config;

	assert_int_equal(
		kube_config_load(scene.server.location + strlen("kube:"),
				 &config, NULL),
		0);
	assert_int_equal(kube_http_new(&config, &http, NULL), 0);
}

static void post(const char *path, const char *text)
{
	struct json_object *object = json_tokener_parse(text);

	assert_non_null(object);
	assert_int_equal(
		kube_call(http, "POST", path, object, false, NULL, NULL), 0);
	json_object_put(object);
}

static void class_is_made(const char *name, const char *driver,
			  const char *mode, const char *parameters)
{
	char text[512];

	(void)snprintf(text, sizeof(text),
		       "{\"apiVersion\":\"storage.k8s.io/v1\",\"kind\":"
		       "\"StorageClass\",\"metadata\":{\"name\":\"%s\"},"
		       "\"provisioner\":\"%s\",\"volumeBindingMode\":\"%s\","
		       "\"parameters\":{%s}}",
		       name, driver, mode, parameters);
	post(CLASSES, text);
}

/* What another program published, for @driver. */
static void capacity_is_made(const char *name, const char *driver)
{
	char text[512];

	(void)snprintf(text, sizeof(text),
		       "{\"apiVersion\":\"storage.k8s.io/v1\",\"kind\":"
		       "\"CSIStorageCapacity\",\"metadata\":{\"name\":\"%s\","
		       "\"labels\":{\"csi.storage.k8s.io/drivername\":\"%s\"}},"
		       "\"storageClassName\":\"x\",\"nodeTopology\":{},"
		       "\"capacity\":\"1\",\"maximumVolumeSize\":\"1\"}",
		       name, driver);
	post(CAPACITIES, text);
}

/* The member of the object @name; "": no such object. */
static const char *published(const char *name, const char *member)
{
	static char text[64];
	struct json_object *object = NULL;
	char path[256];

	(void)snprintf(path, sizeof(path), CAPACITIES "/%s", name);
	text[0] = '\0';
	if (kube_call(http, "GET", path, NULL, true, &object, NULL) == 0)
		(void)snprintf(text, sizeof(text), "%s",
			       kube_text(object, NULL, member));
	json_object_put(object);
	return text;
}

static void only_classes_of_the_driver_that_bind_late_are_listed(void **state)
{
	struct store *store = scene_open();
	struct store_class *classes = NULL;
	size_t n = 0;

	(void)state;
	http_begin();
	class_is_made("union", DRIVER, "WaitForFirstConsumer",
		      "\"layout\":\"linear\",\"maxExtents\":\"2\"");
	class_is_made("at-once", DRIVER, "Immediate", "");
	class_is_made("other", "other.io", "WaitForFirstConsumer", "");
	assert_int_equal(store->ops->classes(store, DRIVER, &classes, &n, NULL),
			 0);
	assert_int_equal(n, 1);
	assert_string_equal(classes[0].name, "union");
	assert_int_equal(classes[0].n_parameters, 2);
	assert_string_equal(classes[0].parameters[1].key, "maxExtents");
	assert_string_equal(classes[0].parameters[1].value, "2");
	assert_false(classes[0].known);
	store_classes_free(classes, n);
	kube_http_free(http);
	store_close(store);
}

/* POST and PUT since the last call. */
static unsigned writes(void)
{
	return test_server_count(&scene.server, "P", CAPACITIES);
}

static void each_class_has_one_object_which_is_written_when_it_changes(
	void **state)
{
	struct store *store = scene_open();
	char a[] = "a", b[] = "b", unknown[] = "unknown";
	struct store_class classes[] = {
		{.name = a, .known = true, .available = 5000, .maximum = 4096},
		{.name = b, .known = true, .available = 7, .maximum = 0},
		{.name = unknown},
	};
	const size_t n = array_size(classes);

	(void)state;
	http_begin();
	capacity_is_made("csisc-old", DRIVER);
	capacity_is_made("unknown", DRIVER);
	capacity_is_made("csisc-other", "other.io");
	(void)writes();
	assert_int_equal(
		store->ops->rooms_publish(store, DRIVER, classes, n, NULL), 0);
	assert_int_equal(writes(), 2);
	assert_string_equal(published("a", "storageClassName"), "a");
	assert_string_equal(published("a", "capacity"), "5k");
	assert_string_equal(published("a", "maximumVolumeSize"), "4096");
	assert_string_equal(published("b", "maximumVolumeSize"), "0");
	/* Objects of a provisioner, and of a class without room, go. */
	assert_string_equal(published("csisc-old", "capacity"), "");
	assert_string_equal(published("unknown", "capacity"), "");
	assert_string_equal(published("csisc-other", "capacity"), "1");
	(void)writes();
	assert_int_equal(
		store->ops->rooms_publish(store, DRIVER, classes, n, NULL), 0);
	assert_int_equal(writes(), 0);
	classes[0].maximum = 8192;
	/* Another leader was quicker: the next time. */
	test_server_faults(&scene.server, "PUT csistorage 1 status 409\n");
	assert_int_equal(
		store->ops->rooms_publish(store, DRIVER, classes, n, NULL), 0);
	assert_string_equal(published("a", "maximumVolumeSize"), "4096");
	assert_int_equal(
		store->ops->rooms_publish(store, DRIVER, classes, n, NULL), 0);
	assert_string_equal(published("a", "maximumVolumeSize"), "8192");
	/* A class that is gone. */
	assert_int_equal(
		store->ops->rooms_publish(store, DRIVER, classes, 1, NULL), 0);
	assert_string_equal(published("b", "capacity"), "");
	assert_string_equal(published("a", "capacity"), "5k");
	kube_http_free(http);
	store_close(store);
}

static void who_may_not_publish_is_told_what_to_grant(void **state)
{
	struct store *store = scene_open();
	struct error err = {0};

	(void)state;
	test_server_faults(&scene.server, "GET csistorage 2 status 403\n");
	assert_int_equal(
		store->ops->rooms_publish(store, DRIVER, NULL, 0, &err),
		-EACCES);
	assert_non_null(strstr(err.msg, "grant"));
	store_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCENE_TEST(
			only_classes_of_the_driver_that_bind_late_are_listed),
		SCENE_TEST(
			each_class_has_one_object_which_is_written_when_it_changes),
		SCENE_TEST(who_may_not_publish_is_told_what_to_grant),
	};

	return cmocka_run_group_tests(tests, scene_prepare, scene_remove);
}
