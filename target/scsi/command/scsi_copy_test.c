/* SPDX-License-Identifier: Apache-2.0 */
/* EXTENDED COPY between two units of a target, and what is told of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "target/scsi/command/scsi_copy.h"
#include "target/scsi/command/scsi_primary.h"
#include "target/testkit/scsi_test_kit.h"

struct fixture {
	struct kit kit;
	struct scsi_unit *more; /* LUN 1 */
	struct kit_session *s;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));
	const struct scsi_unit_options options = {
		.uuid = {2, 3}, .block_size = 4096, .size = UINT32_C(8) << 20};

	kit_open(&f->kit, NULL);
	assert_int_equal(blockdev_ram_open(f->kit.loop, options.size,
					   &f->kit.more, NULL),
			 0);
	assert_int_equal(scsi_unit_new(&options, &f->more, NULL), 0);
	assert_int_equal(scsi_target_add(f->kit.target, 1, f->more, NULL), 0);
	f->s = kit_login(&f->kit, 1);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	kit_logout(f->s);
	kit_close(&f->kit);
	scsi_unit_unref(f->more);
	free(f);
	return 0;
}

#define SEGMENT_AT (16 + 2 * 32) /* bytes */

/* A list with both units as ends and room for a segment. Returns that. */
static uint8_t *ends_make(struct fixture *f, unsigned size)
{
	uint8_t *list = f->s->out;
	struct scsi_unit *units[2] = {f->kit.unit, f->more};
	uint8_t *at = list + 16;

	memset(list, 0, SEGMENT_AT + size);
	list[0] = 5;
	scsi_put16(list + 2, 2 * 32);
	scsi_put32(list + 8, size);
	for (unsigned i = 0; i < 2; i++, at += 32) {
		at[0] = SCSI_COPY_END_TYPE;
		at[4] = 1;
		at[5] = 3;
		at[7] = 8;
		scsi_unit_naa(units[i], at + 8);
	}
	return at;
}

/* With one segment. Returns its length. */
static unsigned list_make(struct fixture *f, unsigned from, unsigned to,
			  unsigned blocks, uint64_t from_lba, uint64_t to_lba)
{
	uint8_t *at = ends_make(f, SCSI_COPY_BLOCKS_SIZE);

	at[0] = SCSI_COPY_BLOCKS_TYPE;
	scsi_put16(at + 2, 24);
	scsi_put16(at + 4, from);
	scsi_put16(at + 6, to);
	scsi_put16(at + 10, blocks);
	scsi_put64(at + 12, from_lba);
	scsi_put64(at + 20, to_lba);
	return SEGMENT_AT + SCSI_COPY_BLOCKS_SIZE;
}

/* Where in bytes: block and offset. */
struct place {
	unsigned end;
	uint64_t lba;
	unsigned skip;
};

/* The same, of a segment in bytes. */
static unsigned bytes_make(struct fixture *f, const struct place *from,
			   const struct place *to, uint32_t bytes)
{
	uint8_t *at = ends_make(f, SCSI_COPY_BYTES_SIZE);

	at[0] = SCSI_COPY_BYTES_TYPE;
	scsi_put16(at + 2, SCSI_COPY_BYTES_SIZE - 4);
	scsi_put16(at + 4, from->end);
	scsi_put16(at + 6, to->end);
	scsi_put32(at + 8, bytes);
	scsi_put64(at + 12, from->lba);
	scsi_put64(at + 20, to->lba);
	scsi_put16(at + 28, from->skip);
	scsi_put16(at + 30, to->skip);
	return SEGMENT_AT + SCSI_COPY_BYTES_SIZE;
}

static int copy(struct kit_session *s, unsigned length)
{
	return KIT_DO(s, length, 0, SCSI_EXTENDED_COPY, 0, 0, 0, 0, 0, 0, 0, 0,
		      0, 0, 0, (uint8_t)(length >> 8), (uint8_t)length, 0, 0);
}

