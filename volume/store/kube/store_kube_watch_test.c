/* SPDX-License-Identifier: Apache-2.0 */
/* Leases, notices and watches of the store of a cluster. */
#include "volume/testkit/store_test_kit.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/store/kube/api/kube_call.h"
#include "volume/store/kube/api/kube_config.h"
#include "volume/store/kube/kube_lease.h"
#include "volume/testkit/store_conformance.h"

/* ---- leases ---- */

/* Past the store, as somebody else would. */
static struct kube_http *past_the_store(void)
{
	struct kube_config config;
	struct kube_http *http = NULL;

	assert_int_equal(
		kube_config_load(scene.server.location + strlen("kube:"),
				 &config, NULL),
		0);
	assert_int_equal(kube_http_new(&config, &http, NULL), 0);
	return http;
}

#define LEASES "/apis/coordination.k8s.io/v1/namespaces/tributary/leases"

static void a_lease_of_another_machine_lasts_until_it_expires(void **state)
{
	struct store *store = scene_open();
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
	assert_int_equal(store->ops->lease(store, RECORD_KIND_VOLUME, "v",
					   "testing", &err),
			 -EAGAIN);
	assert_non_null(strstr(err.msg, "process 12 on far"));
	assert_non_null(strstr(err.msg, "resting"));
	/* By the server's clock, not by ours. */
	test_server_write(&scene.server, "clock", "20");
	assert_int_equal(store->ops->lease(store, RECORD_KIND_VOLUME, "v",
					   "testing", NULL),
			 0);
	store->ops->release(store, RECORD_KIND_VOLUME, "v");
	assert_int_equal(kube_call(http, "GET", LEASES "/volumesplit-v", NULL,
				   true, NULL, NULL),
			 -ENOENT);
	kube_http_free(http);
	store_close(store);
}

static bool was_renewed(struct kube_http *http, struct json_object *before)
{
	struct json_object *now;
	bool differs;

	assert_int_equal(kube_call(http, "GET", LEASES "/storagenode-v", NULL,
				   true, &now, NULL),
			 0);
	differs = strcmp(kube_text(before, "spec", "renewTime"),
			 kube_text(now, "spec", "renewTime")) != 0;
	json_object_put(now);
	return differs;
}

static void a_lease_is_renewed_and_one_that_was_lost_stops_its_writes(
	void **state)
{
	struct store *store = scene_open();
	struct volume_record *record = scene_volume("v", "n1");
	struct kube_http *http = past_the_store();
	struct json_object *before, *after;
	struct error err = {0};

	(void)state;
	assert_int_equal(scene_create(store, record, NULL), 0);
	assert_int_equal(store->ops->lease(store, RECORD_KIND_VOLUME, "v",
					   "testing", NULL),
			 0);
	assert_int_equal(store->ops->lease(store, RECORD_KIND_NODE, "v",
					   "testing", NULL),
			 0);
	assert_int_equal(kube_call(http, "GET", LEASES "/storagenode-v", NULL,
				   true, &before, NULL),
			 0);
	assert_int_equal(kube_call(http, "DELETE", LEASES "/volumesplit-v",
				   NULL, false, NULL, NULL),
			 0);
	/* The answer to a renewal gets lost; it is still ours. */
	test_server_faults(&scene.server, "PUT storagenode-v 1 after 409\n");
	(void)poll(NULL, 0, (LEASE_RENEW_S + 2) * 1000);
	scene_wait(was_renewed(http, before));

	assert_int_equal(kube_call(http, "GET", LEASES "/storagenode-v", NULL,
				   true, &after, NULL),
			 0);
	assert_string_not_equal(kube_text(before, "spec", "renewTime"),
				kube_text(after, "spec", "renewTime"));
	assert_string_equal(kube_text(before, "spec", "acquireTime"),
			    kube_text(after, "spec", "acquireTime"));
	record->epoch++;
	assert_int_equal(scene_swap(store, record, &err), -ESTALE);
	assert_non_null(strstr(err.msg, "lease"));
	assert_int_equal(
		store->ops->remove(store, RECORD_KIND_VOLUME, "v", NULL, NULL),
		-ESTALE);
	/* Given back and taken again, it is good again. */
	store->ops->release(store, RECORD_KIND_VOLUME, "v");
	assert_int_equal(store->ops->lease(store, RECORD_KIND_VOLUME, "v",
					   "testing", NULL),
			 0);
	assert_int_equal(scene_swap(store, record, NULL), 0);
	store->ops->release(store, RECORD_KIND_VOLUME, "v");
	store->ops->release(store, RECORD_KIND_NODE, "v");
	json_object_put(before);
	json_object_put(after);
	volume_record_free(record);
	kube_http_free(http);
	store_close(store);
}

