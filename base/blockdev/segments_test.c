/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic beside a model that knows where each block of a device is: it
 * deals them out one by one.
 */
#include "base/blockdev/segments.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"

#define KIB UINT64_C(1024)

static const struct stripe end_to_end = {0};

static void parts_end_to_end(void **state)
{
	const uint64_t sizes[] = {8192, 4096, 1 << 20};
	struct segments s;
	struct segment_walk w = {
		.offset = 8000, .length = 5000, .piece_max = UINT64_MAX};
	struct segment_piece p;

	(void)state;
	assert_int_equal(segments_make(&end_to_end, sizes, 3, &s, NULL), 0);
	assert_int_equal(s.size, 8192 + 4096 + (1 << 20));
	assert_true(segments_next(&s, &w, &p));
	assert_int_equal(p.part, 0);
	assert_int_equal(p.offset, 8000);
	assert_int_equal(p.length, 192);
	assert_int_equal(p.at, 0);
	assert_true(segments_next(&s, &w, &p));
	assert_int_equal(p.part, 1);
	assert_int_equal(p.offset, 0);
	assert_int_equal(p.length, 4096);
	assert_int_equal(p.at, 192);
	assert_true(segments_next(&s, &w, &p));
	assert_int_equal(p.part, 2);
	assert_int_equal(p.offset, 0);
	assert_int_equal(p.length, 712);
	assert_int_equal(p.at, 4288);
	assert_false(segments_next(&s, &w, &p));
	assert_false(segments_next(&s, &w, &p));
}

/* As `dmsetup create` with "striped 3 8" lays them out: 8 sectors, 4 KiB. */
static void units_in_turn(void **state)
{
	const uint64_t sizes[] = {64 * KIB, 64 * KIB, 64 * KIB,
				  8 * KIB,  8 * KIB,  8 * KIB};
	const struct stripe stripe = {3, 4 * KIB};
	struct segments s;
	struct segment_walk w = {
		.offset = 11 * KIB, .length = 6 * KIB, .piece_max = UINT64_MAX};
	struct segment_piece p;

	(void)state;
	assert_int_equal(segments_make(&stripe, sizes, 6, &s, NULL), 0);
	assert_int_equal(s.n, 2);
	assert_int_equal(s.size, 216 * KIB);
	assert_int_equal(s.items[1].start, 192 * KIB);
	assert_true(segments_next(&s, &w, &p)); /* the end of unit 2 */
	assert_int_equal(p.part, 2);
	assert_int_equal(p.offset, 3 * KIB);
	assert_int_equal(p.length, KIB);
	assert_true(segments_next(&s, &w, &p)); /* unit 3 */
	assert_int_equal(p.part, 0);
	assert_int_equal(p.offset, 4 * KIB);
	assert_int_equal(p.length, 4 * KIB);
	assert_true(segments_next(&s, &w, &p));
	assert_int_equal(p.part, 1);
	assert_int_equal(p.offset, 4 * KIB);
	assert_int_equal(p.length, KIB);
	assert_false(segments_next(&s, &w, &p));
	/* The second set begins anew, with parts of its own. */
	w = (struct segment_walk){
		.offset = 192 * KIB, .length = KIB, .piece_max = UINT64_MAX};
	assert_true(segments_next(&s, &w, &p));
	assert_int_equal(p.part, 3);
	assert_int_equal(p.offset, 0);
}

/* The place of a piece is where the walk had it. */
static void a_byte_of_a_part_has_one_place(void **state)
{
	const uint64_t sizes[] = {64 * KIB, 64 * KIB, 64 * KIB,
				  8 * KIB,  8 * KIB,  8 * KIB};
	const struct stripe stripes[] = {{3, 4 * KIB}, {0, 0}};

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct segments s;
		struct segment_walk w = {.piece_max = 3 * KIB};
		struct segment_piece p;
		uint64_t run;

		assert_int_equal(segments_make(&stripes[i], sizes, 6, &s, NULL),
				 0);
		w.length = s.size;
		while (segments_next(&s, &w, &p)) {
			assert_int_equal(
				segments_place(&s, p.part, p.offset, &run),
				p.at);
			assert_true(run >= p.length);
			assert_int_equal(segments_place(&s, p.part,
							p.offset + p.length - 1,
							&run),
					 p.at + p.length - 1);
		}
		/* A run ends with its unit, or with its part. */
		(void)segments_place(&s, 3, KIB, &run);
		assert_int_equal(run, i == 0 ? 3 * KIB : 7 * KIB);
	}
}

