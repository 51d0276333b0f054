/* SPDX-License-Identifier: Apache-2.0 */
/* Commands and their data: what a session says, and when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/wire/crc32c.h"
#include "target/testkit/iscsi_session_kit.h"

static void a_read_is_answered_with_its_status_in_the_data(void **state)
{
	struct iscsi_kit *kit = *state;
	const struct iscsi_kit_said *s;

	ISCSI_KIT_LOGIN(kit, "MaxRecvDataSegmentLength=8192\0");
	iscsi_kit_send_pdu(kit, iscsi_kit_command(kit, 0xc0, 7, 20000), NULL,
			   0);
	assert_int_equal(kit->n_ready, 1);
	iscsi_kit_answer(kit, 20000);
	for (uint32_t i = 0; i < 3; i++) {
		s = iscsi_kit_expect(kit, ISCSI_DATA_IN);
		assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_DATASN), i);
		assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_OFFSET),
				 i * 8192);
		assert_int_equal(s->length, i < 2 ? 8192 : 20000 - 16384);
		assert_memory_equal(s->data, iscsi_kit_pattern + i * 8192,
				    s->length);
		assert_int_equal(s->bhs.flags, i < 2 ? 0 : 0x81);
	}
	assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_SN),
			 1); /* behind the login's */
	assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_EXP_SN), 0xffffffff);
	assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_MAX_SN),
			 0xffffffff + ISCSI_WINDOW - 1);
	assert_null(iscsi_kit_said(kit));
	assert_int_equal(kit->n_done, 1);
}

static void residuals_are_told(void **state)
{
	struct iscsi_kit *kit = *state;
	const struct iscsi_kit_said *s;

	ISCSI_KIT_LOGIN(kit, "");
	iscsi_kit_send_pdu(kit, iscsi_kit_command(kit, 0xc0, 7, 1000), NULL, 0);
	iscsi_kit_answer(kit, 600);
	s = iscsi_kit_expect(kit, ISCSI_DATA_IN);
	assert_int_equal(s->bhs.flags, 0x83);
	assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_LENGTH), 400);
	iscsi_kit_send_pdu(kit, iscsi_kit_command(kit, 0xc0, 8, 1000), NULL, 0);
	iscsi_kit_answer(kit, 1600);
	s = iscsi_kit_expect(kit, ISCSI_DATA_IN);
	assert_int_equal(s->length, 1000);
	assert_int_equal(s->bhs.flags, 0x85);
	assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_LENGTH), 600);
}

static void sense_comes_in_a_response(void **state)
{
	struct iscsi_kit *kit = *state;
	const struct iscsi_kit_said *s;

	ISCSI_KIT_LOGIN(kit, "DataDigest=CRC32C\0");
	kit->data_digest = true;
	iscsi_kit_send_pdu(kit, iscsi_kit_command(kit, 0xc0, 7, 512), NULL, 0);
	kit->task->status = 2;
	kit->task->sense = iscsi_kit_pattern;
	kit->task->sense_length = 18;
	iscsi_kit_answer(kit, 0);
	s = iscsi_kit_expect(kit, ISCSI_RESPONSE);
	assert_int_equal(s->bhs.byte3, 2);
	assert_int_equal(s->length, 20);
	assert_memory_equal(s->data, "\0\x12", 2);
	assert_memory_equal(s->data + 2, iscsi_kit_pattern, 18);
	assert_int_equal(s->bhs.flags, 0x82);
}

