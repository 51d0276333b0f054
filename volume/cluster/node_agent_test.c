/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/testkit/store_test_kit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "volume/cluster/node_agent.h"
#include "volume/op/context.h"
#include "volume/store/kube/api/kube_call.h"
#include "volume/store/kube/api/kube_config.h"

#define HEARTBEATS "/apis/coordination.k8s.io/v1/namespaces/tributary/leases"

static struct volume_context *opened(const char *location)
{
	const struct volume_config config = {
		.store = location, .node = "n", .call_timeout_ms = 1000};
	struct volume_context *ctx = NULL;
	struct error err = {0};

	if (volume_context_open(&config, &ctx, &err) < 0)
		fail_msg("%s", err.msg);
	return ctx;
}

/* ---- a keeper in a thread ---- */

struct kept {
	struct volume_context *ctx;
	struct node_record node;
	struct node_agent_request request;
	pthread_t thread;
	atomic_int told, problems;
	char text[ERROR_TEXT_MAX];
	int r;
};

static void told(void *kept_, bool problem, const char *text)
{
	struct kept *kept = kept_;

	(void)snprintf(kept->text, sizeof(kept->text), "%s", text);
	kept->problems += problem;
	kept->told++;
}

static void *keep(void *kept_)
{
	struct kept *kept = kept_;

	kept->r = volume_node_agent_run(kept->ctx, &kept->request, NULL);
	return NULL;
}

/* Of a machine that only uses volumes: no blockd is needed. */
static struct kept *kept_new(const char *location, const char *control)
{
	struct kept *kept = calloc(1, sizeof(*kept));

	assert_non_null(kept);
	kept->ctx = opened(location);
	strcpy(kept->node.name, "c1");
	if (control) {
		strcpy(kept->node.control_address, control);
		strcpy(kept->node.data_address, "127.0.0.1:1");
	}
	assert_int_equal(labels_set(&kept->node.labels, "zone", "a", NULL), 0);
	kept->request = (struct node_agent_request){
		.node = &kept->node,
		.stop_fd = eventfd(0, EFD_CLOEXEC),
		.told = told,
		.context = kept,
	};
	assert_int_equal(pthread_create(&kept->thread, NULL, keep, kept), 0);
	return kept;
}

static void kept_stop(struct kept *kept)
{
	assert_int_equal(eventfd_write(kept->request.stop_fd, 1), 0);
	assert_int_equal(pthread_join(kept->thread, NULL), 0);
	assert_int_equal(kept->r, 0);
	(void)close(kept->request.stop_fd);
	node_record_done(&kept->node);
	volume_context_close(kept->ctx);
	free(kept);
}

static void wait_until_told(struct kept *kept, int times)
{
	scene_wait(kept->told >= times);
}

/* ---- what others see ---- */

static struct node_state *seen(struct volume_context *ctx)
{
	struct node_state *states = NULL;
	size_t n = 0;

	assert_int_equal(volume_node_list(ctx, &states, &n, NULL), 0);
	assert_int_equal(n, 1);
	assert_string_equal(states->record.name, "c1");
	return states;
}

static void is_ready(struct volume_context *ctx, enum node_ready ready,
		     const char *reason, bool lost)
{
	struct node_state *state = seen(ctx);

	assert_non_null(state->record.report);
	assert_int_equal(state->record.report->ready, ready);
	assert_string_equal(state->record.report->reason, reason);
	assert_true(state->record.report->since_s > 1700000000);
	assert_int_equal(state->lost, lost);
	if (lost)
		assert_non_null(strstr(state->problem, "lost"));
	node_states_free(state, 1);
}

