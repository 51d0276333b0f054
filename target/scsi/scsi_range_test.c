/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that must be alone on their blocks, those that fill and free
 * blocks, and what task management ends.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "target/testkit/scsi_test_kit.h"

static int setup(void **state)
{
	return kit_pair_open(state, NULL);
}

#define WRITE_CDB(lba, blocks)                                      \
	{                                                           \
		SCSI_WRITE_10, 0, 0, 0, 0, (lba), 0, 0, (blocks), 0 \
	}

static int write_10(struct kit_session *s, uint8_t lba, uint8_t blocks,
		    uint8_t fill)
{
	const uint8_t cdb[] = WRITE_CDB(lba, blocks);

	memset(s->out, fill, (size_t)blocks * 512);
	return kit_do(s, cdb, sizeof(cdb), blocks * 512u, 0);
}

static int read_10(struct kit_session *s, uint8_t lba, uint8_t blocks)
{
	return KIT_DO(s, 0, blocks * 512u, SCSI_READ_10, 0, 0, 0, 0, lba, 0, 0,
		      blocks, 0);
}

/* Up to the end of the medium. */
static int read_last(struct kit_session *s, uint8_t blocks)
{
	unsigned lba = KIT_BLOCKS - blocks;

	return KIT_DO(s, 0, blocks * 512u, SCSI_READ_10, 0, 0, 0,
		      (uint8_t)(lba >> 8), (uint8_t)lba, 0, 0, blocks, 0);
}

static void assert_filled(const uint8_t *data, size_t length, uint8_t fill)
{
	for (size_t i = 0; i < length; i++)
		assert_int_equal(data[i], fill);
}

#define COMPARE_CDB(lba, blocks)                                             \
	{                                                                    \
		SCSI_COMPARE_AND_WRITE, 0, 0, 0, 0, 0, 0, 0, 0, (lba), 0, 0, \
			0, (blocks), 0, 0                                    \
	}

/* Fill in the bytes that are to be there, and those to put in their place. */
static void fill_compare(struct kit_session *s, uint8_t was, uint8_t becomes)
{
	memset(s->out, was, 512);
	memset(s->out + 512, becomes, 512);
}

/* ---- COMPARE AND WRITE, ORWRITE, WRITE ATOMIC ---- */

static void writes_only_what_compares(void **state)
{
	struct kit_pair *f = *state;
	const uint8_t cdb[] = COMPARE_CDB(3, 1);

	assert_int_equal(write_10(f->a, 3, 1, 'a'), 0);
	fill_compare(f->a, 'a', 'b');
	assert_int_equal(kit_do(f->a, cdb, sizeof(cdb), 1024, 0), 0);
	assert_int_equal(read_10(f->a, 3, 1), 0);
	assert_filled(f->a->in, 512, 'b');
	fill_compare(f->a, 'b', 'c');
	f->a->out[77] = 'x';
	assert_int_equal(kit_do(f->a, cdb, sizeof(cdb), 1024, 0),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_MISCOMPARE, SCSI_ASC_MISCOMPARE);
	assert_int_equal(kit_information(f->a), 77);
	assert_int_equal(read_10(f->a, 3, 1), 0);
	assert_filled(f->a->in, 512, 'b');
	assert_int_equal(kit_do(f->a, cdb, sizeof(cdb), 512, 0),
			 SCSI_CHECK_CONDITION); /* half of the data */
	kit_assert_sense(f->a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_CDB);
}

/* Of two that want to change the same, the second sees what the first did. */
static void lets_one_of_two_change_the_same(void **state)
{
	struct kit_pair *f = *state;
	const uint8_t cdb[] = COMPARE_CDB(0, 1);

	atomic_store(&f->kit.hold, true);
	fill_compare(f->a, 0, 'a');
	fill_compare(f->b, 0, 'b');
	kit_begin(f->a, cdb, sizeof(cdb), 1024, 0);
	kit_wait_held(&f->kit); /* it has read */
	kit_begin(f->b, cdb, sizeof(cdb), 1024, 0);
	kit_let_go(&f->kit);
	assert_int_equal(kit_end(f->a), 0);
	assert_int_equal(kit_end(f->b), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->b, SCSI_MISCOMPARE, SCSI_ASC_MISCOMPARE);
	assert_int_equal(read_10(f->a, 0, 1), 0);
	assert_filled(f->a->in, 512, 'a');
}

