/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "cli/live/events.h"

#define NOW_S 1768000000

static void is_event(const struct event_list *list, size_t i, int64_t at_s,
		     const char *object, bool good, const char *reason)
{
	assert_true(i < list->n);
	assert_int_equal(list->events[i].at_s, at_s);
	assert_string_equal(list->events[i].object, object);
	assert_int_equal(list->events[i].good, good);
	assert_string_equal(list->events[i].reason, reason);
}

/* A node without a leader of its store, before and after it is lost. */
static void a_node_is_lost_since_its_last_heartbeat(void **state)
{
	struct node_report report = {.ready = NODE_READY_TRUE,
				     .reason = NODE_REASON_READY,
				     .since_s = NOW_S - 500};
	struct node_scrub scrub = {.at_s = NOW_S - 50, .missing = 1};
	struct node_state node = {.record = {.name = "a",
					     .created_s = NOW_S - 900,
					     .report = &report,
					     .scrub = &scrub},
				  .last_seen_s = 2};
	struct event_list list = {0};

	(void)state;
	events_of_node(&list, &node, NOW_S);
	events_sort(&list);
	assert_int_equal(list.n, 3);
	is_event(&list, 0, NOW_S - 900, "node a", true, "Known");
	is_event(&list, 1, NOW_S - 500, "node a", true, "Answers");
	is_event(&list, 2, NOW_S - 50, "node a", false, "Scrubbed");
	node.lost = true;
	node.last_seen_s = 45;
	list.n = 0;
	events_of_node(&list, &node, NOW_S);
	events_sort(&list);
	is_event(&list, 2, NOW_S - 45, "node a", false, "HeartbeatLost");
	free(list.events);
}

static void conditions_and_attachments_are_events(void **state)
{
	struct volume_attachment attachment = {
		.node = "a",
		.mount_point = "/mnt",
		.state = ATTACHMENT_ATTACHED,
		.since_s = NOW_S,
	};
	struct volume_condition conditions[] = {
		{"Created", true, "Done", "all is there", NOW_S - 7},
		{"Healthy", false, "NodeSilent", "a is silent", NOW_S + 7},
	};
	const struct volume_record volume = {
		.name = "v",
		.attachments = &attachment,
		.n_attachments = 1,
		.conditions = conditions,
		.n_conditions = 2,
	};
	const struct snapshot_record snapshot = {
		.name = "s", .volume = "v", .cut_s = NOW_S + 1};
	struct event_list list = {0};

	(void)state;
	events_of_snapshot(&list, &snapshot);
	events_of_volume(&list, &volume);
	events_sort(&list);
	assert_int_equal(list.n, 4);
	is_event(&list, 0, NOW_S - 7, "volume v", true, "Done");
	is_event(&list, 1, NOW_S, "volume v", true, "Attached");
	assert_string_equal(list.events[1].message, "on node a at /mnt");
	is_event(&list, 2, NOW_S + 1, "snapshot s", true, "Cut");
	is_event(&list, 3, NOW_S + 7, "volume v", false, "NodeSilent");
	assert_string_equal(list.events[3].message, "Healthy: a is silent");
	free(list.events);
}

static void what_is_known_is_no_news(void **state)
{
	struct event events[] = {
		{.at_s = NOW_S - 100, .object = "node a", .reason = "x"},
		{.at_s = NOW_S, .object = "node a", .reason = "x"},
		{.at_s = NOW_S, .object = "node b", .reason = "x"},
		{.at_s = NOW_S, .object = "node b", .reason = "y"},
	};
	const struct event_list known = {events, 3};
	struct event_list list = {0};
	const struct event_list all = {events, 4};

	(void)state;
	/* The same, as far as anybody can tell; then what is new. */
	assert_int_equal(events_copy(&all, &list, NULL), 0);
	list.events[1].at_s += 5;
	list.events[2].at_s -= 5;
	events_drop_known(&list, &known);
	assert_int_equal(list.n, 1);
	is_event(&list, 0, NOW_S, "node b", false, "y");
	/* The same once more is news. */
	list.events[0] = events[0];
	list.events[0].at_s += 50;
	events_drop_known(&list, &known);
	assert_int_equal(list.n, 1);
	list.events[0] = events[1];
	list.events[0].good = true;
	events_drop_known(&list, &known);
	assert_int_equal(list.n, 1);
	free(list.events);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_node_is_lost_since_its_last_heartbeat),
		cmocka_unit_test(conditions_and_attachments_are_events),
		cmocka_unit_test(what_is_known_is_no_news),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
