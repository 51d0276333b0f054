/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> /* needs those before it */
#include <stdio.h>
#include <string.h>

#include "cli/live/top.h"

static struct top_sample sample(const char *volume, unsigned index,
				const char *node, uint64_t reads,
				uint64_t writes)
{
	struct top_sample s = {
		.index = index,
		.use = {.known = true,
			.reads = reads,
			.read_bytes = reads * 4096,
			.read_us = reads * 500,
			.writes = writes,
			.write_bytes = writes * 8192,
			.write_us = writes * 2000,
			.counter = "device loop3"},
	};

	(void)snprintf(s.volume, sizeof(s.volume), "%s", volume);
	(void)snprintf(s.node, sizeof(s.node), "%s", node);
	return s;
}

static const struct top_rates *named(const struct top_rates *rates, size_t n,
				     const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(rates[i].name, name) == 0)
			return &rates[i];
	fail_msg("no '%s'", name);
	return NULL;
}

static void near(double value, double want)
{
	assert_true(value > want - 0.001 && value < want + 0.001);
}

static void rates_are_of_the_time_between(void **state)
{
	struct top_sample a[] = {sample("v", 0, "n1", 100, 10),
				 sample("v", 1, "n2", 0, 0),
				 sample("w", 0, "n1", 5, 5)};
	struct top_sample b[] = {sample("v", 0, "n1", 300, 10),
				 sample("v", 1, "n2", 100, 40),
				 sample("w", 0, "n1", 5, 5)};
	const struct top_samples before = {.items = a, .n = 3, .at_ms = 1000};
	const struct top_samples now = {.items = b, .n = 3, .at_ms = 3000};
	const struct top_rates *one;
	struct top top;

	(void)state;
	top_make(&before, &now, &top);
	assert_int_equal(top.n_splits, 3);
	assert_int_equal(top.n_volumes, 2);
	assert_int_equal(top.n_nodes, 2);
	one = named(top.volumes, top.n_volumes, "v");
	assert_true(one->known);
	near(one->reads, 150);
	near(one->read_bytes, 150 * 4096);
	near(one->read_ms, 0.5);
	near(one->writes, 20);
	near(one->write_ms, 2);
	one = named(top.nodes, top.n_nodes, "n1");
	near(one->reads, 100);
	near(one->writes, 0);
	near(one->write_ms, 0);
	/* Known to be idle is 0. */
	one = named(top.volumes, top.n_volumes, "w");
	assert_true(one->known);
	near(one->reads, 0);
	top_done(&top);
}

static void what_is_not_known_is_not_zero(void **state)
{
	struct top_sample a[] = {sample("v", 0, "n1", 100, 10),
				 sample("v", 1, "n2", 100, 10),
				 sample("w", 0, "n3", 100, 10)};
	struct top_sample b[] = {
		sample("new", 0, "n3", 100, 10), sample("v", 0, "n1", 300, 10),
		sample("v", 1, "n2", 0, 0), sample("w", 0, "n4", 100, 10)};
	const struct top_samples before = {.items = a, .n = 3, .at_ms = 1000};
	const struct top_samples now = {.items = b, .n = 4, .at_ms = 3000};
	const struct top_rates *one;
	struct top top;
	struct json_object *json, *list, *found = NULL;

	(void)state;
	b[2].use.known = false;
	(void)strcpy(b[2].use.why, "node n2 says nothing");
	(void)strcpy(b[3].use.counter, "device loop4");
	top_make(&before, &now, &top);
	one = named(top.volumes, top.n_volumes, "v");
	assert_false(one->known);
	assert_non_null(strstr(one->why, "split v 1: node n2 says nothing"));
	assert_false(named(top.nodes, top.n_nodes, "n2")->known);
	assert_true(named(top.nodes, top.n_nodes, "n1")->known);
	one = named(top.splits, top.n_splits, "w 0");
	assert_false(one->known);
	assert_non_null(strstr(one->why, "began again"));
	assert_false(named(top.splits, top.n_splits, "new 0")->known);
	json = top_json(&top);
	assert_true(json_object_object_get_ex(json, "volumes", &list));
	assert_false(json_object_object_get_ex(
		json_object_array_get_idx(list, 1), "readsPerSecond", &found));
	assert_true(json_object_object_get_ex(
		json_object_array_get_idx(list, 1), "why", &found));
	json_object_put(json);
	top_done(&top);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rates_are_of_the_time_between),
		cmocka_unit_test(what_is_not_known_is_not_zero),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
