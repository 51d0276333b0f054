/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes are asked when a volume is placed, and what is gone by. */
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
#include "base/process.h"
#include "base/size.h"
#include "csi/testkit/fake_node.h"
#include "volume/op/context.h"
#include "volume/plan/volume_room.h"

#define NODES 5

/* Node "hI" has I + 4 GiB, and says so in a report of its keeper. */
struct cluster {
	char dir[64], store[96];
	struct volume_context *volumes;
	struct fake_node nodes[NODES];
	size_t before[NODES]; /* calls so far */
};

static uint64_t room_of(int node)
{
	return (uint64_t)(node + 4) * GIB;
}

static struct node_report *node_says(uint64_t available, const char *version)
{
	struct node_pool pool = {.name = "main",
				 .kind = "dir",
				 .state = NODE_POOL_ONLINE,
				 .capacity = 64 * GIB,
				 .available = available};
	struct node_state state = {.pools = &pool, .n_pools = 1};
	struct node_report *report;

	(void)strcpy(state.version, version);
	report = node_report_of(&state);
	assert_non_null(report);
	report->epoch = 1;
	return report;
}

/* Takes @report, the next one of node @i; NULL: it has none. */
static void node_reports(struct cluster *t, int i, struct node_report *report)
{
	struct store *store = t->volumes->store;
	const char *name = t->nodes[i].name;
	struct node_record node = {0};
	auto_free char *json = NULL;

	assert_int_equal(context_node_load(t->volumes, name, &node, NULL), 0);
	if (report && node.report && report->epoch)
		report->epoch = node.report->epoch + 1;
	node_report_free(node.report);
	node.report = report;
	assert_int_equal(node_record_encode(&node, &json, NULL), 0);
	assert_int_equal(store->ops->compare_and_swap(
				 store, RECORD_KIND_NODE, name,
				 node.resource_version, json, NULL, NULL),
			 0);
	node_record_done(&node);
	assert_int_equal(store->ops->beat(store, name, NULL), 0);
}

/* Another process, which knows nothing yet. */
static void process_anew(struct cluster *t)
{
	const struct volume_config config = {.store = t->store,
					     .node = "here",
					     .run_dir = t->dir,
					     .call_timeout_ms = 1000};

	volume_context_close(t->volumes);
	assert_int_equal(volume_context_open(&config, &t->volumes, NULL), 0);
}

static int cluster_begin(void **state)
{
	struct cluster *t = calloc(1, sizeof(*t));
	char name[8];

	(void)strcpy(t->dir, "/tmp/trib-place-XXXXXX");
	assert_non_null(mkdtemp(t->dir));
	(void)snprintf(t->store, sizeof(t->store), "local:%s/db", t->dir);
	process_anew(t);
	for (int i = 0; i < NODES; i++) {
		(void)snprintf(name, sizeof(name), "h%d", i);
		fake_node_start(&t->nodes[i], t->dir, name, room_of(i),
				t->volumes);
		node_reports(t, i, node_says(room_of(i), ""));
		t->before[i] = fake_node_asked(&t->nodes[i]);
	}
	*state = t;
	return 0;
}

static int cluster_end(void **state)
{
	struct cluster *t = *state;
	const char *const argv[] = {"rm", "-rf", t->dir, NULL};
	struct process_result result;

	for (int i = 0; i < NODES; i++)
		fake_node_stop(&t->nodes[i]);
	volume_context_close(t->volumes);
	if (process_run(argv, NULL, -1, -1, &result, NULL) == 0)
		process_result_done(&result);
	free(t);
	return 0;
}

static int make(struct cluster *t, const char *name, uint64_t size,
		unsigned splits, struct error *err)
{
	struct volume_spec spec = {.capacity = size, .min_splits = splits};
	const struct volume_create_request request = {.name = name,
						      .spec = &spec};

	return volume_create(t->volumes, &request, NULL, err);
}

static void made(struct cluster *t, const char *name, uint64_t size,
		 unsigned splits)
{
	struct error err = {0};

	if (make(t, name, size, splits, &err) < 0)
		fail_msg("%s", error_text(&err));
}

/* The nodes asked since the last look, a bit each. */
static unsigned asked(struct cluster *t)
{
	unsigned nodes = 0;

	for (int i = 0; i < NODES; i++) {
		size_t now = fake_node_asked(&t->nodes[i]);

		nodes |= (now > t->before[i] ? 1u : 0u) << i;
		t->before[i] = now;
	}
	return nodes;
}