static void a_write_is_asked_for_in_bursts(void **state)
{
	struct iscsi_kit *kit = *state;
	uint32_t total = 40000, ttt[2];
	const struct iscsi_kit_said *s;

	ISCSI_KIT_LOGIN(kit, "MaxBurstLength=16384\0MaxOutstandingR2T=2\0"
			     "ImmediateData=Yes\0FirstBurstLength=8192\0");
	iscsi_kit_send_pdu(kit, iscsi_kit_command(kit, 0xa0, 7, total),
			   iscsi_kit_pattern, 4096);
	for (uint32_t i = 0; i < 2; i++) {
		s = iscsi_kit_expect(kit, ISCSI_R2T);
		ttt[i] = iscsi_kit_word(s, ISCSI_WORD_TTT);
		assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_DATASN), i);
		assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_OFFSET),
				 4096 + i * 16384);
		assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_LENGTH), 16384);
	}
	assert_null(iscsi_kit_said(kit));
	iscsi_kit_send_pdu(kit, iscsi_kit_data_out(false, 7, ttt[0], 0, 4096),
			   iscsi_kit_pattern + 4096, 8192);
	assert_null(iscsi_kit_said(kit));
	iscsi_kit_send_pdu(kit, iscsi_kit_data_out(true, 7, ttt[0], 1, 12288),
			   iscsi_kit_pattern + 12288, 8192);
	s = iscsi_kit_expect(kit, ISCSI_R2T);
	assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_OFFSET), 4096 + 32768);
	assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_LENGTH),
			 total - 4096 - 32768);
	iscsi_kit_send_pdu(kit, iscsi_kit_data_out(true, 7, ttt[1], 0, 20480),
			   iscsi_kit_pattern + 20480, 16384);
	assert_int_equal(kit->n_ready, 0);
	iscsi_kit_send_pdu(kit,
			   iscsi_kit_data_out(true, 7,
					      iscsi_kit_word(s, ISCSI_WORD_TTT),
					      0, 36864),
			   iscsi_kit_pattern + 36864, total - 36864);
	assert_int_equal(kit->n_ready, 1);
	assert_memory_equal(kit->memory, iscsi_kit_pattern, total);
	iscsi_kit_answer(kit, 0);
	s = iscsi_kit_expect(kit, ISCSI_RESPONSE);
	assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_DATASN), 3); /* R2Ts */
}

static void unsolicited_data_follows_a_write(void **state)
{
	struct iscsi_kit *kit = *state;

	ISCSI_KIT_LOGIN(kit, "InitialR2T=No\0FirstBurstLength=12288\0");
	iscsi_kit_send_pdu(kit, iscsi_kit_command(kit, 0x20, 7, 12288),
			   iscsi_kit_pattern, 4096);
	assert_int_equal(kit->n_ready, 0);
	iscsi_kit_send_pdu(
		kit, iscsi_kit_data_out(false, 7, ISCSI_TAG_NONE, 0, 4096),
		iscsi_kit_pattern + 4096, 4096);
	iscsi_kit_send_pdu(kit,
			   iscsi_kit_data_out(true, 7, ISCSI_TAG_NONE, 1, 8192),
			   iscsi_kit_pattern + 8192, 4096);
	assert_int_equal(kit->n_ready, 1);
	assert_memory_equal(kit->memory, iscsi_kit_pattern, 12288);
	assert_null(iscsi_kit_said(kit));
	iscsi_kit_answer(kit, 0);
	(void)iscsi_kit_expect(kit, ISCSI_RESPONSE);
}

static void what_a_command_does_not_take_goes_by(void **state)
{
	struct iscsi_kit *kit = *state;
	struct iscsi_wire_bhs bhs;
	const struct iscsi_kit_said *s;

	ISCSI_KIT_LOGIN(kit, "");
	bhs = iscsi_kit_command(kit, 0xa0, 7, 4096);
	kit->wanted = 512;
	iscsi_kit_send_pdu(kit, bhs, iscsi_kit_pattern, 4096);
	assert_int_equal(kit->n_ready, 1);
	assert_memory_equal(kit->memory, iscsi_kit_pattern, 512);
	assert_int_equal(kit->memory[512], 0);
	iscsi_kit_answer(kit, 0);
	s = iscsi_kit_expect(kit, ISCSI_RESPONSE);
	assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_LENGTH), 4096 - 512);
}