static void a_client_is_known_until_it_stops(const char *location)
{
	struct volume_context *ctx = opened(location);
	struct kept *kept = kept_new(location, NULL);
	struct node_state *state;

	wait_until_told(kept, 1);
	assert_int_equal(kept->problems, 0);
	is_ready(ctx, NODE_READY_TRUE, NODE_REASON_READY, false);
	assert_int_equal(volume_node_observe(ctx, NULL), 0);
	is_ready(ctx, NODE_READY_TRUE, NODE_REASON_READY, false);
	assert_int_equal(volume_node_remove(ctx, "c1", NULL), -EBUSY);
	state = seen(ctx);
	assert_true(state->reachable);
	assert_in_range(state->last_seen_s, 0, STORE_BEAT_LOST_S);
	assert_string_equal(labels_get(&state->record.labels, "zone"), "a");
	assert_int_equal(state->record.report->epoch, 1);
	/* A person's change of its record does not lose what it says. */
	assert_int_equal(volume_node_cordon(ctx, "c1", NULL, true, NULL), 0);
	assert_int_equal(volume_node_cordon(ctx, "c1", NULL, true, NULL), 0);
	assert_int_equal(volume_node_cordon(ctx, "c2", NULL, true, NULL),
			 -ENOENT);
	labels_done(&state->record.labels);
	assert_int_equal(volume_node_add(ctx, &state->record, NULL, NULL), 0);
	is_ready(ctx, NODE_READY_TRUE, NODE_REASON_READY, false);
	node_states_free(state, 1);

	kept_stop(kept);
	/* Nor do a keeper's and a person's change lose the cordon. */
	state = seen(ctx);
	assert_true(state->record.cordoned);
	assert_int_equal(state->record.report->epoch, 2); /* "stopped" */
	node_states_free(state, 1);
	assert_int_equal(volume_node_cordon(ctx, "c1", NULL, false, NULL), 0);
	state = seen(ctx);
	assert_false(state->record.cordoned);
	node_states_free(state, 1);
	is_ready(ctx, NODE_READY_FALSE, NODE_REASON_STOPPED, false);
	assert_int_equal(volume_node_observe(ctx, NULL), 0);
	is_ready(ctx, NODE_READY_FALSE, NODE_REASON_STOPPED, false);
	assert_int_equal(volume_node_remove(ctx, "c1", NULL), 0);
	volume_context_close(ctx);
}

static void on_one_machine(void **state)
{
	(void)state;
	a_client_is_known_until_it_stops(scene.local);
}

static void in_a_cluster(void **state)
{
	(void)state;
	if (!scene.prepared)
		skip();
	a_client_is_known_until_it_stops(scene.server.location);
}

/* The Event @reason of our node: how often it happened; 0: never. */
static int event_count(const char *about, const char *reason)
{
	static const char path[] = "/api/v1/namespaces/tributary/events";
	struct json_object *list, *items, *count;
	struct kube_config config;
	struct kube_http *http;
	int found = 0;

	assert_int_equal(
		kube_config_load(scene.server.location + strlen("kube:"),
				 &config, NULL),
		0);
	assert_int_equal(kube_http_new(&config, &http, NULL), 0);
	assert_int_equal(kube_call(http, "GET", path, NULL, true, &list, NULL),
			 0);
	assert_true(json_object_object_get_ex(list, "items", &items));
	for (size_t i = 0; i < json_object_array_length(items); i++) {
		struct json_object *item = json_object_array_get_idx(items, i);

		if (strcmp(kube_text(item, NULL, "reason"), reason) != 0 ||
		    strcmp(kube_text(item, "involvedObject", "name"), about) !=
			    0)
			continue;
		assert_int_equal(found, 0); /* one that is counted */
		assert_true(json_object_object_get_ex(item, "count", &count));
		found = json_object_get_int(count);
	}
	json_object_put(list);
	kube_http_free(http);
	return found;
}