static void a_flood_of_notices_is_dropped(void **state)
{
	struct store *store = scene_open();
	struct volume_record *record = scene_volume("v", "n1");

	(void)state;
	assert_int_equal(scene_create(store, record, NULL), 0);
	(void)test_server_count(&scene.server, "", "");
	for (int i = 0; i < 100; i++)
		assert_int_equal(store_tell(store, RECORD_KIND_VOLUME, "v",
					    true, "Test", NULL, "number %d", i),
				 0);
	assert_in_range(test_server_count(&scene.server, "POST", "/events"), 20,
			25);
	/* A record that is not there is nobody's business. */
	assert_int_equal(store_tell(store, RECORD_KIND_VOLUME, "none", true,
				    "Test", NULL, "hello"),
			 0);
	volume_record_free(record);
	store_close(store);
}

/* ---- watching ---- */

/* Told of what is there after changes that meet @fault on their way. */
static void watched_through(const char *fault)
{
	struct store *store = scene_open();
	struct volume_record *a = scene_volume("a", "n1"),
			     *b = scene_volume("b", "n1");
	struct watching *w;
	char words[256];

	assert_int_equal(scene_create(store, a, NULL), 0);
	test_server_faults(&scene.server, fault);
	w = watching_start(scene.server.location);
	watching_wait_synced(w);
	assert_int_equal(scene_create(store, b, NULL), 0);
	a->epoch++;
	assert_int_equal(scene_swap(store, a, NULL), 0);
	(void)snprintf(words, sizeof(words), "a=%s b=%s", a->resource_version,
		       b->resource_version);
	watching_wait(w, words);
	assert_int_equal(scene_delete(store, "a"), 0);
	(void)snprintf(words, sizeof(words), "b=%s", b->resource_version);
	watching_wait(w, words);
	/* One stumble is nobody's business. */
	assert_int_equal(watching_cuts(w), 0);
	assert_int_equal(scene_delete(store, "b"), 0);
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
	assert_true(test_server_count(&scene.server, "GET", "watch=1") <= 2);
}

static void what_happened_while_cut_off_is_told_afterwards(void **state)
{
	struct store *store = scene_open();
	struct volume_record *a = scene_volume("a", "n1"),
			     *b = scene_volume("b", "n1");
	struct watching *w;
	char words[256];

	(void)state;
	assert_int_equal(scene_create(store, a, NULL), 0);
	/* The first stream ends with its first event; no other begins. */
	test_server_faults(&scene.server,
			   "GET watch=1 1 end\nGET watch=1 99 cut\n");
	w = watching_start(scene.server.location);
	watching_wait_synced(w);
	assert_int_equal(scene_create(store, b, NULL), 0);
	for (int ms = 0; watching_cuts(w) == 0; ms += 20) {
		assert_true(ms < 30000);
		(void)poll(NULL, 0, 20);
	}
	assert_int_equal(scene_delete(store, "a"), 0);
	test_server_faults(&scene.server, "");
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
	struct store *store = scene_open();
	struct error err = {0};

	(void)state;
	test_server_faults(&scene.server, "GET volumesplits 2 status 403\n");
	assert_int_equal(store->ops->watch(store, RECORD_KIND_VOLUME, -1, NULL,
					   NULL, &err),
			 -EACCES);
	assert_non_null(strstr(err.msg, "grant"));
	store_close(store);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCENE_TEST(a_lease_of_another_machine_lasts_until_it_expires),
		SCENE_TEST(
			a_lease_is_renewed_and_one_that_was_lost_stops_its_writes),
		SCENE_TEST(a_flood_of_notices_is_dropped),
		SCENE_TEST(a_watch_survives_a_server_that_stumbles),
		SCENE_TEST(a_watch_told_to_slow_down_does),
		SCENE_TEST(what_happened_while_cut_off_is_told_afterwards),
		SCENE_TEST(who_may_not_watch_is_told_what_to_grant),
	};

	return cmocka_run_group_tests(tests, scene_prepare, scene_remove);
}