/* An answer with sense @asc for the command's data. */
static void fails_with(struct iscsi_kit *kit, uint8_t asc, uint8_t ascq)
{
	const struct iscsi_kit_said *s;

	assert_int_equal(kit->n_ready, 1);
	iscsi_session_answer_error(&kit->session, kit->task);
	iscsi_kit_gather(kit);
	s = iscsi_kit_expect(kit, ISCSI_RESPONSE);
	assert_int_equal(s->bhs.byte3, 2);
	assert_int_equal(s->data[2 + 2], 0x0b);
	assert_int_equal(s->data[2 + 12], asc);
	assert_int_equal(s->data[2 + 13], ascq);
}

static void data_nobody_allowed_fails_its_command(void **state)
{
	struct iscsi_kit *kit = *state;

	ISCSI_KIT_LOGIN(kit, "ImmediateData=No\0");
	iscsi_kit_send_pdu(kit, iscsi_kit_command(kit, 0xa0, 7, 4096),
			   iscsi_kit_pattern, 4096);
	fails_with(kit, 0x0c, 0x0c);
}

static void a_short_burst_fails_its_command(void **state)
{
	struct iscsi_kit *kit = *state;
	uint32_t ttt;

	ISCSI_KIT_LOGIN(kit, "");
	iscsi_kit_send_pdu(kit, iscsi_kit_command(kit, 0xa0, 7, 4096), NULL, 0);
	ttt = iscsi_kit_word(iscsi_kit_expect(kit, ISCSI_R2T), ISCSI_WORD_TTT);
	iscsi_kit_send_pdu(kit, iscsi_kit_data_out(true, 7, ttt, 0, 0),
			   iscsi_kit_pattern, 512);
	fails_with(kit, 0x0c, 0x0d);
}

static void data_out_of_sequence_fails_its_command(void **state)
{
	struct iscsi_kit *kit = *state;
	uint32_t ttt;

	ISCSI_KIT_LOGIN(kit, "");
	iscsi_kit_send_pdu(kit, iscsi_kit_command(kit, 0xa0, 7, 1024), NULL, 0);
	ttt = iscsi_kit_word(iscsi_kit_expect(kit, ISCSI_R2T), ISCSI_WORD_TTT);
	iscsi_kit_send_pdu(kit, iscsi_kit_data_out(false, 7, ttt, 1, 0),
			   iscsi_kit_pattern, 512);
	assert_int_equal(kit->n_ready, 0);
	iscsi_kit_send_pdu(kit, iscsi_kit_data_out(true, 7, ttt, 0, 512),
			   iscsi_kit_pattern, 512);
	fails_with(kit, 0x47, 0x05);
}

static void data_behind_the_end_ends_the_connection(void **state)
{
	struct iscsi_kit *kit = *state;
	uint32_t ttt;

	ISCSI_KIT_LOGIN(kit, "");
	iscsi_kit_send_pdu(kit, iscsi_kit_command(kit, 0xa0, 7, 1024), NULL, 0);
	ttt = iscsi_kit_word(iscsi_kit_expect(kit, ISCSI_R2T), ISCSI_WORD_TTT);
	iscsi_kit_send_pdu(kit, iscsi_kit_data_out(true, 7, ttt, 0, 1024), NULL,
			   0);
	assert_int_equal(kit->event.type, ISCSI_EVENT_READY); /* short */
	(void)iscsi_session_forget(&kit->session, kit->task);
	free(kit->task);
	iscsi_kit_send_pdu(kit, iscsi_kit_command(kit, 0xa0, 8, 1024), NULL, 0);
	ttt = iscsi_kit_word(iscsi_kit_expect(kit, ISCSI_R2T), ISCSI_WORD_TTT);
	{
		struct iscsi_wire_bhs bhs = iscsi_kit_data_out(true, 8, ttt, 0,
							       1000);
		struct iscsi_event event;

		bhs.data_length[2] = 100;
		(void)iscsi_session_feed(&kit->session, &bhs, sizeof(bhs),
					 &event);
		assert_int_equal(event.type, ISCSI_EVENT_DROP);
	}
	(void)iscsi_session_forget(&kit->session, kit->task);
	free(kit->task);
}

