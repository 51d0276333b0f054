/* SPDX-License-Identifier: Apache-2.0 */
/* What a unit says of itself, and the commands that move blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "target/testkit/scsi_test_kit.h"

struct fixture {
	struct kit kit;
	struct kit_session *s;
};

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	kit_open(&f->kit, NULL);
	f->s = kit_login(&f->kit, 1);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	kit_logout(f->s);
	kit_close(&f->kit);
	free(f);
	return 0;
}

static struct kit_session *session(void **state)
{
	struct fixture *f = *state;

	return f->s;
}

static struct kit *kit_of(void **state)
{
	struct fixture *f = *state;

	return &f->kit;
}

static int write_10(struct kit_session *s, uint8_t lba, uint8_t blocks,
		    uint8_t fill)
{
	memset(s->out, fill, (size_t)blocks * 512);
	return KIT_DO(s, blocks * 512u, 0, SCSI_WRITE_10, 0, 0, 0, 0, lba, 0, 0,
		      blocks, 0);
}

static int read_10(struct kit_session *s, uint8_t lba, uint8_t blocks)
{
	memset(s->in, 0xee, (size_t)blocks * 512);
	return KIT_DO(s, 0, blocks * 512u, SCSI_READ_10, 0, 0, 0, 0, lba, 0, 0,
		      blocks, 0);
}

static void assert_filled(const uint8_t *data, size_t length, uint8_t fill)
{
	for (size_t i = 0; i < length; i++)
		assert_int_equal(data[i], fill);
}

/* ---- identity ---- */

static void says_what_it_is(void **state)
{
	struct kit_session *s = session(state);

	assert_int_equal(KIT_DO(s, 0, 255, SCSI_INQUIRY, 0, 0, 0, 255, 0), 0);
	assert_int_equal(s->task.in_length, 74);
	assert_int_equal(s->task.transfer_length, 74);
	assert_int_equal(s->in[0], SCSI_DISK);
	assert_int_equal(s->in[2], 6);
	assert_memory_equal(s->in + 8, "TRIB    tributary       ", 24);
}

static void cuts_an_answer_to_the_allocation_length(void **state)
{
	struct kit_session *s = session(state);

	assert_int_equal(KIT_DO(s, 0, 255, SCSI_INQUIRY, 0, 0, 0, 5, 0), 0);
	assert_int_equal(s->task.in_length, 5);
	assert_int_equal(s->task.transfer_length, 5);
	assert_int_equal(KIT_DO(s, 0, 3, SCSI_INQUIRY, 0, 0, 0, 5, 0), 0);
	assert_int_equal(s->task.in_length, 3);
	assert_int_equal(s->task.transfer_length, 5); /* overflow */
}

static void has_every_page_it_names(void **state)
{
	struct kit_session *s = session(state);
	uint8_t pages[32];
	size_t n;

	assert_int_equal(KIT_DO(s, 0, 255, SCSI_INQUIRY, 1, 0, 0, 255, 0), 0);
	n = s->task.in_length - 4;
	assert_in_range(n, 7, sizeof(pages));
	memcpy(pages, s->in + 4, n);
	for (size_t i = 0; i < n; i++) {
		assert_true(i == 0 || pages[i] > pages[i - 1]);
		assert_int_equal(
			KIT_DO(s, 0, 4096, SCSI_INQUIRY, 1, pages[i], 16, 0, 0),
			0);
		assert_int_equal(s->in[1], pages[i]);
		assert_int_equal(scsi_be16(s->in + 2), s->task.in_length - 4);
	}
	assert_int_equal(KIT_DO(s, 0, 255, SCSI_INQUIRY, 1, 0xc9, 0, 255, 0),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_CDB);
	assert_int_equal(kit_field(s), 2);
}

