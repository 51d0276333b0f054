/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "volume/record/node.h"

static struct node_report *report_new(uint64_t available)
{
	struct node_pool pool = {.name = "main",
				 .kind = "raw",
				 .state = NODE_POOL_ONLINE,
				 .capacity = 64 * GIB,
				 .available = available};
	struct node_state state = {
		.version = "1.2.3", .pools = &pool, .n_pools = 1};
	struct node_report *report = node_report_of(&state);

	assert_non_null(report);
	report->epoch = 7;
	strcpy(report->transports[0], "loop");
	strcpy(report->transports[1], "nbd");
	report->n_transports = 2;
	return report;
}

static void is_in_the_record_as_it_was(void **state)
{
	struct node_record node = {.name = "a"}, copy = {0};
	auto_free char *json = NULL;

	(void)state;
	node.report = report_new(GIB);
	assert_int_equal(node_record_encode(&node, &json, NULL), 0);
	assert_int_equal(node_record_decode(json, strlen(json), &copy, NULL),
			 0);
	assert_non_null(copy.report);
	assert_true(node_report_equal(node.report, copy.report));
	assert_int_equal(copy.report->epoch, 7);
	assert_int_equal(copy.report->n_transports, 2);
	assert_string_equal(copy.report->transports[1], "nbd");
	node_record_done(&node);
	node_record_done(&copy);
}

static void of_an_older_keeper_has_no_number(void **state)
{
	static const char json[] =
		"{\"apiVersion\":\"" RECORD_API_VERSION
		"\",\"kind\":\"" RECORD_KIND_NODE "\","
		"\"metadata\":{\"name\":\"a\"},\"spec\":{},\"status\":{"
		"\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}],"
		"\"pools\":[{\"name\":\"main\",\"available\":5}]}}";
	struct node_record node = {0};

	(void)state;
	assert_int_equal(node_record_decode(json, strlen(json), &node, NULL),
			 0);
	assert_non_null(node.report);
	assert_int_equal(node.report->epoch, 0);
	assert_int_equal(node.report->pools[0].available, 5);
	node_record_done(&node);
}

static void is_refused_with_more_than_it_may_have(void **state)
{
	static const char head[] =
		"{\"apiVersion\":\"" RECORD_API_VERSION
		"\",\"kind\":\"" RECORD_KIND_NODE "\","
		"\"metadata\":{\"name\":\"a\"},\"spec\":{},\"status\":{"
		"\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}],";
	static const char *const bad[] = {
		"\"transports\":[\"0123456789abcdef\"]}}",
		"\"transports\":[1]}}",
		("\"transports\":[\"\",\"\",\"\",\"\",\"\",\"\",\"\",\"\","
		 "\"\"]}}"),
		"\"epoch\":-1}}",
		"\"epoch\":\"x\"}}",
	};
	struct node_record node = {0};
	char json[1024];

	(void)state;
	for (size_t i = 0; i < array_size(bad); i++) {
		(void)strcat(strcpy(json, head), bad[i]);
		assert_true(node_record_decode(json, strlen(json), &node,
					       NULL) < 0);
	}
}

static void a_little_room_can_wait(void **state)
{
	static const struct {
		uint64_t before, now; /* bytes of 64 GiB */
		bool weighs;
	} cases[] = {
		{32 * GIB, 32 * GIB, false},
		{32 * GIB, 31 * GIB, false},
		{31 * GIB, 32 * GIB, false},
		{32 * GIB, 31 * GIB - 4096, true},
		{31 * GIB - 4096, 32 * GIB, true},
		{4096, 0, true},
		{0, 4096, true},
	};

	(void)state;
	for (size_t i = 0; i < array_size(cases); i++) {
		struct node_report *a = report_new(cases[i].before);
		struct node_report *b = report_new(cases[i].now);

		assert_int_equal(node_report_weighs(a, b), cases[i].weighs);
		assert_int_equal(node_report_equal(a, b),
				 cases[i].before == cases[i].now);
		node_report_free(a);
		node_report_free(b);
	}
}

static void all_else_weighs(void **state)
{
	struct node_report *a = report_new(GIB), *b = report_new(GIB);

	(void)state;
	assert_true(node_report_weighs(NULL, a));
	strcpy(b->pools[0].state, "failing");
	assert_true(node_report_weighs(a, b));
	strcpy(b->pools[0].state, NODE_POOL_ONLINE);
	assert_false(node_report_weighs(a, b));
	strcpy(b->version, "1.3.0");
	assert_true(node_report_weighs(a, b));
	strcpy(b->version, a->version);
	strcpy(b->transports[1], "ublk");
	assert_true(node_report_weighs(a, b));
	assert_false(node_report_equal(a, b));
	strcpy(b->transports[1], a->transports[1]);
	b->n_transports = 1;
	assert_true(node_report_weighs(a, b));
	b->n_transports = 2;
	b->pools[0].capacity++;
	assert_true(node_report_weighs(a, b));
	b->pools[0].capacity--;
	b->n_pools = 0;
	assert_true(node_report_weighs(a, b));
	b->n_pools = 1;
	b->epoch++;
	assert_true(node_report_equal(a, b));
	node_report_free(a);
	node_report_free(b);
}

static void one_minor_version_may_be_between(void **state)
{
	static const struct {
		const char *version, *own;
		bool newer;
	} cases[] = {
		{"1.2.3", "1.2.3", false}, {"1.3.0", "1.2.9", false},
		{"1.4.0", "1.2.9", true},  {"2.0.0", "1.9.0", true},
		{"1.0.0", "2.7.0", false}, {"0.10.0", "0.9.0", false},
		{"0.11.0", "0.9.0", true}, {"", "1.2.3", false},
		{"dev", "1.2.3", false},   {"1.4", "1.2", true},
	};

	(void)state;
	for (size_t i = 0; i < array_size(cases); i++)
		assert_int_equal(
			node_version_is_newer(cases[i].version, cases[i].own),
			cases[i].newer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(is_in_the_record_as_it_was),
		cmocka_unit_test(of_an_older_keeper_has_no_number),
		cmocka_unit_test(is_refused_with_more_than_it_may_have),
		cmocka_unit_test(a_little_room_can_wait),
		cmocka_unit_test(all_else_weighs),
		cmocka_unit_test(one_minor_version_may_be_between),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