/* However many units a range without data has, each part gets one piece. */
static void a_range_without_data_is_few_pieces(void **state)
{
	const uint64_t sizes[] = {1 << 30, 1 << 30, 1 << 20, 1 << 20};
	const struct stripe stripe = {2, 4 * KIB};
	struct segments s;
	struct segment_walk w = {.no_data = true,
				 .length = UINT64_C(2) << 30,
				 .piece_max = UINT64_MAX};
	struct segment_piece p;
	unsigned n = 0;

	(void)state;
	assert_int_equal(segments_make(&stripe, sizes, 4, &s, NULL), 0);
	while (segments_next(&s, &w, &p)) {
		assert_int_equal(p.part, n++);
		assert_int_equal(p.offset, 0);
		assert_int_equal(p.length, 1 << 30);
	}
	assert_int_equal(n, 2);
}

static void refuses_what_is_no_device(void **state)
{
	const uint64_t uneven[] = {8192, 4096}, none[] = {0},
		       odd[] = {6 * KIB, 6 * KIB},
		       huge[] = {UINT64_C(1) << 62, UINT64_C(1) << 62};
	struct segments s;

	(void)state;
	assert_int_equal(segments_make(&end_to_end, none, 0, &s, NULL),
			 -EINVAL);
	assert_int_equal(segments_make(&end_to_end, none, 1, &s, NULL),
			 -EINVAL);
	assert_int_equal(segments_make(&end_to_end, uneven, 257, &s, NULL),
			 -EINVAL);
	assert_int_equal(segments_make(&end_to_end, huge, 2, &s, NULL),
			 -ERANGE);
	assert_int_equal(
		segments_make(&(struct stripe){2, 4096}, uneven, 2, &s, NULL),
		-EINVAL);
	assert_int_equal(
		segments_make(&(struct stripe){2, 4096}, odd, 2, &s, NULL),
		-EINVAL);
	assert_int_equal(
		segments_make(&(struct stripe){2, 4096}, huge, 2, &s, NULL),
		-ERANGE);
	assert_int_equal(
		segments_make(&(struct stripe){2, 4096}, uneven, 1, &s, NULL),
		-EINVAL);
	assert_int_equal(stripe_check(&(struct stripe){1, 4096}, NULL),
			 -EINVAL);
	assert_int_equal(stripe_check(&(struct stripe){65, 4096}, NULL),
			 -EINVAL);
	assert_int_equal(stripe_check(&(struct stripe){2, 2048}, NULL),
			 -EINVAL);
	assert_int_equal(stripe_check(&(struct stripe){2, 12288}, NULL),
			 -EINVAL);
	assert_int_equal(stripe_check(&(struct stripe){2, 8 << 20}, NULL),
			 -EINVAL);
	assert_int_equal(stripe_check(&(struct stripe){0, 4096}, NULL),
			 -EINVAL);
	assert_int_equal(stripe_check(&end_to_end, NULL), 0);
}

/* ---- beside the model ---- */

#define PARTS_MAX  12
#define BLOCK      512
#define BLOCKS_MAX 4096

struct model {
	struct stripe stripe;
	uint64_t sizes[PARTS_MAX];
	unsigned n_parts;
	struct {
		unsigned part;
		uint64_t block;
	} blocks[BLOCKS_MAX]; /* of the device, one by one */
	uint64_t n_blocks;
};

static unsigned random_below(unsigned n)
{
	return (unsigned)random() % n;
}

static void model_deal(struct model *m)
{
	unsigned width = m->stripe.width ? m->stripe.width : 1;

	m->n_blocks = 0;
	for (unsigned first = 0; first < m->n_parts; first += width) {
		uint64_t unit = width > 1 ? m->stripe.unit / BLOCK
					  : m->sizes[first] / BLOCK;
		uint64_t rows = m->sizes[first] / BLOCK / unit;

		for (uint64_t row = 0; row < rows; row++)
			for (unsigned c = 0; c < width; c++)
				for (uint64_t b = 0; b < unit; b++) {
					m->blocks[m->n_blocks].part = first + c;
					m->blocks[m->n_blocks++].block =
						row * unit + b;
				}
	}
}