static void says_its_size(void **state)
{
	struct kit_session *s = session(state);

	assert_int_equal(KIT_DO(s, 0, 8, SCSI_READ_CAPACITY_10, 0, 0, 0, 0, 0,
				0, 0, 0, 0),
			 0);
	assert_int_equal(scsi_be32(s->in), KIT_BLOCKS - 1);
	assert_int_equal(scsi_be32(s->in + 4), 512);
	assert_int_equal(KIT_DO(s, 0, 32, SCSI_SERVICE_ACTION_IN_16, 0x10, 0, 0,
				0, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0),
			 0);
	assert_int_equal(scsi_be64(s->in), KIT_BLOCKS - 1);
	assert_int_equal(s->in[14], 0xc0); /* LBPME, LBPRZ */
}

static void tells_each_session_once_that_it_grew(void **state)
{
	struct kit_session *s = session(state);
	struct kit *kit = kit_of(state);

	scsi_unit_resize(kit->unit, 2 * KIT_BLOCKS * 512);
	assert_int_equal(read_10(s, 0, 1), SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_UNIT_ATTENTION, SCSI_ASC_CAPACITY);
	assert_int_equal(read_10(s, 0, 1), 0);
	assert_int_equal(KIT_DO(s, 0, 8, SCSI_READ_CAPACITY_10, 0, 0, 0, 0, 0,
				0, 0, 0, 0),
			 0);
	assert_int_equal(scsi_be32(s->in), 2 * KIT_BLOCKS - 1);
	scsi_unit_resize(kit->unit, 2 * KIT_BLOCKS * 512); /* no news */
	assert_int_equal(read_10(s, 0, 1), 0);
	assert_int_equal(KIT_DO(s, 0, 512, SCSI_READ_10, 0, 0, 0, 0x1f, 0xff, 0,
				0, 1, 0),
			 0);
}

static void tells_a_unit_attention_to_request_sense(void **state)
{
	struct kit_session *s = session(state);

	scsi_unit_low_space(kit_of(state)->unit);
	assert_int_equal(KIT_DO(s, 0, 255, SCSI_REQUEST_SENSE, 0, 0, 0, 255, 0),
			 0);
	assert_int_equal(s->in[2], SCSI_UNIT_ATTENTION);
	assert_int_equal(scsi_be16(s->in + 12), SCSI_ASC_LOW_SPACE);
	assert_int_equal(KIT_DO(s, 0, 255, SCSI_REQUEST_SENSE, 1, 0, 0, 255, 0),
			 0);
	assert_int_equal(s->in[0], 0x72);
	assert_int_equal(s->in[1], SCSI_NO_SENSE);
}

static void knows_which_luns_there_are(void **state)
{
	struct kit_session *s = session(state);

	assert_int_equal(KIT_DO(s, 0, 64, SCSI_REPORT_LUNS, 0, 0, 0, 0, 0, 0, 0,
				0, 64, 0, 0),
			 0);
	assert_int_equal(scsi_be32(s->in), 8);
	s->lun[1] = 5;
	assert_int_equal(kit_ready(s), SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_NO_UNIT);
	assert_int_equal(KIT_DO(s, 0, 36, SCSI_INQUIRY, 0, 0, 0, 36, 0), 0);
	assert_int_equal(s->in[0], 0x7f);
	assert_int_equal(KIT_DO(s, 0, 64, SCSI_REPORT_LUNS, 0, 0, 0, 0, 0, 0, 0,
				0, 64, 0, 0),
			 0);
	assert_int_equal(scsi_be32(s->in), 8);
}

