/* SPDX-License-Identifier: Apache-2.0 */
/* Commands of which data goes its way before the last of it is there. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "target/testkit/iscsi_session_kit.h"

/* 20,000 bytes are read of which @end are there. */
static void read_begin(struct iscsi_kit *kit, uint32_t end)
{
	iscsi_kit_send_pdu(kit, iscsi_kit_command(kit, 0xc0, 7, 20000), NULL,
			   0);
	assert_int_equal(kit->n_ready, 1);
	kit->task->in = iscsi_kit_pattern;
	kit->task->in_length = 20000;
	iscsi_session_part(&kit->session, kit->task, end);
}

static void data_is_expected(struct iscsi_kit *kit, uint32_t datasn,
			     uint32_t offset, uint32_t length, uint8_t flags)
{
	const struct iscsi_kit_said *s = iscsi_kit_expect(kit, ISCSI_DATA_IN);

	assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_DATASN), datasn);
	assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_OFFSET), offset);
	assert_int_equal(s->length, length);
	assert_memory_equal(s->data, iscsi_kit_pattern + offset, length);
	assert_int_equal(s->bhs.flags, flags);
}

static void data_is_sent_before_the_answer(void **state)
{
	struct iscsi_kit *kit = *state;

	ISCSI_KIT_LOGIN(kit,
			"MaxRecvDataSegmentLength=8192\0DataDigest=CRC32C\0");
	kit->data_digest = true;
	read_begin(kit, 10000);
	iscsi_session_part(&kit->session, kit->task, 12000); /* still one */
	iscsi_kit_gather(kit);
	data_is_expected(kit, 0, 0, 8192, 0);
	data_is_expected(kit, 1, 8192, 12000 - 8192, 0);
	assert_null(iscsi_kit_said(kit));
	assert_int_equal(kit->n_done, 0);
	iscsi_session_part(&kit->session, kit->task, 16000);
	iscsi_kit_answer(kit, 20000);
	data_is_expected(kit, 2, 12000, 4000, 0);
	data_is_expected(kit, 3, 16000, 4000, 0x81);
	assert_null(iscsi_kit_said(kit));
	assert_int_equal(kit->n_done, 1);
}

static void an_error_comes_behind_the_data_before_it(void **state)
{
	struct iscsi_kit *kit = *state;
	const struct iscsi_kit_said *s;

	ISCSI_KIT_LOGIN(kit, "");
	read_begin(kit, 8192);
	iscsi_kit_gather(kit);
	data_is_expected(kit, 0, 0, 8192, 0);
	kit->task->status = 2;
	iscsi_kit_answer(kit, 8192);
	s = iscsi_kit_expect(kit, ISCSI_RESPONSE);
	assert_int_equal(s->bhs.byte3, 2);
	assert_int_equal(s->bhs.flags & 0x06, 0x02); /* underflow */
	assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_LENGTH), 20000 - 8192);
	assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_DATASN),
			 1); /* ExpDataSN */
}

static void a_part_of_what_is_forgotten_is_not_sent(void **state)
{
	struct iscsi_kit *kit = *state;

	ISCSI_KIT_LOGIN(kit, "");
	read_begin(kit, 8192);
	iscsi_session_ping(&kit->session);
	assert_true(iscsi_session_forget(&kit->session, kit->task));
	free(kit->task);
	iscsi_kit_gather(kit);
	(void)iscsi_kit_expect(kit, ISCSI_NOP_IN);
	assert_null(iscsi_kit_said(kit));
}

static void what_is_being_sent_is_freed_when_it_is_out(void **state)
{
	struct iscsi_kit *kit = *state;

	ISCSI_KIT_LOGIN(kit, "");
	read_begin(kit, 8192);
	assert_true(iscsi_session_gather(&kit->session, &kit->batch));
	assert_false(iscsi_session_forget(&kit->session, kit->task));
	assert_int_equal(kit->n_done, 0);
	iscsi_session_sent(&kit->session, &kit->batch);
	assert_int_equal(kit->n_done, 1);
	assert_null(iscsi_kit_said(kit));
}