static void a_create_asks_only_the_nodes_it_chose(void **state)
{
	struct cluster *t = *state;

	made(t, "one", GIB, 1);
	assert_int_equal(asked(t), 1 << 4);
	made(t, "two", 2 * GIB, 2);
	assert_int_equal(asked(t), 1 << 4 | 1 << 3);
}

static void a_node_that_says_no_is_followed_by_the_next_best(void **state)
{
	struct cluster *t = *state;

	t->nodes[4].capacity = MIB;
	atomic_store(&t->nodes[3].pool_state, "failing");
	made(t, "v", GIB, 1);
	assert_int_equal(asked(t), 1 << 4 | 1 << 3 | 1 << 2);
	assert_int_equal(fake_node_extents(&t->nodes[2]), 1);
}

static void a_silent_node_is_followed_by_the_next_best(void **state)
{
	struct cluster *t = *state;

	fake_node_down(&t->nodes[4]);
	made(t, "v", GIB, 1);
	assert_int_equal(asked(t), 1 << 3);
	fake_node_up(&t->nodes[4]);
}

static void a_refusal_is_that_of_all_nodes(void **state)
{
	struct cluster *t = *state;
	struct error err = {0};

	/* More than any report tells, and than any node has. */
	assert_int_equal(make(t, "v", 60 * GIB, 0, &err), -ENOSPC);
	assert_int_equal(asked(t), (1 << NODES) - 1);
	/* Reports of full nodes that have become empty. */
	for (int i = 0; i < NODES; i++)
		node_reports(t, i, node_says(0, ""));
	process_anew(t);
	made(t, "v", GIB, 1);
	assert_int_equal(asked(t), (1 << NODES) - 1);
	assert_int_equal(fake_node_extents(&t->nodes[4]), 1);
}

static void a_node_that_nobody_can_go_by_is_asked(void **state)
{
	struct cluster *t = *state;
	struct store *store = t->volumes->store;
	struct node_report *report = node_says(room_of(0), "");

	/* An older keeper; a silent blockd; no report; no heartbeat. */
	report->epoch = 0;
	node_reports(t, 0, report);
	report = node_says(room_of(1), "");
	report->ready = NODE_READY_FALSE;
	(void)strcpy(report->reason, NODE_REASON_SILENT);
	node_reports(t, 1, report);
	node_reports(t, 2, NULL);
	made(t, "v", GIB, 1);
	assert_int_equal(asked(t), 1 << 4 | 1 << 2 | 1 << 1 | 1 << 0);
	assert_int_equal(store->ops->beat_end(store, "h4", NULL), 0);
	process_anew(t);
	made(t, "w", GIB, 1); /* h4 is lost, as if its machine were gone */
	assert_int_equal(asked(t), 1 << 3 | 1 << 2 | 1 << 1 | 1 << 0);
}

static void a_cordoned_node_is_not_chosen(void **state)
{
	struct cluster *t = *state;

	assert_int_equal(volume_node_cordon(t->volumes, "h4", NULL, true, NULL),
			 0);
	assert_int_equal(
		volume_node_cordon(t->volumes, "h3", "main", true, NULL), 0);
	(void)asked(t);
	made(t, "v", GIB, 1);
	assert_int_equal(asked(t), 1 << 2);
}

static void a_node_that_is_too_new_is_refused_by_name(void **state)
{
	struct cluster *t = *state;
	struct error err = {0};

	atomic_store(&t->nodes[4].version, "9.0.0");
	node_reports(t, 4, node_says(room_of(4), "9.0.0"));
	made(t, "v", GIB, 1);
	assert_int_equal(asked(t), 1 << 3);
	assert_int_equal(make(t, "w", 60 * GIB, 0, &err), -ENOSPC);
	assert_non_null(strstr(error_text(&err), "node 'h4' runs version 9.0"));
	/* Upgraded meanwhile: its report does not say so yet. */
	atomic_store(&t->nodes[3].version, "9.1.0");
	made(t, "x", GIB, 1);
	assert_int_equal(fake_node_extents(&t->nodes[2]), 1);
}