static void refuses_what_is_no_command(void **state)
{
	struct kit_session *s = session(state);

	assert_int_equal(KIT_DO(s, 0, 0, 0xd7, 0, 0, 0, 0, 0),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_OPCODE);
	assert_int_equal(KIT_DO(s, 0, 0, 0x48, 1, 0, 0, 0, 0, 0, 0, 0, 0),
			 SCSI_CHECK_CONDITION); /* SANITIZE */
	kit_assert_sense(s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_OPCODE);
	assert_int_equal(KIT_DO(s, 0, 0, 0x37, 0, 0, 0, 0, 0, 0, 0, 0, 0),
			 SCSI_CHECK_CONDITION); /* READ DEFECT DATA */
	kit_assert_sense(s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_OPCODE);
	assert_int_equal(KIT_DO(s, 0, 0, SCSI_MAINTENANCE_IN, 0x1e, 0, 0, 0, 0,
				0, 0, 0, 0, 0, 0),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_CDB);
	assert_int_equal(kit_field(s), 1);
	assert_int_equal(KIT_DO(s, 0, 0, SCSI_TEST_UNIT_READY, 0, 0, 0, 0, 4),
			 SCSI_CHECK_CONDITION); /* NACA */
	assert_int_equal(kit_field(s), 5);
}

/* ---- READ, WRITE ---- */

static void reads_what_was_written_by_any_length(void **state)
{
	struct kit_session *s = session(state);

	assert_int_equal(write_10(s, 7, 2, 'a'), 0);
	assert_int_equal(read_10(s, 8, 1), 0);
	assert_filled(s->in, 512, 'a');
	memset(s->out, 'b', 512);
	assert_int_equal(KIT_DO(s, 512, 0, SCSI_WRITE_6, 0, 0, 8, 1, 0), 0);
	assert_int_equal(KIT_DO(s, 0, 1024, SCSI_READ_12, 0, 0, 0, 0, 7, 0, 0,
				0, 2, 0, 0),
			 0);
	assert_filled(s->in, 512, 'a');
	assert_filled(s->in + 512, 512, 'b');
	assert_int_equal(KIT_DO(s, 0, 512, SCSI_READ_6, 0, 0, 8, 1, 0), 0);
	assert_filled(s->in, 512, 'b');
	assert_int_equal(KIT_DO(s, 0, 512, SCSI_READ_16, 0, 0, 0, 0, 0, 0, 0, 0,
				7, 0, 0, 0, 1, 0, 0),
			 0);
	assert_filled(s->in, 512, 'a');
	assert_int_equal(KIT_DO(s, 0, 256 * 512, SCSI_READ_6, 0, 0, 0, 0, 0),
			 0); /* 0 is 256 */
	assert_int_equal(s->task.in_length, 256 * 512);
}

static void moves_no_more_than_was_expected(void **state)
{
	struct kit_session *s = session(state);

	assert_int_equal(write_10(s, 0, 2, 'a'), 0);
	memset(s->out, 'b', 1024);
	assert_int_equal(
		KIT_DO(s, 512, 0, SCSI_WRITE_10, 0, 0, 0, 0, 0, 0, 0, 2, 0), 0);
	assert_int_equal(s->task.transfer_length, 1024);
	assert_int_equal(s->task.out_length, 512);
	assert_int_equal(read_10(s, 0, 2), 0);
	assert_filled(s->in, 512, 'b');
	assert_filled(s->in + 512, 512, 'a');
	/* Half a block is no block: nothing is written, and that is said. */
	memset(s->out, 'c', 1024);
	assert_int_equal(
		KIT_DO(s, 700, 0, SCSI_WRITE_10, 0, 0, 0, 0, 0, 0, 0, 2, 0),
		SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_DATA_SIZE);
	assert_int_equal(s->task.transfer_length, 1024);
	assert_int_equal(read_10(s, 0, 2), 0);
	assert_filled(s->in, 512, 'b');
	assert_int_equal(
		KIT_DO(s, 0, 200, SCSI_READ_10, 0, 0, 0, 0, 0, 0, 0, 2, 0), 0);
	assert_int_equal(s->task.in_size, 512);
	assert_int_equal(s->task.transfer_length, 1024);
	assert_int_equal(
		KIT_DO(s, 0, 0, SCSI_READ_10, 0, 0, 0, 0, 0, 0, 0, 2, 0), 0);
	assert_int_equal(s->task.in_length, 0);
}