static int status(struct kit_session *s, uint8_t id)
{
	return KIT_DO(s, 0, 12, SCSI_RECEIVE_COPY_RESULTS, 0, id, 0, 0, 0, 0, 0,
		      0, 0, 0, 0, 0, 12, 0, 0);
}

static int details(struct kit_session *s, uint8_t id)
{
	return KIT_DO(s, 0, 255, SCSI_RECEIVE_COPY_RESULTS, 4, id, 0, 0, 0, 0,
		      0, 0, 0, 0, 0, 0, 255, 0, 0);
}

static int fill(struct kit_session *s, uint8_t lba, uint8_t blocks)
{
	memset(s->out, 'x', (size_t)blocks * 512);
	return KIT_DO(s, blocks * 512u, 0, SCSI_WRITE_10, 0, 0, 0, 0, lba, 0, 0,
		      blocks, 0);
}

static void copies_to_another_unit(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(fill(f->s, 8, 16), 0);
	assert_int_equal(copy(f->s, list_make(f, 0, 1, 16, 8, 100)), 0);
	f->s->lun[1] = 1;
	assert_int_equal(kit_ready(f->s), SCSI_CHECK_CONDITION); /* POWER ON */
	assert_int_equal(KIT_DO(f->s, 0, 3 * 4096, SCSI_READ_10, 0, 0, 0, 0,
				100, 0, 0, 3, 0),
			 0);
	for (unsigned i = 0; i < 3 * 4096; i++)
		assert_int_equal(f->s->in[i], i < 2 * 4096 ? 'x' : 0);
	f->s->lun[1] = 0;
	assert_int_equal(status(f->s, 5), 0);
	assert_int_equal(f->s->in[4], SCSI_COPY_DONE);
	assert_int_equal(scsi_be16(f->s->in + 5), 1);
	assert_int_equal(scsi_be32(f->s->in + 8), 8); /* KiB */
	assert_int_equal(status(f->s, 6), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_CDB);
}

static void copies_more_than_a_piece_inside_a_unit(void **state)
{
	struct fixture *f = *state;
	unsigned operations;

	assert_int_equal(fill(f->s, 0, 1), 0);
	assert_int_equal(fill(f->s, 255, 1), 0);
	operations = f->kit.operations;
	assert_int_equal(copy(f->s, list_make(f, 0, 0, 2049, 0, 2047)), 0);
	assert_int_equal(f->kit.operations - operations, 4);
	assert_int_equal(KIT_DO(f->s, 0, 512, SCSI_READ_10, 0, 0, 0, 8, 0xfe, 0,
				0, 1, 0),
			 0); /* 2047 + 255 */
	assert_int_equal(f->s->in[0], 'x');
}