static void waits_for_writers_that_came_before(void **state)
{
	struct kit_pair *f = *state;
	const uint8_t write[] = WRITE_CDB(0, 1);
	const uint8_t compare[] = COMPARE_CDB(0, 1);

	atomic_store(&f->kit.hold, true);
	memset(f->a->out, 'w', 512);
	kit_begin(f->a, write, sizeof(write), 512, 0);
	kit_wait_held(&f->kit);
	fill_compare(f->b, 'w', 'c');
	kit_begin(f->b, compare, sizeof(compare), 1024, 0);
	kit_let_go(&f->kit);
	assert_int_equal(kit_end(f->a), 0);
	assert_int_equal(kit_end(f->b), 0);
	assert_int_equal(read_10(f->a, 0, 1), 0);
	assert_filled(f->a->in, 512, 'c');
	assert_int_equal(f->kit.unit->exclusive, 0);
}

/* A writer elsewhere goes on; one that overlaps comes after. */
static void holds_up_only_who_overlaps(void **state)
{
	struct kit_pair *f = *state;
	struct kit_session *c = kit_login(&f->kit, 3);
	const uint8_t compare[] = COMPARE_CDB(0, 1);
	const uint8_t over[] = WRITE_CDB(0, 2);
	const uint8_t beside[] = WRITE_CDB(8, 1);

	atomic_store(&f->kit.hold, true);
	fill_compare(f->a, 0, 'a');
	kit_begin(f->a, compare, sizeof(compare), 1024, 0);
	kit_wait_held(&f->kit);
	memset(f->b->out, 'b', 1024);
	kit_begin(f->b, over, sizeof(over), 1024, 0);
	memset(c->out, 'c', 512);
	kit_begin(c, beside, sizeof(beside), 512, 0);
	kit_wait_held(&f->kit); /* c has come to the medium */
	assert_int_equal(f->kit.operations, 2);
	kit_let_go(&f->kit);
	assert_int_equal(kit_end(f->a), 0);
	assert_int_equal(kit_end(f->b), 0);
	assert_int_equal(kit_end(c), 0);
	assert_int_equal(read_10(f->a, 0, 2), 0);
	assert_filled(f->a->in, 1024, 'b');
	kit_logout(c);
}

/* Before it nothing is begun that comes after it, wherever that is. */
static void an_ordered_command_has_its_turn(void **state)
{
	struct kit_pair *f = *state;
	struct kit_session *c = kit_login(&f->kit, 3);
	const uint8_t first[] = WRITE_CDB(0, 1);
	const uint8_t second[] = WRITE_CDB(4, 1);
	const uint8_t third[] = WRITE_CDB(8, 1);

	atomic_store(&f->kit.hold, true);
	kit_begin(f->a, first, sizeof(first), 512, 0);
	kit_wait_held(&f->kit);
	f->b->attribute = SCSI_ORDERED;
	kit_begin(f->b, second, sizeof(second), 512, 0);
	kit_begin(c, third, sizeof(third), 512, 0);
	kit_call(&f->kit, kit_nothing, NULL);
	assert_int_equal(f->kit.operations, 1);
	kit_let_go(&f->kit);
	assert_int_equal(kit_end(f->a), 0);
	assert_int_equal(kit_end(f->b), 0);
	assert_int_equal(kit_end(c), 0);
	assert_int_equal(f->kit.operations, 3);
	assert_int_equal(f->kit.unit->exclusive, 0);
	kit_logout(c);
}

static void ors_what_is_there(void **state)
{
	struct kit_pair *f = *state;

	assert_int_equal(write_10(f->a, 0, 1, 0x0f), 0);
	memset(f->a->out, 0x50, 512);
	assert_int_equal(KIT_DO(f->a, 512, 0, SCSI_ORWRITE_16, 0, 0, 0, 0, 0, 0,
				0, 0, 0, 0, 0, 0, 1, 0, 0),
			 0);
	assert_int_equal(read_10(f->a, 0, 1), 0);
	assert_filled(f->a->in, 512, 0x5f);
}

static void ors_a_long_range_in_pieces(void **state)
{
	struct kit_pair *f = *state;
	unsigned operations;

	memset(f->a->out, 0x50, KIT_DATA);
	operations = f->kit.operations;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(KIT_DO(f->a, KIT_DATA, 0, SCSI_ORWRITE_16, 0,
					0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 8, 0, 0,
					0),
				 0);
		assert_in_range(f->a->task.scratch_size, 512, KIT_DATA / 2);
		memset(f->a->out, 0x0f, KIT_DATA);
	}
	assert_in_range(f->kit.operations - operations, 2 * 4, 2 * 16);
	assert_int_equal(KIT_DO(f->a, 0, KIT_DATA, SCSI_READ_16, 0, 0, 0, 0, 0,
				0, 0, 0, 7, 0, 0, 8, 0, 0, 0),
			 0);
	assert_filled(f->a->in, KIT_DATA, 0x5f);
	assert_int_equal(read_10(f->a, 6, 1), 0);
	assert_filled(f->a->in, 512, 0);
}