static void refuses_blocks_past_the_end(void **state)
{
	struct kit_session *s = session(state);

	assert_int_equal(KIT_DO(s, 0, 1024, SCSI_READ_10, 0, 0, 0, 0x0f, 0xff,
				0, 0, 2, 0),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LBA_RANGE);
	assert_int_equal(kit_information(s), KIT_BLOCKS);
	assert_int_equal(KIT_DO(s, 0, 512, SCSI_READ_16, 0, 0xff, 0xff, 0xff,
				0xff, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, 0, 0),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LBA_RANGE);
	assert_int_equal(KIT_DO(s, 512, 0, SCSI_WRITE_16, 0, 0x7f, 0xff, 0xff,
				0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
				0xff, 0, 0),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LBA_RANGE);
	assert_int_equal(s->task.out_length, 0);
	assert_int_equal(
		KIT_DO(s, 0, 0, SCSI_READ_10, 0, 0, 0, 0x10, 0x01, 0, 0, 0, 0),
		SCSI_CHECK_CONDITION);
	assert_int_equal(
		KIT_DO(s, 0, 0, SCSI_READ_10, 0, 0, 0, 0, 0, 0, 0, 0, 0), 0);
}

static void refuses_protection_information(void **state)
{
	struct kit_session *s = session(state);

	assert_int_equal(
		KIT_DO(s, 0, 512, SCSI_READ_10, 0x20, 0, 0, 0, 0, 0, 0, 1, 0),
		SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_INVALID_CDB);
	assert_int_equal(kit_field(s), 1);
}

static void makes_a_forced_write_durable(void **state)
{
	struct kit_session *s = session(state);
	struct kit *kit = kit_of(state);

	assert_int_equal(write_10(s, 0, 1, 'x'), 0);
	assert_int_equal(kit->fua_writes, 0);
	assert_int_equal(
		KIT_DO(s, 512, 0, SCSI_WRITE_10, 0x18, 0, 0, 0, 0, 0, 0, 1, 0),
		0);
	assert_int_equal(kit->fua_writes, 1);
	assert_int_equal(
		KIT_DO(s, 0, 512, SCSI_READ_10, 0x08, 0, 0, 0, 0, 0, 0, 1, 0),
		0);
	assert_int_equal(kit->flushes, 1);
	assert_int_equal(KIT_DO(s, 0, 0, SCSI_SYNCHRONIZE_CACHE_10, 2, 0, 0, 0,
				0, 0, 0, 0, 0),
			 0);
	assert_int_equal(kit->flushes, 2);
	assert_int_equal(KIT_DO(s, 0, 0, SCSI_SYNCHRONIZE_CACHE_16, 0, 0, 0, 0,
				0, 0, 0, 0, 0xff, 0, 0, 0, 1, 0, 0),
			 0);
}

static void tells_why_the_medium_failed(void **state)
{
	struct kit_session *s = session(state);
	struct kit *kit = kit_of(state);

	kit->fail = -EIO;
	assert_int_equal(read_10(s, 9, 1), SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_MEDIUM_ERROR, SCSI_ASC_READ_ERROR);
	assert_int_equal(kit_information(s), 9);
	assert_int_equal(s->task.in_length, 0);
	assert_int_equal(write_10(s, 9, 1, 'a'), SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_MEDIUM_ERROR, SCSI_ASC_WRITE_ERROR);
	kit->fail = -ENOSPC;
	assert_int_equal(write_10(s, 9, 1, 'a'), SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_DATA_PROTECT, SCSI_ASC_SPACE);
	kit->fail = -EAGAIN;
	assert_int_equal(write_10(s, 9, 1, 'a'), SCSI_BUSY);
	kit->fail = -EINVAL;
	assert_int_equal(write_10(s, 9, 1, 'a'), SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_HARDWARE_ERROR, SCSI_ASC_INTERNAL);
	kit->fail = 0;
	assert_int_equal(write_10(s, 9, 1, 'a'), 0);
}