static void says_when_a_segment_cannot_be_copied(void **state)
{
	struct fixture *f = *state;
	unsigned length;

	assert_int_equal(copy(f->s, list_make(f, 0, 2, 8, 0, 0)),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(f->s, SCSI_COPY_ABORTED, SCSI_ASC_COPY_TARGET);
	assert_int_equal(copy(f->s, list_make(f, 0, 0, 8, KIT_BLOCKS - 1, 0)),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(f->s, SCSI_COPY_ABORTED, SCSI_ASC_NONE);
	assert_int_equal(copy(f->s, list_make(f, 0, 1, 7, 0, 0)),
			 SCSI_CHECK_CONDITION); /* no whole block there */
	length = list_make(f, 0, 1, 8, 0, 0);
	f->s->out[16 + 8] ^= 1; /* a unit that is not here */
	assert_int_equal(copy(f->s, length), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->s, SCSI_COPY_ABORTED, SCSI_ASC_COPY_TARGET);
	f->kit.fail = -EIO;
	assert_int_equal(copy(f->s, list_make(f, 0, 0, 8, 0, 8)),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(f->s, SCSI_COPY_ABORTED, SCSI_ASC_NONE);
	f->kit.fail = 0;
	assert_int_equal(status(f->s, 5), 0);
	assert_int_equal(f->s->in[4], SCSI_COPY_FAILED);
	assert_int_equal(details(f->s, 6), SCSI_CHECK_CONDITION);
	assert_int_equal(details(f->s, 5), 0);
	assert_int_equal(f->s->in[56], SCSI_CHECK_CONDITION);
	length = scsi_be16(f->s->in + 58);
	assert_int_equal(scsi_be32(f->s->in), 60 + length - 4);
	assert_int_equal(f->s->task.in_length, 60 + length);
	assert_in_range(length, 14, 252);
	assert_int_equal(f->s->in[60] & 0x7f, 0x70);
	assert_int_equal(f->s->in[60 + 2] & 0x0f, SCSI_COPY_ABORTED);
	assert_int_equal(details(f->s, 5), SCSI_CHECK_CONDITION); /* once */
	kit_assert_sense(f->s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_CDB);
	assert_int_equal(copy(f->s, list_make(f, 0, 0, 8, 0, 8)), 0);
	assert_int_equal(details(f->s, 5), SCSI_CHECK_CONDITION);
}

static void heeds_reservations_at_both_ends(void **state)
{
	struct fixture *f = *state;
	struct kit_session *b = kit_login(&f->kit, 2);

	b->lun[1] = 1;
	(void)kit_ready(b);
	assert_int_equal(KIT_DO(b, 0, 0, SCSI_RESERVE_6, 0, 0, 0, 0, 0), 0);
	assert_int_equal(copy(f->s, list_make(f, 0, 1, 8, 0, 0)),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(f->s, SCSI_COPY_ABORTED, SCSI_ASC_NONE);
	kit_logout(b);
	assert_int_equal(copy(f->s, list_make(f, 0, 1, 8, 0, 0)), 0);
}

static void refuses_a_wrong_list(void **state)
{
	struct fixture *f = *state;
	unsigned length = list_make(f, 0, 1, 8, 0, 0);

	assert_int_equal(copy(f->s, 0), 0);
	assert_int_equal(copy(f->s, 15), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LIST_LENGTH);
	assert_int_equal(copy(f->s, length - 1), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LIST_LENGTH);
	f->s->out[16] = 0xe0;
	assert_int_equal(copy(f->s, length), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_TARGET_TYPE);
	(void)list_make(f, 0, 1, 8, 0, 0);
	f->s->out[16 + 64] = 0x03;
	assert_int_equal(copy(f->s, length), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_SEGMENT_TYPE);
	(void)list_make(f, 0, 1, 8, 0, 0);
	f->s->out[15] = 1;
	assert_int_equal(copy(f->s, length), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INLINE_DATA);
	assert_int_equal(KIT_DO(f->s, 0, 64, SCSI_RECEIVE_COPY_RESULTS, 3, 0, 0,
				0, 0, 0, 0, 0, 0, 0, 0, 0, 64, 0, 0),
			 0);
	assert_int_equal(scsi_be16(f->s->in + 8), SCSI_COPY_ENDS);
	assert_int_equal(scsi_be16(f->s->in + 10), SCSI_COPY_SEGMENTS);
}

static int held(struct kit_session *s, uint8_t id)
{
	memset(s->in, 0xff, 8);
	return KIT_DO(s, 0, 8, SCSI_RECEIVE_COPY_RESULTS, 1, id, 0, 0, 0, 0, 0,
		      0, 0, 0, 0, 0, 8, 0, 0);
}

static void a_copy_holds_no_data(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(held(f->s, 5), SCSI_CHECK_CONDITION); /* not yet */
	assert_int_equal(copy(f->s, list_make(f, 0, 1, 8, 0, 0)), 0);
	assert_int_equal(held(f->s, 5), 0);
	assert_int_equal(f->s->task.in_length, 4);
	assert_int_equal(scsi_be32(f->s->in), 0);
	assert_int_equal(held(f->s, 6), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_CDB);
	assert_int_equal(kit_field(f->s), 2);
}

/* ---- in bytes ---- */

static const uint32_t block_sizes[2] = {512, 4096};

/* The content of both units, from the beginning. */
static uint8_t model[2][KIT_DATA];

static int move(struct kit_session *s, unsigned unit, bool write)
{
	uint32_t blocks = KIT_DATA / block_sizes[unit];
	int status;

	s->lun[1] = (uint8_t)unit;
	status = KIT_DO(s, write ? KIT_DATA : 0, write ? 0 : KIT_DATA,
			write ? SCSI_WRITE_10 : SCSI_READ_10, 0, 0, 0, 0, 0, 0,
			(uint8_t)(blocks >> 8), (uint8_t)blocks, 0);
	s->lun[1] = 0;
	return status;
}

static void model_write(struct kit_session *s)
{
	for (unsigned unit = 0; unit < 2; unit++) {
		for (unsigned i = 0; i < KIT_DATA; i++)
			model[unit][i] = (uint8_t)(i * 7 + (i >> 9) * 3 +
						   unit * 101);
		memcpy(s->out, model[unit], KIT_DATA);
		if (move(s, unit, true) != 0) /* POWER ON */
			assert_int_equal(move(s, unit, true), 0);
	}
}

static void model_check(struct kit_session *s)
{
	for (unsigned unit = 0; unit < 2; unit++) {
		assert_int_equal(move(s, unit, false), 0);
		assert_memory_equal(s->in, model[unit], KIT_DATA);
	}
}

static void copy_bytes(struct fixture *f, const struct place *from,
		       const struct place *to, uint32_t bytes)
{
	uint64_t from_at = from->lba * block_sizes[from->end] + from->skip;
	uint64_t to_at = to->lba * block_sizes[to->end] + to->skip;

	assert_int_equal(copy(f->s, bytes_make(f, from, to, bytes)), 0);
	memmove(model[to->end] + to_at, model[from->end] + from_at, bytes);
}

/* Each with a beginning and an end of its own, inside of blocks and not. */
static void copies_bytes_and_leaves_what_is_beside_them(void **state)
{
	static const unsigned skips[2][4] = {{0, 1, 300, 511},
					     {0, 5, 2048, 4095}};
	static const uint32_t lengths[] = {0,    1,    212,  512,
					   1024, 4096, 5000, 12345};
	struct fixture *f = *state;

	model_write(f->s);
	for (unsigned i = 0; i < 2 * 4 * 4 * array_size(lengths); i++) {
		unsigned from = i & 1, to = (i >> 6 ^ i) & 1;
		const struct place source = {from, i % 50,
					     skips[from][i >> 1 & 3]};
		const struct place destination = {to, 60 + i % 13,
						  skips[to][i >> 3 & 3]};

		copy_bytes(f, &source, &destination, lengths[i >> 5 & 7]);
	}
	model_check(f->s);
	assert_int_equal(f->kit.unit->exclusive, 0);
	assert_int_equal(f->more->exclusive, 0);
}

static void copies_more_bytes_than_its_buffer_has(void **state)
{
	struct fixture *f = *state;
	const struct place odd = {0, 0, 3}, other = {1, 1, 77};
	const struct place far = {1, 300, 4000}, back = {1, 0, 1};

	model_write(f->s);
	copy_bytes(f, &odd, &other, KIT_DATA - 4096 - 100);
	model_check(f->s);
	/* Past the buffer, and back. */
	assert_int_equal(copy(f->s, bytes_make(f, &odd, &far, 2000000)), 0);
	assert_int_equal(status(f->s, 5), 0);
	assert_int_equal(scsi_be32(f->s->in + 8), 2000000 >> 10);
	copy_bytes(f, &odd, &back, KIT_DATA / 2); /* what there is already */
	assert_int_equal(copy(f->s, bytes_make(f, &far, &back, 1000000)), 0);
	memcpy(model[1] + 1, model[0] + 3, 1000000);
	model_check(f->s);
}

/*
 * Bytes beside the copied ones may be written by others meanwhile, and are not
 * lost.
 */
static void nobody_writes_a_block_that_is_copied_in_part(void **state)
{
	struct fixture *f = *state;
	struct kit_session *b = kit_login(&f->kit, 2);
	struct kit_session *c = kit_login(&f->kit, 3);
	const struct place from = {1, 0, 0}, to = {0, 5, 9};
	const uint8_t same[] = {SCSI_WRITE_10, 0, 0, 0, 0, 5, 0, 0, 1, 0};
	const uint8_t beside[] = {SCSI_WRITE_10, 0, 0, 0, 0, 6, 0, 0, 1, 0};
	const uint8_t cdb[16] = {
		SCSI_EXTENDED_COPY, [13] = SEGMENT_AT + SCSI_COPY_BYTES_SIZE};
	unsigned before;

	model_write(f->s);
	atomic_store(&f->kit.hold, true);
	before = f->kit.operations;
	(void)bytes_make(f, &from, &to, 100);
	kit_begin(f->s, cdb, sizeof(cdb), cdb[13], 0);
	kit_wait_held(&f->kit); /* the source */
	kit_step(&f->kit);
	kit_wait_held(&f->kit); /* the edge */
	memset(b->out, 'b', 512);
	kit_begin(b, same, sizeof(same), 512, 0);
	memset(c->out, 'c', 512);
	kit_begin(c, beside, sizeof(beside), 512, 0);
	kit_wait_held(&f->kit); /* c's */
	assert_int_equal(f->kit.operations - before, 3);
	kit_let_go(&f->kit);
	assert_int_equal(kit_end(f->s), 0);
	assert_int_equal(kit_end(b), 0);
	assert_int_equal(kit_end(c), 0);
	memset(model[0] + 5 * 512, 'b', 512);
	memset(model[0] + 6 * 512, 'c', 512);
	model_check(f->s);
	assert_int_equal(f->kit.unit->exclusive, 0);
	kit_logout(b);
	kit_logout(c);
}

static void assert_no_copy(struct fixture *f, const struct place *from,
			   const struct place *to, uint32_t bytes)
{
	assert_int_equal(copy(f->s, bytes_make(f, from, to, bytes)),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(f->s, SCSI_COPY_ABORTED, SCSI_ASC_NONE);
}

static void bytes_that_are_not_there_are_not_copied(void **state)
{
	struct fixture *f = *state;
	const struct place start = {0, 0, 0}, past = {0, 0, 512};
	const struct place last = {0, KIT_BLOCKS - 1, 11};
	const struct place behind = {0, KIT_BLOCKS, 0};
	const struct place far = {0, UINT64_MAX, 0};
	unsigned length;

	assert_int_equal(copy(f->s, bytes_make(f, &start, &last, 501)), 0);
	assert_no_copy(f, &start, &last, 502);
	assert_no_copy(f, &last, &start, 502);
	assert_no_copy(f, &past, &start, 1);
	assert_no_copy(f, &start, &past, 1);
	assert_no_copy(f, &start, &behind, 1);
	assert_no_copy(f, &far, &start, UINT32_MAX);
	assert_int_equal(copy(f->s, bytes_make(f, &start, &behind, 0)), 0);
	length = bytes_make(f, &start, &start, 1);
	f->s->out[SEGMENT_AT + 3]--;
	assert_int_equal(copy(f->s, length), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_LIST);
	assert_int_equal(kit_field(f->s), SEGMENT_AT + 2);
	/* A failure at an edge is one of the copy. */
	f->kit.fail = -EIO;
	assert_no_copy(f, &start, &last, 1);
	f->kit.fail = 0;
	assert_int_equal(f->kit.unit->exclusive, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(copies_to_another_unit),
		TEST(copies_more_than_a_piece_inside_a_unit),
		TEST(says_when_a_segment_cannot_be_copied),
		TEST(heeds_reservations_at_both_ends),
		TEST(refuses_a_wrong_list),
		TEST(a_copy_holds_no_data),
		TEST(copies_bytes_and_leaves_what_is_beside_them),
		TEST(copies_more_bytes_than_its_buffer_has),
		TEST(nobody_writes_a_block_that_is_copied_in_part),
		TEST(bytes_that_are_not_there_are_not_copied),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