/* Its beats do not arrive; then they do. */
static void one_that_is_lost_is_said_to_be_and_comes_back(void **state)
{
	struct volume_record *volume;
	struct volume_context *ctx;
	struct kept *kept;

	(void)state;
	if (!scene.prepared)
		skip();
	ctx = opened(scene.server.location);
	volume = scene_volume("v", "c1");
	assert_int_equal(scene_create(ctx->store, volume, NULL), 0);
	volume_record_free(volume);
	test_server_faults(&scene.server, "* heartbeat- 1000 status 403\n");
	kept = kept_new(scene.server.location, NULL);
	wait_until_told(kept, 1);
	assert_int_equal(kept->problems, 1);
	assert_int_equal(volume_node_observe(ctx, NULL), 0);
	is_ready(ctx, NODE_READY_UNKNOWN, NODE_REASON_LOST, true);
	assert_int_equal(event_count("c1", "NodeLost"), 1);
	assert_int_equal(event_count("v", "SplitLost"), 1);
	/* Said once. */
	(void)test_server_count(&scene.server, "", "");
	assert_int_equal(volume_node_observe(ctx, NULL), 0);
	assert_int_equal(
		test_server_count(&scene.server, "PUT", "storagenodes"), 0);
	test_server_faults(&scene.server, "");
	wait_until_told(kept, 2);
	assert_int_equal(kept->problems, 1);
	is_ready(ctx, NODE_READY_TRUE, NODE_REASON_READY, false);
	assert_int_equal(event_count("c1", "NodeReturned"), 1);
	/* By the server's clock. */
	test_server_write(&scene.server, "clock", "60");
	(void)volume_node_observe(ctx, NULL); /* hears of that clock */
	assert_int_equal(volume_node_observe(ctx, NULL), 0);
	is_ready(ctx, NODE_READY_UNKNOWN, NODE_REASON_LOST, true);
	assert_int_equal(event_count("c1", "NodeLost"), 2);
	assert_int_equal(event_count("v", "SplitLost"), 2);
	kept_stop(kept);
	is_ready(ctx, NODE_READY_FALSE, NODE_REASON_STOPPED, false);
	volume_context_close(ctx);
}

static void a_silent_blockd_is_not_kept_alive(void **state)
{
	struct volume_context *ctx = opened(scene.local);
	struct kept *kept = kept_new(scene.local, "unix:/nowhere/blockd.sock");
	struct node_state *seen_state;

	(void)state;
	wait_until_told(kept, 1);
	assert_int_equal(kept->problems, 1);
	assert_non_null(strstr(kept->text, "/nowhere/blockd.sock"));
	is_ready(ctx, NODE_READY_FALSE, NODE_REASON_SILENT, false);
	seen_state = seen(ctx);
	assert_int_equal(seen_state->last_seen_s, -1);
	assert_false(seen_state->reachable);
	node_states_free(seen_state, 1);
	kept_stop(kept);
	volume_context_close(ctx);
}

static void two_machines_of_one_name_are_told(void **state)
{
	static const char other[] =
		"{\"apiVersion\":\"coordination.k8s.io/v1\",\"kind\":\"Lease\","
		"\"metadata\":{\"name\":\"heartbeat-c1\"},\"spec\":{"
		"\"holderIdentity\":\"far/boot\",\"leaseDurationSeconds\":40,"
		"\"renewTime\":\"2999-01-01T00:00:00.000000Z\"}}";
	struct kube_config config;
	struct kube_http *http;
	struct json_object *lease;
	struct kept *kept;

	(void)state;
	if (!scene.prepared)
		skip();
	assert_int_equal(
		kube_config_load(scene.server.location + strlen("kube:"),
				 &config, NULL),
		0);
	assert_int_equal(kube_http_new(&config, &http, NULL), 0);
	lease = json_tokener_parse(other);
	assert_int_equal(
		kube_call(http, "POST", HEARTBEATS, lease, false, NULL, NULL),
		0);
	json_object_put(lease);
	kube_http_free(http);
	kept = kept_new(scene.server.location, NULL);
	wait_until_told(kept, 1);
	assert_non_null(strstr(kept->text, "far/boot"));
	/* And the other's record and heartbeat are left alone. */
	kept_stop(kept);
	assert_int_equal(
		test_server_count(&scene.server, "POST", "storagenodes"), 0);
	assert_int_equal(test_server_count(&scene.server, "DELETE", ""), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		SCENE_TEST(on_one_machine),
		SCENE_TEST(in_a_cluster),
		SCENE_TEST(one_that_is_lost_is_said_to_be_and_comes_back),
		SCENE_TEST(a_silent_blockd_is_not_kept_alive),
		SCENE_TEST(two_machines_of_one_name_are_told),
	};

	return cmocka_run_group_tests(tests, scene_prepare, scene_remove);
}
