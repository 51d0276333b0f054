/* SPDX-License-Identifier: Apache-2.0 */
/* EXTENDED COPY between two units of a target, and what is told of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "target/scsi_copy.h"
#include "target/scsi_primary.h"
#include "target/scsi_test_kit.h"

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

/* A list with both units as ends and one segment. Returns its length. */
static unsigned list_make(struct fixture *f, unsigned from, unsigned to,
			  unsigned blocks, uint64_t from_lba, uint64_t to_lba)
{
	uint8_t *list = f->s->out;
	struct scsi_unit *units[2] = {f->kit.unit, f->more};
	uint8_t *at = list + 16;

	memset(list, 0, 16 + 2 * 32 + 28);
	list[0] = 5;
	scsi_put16(list + 2, 2 * 32);
	scsi_put32(list + 8, 28);
	for (unsigned i = 0; i < 2; i++, at += 32) {
		at[0] = SCSI_COPY_END_TYPE;
		at[4] = 1;
		at[5] = 3;
		at[7] = 8;
		scsi_unit_naa(units[i], at + 8);
	}
	at[0] = SCSI_COPY_SEGMENT_TYPE;
	scsi_put16(at + 2, 24);
	scsi_put16(at + 4, from);
	scsi_put16(at + 6, to);
	scsi_put16(at + 10, blocks);
	scsi_put64(at + 12, from_lba);
	scsi_put64(at + 20, to_lba);
	return 16 + 2 * 32 + 28;
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
	assert_int_equal(
		KIT_DO(f->s, 0, 0, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0),
		SCSI_CHECK_CONDITION); /* POWER ON */
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
}

static void heeds_reservations_at_both_ends(void **state)
{
	struct fixture *f = *state;
	struct kit_session *b = kit_login(&f->kit, 2);

	b->lun[1] = 1;
	(void)KIT_DO(b, 0, 0, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 0);
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

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(copies_to_another_unit),
		TEST(copies_more_than_a_piece_inside_a_unit),
		TEST(says_when_a_segment_cannot_be_copied),
		TEST(heeds_reservations_at_both_ends),
		TEST(refuses_a_wrong_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