static void writes_atomically_up_to_its_limit(void **state)
{
	struct kit_pair *f = *state;

	memset(f->a->out, 'q', 1024);
	assert_int_equal(KIT_DO(f->a, 1024, 0, SCSI_WRITE_ATOMIC_16, 0, 0, 0, 0,
				0, 0, 0, 0, 4, 0, 0, 0, 2, 0, 0),
			 0);
	assert_int_equal(read_10(f->a, 4, 2), 0);
	assert_filled(f->a->in, 1024, 'q');
	assert_int_equal(KIT_DO(f->a, 1024, 0, SCSI_WRITE_ATOMIC_16, 0, 0, 0, 0,
				0, 0, 0, 0, 4, 0, 1, 0, 2, 0, 0),
			 SCSI_CHECK_CONDITION); /* a boundary */
	assert_int_equal(kit_field(f->a), 10);
	assert_int_equal(KIT_DO(f->a, 0, 0, SCSI_WRITE_ATOMIC_16, 0, 0, 0, 0, 0,
				0, 0, 0, 0, 0, 0, 0x08, 1, 0, 0),
			 SCSI_CHECK_CONDITION); /* 2049 blocks */
	assert_int_equal(kit_field(f->a), 12);
}

/* ---- WRITE SAME, UNMAP, GET LBA STATUS ---- */

static void repeats_a_block(void **state)
{
	struct kit_pair *f = *state;

	for (unsigned i = 0; i < 512; i++)
		f->a->out[i] = (uint8_t)i;
	assert_int_equal(KIT_DO(f->a, 512, 0, SCSI_WRITE_SAME_10, 0, 0, 0, 0, 1,
				0, 0, 5, 0),
			 0);
	assert_int_equal(read_10(f->a, 0, 7), 0);
	assert_filled(f->a->in, 512, 0);
	for (unsigned i = 1; i < 6; i++)
		assert_memory_equal(f->a->in + 512 * i, f->a->out, 512);
	assert_filled(f->a->in + 512 * 6, 512, 0);
	/* To unmap must not lose data that is not zero. */
	assert_int_equal(KIT_DO(f->a, 512, 0, SCSI_WRITE_SAME_16, 8, 0, 0, 0, 0,
				0, 0, 0, 9, 0, 0, 0, 1, 0, 0),
			 0);
	assert_int_equal(read_10(f->a, 9, 1), 0);
	assert_memory_equal(f->a->in, f->a->out, 512);
	assert_int_equal(KIT_DO(f->a, 0, 0, SCSI_WRITE_SAME_16, 9, 0, 0, 0, 0,
				0, 0, 0, 9, 0, 0, 0, 1, 0, 0),
			 0); /* UNMAP, NDOB */
	assert_int_equal(read_10(f->a, 9, 1), 0);
	assert_filled(f->a->in, 512, 0);
}

static void refuses_a_wrong_write_same(void **state)
{
	struct kit_pair *f = *state;

	assert_int_equal(KIT_DO(f->a, 1024, 0, SCSI_WRITE_SAME_10, 0, 0, 0, 0,
				1, 0, 0, 5, 0),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_DATA_SIZE);
	assert_int_equal(KIT_DO(f->a, 512, 0, SCSI_WRITE_SAME_10, 0x18, 0, 0, 0,
				1, 0, 0, 5, 0),
			 SCSI_CHECK_CONDITION); /* ANCHOR */
	assert_int_equal(kit_field(f->a), 1);
	assert_int_equal(KIT_DO(f->a, 512, 0, SCSI_WRITE_SAME_10, 0, 0, 0, 0, 1,
				0, 0, 0, 0),
			 SCSI_CHECK_CONDITION);
	assert_int_equal(kit_field(f->a), 7);
}

