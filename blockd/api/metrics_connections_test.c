/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/api/metrics_connections.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static struct metrics_connections all;

static bool says(const char *text)
{
	size_t length;
	char *page = NULL;
	bool is;
	FILE *out = open_memstream(&page, &length);

	assert_non_null(out);
	metrics_connections_write(out, &all);
	assert_int_equal(fclose(out), 0);
	is = strstr(page, text);
	free(page);
	return is;
}

static void has(const char *text)
{
	assert_true(says(text));
}

static int teardown(void **state)
{
	(void)state;
	metrics_connections_done(&all);
	return 0;
}

static void shows_what_one_did(void **state)
{
	struct target_connection c = {
		.id = 7,
		.peer = "10.0.0.7 (a\"b\\c\nd)",
		.features = "structured base:allocation",
	};

	(void)state;
	export_stats_note(&c.stats, EXPORT_OP_READ, 4096, 5000, false);
	export_stats_note(&c.stats, EXPORT_OP_READ, 4096, 3000000, true);
	assert_int_equal(metrics_connections_add(&all, "x", &c, 1), 0);
#define OF "{extent=\"x\",connection=\"7\","
	has("_connection_info" OF "peer=\"10.0.0.7 (a\\\"b\\\\c\\nd)\","
	    "features=\"structured base:allocation\"} 1\n");
	has("_connection_operations_total" OF "op=\"read\"} 2\n");
	has("_connection_errors_total" OF "op=\"read\"} 1\n");
	has("_connection_bytes_total" OF "op=\"read\"} 4096\n");
	has("_connection_seconds_bucket" OF "op=\"read\",le=\"4e-06\"} 0\n");
	has("_connection_seconds_bucket" OF "op=\"read\",le=\"1.6e-05\"} 1\n");
	has("_connection_seconds_bucket" OF "op=\"read\",le=\"0.004096\"} 2\n");
	has("_connection_seconds_bucket" OF "op=\"read\",le=\"+Inf\"} 2\n");
	has("_connection_seconds_sum" OF "op=\"read\"} 0.003005\n");
	has("_connection_seconds_count" OF "op=\"read\"} 2\n");
	assert_false(says("write"));
}

static void tells_of_so_many_and_counts_the_others(void **state)
{
	struct target_connection *list = calloc(100, sizeof(*list));

	(void)state;
	assert_non_null(list);
	for (unsigned i = 0; i < 100; i++)
		list[i].id = 100 - i;
	assert_int_equal(metrics_connections_add(&all, "x", list, 100), 0);
	assert_int_equal(metrics_connections_add(&all, "y", list, 100), 0);
	assert_int_equal(metrics_connections_add(&all, "z", list, 0), 0);
	free(list);
	assert_int_equal(all.n, METRICS_CONNECTIONS_MAX);
	has("trib_blockd_connections_left_out 72\n");
	has("{extent=\"x\",connection=\"100\",");
	has("{extent=\"y\",connection=\"28\",");
	assert_false(says("{extent=\"y\",connection=\"29\","));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(shows_what_one_did, teardown),
		cmocka_unit_test_teardown(
			tells_of_so_many_and_counts_the_others, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
