/* SPDX-License-Identifier: Apache-2.0 */
/* Access to the store of a cluster, and the errors of a refused user. */
#include "volume/op/store_open.h"
#include "volume/testkit/store_test_kit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static void who_may_not_is_told_what_to_grant(void **state)
{
	struct store *store = scene_open_as("weak");
	struct volume_record *record = scene_volume("v", "n1");
	struct error err = {0};

	(void)state;
	assert_int_equal(scene_create(store, record, &err), -EACCES);
	assert_non_null(strstr(err.msg, "forbidden"));
	assert_non_null(strstr(err.msg, "RoleBinding"));
	volume_record_free(record);
	store_close(store);
}

static void what_a_starting_server_forbids_is_tried_again(void **state)
{
	struct store *store = scene_open();
	struct volume_record *record = scene_volume("v", "n1");

	(void)state;
	test_server_faults(&scene.server, "POST volumesplits 2 status 403\n"
					  "GET readyz 1 status 403\n");
	assert_int_equal(scene_create(store, record, NULL), 0);
	assert_int_equal(test_server_count(&scene.server, "GET", "readyz"), 2);
	/* Ready since it forbade, or before. */
	test_server_faults(&scene.server, "DELETE volumesplits 1 status 401\n");
	assert_int_equal(scene_delete(store, "v"), 0);
	/* A server that is ready means it. */
	(void)test_server_count(&scene.server, "", "");
	test_server_faults(&scene.server, "POST volumesplits 9 status 403\n");
	assert_int_equal(scene_create(store, record, NULL), -EACCES);
	assert_int_equal(
		test_server_count(&scene.server, "POST", "volumesplits"), 2);
	volume_record_free(record);
	store_close(store);
}

static void a_token_is_read_again_when_it_changed(void **state)
{
	struct store *store;
	struct store_object object;
	struct error err = {0};

	(void)state;
	if (!scene.prepared)
		skip();
	test_server_write(&scene.server, "token", "outdated-token\n");
	store = scene_open_as("file");
	assert_int_equal(
		store->ops->get(store, RECORD_KIND_VOLUME, "v", &object, &err),
		-EACCES);
	assert_null(strstr(err.msg, "outdated"));
	test_server_write(&scene.server, "token", "fresh-token\n");
	assert_int_equal(
		store->ops->get(store, RECORD_KIND_VOLUME, "v", &object, &err),
		-ENOENT);
	/* A token that would break out of its header; a token that is gone. */
	test_server_write(&scene.server, "token", "a b\n");
	assert_int_equal(
		store->ops->get(store, RECORD_KIND_VOLUME, "v", &object, &err),
		-EACCES);
	store_close(store);
}

static void a_client_certificate_is_enough(void **state)
{
	struct store *store = scene_open_as("certificate");
	struct volume_record *record = scene_volume("v", "n1");

	(void)state;
	assert_int_equal(scene_create(store, record, NULL), 0);
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
	if (!scene.prepared)
		skip();
	(void)snprintf(text, sizeof(text),
		       "current-context: c\n"
		       "clusters: [{name: c, cluster: {certificate-authority: "
		       "other.pem, server: 'https://127.0.0.1:%d'}}]\n"
		       "users: [{name: c, user: {token: t}}]\n"
		       "contexts: [{name: c, context: {cluster: c, user: c}}]",
		       scene.server.port);
	test_server_write(&scene.server, "other-config", text);
	(void)snprintf(location, sizeof(location), "kube:,kubeconfig=%s/%s",
		       scene.server.directory, "other-config");
	assert_int_equal(store_open(location, &store, NULL), 0);
	assert_int_equal(
		store->ops->get(store, RECORD_KIND_VOLUME, "v", &object, &err),
		-EACCES);
	assert_non_null(strstr(err.msg, "trust"));
	assert_int_equal(test_server_count(&scene.server, "", "/"), 0);
	store_close(store);
}

static void a_missing_namespace_is_told_from_a_missing_object(void **state)
{
	struct volume_record *record = scene_volume("v", "n1");
	struct store *store;
	struct error err = {0};
	char location[200];

	(void)state;
	if (!scene.prepared)
		skip();
	(void)snprintf(location, sizeof(location),
		       "kube:missing,kubeconfig=%s/config",
		       scene.server.directory);
	assert_int_equal(store_open(location, &store, NULL), 0);
	assert_int_equal(scene_create(store, record, &err), -ENXIO);
	assert_non_null(strstr(err.msg, "create namespace"));
	volume_record_free(record);
	store_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCENE_TEST(who_may_not_is_told_what_to_grant),
		SCENE_TEST(what_a_starting_server_forbids_is_tried_again),
		SCENE_TEST(a_token_is_read_again_when_it_changed),
		SCENE_TEST(a_client_certificate_is_enough),
		SCENE_TEST(a_server_of_another_authority_gets_nothing),
		SCENE_TEST(a_missing_namespace_is_told_from_a_missing_object),
	};

	return cmocka_run_group_tests(tests, scene_prepare, scene_remove);
}