/* Of no blocks: all from there to the end, where the unit is not thin. */
static void repeats_a_block_up_to_the_end(void **state)
{
	static struct kit kit;
	const struct scsi_unit_options thick = {.block_size = 512};
	struct kit_session *s;

	(void)state;
	kit_open(&kit, &thick);
	s = kit_login(&kit, 1);
	memset(s->out, 'e', 512);
	assert_int_equal(KIT_DO(s, 512, 0, SCSI_WRITE_SAME_10, 0, 0, 0, 0x0f,
				0xf0, 0, 0, 0, 0),
			 0);
	assert_int_equal(read_last(s, 17), 0);
	assert_filled(s->in, 512, 0);
	assert_filled(s->in + 512, 16 * 512, 'e');
	assert_int_equal(KIT_DO(s, 0, 0, SCSI_WRITE_SAME_16, 1, 0, 0, 0, 0, 0,
				0, 0x0f, 0xf8, 0, 0, 0, 0, 0, 0),
			 0); /* NDOB */
	assert_int_equal(read_last(s, 16), 0);
	assert_filled(s->in, 8 * 512, 'e');
	assert_filled(s->in + 8 * 512, 8 * 512, 0);
	assert_int_equal(KIT_DO(s, 512, 0, SCSI_WRITE_SAME_10, 0, 0, 0, 0x10, 0,
				0, 0, 0, 0),
			 SCSI_CHECK_CONDITION); /* behind it */
	kit_assert_sense(s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LBA_RANGE);
	assert_int_equal(KIT_DO(s, 0, 255, SCSI_INQUIRY, 1, 0xb0, 0, 255, 0),
			 0);
	assert_int_equal(s->in[4], 0); /* WSNZ */
	kit_logout(s);
	kit_close(&kit);
}

/* An UNMAP list of one range. */
static int unmap(struct kit_session *s, uint64_t lba, uint32_t blocks)
{
	memset(s->out, 0, 24);
	scsi_put16(s->out, 22);
	scsi_put16(s->out + 2, 16);
	scsi_put64(s->out + 8, lba);
	scsi_put32(s->out + 16, blocks);
	return KIT_DO(s, 24, 0, SCSI_UNMAP, 0, 0, 0, 0, 0, 0, 0, 24, 0);
}

static void reads_zeroes_where_it_unmapped(void **state)
{
	struct kit_pair *f = *state;

	assert_int_equal(write_10(f->a, 0, 4, 'u'), 0);
	assert_int_equal(unmap(f->a, 1, 2), 0);
	assert_int_equal(read_10(f->a, 0, 4), 0);
	assert_filled(f->a->in, 512, 'u');
	assert_filled(f->a->in + 512, 1024, 0);
	assert_filled(f->a->in + 1536, 512, 'u');
	assert_int_equal(unmap(f->a, 0, 0), 0);
	assert_int_equal(
		KIT_DO(f->a, 0, 0, SCSI_UNMAP, 0, 0, 0, 0, 0, 0, 0, 0, 0), 0);
}

static void refuses_a_wrong_unmap(void **state)
{
	struct kit_pair *f = *state;

	assert_int_equal(unmap(f->a, KIT_BLOCKS - 1, 2), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LBA_RANGE);
	assert_int_equal(unmap(f->a, UINT64_MAX, 2), SCSI_CHECK_CONDITION);
	assert_int_equal(
		KIT_DO(f->a, 24, 0, SCSI_UNMAP, 0, 0, 0, 0, 0, 0, 0, 7, 0),
		SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LIST_LENGTH);
	scsi_put16(f->a->out + 2, 32); /* more than there is */
	assert_int_equal(
		KIT_DO(f->a, 24, 0, SCSI_UNMAP, 0, 0, 0, 0, 0, 0, 0, 24, 0),
		SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LIST_LENGTH);
}

static void tells_what_is_mapped(void **state)
{
	struct kit_pair *f = *state;
	const uint8_t *d = f->a->in + 8;

	/* Every second MiB is a hole; the unit has two. */
	assert_int_equal(KIT_DO(f->a, 0, 256, SCSI_SERVICE_ACTION_IN_16, 0x12,
				0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 1, 0, 0, 0),
			 0);
	assert_int_equal(f->a->task.in_length, 8 + 2 * 16);
	assert_int_equal(scsi_be32(f->a->in), 4 + 2 * 16);
	assert_int_equal(scsi_be64(d), 8);
	assert_int_equal(scsi_be32(d + 8), 2048 - 8);
	assert_int_equal(d[12], 0);
	assert_int_equal(scsi_be64(d + 16), 2048);
	assert_int_equal(scsi_be32(d + 24), 2048);
	assert_int_equal(d[28], 1);
	assert_int_equal(KIT_DO(f->a, 0, 256, SCSI_SERVICE_ACTION_IN_16, 0x12,
				0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 1, 0, 0, 0),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LBA_RANGE);
}

