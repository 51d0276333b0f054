/* SPDX-License-Identifier: Apache-2.0 */
#include "target/export/export_stats.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void counts_what_was_done_and_how_long_it_took(void **state)
{
	static const struct {
		int64_t ns;
		unsigned bucket;
	} rows[] = {
		{0, 0},
		{999, 0},
		{1000, 1},
		{1999, 1},
		{2000, 2},
		{4000, 3},
		{1023000, 10},
		{1024000, 11},
		{-5, 0}, /* a clock that went back */
		{INT64_MAX, EXPORT_LATENCIES - 1},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct export_stats stats = {0};
		const struct export_op_stats *s = &stats.ops[EXPORT_OP_READ];

		export_stats_note(&stats, EXPORT_OP_READ, 4096, rows[i].ns,
				  false);
		assert_int_equal(s->operations, 1);
		assert_int_equal(s->errors, 0);
		assert_int_equal(s->bytes, 4096);
		assert_int_equal(s->latency[rows[i].bucket], 1);
	}
}

static void what_failed_moved_nothing(void **state)
{
	struct export_stats stats = {0}, sum = {0};

	(void)state;
	export_stats_note(&stats, EXPORT_OP_WRITE, 4096, 7000, true);
	export_stats_note(&stats, EXPORT_OP_WRITE, 512, 5000, false);
	export_stats_add(&sum, &stats);
	export_stats_add(&sum, &stats);
	assert_int_equal(sum.ops[EXPORT_OP_WRITE].operations, 4);
	assert_int_equal(sum.ops[EXPORT_OP_WRITE].errors, 2);
	assert_int_equal(sum.ops[EXPORT_OP_WRITE].bytes, 1024);
	assert_int_equal(sum.ops[EXPORT_OP_WRITE].total_us, 24);
	assert_int_equal(sum.ops[EXPORT_OP_WRITE].latency[3], 4);
	assert_int_equal(sum.ops[EXPORT_OP_READ].operations, 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_what_was_done_and_how_long_it_took),
		cmocka_unit_test(what_failed_moved_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
