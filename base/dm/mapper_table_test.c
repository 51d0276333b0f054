/* SPDX-License-Identifier: Apache-2.0 */
#include "base/dm/mapper_table.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

#include "base/cleanup.h"

#define MIB   (UINT64_C(1) << 20)
#define TABLE auto_cleanup(mapper_table_done) struct mapper_table
#define DISK  makedev(7, 3)

static void adjacent_segments_are_joined(void **state)
{
	TABLE t = {.count = 0};

	(void)state;
	assert_int_equal(mapper_table_add_linear(&t, MIB, DISK, MIB), 0);
	assert_int_equal(mapper_table_add_linear(&t, MIB, DISK, 2 * MIB), 0);
	assert_int_equal(t.count, 1);
	/* not where it ends; on another device; a gap of errors */
	assert_int_equal(mapper_table_add_linear(&t, MIB, DISK, 9 * MIB), 0);
	assert_int_equal(
		mapper_table_add_linear(&t, MIB, makedev(7, 4), 10 * MIB), 0);
	assert_int_equal(mapper_table_add_error(&t, MIB), 0);
	assert_int_equal(mapper_table_add_error(&t, MIB), 0);
	assert_int_equal(t.count, 4);
	assert_int_equal(t.size, 6 * MIB);
	assert_int_equal(t.segments[3].start, 4 * MIB);
	assert_true(mapper_table_has_device(&t, makedev(7, 4)));
	assert_false(mapper_table_has_device(&t, makedev(8, 4)));
	assert_false(mapper_table_is_error(&t));
}

static void refuses_what_the_kernel_cannot_have(void **state)
{
	struct mapper_place two[] = {{DISK, 0}, {DISK, MIB}};
	TABLE t = {.count = 0};

	(void)state;
	assert_int_equal(mapper_table_add_linear(&t, 0, DISK, 0), -EINVAL);
	assert_int_equal(mapper_table_add_linear(&t, 100, DISK, 0), -EINVAL);
	assert_int_equal(mapper_table_add_linear(&t, 512, DISK, 100), -EINVAL);
	assert_int_equal(mapper_table_add_linear(&t, UINT64_MAX - 511, DISK, 0),
			 -EINVAL);
	assert_int_equal(
		mapper_table_add_linear(&t, MIB, DISK, UINT64_MAX - 511),
		-EINVAL);
	assert_int_equal(mapper_table_add_striped(&t, MIB, 4096, two, 0),
			 -EINVAL);
	assert_int_equal(mapper_table_add_striped(&t, MIB, 0, two, 2), -EINVAL);
	assert_int_equal(mapper_table_add_striped(&t, 4096 * 3, 4096, two, 2),
			 -EINVAL);
	assert_int_equal(t.count, 0);
	assert_int_equal(t.size, 0);
	assert_int_equal(mapper_table_add_error(&t, INT64_MAX - 511), 0);
	assert_int_equal(mapper_table_add_error(&t, MIB), -EINVAL);
}

static void finds_the_place_of_each_byte(void **state)
{
	struct mapper_place three[] = {
		{DISK, 0}, {makedev(7, 4), MIB}, {makedev(7, 5), 0}};
	TABLE t = {.count = 0};
	struct mapper_place place;
	uint64_t length;

	(void)state;
	assert_int_equal(mapper_table_add_linear(&t, MIB, DISK, 5 * MIB), 0);
	assert_int_equal(mapper_table_add_striped(&t, 3 * MIB, 65536, three, 3),
			 0);
	assert_int_equal(mapper_table_add_error(&t, MIB), 0);
	assert_true(mapper_segment_place(mapper_table_find(&t, MIB - 1),
					 MIB - 1, &place, &length));
	assert_int_equal(place.offset, 6 * MIB - 1);
	assert_int_equal(length, 1);
	/* the second row's second stripe, 100 bytes in */
	assert_true(mapper_segment_place(
		mapper_table_find(&t, MIB + 4 * 65536 + 100),
		MIB + 4 * 65536 + 100, &place, &length));
	assert_int_equal(place.device, makedev(7, 4));
	assert_int_equal(place.offset, MIB + 65536 + 100);
	assert_int_equal(length, 65536 - 100);
	assert_false(mapper_segment_place(mapper_table_find(&t, 4 * MIB),
					  4 * MIB, &place, &length));
	assert_null(mapper_table_find(&t, 5 * MIB));
}

static void finds_each_of_many_segments(void **state)
{
	TABLE t = {.count = 0};

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		assert_int_equal(mapper_table_add_linear(&t, (1 + i % 7) * 512,
							 DISK,
							 MIB * (1000 - i)),
				 0);
	assert_int_equal(t.count, 1000);
	for (size_t i = 0; i < t.count; i++) {
		const struct mapper_segment *s = &t.segments[i];

		assert_ptr_equal(mapper_table_find(&t, s->start), s);
		assert_ptr_equal(
			mapper_table_find(&t, s->start + s->length - 1), s);
	}
}

static void the_text_reads_back(void **state)
{
	struct mapper_place two[] = {{DISK, 0}, {makedev(259, 1048575), MIB}};
	TABLE t = {.count = 0};
	TABLE back = {.count = 0};
	auto_free char *text = NULL;

	(void)state;
	assert_int_equal(mapper_table_add_linear(&t, MIB, DISK, 512), 0);
	assert_int_equal(mapper_table_add_striped(&t, MIB, 4096, two, 2), 0);
	assert_int_equal(mapper_table_add_error(&t, 512), 0);
	text = mapper_table_encode(&t);
	assert_string_equal(text,
			    "0 2048 linear 7:3 1\n"
			    "2048 2048 striped 2 8 7:3 0 259:1048575 2048\n"
			    "4096 1 error\n");
	assert_int_equal(mapper_table_decode(text, &back, NULL), 0);
	assert_true(mapper_table_equal(&t, &back));
	assert_int_equal(mapper_table_add_error(&back, 512), 0);
	assert_false(mapper_table_equal(&t, &back));
}

static void refuses_a_text_that_is_no_table(void **state)
{
	static const char *const bad[] = {
		"x",
		"0",
		"0 8",
		"8 8 error",
		"0 8 error\n9 8 error",
		"0 -8 error",
		"0 0 error",
		"0 8 linear",
		"0 8 linear 7:3",
		"0 8 linear 7 0",
		"0 8 linear 7:3 0 more",
		"0 8 linear 7:3x 0",
		"0 99999999999999999999 error",
		"0 16 striped 2 8 7:3 0",
		"0 16 striped 2 8 7:3 0 7:4 0 7:5 0",
		"0 16 striped 4294967297 8 7:3 0",
		"0 16 striped 0 8",
	};
	TABLE t = {.count = 0};

	(void)state;
	for (size_t i = 0; i < array_size(bad); i++) {
		struct error err = {.code = 0};

		if (mapper_table_decode(bad[i], &t, &err) != -EINVAL)
			fail_msg("taken: %s", bad[i]);
		assert_non_null(strstr(err.msg, "line"));
	}
	/* Of a device that is not ours. */
	assert_int_equal(mapper_table_decode("0 8 thin 7:3 4\n", &t, NULL), 0);
	assert_int_equal(t.segments[0].kind, MAPPER_OTHER);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adjacent_segments_are_joined),
		cmocka_unit_test(refuses_what_the_kernel_cannot_have),
		cmocka_unit_test(finds_the_place_of_each_byte),
		cmocka_unit_test(finds_each_of_many_segments),
		cmocka_unit_test(the_text_reads_back),
		cmocka_unit_test(refuses_a_text_that_is_no_table),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