static void a_wrong_data_digest_is_rejected(void **state)
{
	struct iscsi_kit *kit = *state;
	struct iscsi_wire_bhs bhs;
	uint32_t ttt;

	ISCSI_KIT_LOGIN(kit, "DataDigest=CRC32C\0HeaderDigest=CRC32C\0");
	kit->header_digest = kit->data_digest = true;
	bhs = iscsi_kit_command(kit, 0xa0, 7, 1024);
	iscsi_kit_send_pdu(kit, bhs, NULL, 0);
	ttt = iscsi_kit_word(iscsi_kit_expect(kit, ISCSI_R2T), ISCSI_WORD_TTT);
	{
		uint8_t wire[48 + 4 + 1024 + 4] = {0};
		le32 digest;

		bhs = iscsi_kit_data_out(true, 7, ttt, 0, 0);
		bhs.data_length[1] = 4;
		memcpy(wire, &bhs, 48);
		digest = iscsi_digest_make(crc32c(0, wire, 48));
		memcpy(wire + 48, &digest, 4);
		iscsi_kit_feed(kit, wire, sizeof(wire));
	}
	assert_int_equal(iscsi_kit_expect(kit, ISCSI_REJECT)->bhs.byte2,
			 ISCSI_REJECT_DATA_DIGEST);
	fails_with(kit, 0x47, 0x05);
}

static void a_wrong_header_digest_ends_the_connection(void **state)
{
	struct iscsi_kit *kit = *state;
	uint8_t wire[52] = {0x40, 0x80};

	ISCSI_KIT_LOGIN(kit, "HeaderDigest=CRC32C\0");
	{
		struct iscsi_event event;

		(void)iscsi_session_feed(&kit->session, wire, sizeof(wire),
					 &event);
		assert_int_equal(event.type, ISCSI_EVENT_DROP);
	}
}

static void commands_outside_the_window_are_ignored(void **state)
{
	struct iscsi_kit *kit = *state;
	struct iscsi_wire_bhs bhs;

	ISCSI_KIT_LOGIN(kit, "");
	bhs = iscsi_kit_command(kit, 0x80, 7, 0);
	iscsi_kit_set(&bhs, ISCSI_WORD_SN, kit->cmdsn - 1 + ISCSI_WINDOW);
	iscsi_kit_send_pdu(kit, bhs, NULL, 0);
	iscsi_kit_set(&bhs, ISCSI_WORD_SN, kit->cmdsn - 2);
	iscsi_kit_send_pdu(kit, bhs, iscsi_kit_pattern, 512);
	assert_null(kit->task);
	iscsi_kit_set(&bhs, ISCSI_WORD_SN, kit->cmdsn - 1);
	iscsi_kit_send_pdu(kit, bhs, NULL, 0);
	assert_non_null(kit->task);
	iscsi_kit_answer(kit, 0);
	(void)iscsi_kit_expect(kit, ISCSI_RESPONSE);
}

static void a_gap_in_the_numbers_ends_the_connection(void **state)
{
	struct iscsi_kit *kit = *state;
	struct iscsi_wire_bhs bhs;
	struct iscsi_event event;

	ISCSI_KIT_LOGIN(kit, "");
	bhs = iscsi_kit_command(kit, 0x80, 7, 0);
	iscsi_kit_set(&bhs, ISCSI_WORD_SN, kit->cmdsn);
	(void)iscsi_session_feed(&kit->session, &bhs, sizeof(bhs), &event);
	assert_int_equal(event.type, ISCSI_EVENT_DROP);
}

static void the_window_closes_as_commands_pile_up(void **state)
{
	struct iscsi_kit *kit = *state;
	struct iscsi_task *tasks[ISCSI_WINDOW];
	const struct iscsi_kit_said *s;

	ISCSI_KIT_LOGIN(kit, "");
	for (uint32_t i = 0; i < ISCSI_WINDOW; i++) {
		iscsi_kit_send_pdu(kit, iscsi_kit_command(kit, 0x80, i, 0),
				   NULL, 0);
		tasks[i] = kit->task;
	}
	assert_int_equal(kit->n_ready, ISCSI_WINDOW);
	kit->task = NULL;
	iscsi_kit_send_pdu(kit, iscsi_kit_command(kit, 0x80, 999, 0), NULL, 0);
	assert_null(kit->task); /* ignored */
	for (uint32_t i = 0; i < ISCSI_WINDOW; i++)
		iscsi_session_answer(&kit->session, tasks[i]);
	iscsi_kit_gather(kit);
	s = iscsi_kit_expect(kit, ISCSI_RESPONSE);
	assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_MAX_SN) -
				 iscsi_kit_word(s, ISCSI_WORD_EXP_SN),
			 ISCSI_WINDOW - 1);
}