static void growth_asks_the_nodes_of_the_volume(void **state)
{
	struct cluster *t = *state;

	made(t, "v", 5 * GIB, 1);
	/* The report tells less than is left. */
	node_reports(t, 4, node_says(MIB, ""));
	process_anew(t);
	(void)asked(t);
	assert_int_equal(volume_resize(t->volumes, "v", 6 * GIB, NULL, NULL),
			 0);
	assert_int_equal(asked(t), 1 << 4);
	assert_int_equal(volume_resize(t->volumes, "v", 11 * GIB, NULL, NULL),
			 0);
	assert_int_equal(asked(t), 1 << 4 | 1 << 3);
}

static void a_clone_asks_the_nodes_of_its_source(void **state)
{
	struct volume_spec spec = {
		.source = {.kind = VOLUME_SOURCE_VOLUME, .name = "v"}};
	const struct volume_create_request request = {.name = "c",
						      .spec = &spec};
	struct cluster *t = *state;

	made(t, "v", 2 * GIB, 1);
	(void)asked(t);
	assert_int_equal(volume_create(t->volumes, &request, NULL, NULL), 0);
	assert_int_equal(asked(t), 1 << 4);
}

static void room_is_told_without_a_question(void **state)
{
	const struct volume_spec spec = {.min_splits = 1};
	const struct volume_spec *one = &spec;
	struct cluster *t = *state;
	struct volume_room room;

	assert_int_equal(volume_rooms_get(t->volumes, &one, 1, &room, NULL), 0);
	assert_int_equal(asked(t), 0);
	assert_int_equal(room.available, (4 + 5 + 6 + 7 + 8) * GIB);
	assert_int_equal(room.silent, 0);
}

/* ---- what a process remembers ---- */

/* Each create learned what the node that it chose has left. */
static void a_row_of_creates_does_not_ask_the_same_node(void **state)
{
	struct cluster *t = *state;

	made(t, "a", 2 * GIB, 1); /* h4 has 8 GiB, then 6 */
	assert_int_equal(asked(t), 1 << 4);
	made(t, "b", 2 * GIB, 1); /* h3 has 7, then 5 */
	assert_int_equal(asked(t), 1 << 3);
	made(t, "c", 4 * GIB, 1); /* h2 and h4 have 6 */
	made(t, "d", 4 * GIB, 1);
	assert_int_equal(asked(t), 1 << 4 | 1 << 2);
}

static void changes_by_others_are_seen_in_time(void **state)
{
	struct cluster *t = *state;
	struct volume_context *own = t->volumes;

	made(t, "a", GIB, 1);
	/* By another process: two cordons, and a disk that grew. */
	t->volumes = NULL;
	process_anew(t);
	assert_int_equal(volume_node_cordon(t->volumes, "h4", NULL, true, NULL),
			 0);
	assert_int_equal(
		volume_node_cordon(t->volumes, "h3", "main", true, NULL), 0);
	t->nodes[0].capacity = 40 * GIB;
	node_reports(t, 0, node_says(40 * GIB, ""));
	volume_context_close(t->volumes);
	t->volumes = own;
	made(t, "b", GIB, 1);
	assert_int_equal(fake_node_extents(&t->nodes[4]), 1);
	assert_int_equal(fake_node_extents(&t->nodes[3]), 0);
	assert_int_equal(fake_node_extents(&t->nodes[2]), 1);
	/* Nothing that was kept has so much: the records are read again. */
	made(t, "c", 30 * GIB, 1);
	assert_int_equal(fake_node_extents(&t->nodes[0]), 1);
}

#define CLUSTER_TEST(f) \
	cmocka_unit_test_setup_teardown(f, cluster_begin, cluster_end)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CLUSTER_TEST(a_create_asks_only_the_nodes_it_chose),
		CLUSTER_TEST(a_node_that_says_no_is_followed_by_the_next_best),
		CLUSTER_TEST(a_silent_node_is_followed_by_the_next_best),
		CLUSTER_TEST(a_refusal_is_that_of_all_nodes),
		CLUSTER_TEST(a_node_that_nobody_can_go_by_is_asked),
		CLUSTER_TEST(a_cordoned_node_is_not_chosen),
		CLUSTER_TEST(a_node_that_is_too_new_is_refused_by_name),
		CLUSTER_TEST(growth_asks_the_nodes_of_the_volume),
		CLUSTER_TEST(a_clone_asks_the_nodes_of_its_source),
		CLUSTER_TEST(room_is_told_without_a_question),
		CLUSTER_TEST(a_row_of_creates_does_not_ask_the_same_node),
		CLUSTER_TEST(changes_by_others_are_seen_in_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