/* More of it has come while the first of it was sent. */
static void what_comes_during_a_send_is_in_the_next(void **state)
{
	struct iscsi_kit *kit = *state;

	ISCSI_KIT_LOGIN(kit, "");
	read_begin(kit, 8192);
	assert_true(iscsi_session_gather(&kit->session, &kit->batch));
	iscsi_session_part(&kit->session, kit->task, 16384);
	iscsi_session_sent(&kit->session, &kit->batch);
	iscsi_kit_gather(kit);
	data_is_expected(kit, 1, 8192, 8192, 0);
	iscsi_session_part(&kit->session, kit->task, 18000);
	iscsi_session_abandon(&kit->session); /* it is not asked for again */
	assert_true(iscsi_session_all_sent(&kit->session));
	assert_true(iscsi_session_forget(&kit->session, kit->task));
	free(kit->task);
}

/* Of three times 4096 bytes; when @tell have come it is told. The R2T's tag. */
static uint32_t begin_write(struct iscsi_kit *kit, uint32_t tell)
{
	uint32_t ttt;

	ISCSI_KIT_LOGIN(kit, "");
	iscsi_kit_send_pdu(kit, iscsi_kit_command(kit, 0xa0, 7, 3 * 4096), NULL,
			   0);
	ttt = iscsi_kit_word(iscsi_kit_expect(kit, ISCSI_R2T), ISCSI_WORD_TTT);
	kit->task->tell = tell;
	return ttt;
}

static void who_wants_to_know_is_told_of_data_before_the_last(void **state)
{
	struct iscsi_kit *kit = *state;
	uint32_t ttt = begin_write(kit, 5000);

	iscsi_kit_send_pdu(kit, iscsi_kit_data_out(false, 7, ttt, 0, 0),
			   iscsi_kit_pattern, 4096);
	assert_int_equal(kit->event.type, ISCSI_EVENT_PAYLOAD);
	iscsi_kit_send_pdu(kit, iscsi_kit_data_out(false, 7, ttt, 1, 4096),
			   iscsi_kit_pattern, 4096);
	assert_int_equal(kit->event.type, ISCSI_EVENT_PART);
	assert_ptr_equal(kit->event.task, kit->task);
	assert_int_equal(kit->task->received, 8192);
	iscsi_kit_send_pdu(kit, iscsi_kit_data_out(true, 7, ttt, 2, 8192),
			   iscsi_kit_pattern, 4096);
	assert_int_equal(kit->event.type, ISCSI_EVENT_READY);
	iscsi_kit_answer(kit, 0);
	(void)iscsi_kit_expect(kit, ISCSI_RESPONSE);
}

static void data_that_is_wrong_is_not_told_of(void **state)
{
	struct iscsi_kit *kit = *state;
	uint32_t ttt = begin_write(kit, 4096);

	/* The first of it is left out. */
	iscsi_kit_send_pdu(kit, iscsi_kit_data_out(false, 7, ttt, 1, 4096),
			   iscsi_kit_pattern, 4096);
	assert_int_not_equal(kit->event.type, ISCSI_EVENT_PART);
	iscsi_kit_send_pdu(kit, iscsi_kit_data_out(true, 7, ttt, 2, 8192),
			   iscsi_kit_pattern, 4096);
	assert_int_equal(kit->event.type, ISCSI_EVENT_READY);
	iscsi_session_answer_error(&kit->session, kit->task);
	iscsi_kit_gather(kit);
	assert_int_equal(iscsi_kit_expect(kit, ISCSI_RESPONSE)->bhs.byte3, 2);
}

#define TEST(f) \
	cmocka_unit_test_setup_teardown(f, iscsi_kit_setup, iscsi_kit_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(data_is_sent_before_the_answer),
		TEST(an_error_comes_behind_the_data_before_it),
		TEST(a_part_of_what_is_forgotten_is_not_sent),
		TEST(what_is_being_sent_is_freed_when_it_is_out),
		TEST(what_comes_during_a_send_is_in_the_next),
		TEST(who_wants_to_know_is_told_of_data_before_the_last),
		TEST(data_that_is_wrong_is_not_told_of),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