static void an_aborted_command_is_forgotten(void **state)
{
	struct iscsi_kit *kit = *state;
	uint32_t ttt;

	ISCSI_KIT_LOGIN(kit, "");
	iscsi_kit_send_pdu(kit, iscsi_kit_command(kit, 0xa0, 7, 4096), NULL, 0);
	ttt = iscsi_kit_word(iscsi_kit_expect(kit, ISCSI_R2T), ISCSI_WORD_TTT);
	assert_ptr_equal(iscsi_session_task(&kit->session, 7), kit->task);
	(void)iscsi_session_forget(&kit->session, kit->task);
	free(kit->task);
	assert_null(iscsi_session_task(&kit->session, 7));
	iscsi_kit_send_pdu(kit, iscsi_kit_data_out(true, 7, ttt, 0, 0),
			   iscsi_kit_pattern, 4096);
	assert_null(iscsi_kit_said(kit));
	assert_int_equal(kit->n_ready, 0);
}

static void a_write_without_buffer_waits_or_is_told_full(void **state)
{
	struct iscsi_kit *kit = *state;
	uint32_t ttt;

	ISCSI_KIT_LOGIN(kit, "");
	kit->no_buffer = true;
	iscsi_kit_send_pdu(kit, iscsi_kit_command(kit, 0xa0, 7, 4096), NULL, 0);
	assert_null(iscsi_kit_said(kit)); /* nothing is asked for */
	iscsi_session_solicit(&kit->session, kit->task);
	iscsi_kit_gather(kit);
	ttt = iscsi_kit_word(iscsi_kit_expect(kit, ISCSI_R2T), ISCSI_WORD_TTT);
	iscsi_kit_send_pdu(kit, iscsi_kit_data_out(true, 7, ttt, 0, 0),
			   iscsi_kit_pattern, 4096);
	assert_int_equal(kit->n_ready, 1);
	iscsi_kit_answer(kit, 0);
	(void)iscsi_kit_expect(kit, ISCSI_RESPONSE);
	iscsi_kit_send_pdu(kit, iscsi_kit_command(kit, 0xa0, 8, 4096),
			   iscsi_kit_pattern, 4096);
	assert_int_equal(kit->n_ready, 2);
	iscsi_session_answer_error(&kit->session, kit->task);
	iscsi_kit_gather(kit);
	assert_int_equal(iscsi_kit_expect(kit, ISCSI_RESPONSE)->bhs.byte3,
			 0x28);
}

#define TEST(f) \
	cmocka_unit_test_setup_teardown(f, iscsi_kit_setup, iscsi_kit_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(a_read_is_answered_with_its_status_in_the_data),
		TEST(residuals_are_told),
		TEST(sense_comes_in_a_response),
		TEST(a_write_is_asked_for_in_bursts),
		TEST(unsolicited_data_follows_a_write),
		TEST(what_a_command_does_not_take_goes_by),
		TEST(data_nobody_allowed_fails_its_command),
		TEST(a_short_burst_fails_its_command),
		TEST(data_out_of_sequence_fails_its_command),
		TEST(data_behind_the_end_ends_the_connection),
		TEST(a_wrong_data_digest_is_rejected),
		TEST(a_wrong_header_digest_ends_the_connection),
		TEST(commands_outside_the_window_are_ignored),
		TEST(a_gap_in_the_numbers_ends_the_connection),
		TEST(the_window_closes_as_commands_pile_up),
		TEST(an_aborted_command_is_forgotten),
		TEST(a_write_without_buffer_waits_or_is_told_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