/* ---- VERIFY, PRE-FETCH ---- */

static void finds_the_first_byte_that_differs(void **state)
{
	struct kit_session *s = session(state);

	assert_int_equal(write_10(s, 0, 8, 'a'), 0);
	assert_int_equal(
		KIT_DO(s, 4096, 0, SCSI_VERIFY_10, 2, 0, 0, 0, 0, 0, 0, 8, 0),
		0);
	s->out[1000] = 'b';
	assert_int_equal(KIT_DO(s, 4096, 0, SCSI_VERIFY_16, 2, 0, 0, 0, 0, 0, 0,
				0, 0, 0, 0, 0, 8, 0, 0),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_MISCOMPARE, SCSI_ASC_MISCOMPARE);
	assert_int_equal(kit_information(s), 1000);
	assert_int_equal(KIT_DO(s, 512, 0, SCSI_VERIFY_12, 6, 0, 0, 0, 0, 0, 0,
				0, 8, 0, 0),
			 0); /* one block for all */
	assert_int_equal(KIT_DO(s, 0, 0, SCSI_VERIFY_10, 0, 0, 0, 0, 0, 0x0f,
				0xff, 0, 0),
			 SCSI_CHECK_CONDITION); /* not read in vain */
	assert_int_equal(KIT_DO(s, 0, 0, SCSI_VERIFY_10, 0, 0, 0, 0, 0, 0, 0x0f,
				0xff, 0),
			 0);
	assert_int_equal(
		KIT_DO(s, 512, 0, SCSI_VERIFY_10, 4, 0, 0, 0, 0, 0, 0, 1, 0),
		SCSI_CHECK_CONDITION);
	assert_int_equal(kit_field(s), 1);
}

static void verifies_what_it_wrote(void **state)
{
	struct kit_session *s = session(state);

	memset(s->out, 'v', 1024);
	assert_int_equal(KIT_DO(s, 1024, 0, SCSI_WRITE_VERIFY_10, 2, 0, 0, 0, 3,
				0, 0, 2, 0),
			 0);
	assert_int_equal(read_10(s, 3, 2), 0);
	assert_filled(s->in, 1024, 'v');
	assert_int_equal(kit_of(state)->fua_writes, 1);
}

static void prefetches(void **state)
{
	struct kit_session *s = session(state);

	assert_int_equal(
		KIT_DO(s, 0, 0, SCSI_PRE_FETCH_10, 0, 0, 0, 0, 0, 0, 0, 9, 0),
		SCSI_CONDITION_MET);
	assert_int_equal(KIT_DO(s, 0, 0, SCSI_PRE_FETCH_16, 2, 0, 0, 0, 0, 0, 0,
				0x10, 0, 0, 0, 0, 2, 0, 0),
			 SCSI_CHECK_CONDITION);
	kit_assert_sense(s, SCSI_ILLEGAL_REQUEST, SCSI_ASC_LBA_RANGE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(says_what_it_is),
		TEST(cuts_an_answer_to_the_allocation_length),
		TEST(has_every_page_it_names),
		TEST(says_its_size),
		TEST(tells_each_session_once_that_it_grew),
		TEST(tells_a_unit_attention_to_request_sense),
		TEST(knows_which_luns_there_are),
		TEST(refuses_what_is_no_command),
		TEST(reads_what_was_written_by_any_length),
		TEST(moves_no_more_than_was_expected),
		TEST(refuses_blocks_past_the_end),
		TEST(refuses_protection_information),
		TEST(makes_a_forced_write_durable),
		TEST(tells_why_the_medium_failed),
		TEST(finds_the_first_byte_that_differs),
		TEST(verifies_what_it_wrote),
		TEST(prefetches),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
