/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/device/joined_table.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/sysmacros.h>

#include <cmocka.h>

#include "base/cleanup.h"

#define KIB UINT64_C(1024)

static dev_t device(unsigned part)
{
	return makedev(7, 10 + part);
}

static void join(const struct stripe *stripe, const uint64_t *sizes,
		 unsigned n_parts, struct segments *segments,
		 struct mapper_table *ret)
{
	dev_t devices[SEGMENTS_PARTS_MAX];

	for (unsigned i = 0; i < n_parts; i++)
		devices[i] = device(i);
	assert_int_equal(segments_make(stripe, sizes, n_parts, segments, NULL),
			 0);
	assert_int_equal(joined_table_make(segments, devices, ret), 0);
	assert_int_equal(ret->size, segments->size);
}

/* Each byte of a request is where trib-nbd puts it. */
static void request_agrees(const struct segments *segments,
			   const struct mapper_table *table, uint64_t offset,
			   uint64_t length)
{
	struct segment_walk walk = {
		.offset = offset, .length = length, .piece_max = length};
	struct segment_piece piece;
	uint64_t seen = 0;

	while (segments_next(segments, &walk, &piece)) {
		uint64_t last = piece.length - 1, at = offset + piece.at, run;
		const struct mapper_segment *s = mapper_table_find(table, at);
		struct mapper_place place;

		assert_true(mapper_segment_place(s, at, &place, &run));
		assert_int_equal(place.device, device(piece.part));
		assert_int_equal(place.offset, piece.offset);
		s = mapper_table_find(table, at + last);
		assert_true(mapper_segment_place(s, at + last, &place, &run));
		assert_int_equal(place.device, device(piece.part));
		assert_int_equal(place.offset, piece.offset + last);
		seen += piece.length;
	}
	assert_int_equal(seen, length);
}

static void agrees(const struct stripe *stripe, const uint64_t *sizes,
		   unsigned n_parts)
{
	auto_cleanup(mapper_table_done) struct mapper_table table = {
		.count = 0};
	struct segments segments;

	join(stripe, sizes, n_parts, &segments, &table);
	srandom(n_parts);
	for (unsigned i = 0; i < 2000; i++) {
		uint64_t offset = (uint64_t)random() % segments.size;
		uint64_t length = 1 + (uint64_t)random() % (600 * KIB);

		if (length > segments.size - offset)
			length = segments.size - offset;
		request_agrees(&segments, &table, offset, length);
	}
	request_agrees(&segments, &table, 0, segments.size);
}

static void bytes_are_where_trib_nbd_puts_them(void **state)
{
	const uint64_t sizes[] = {512 * KIB,  512 * KIB,  512 * KIB,
				  4096 * KIB, 4096 * KIB, 4096 * KIB};
	const uint64_t uneven[] = {4 * KIB, 1028 * KIB, 8 * KIB, 12 * KIB};

	(void)state;
	agrees(&(struct stripe){0}, uneven, 1);
	agrees(&(struct stripe){0}, uneven, 4);
	agrees(&(struct stripe){3, 4 * KIB}, sizes, 3);
	agrees(&(struct stripe){3, 64 * KIB}, sizes, 6);
	agrees(&(struct stripe){3, 512 * KIB}, sizes, 6);
}

static void a_part_of_half_a_sector_is_refused(void **state)
{
	struct mapper_table table = {.count = 0};
	struct segments segments;
	const uint64_t size = 1000;
	const dev_t below = device(0);

	(void)state;
	assert_int_equal(
		segments_make(&(struct stripe){0}, &size, 1, &segments, NULL),
		0);
	assert_int_equal(joined_table_make(&segments, &below, &table), -EINVAL);
	assert_int_equal(table.count, 0);
}

struct shape {
	struct stripe stripe;
	unsigned n_parts;
	uint64_t sizes[6];
};

/* Does one of the second shape begin as one of the first? */
static bool grows(const struct shape *now, const struct shape *next)
{
	auto_cleanup(mapper_table_done) struct mapper_table a = {.count = 0};
	auto_cleanup(mapper_table_done) struct mapper_table b = {.count = 0};
	struct segments segments;

	join(&now->stripe, now->sizes, now->n_parts, &segments, &a);
	join(&next->stripe, next->sizes, next->n_parts, &segments, &b);
	return joined_table_grows(&a, &b);
}

static void a_table_grows_at_its_end_only(void **state)
{
	const struct shape two = {{0}, 2, {64 * KIB, 64 * KIB}};
	const struct shape last = {{0}, 2, {64 * KIB, 96 * KIB}};
	const struct shape first = {{0}, 2, {96 * KIB, 64 * KIB}};
	const struct shape three = {{0}, 3, {64 * KIB, 96 * KIB, 4 * KIB}};
	const struct shape set = {{2, 4 * KIB}, 2, {64 * KIB, 64 * KIB}};
	const struct shape unit = {{2, 8 * KIB}, 2, {64 * KIB, 64 * KIB}};
	const struct shape larger = {{2, 4 * KIB}, 2, {96 * KIB, 96 * KIB}};
	const struct shape sets = {
		{2, 4 * KIB}, 4, {64 * KIB, 64 * KIB, 8 * KIB, 8 * KIB}};

	(void)state;
	assert_true(grows(&two, &two));
	assert_true(grows(&two, &last));
	assert_true(grows(&two, &three));
	assert_true(grows(&set, &sets));
	assert_false(grows(&last, &two));
	assert_false(grows(&three, &last));
	assert_false(grows(&two, &first));
	assert_false(grows(&two, &set));
	assert_false(grows(&set, &unit));
	assert_false(grows(&set, &larger)); /* its bytes would move */
}

static void a_table_over_another_device_is_another_one(void **state)
{
	auto_cleanup(mapper_table_done) struct mapper_table a = {.count = 0};
	auto_cleanup(mapper_table_done) struct mapper_table b = {.count = 0};
	const uint64_t sizes[] = {64 * KIB, 64 * KIB};
	const dev_t here[] = {device(0), device(1)};
	const dev_t there[] = {device(0), device(2)};
	struct segments segments;

	(void)state;
	assert_int_equal(segments_make(&(struct stripe){2, 4 * KIB}, sizes, 2,
				       &segments, NULL),
			 0);
	assert_int_equal(joined_table_make(&segments, here, &a), 0);
	assert_int_equal(joined_table_make(&segments, there, &b), 0);
	assert_true(joined_table_grows(&a, &a));
	assert_false(joined_table_grows(&a, &b));
}

/* A device that was cut off grows into nothing. */
static void errors_grow_into_nothing(void **state)
{
	auto_cleanup(mapper_table_done) struct mapper_table cut = {.count = 0};
	auto_cleanup(mapper_table_done) struct mapper_table b = {.count = 0};
	const uint64_t size = 64 * KIB;
	struct segments segments;

	(void)state;
	join(&(struct stripe){0}, &size, 1, &segments, &b);
	assert_false(joined_table_grows(&cut, &b));
	assert_int_equal(mapper_table_add_error(&cut, size), 0);
	assert_false(joined_table_grows(&cut, &b));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bytes_are_where_trib_nbd_puts_them),
		cmocka_unit_test(a_part_of_half_a_sector_is_refused),
		cmocka_unit_test(a_table_grows_at_its_end_only),
		cmocka_unit_test(a_table_over_another_device_is_another_one),
		cmocka_unit_test(errors_grow_into_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