static void model_make(struct model *m)
{
	unsigned width = random_below(2) ? 2 + random_below(4) : 0, sets;

	m->stripe = (struct stripe){.width = width};
	if (width)
		m->stripe.unit = 4096u << random_below(2);
	sets = 1 + random_below(width ? PARTS_MAX / width : PARTS_MAX);
	if (width && sets > 2)
		sets = 2;
	m->n_parts = width ? sets * width : sets;
	for (unsigned i = 0; i < m->n_parts; i++) {
		if (!width)
			m->sizes[i] = BLOCK * (1 + random_below(40));
		else if (i % width == 0)
			m->sizes[i] = m->stripe.unit * (1 + random_below(8));
		else
			m->sizes[i] = m->sizes[i - 1];
	}
	model_deal(m);
}

/* Each block of the request once, in its place. */
static void check_request(const struct model *m, const struct segments *s,
			  bool no_data)
{
	uint64_t first = random_below((unsigned)m->n_blocks);
	uint64_t n = 1 + random_below((unsigned)(m->n_blocks - first));
	struct segment_walk w = {
		.offset = first * BLOCK,
		.length = n * BLOCK,
		.no_data = no_data,
		.piece_max = random_below(3) ? BLOCK * (1 + random_below(50))
					     : UINT64_MAX,
	};
	bool seen[BLOCKS_MAX] = {false};
	struct segment_piece p;
	uint64_t count = 0, at = 0;

	while (segments_next(s, &w, &p)) {
		assert_true(p.length > 0 && p.length <= w.piece_max);
		assert_int_equal(p.length % BLOCK, 0);
		if (!no_data)
			assert_int_equal(p.at, at);
		at += p.length;
		for (uint64_t b = 0; b < p.length / BLOCK; b++, count++) {
			uint64_t is = first + p.at / BLOCK + b;

			for (is = no_data ? first : is; is < first + n; is++)
				if (m->blocks[is].part == p.part &&
				    m->blocks[is].block == p.offset / BLOCK + b)
					break;
			assert_true(is < first + n);
			if (!no_data)
				assert_int_equal(is, first + p.at / BLOCK + b);
			assert_false(seen[is]);
			seen[is] = true;
		}
	}
	assert_int_equal(count, n);
}

static void agrees_with_a_model(void **state)
{
	struct model *m = malloc(sizeof(*m));
	struct segments s;

	(void)state;
	assert_non_null(m);
	srandom(1);
	for (int i = 0; i < 300; i++) {
		model_make(m);
		assert_int_equal(segments_make(&m->stripe, m->sizes, m->n_parts,
					       &s, NULL),
				 0);
		assert_int_equal(s.size, m->n_blocks * BLOCK);
		for (int k = 0; k < 10; k++)
			check_request(m, &s, k % 2);
	}
	free(m);
}

/* A part that is added at the end moves no byte before it. */
static void growth_moves_nothing(void **state)
{
	struct model *m = malloc(sizeof(*m)), *grown = malloc(sizeof(*m));

	(void)state;
	assert_non_null(m);
	assert_non_null(grown);
	srandom(2);
	for (int i = 0; i < 300; i++) {
		unsigned width;

		model_make(m);
		*grown = *m;
		width = m->stripe.width ? m->stripe.width : 1;
		if (width == 1)
			grown->sizes[m->n_parts - 1] += BLOCK;
		if (m->n_parts + width <= PARTS_MAX) {
			for (unsigned c = 0; c < width; c++)
				grown->sizes[grown->n_parts++] = 8192;
		}
		model_deal(grown);
		assert_memory_equal(m->blocks, grown->blocks,
				    m->n_blocks * sizeof(m->blocks[0]));
		for (int k = 0; k < 5; k++) {
			struct segments s;

			assert_int_equal(
				segments_make(&grown->stripe, grown->sizes,
					      grown->n_parts, &s, NULL),
				0);
			check_request(grown, &s, k % 2);
		}
	}
	free(grown);
	free(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(parts_end_to_end),
		cmocka_unit_test(units_in_turn),
		cmocka_unit_test(a_byte_of_a_part_has_one_place),
		cmocka_unit_test(a_range_without_data_is_few_pieces),
		cmocka_unit_test(refuses_what_is_no_device),
		cmocka_unit_test(agrees_with_a_model),
		cmocka_unit_test(growth_moves_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