/* ---- task management ---- */

static void aborts_a_task_that_waits(void **state)
{
	struct kit_pair *f = *state;
	const uint8_t compare[] = COMPARE_CDB(0, 1);

	atomic_store(&f->kit.hold, true);
	fill_compare(f->a, 0, 'a');
	kit_begin(f->a, compare, sizeof(compare), 1024, 0);
	kit_wait_held(&f->kit);
	fill_compare(f->b, 'a', 'b');
	kit_begin(f->b, compare, sizeof(compare), 1024, 0);
	kit_abort(f->b);
	(void)kit_end(f->b); /* it need not wait for the other */
	assert_true(f->b->task.aborted);
	kit_let_go(&f->kit);
	assert_int_equal(kit_end(f->a), 0);
	assert_int_equal(read_10(f->a, 0, 1), 0);
	assert_filled(f->a->in, 512, 'a');
}

static void a_reset_waits_for_what_is_at_the_medium(void **state)
{
	struct kit_pair *f = *state;
	const uint8_t write[] = WRITE_CDB(0, 1);
	struct reset *reset;

	atomic_store(&f->kit.hold, true);
	kit_begin(f->a, write, sizeof(write), 512, 0);
	kit_wait_held(&f->kit);
	reset = kit_reset_begin(f->b, SCSI_LUN_RESET);
	kit_call(&f->kit, kit_nothing, NULL); /* it has begun */
	assert_false(kit_reset_is_done(reset));
	kit_let_go(&f->kit);
	assert_int_equal(kit_end(f->a), 0);
	assert_true(f->a->task.aborted);
	assert_int_equal(kit_reset_end(reset), 0);
	assert_int_equal(write_10(f->a, 0, 1, 'n'), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_UNIT_ATTENTION, SCSI_ASC_RESET);
	assert_int_equal(write_10(f->a, 0, 1, 'n'), 0);
	assert_int_equal(f->kit.unit->exclusive, 0);
}

static void an_abort_task_set_is_of_one_session(void **state)
{
	struct kit_pair *f = *state;
	const uint8_t write[] = WRITE_CDB(0, 1);
	struct reset *reset;

	atomic_store(&f->kit.hold, true);
	kit_begin(f->a, write, sizeof(write), 512, 0);
	kit_begin(f->b, write, sizeof(write), 512, 0);
	kit_wait_held(&f->kit);
	kit_wait_held(&f->kit);
	reset = kit_reset_begin(f->b, SCSI_ABORT_TASK_SET);
	kit_let_go(&f->kit);
	assert_int_equal(kit_end(f->a), 0);
	assert_false(f->a->task.aborted);
	assert_int_equal(kit_end(f->b), 0);
	assert_int_equal(kit_reset_end(reset), 0);
	assert_int_equal(write_10(f->a, 0, 1, 'n'), 0);
	assert_int_equal(kit_reset(f->b, SCSI_CLEAR_TASK_SET), 0);
	assert_int_equal(write_10(f->b, 0, 1, 'n'), 0);
	assert_int_equal(write_10(f->a, 0, 1, 'n'), SCSI_CHECK_CONDITION);
	kit_assert_sense(f->a, SCSI_UNIT_ATTENTION, SCSI_ASC_CLEARED);
	f->b->lun[1] = 9;
	assert_int_equal(kit_reset(f->b, SCSI_LUN_RESET), -ENOENT);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, kit_pair_close)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(writes_only_what_compares),
		TEST(lets_one_of_two_change_the_same),
		TEST(waits_for_writers_that_came_before),
		TEST(holds_up_only_who_overlaps),
		TEST(an_ordered_command_has_its_turn),
		TEST(ors_what_is_there),
		TEST(ors_a_long_range_in_pieces),
		TEST(writes_atomically_up_to_its_limit),
		TEST(repeats_a_block),
		TEST(refuses_a_wrong_write_same),
		TEST(repeats_a_block_up_to_the_end),
		TEST(reads_zeroes_where_it_unmapped),
		TEST(refuses_a_wrong_unmap),
		TEST(tells_what_is_mapped),
		TEST(aborts_a_task_that_waits),
		TEST(a_reset_waits_for_what_is_at_the_medium),
		TEST(an_abort_task_set_is_of_one_session),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
