/* SPDX-License-Identifier: Apache-2.0 */
/* What a session says that is no answer to a command. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "target/testkit/iscsi_session_kit.h"

static void pings_are_answered_and_sent(void **state)
{
	struct iscsi_kit *kit = *state;
	struct iscsi_wire_bhs bhs = iscsi_kit_header(0x40, 0x80, 5);
	const struct iscsi_kit_said *s;

	ISCSI_KIT_LOGIN(kit, "");
	iscsi_kit_set(&bhs, ISCSI_WORD_TTT, ISCSI_TAG_NONE);
	iscsi_kit_send_pdu(kit, bhs, "abcde", 5);
	s = iscsi_kit_expect(kit, ISCSI_NOP_IN);
	assert_int_equal(be32_get(s->bhs.itt), 5);
	assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_TTT), ISCSI_TAG_NONE);
	assert_memory_equal(s->data, "abcde", 5);
	iscsi_session_ping(&kit->session);
	iscsi_kit_gather(kit);
	assert_true(kit->session.ping);
	s = iscsi_kit_expect(kit, ISCSI_NOP_IN);
	bhs = iscsi_kit_header(0x40, 0x80, ISCSI_TAG_NONE);
	iscsi_kit_set(&bhs, ISCSI_WORD_TTT, iscsi_kit_word(s, ISCSI_WORD_TTT));
	iscsi_kit_send_pdu(kit, bhs, NULL, 0);
	assert_false(kit->session.ping);
	assert_null(iscsi_kit_said(kit));
}

static void discovery_lists_targets(void **state)
{
	struct iscsi_kit *kit = *state;
	static const char text[] =
		"InitiatorName=iqn.a:b\0SessionType=Discovery\0";
	struct iscsi_wire_bhs bhs = iscsi_kit_header(0x44, 0x80, 2);
	const struct iscsi_kit_said *s;

	iscsi_kit_login(kit, text, sizeof(text) - 1);
	iscsi_kit_set(&bhs, ISCSI_WORD_TTT, ISCSI_TAG_NONE);
	iscsi_kit_send_pdu(kit, bhs, "SendTargets=All\0", 16);
	s = iscsi_kit_expect(kit, ISCSI_TEXT_RESPONSE);
	assert_int_equal(s->bhs.flags, 0x80);
	assert_memory_equal(s->data,
			    "TargetName=iqn.t:x\0"
			    "TargetAddress=10.0.0.1:3260,1\0"
			    "TargetName=iqn.t:y\0",
			    19 + 30 + 19);
	iscsi_kit_send_pdu(kit, bhs, "SendTargets=iqn.t:y\0", 20);
	s = iscsi_kit_expect(kit, ISCSI_TEXT_RESPONSE);
	assert_memory_equal(s->data, "TargetName=iqn.t:y\0", 19);
	assert_int_equal(s->length, 19 + 30);
	/* No commands in such a session. */
	iscsi_kit_send_pdu(kit, iscsi_kit_command(kit, 0x80, 9, 0), NULL, 0);
	assert_int_equal(iscsi_kit_expect(kit, ISCSI_REJECT)->bhs.byte2,
			 ISCSI_REJECT_PROTOCOL);
}

static void a_long_text_comes_in_pieces(void **state)
{
	struct iscsi_kit *kit = *state;
	static const char text[] = "InitiatorName=iqn.a:b\0"
				   "SessionType=Discovery\0"
				   "MaxRecvDataSegmentLength=512\0";
	struct iscsi_wire_bhs bhs = iscsi_kit_header(0x44, 0x80, 2);
	char big[200] = "", *at = big;
	const struct iscsi_kit_said *s;

	for (unsigned i = 0; i < 20; i++) /* each answered NotUnderstood */
		at += sprintf(at, "X-key%u=", i) + 1;
	iscsi_kit_login(kit, text, sizeof(text) - 1);
	iscsi_kit_set(&bhs, ISCSI_WORD_TTT, ISCSI_TAG_NONE);
	iscsi_kit_send_pdu(kit, bhs, big, (uint32_t)(at - big));
	s = iscsi_kit_expect(kit, ISCSI_TEXT_RESPONSE);
	/* 20 * (8 or 7 + 14): in one PDU of 512 */
	assert_true(s->length < 512 && s->bhs.flags == 0x80);
	kit->session.params.max_segment = 100;
	iscsi_kit_send_pdu(kit, bhs, big, (uint32_t)(at - big));
	s = iscsi_kit_expect(kit, ISCSI_TEXT_RESPONSE);
	assert_int_equal(s->length, 100);
	assert_int_equal(s->bhs.flags, 0x40);
	while (!(s->bhs.flags & 0x80)) {
		iscsi_kit_set(&bhs, ISCSI_WORD_TTT,
			      iscsi_kit_word(s, ISCSI_WORD_TTT));
		iscsi_kit_send_pdu(kit, bhs, NULL, 0);
		s = iscsi_kit_expect(kit, ISCSI_TEXT_RESPONSE);
	}
	assert_int_equal(iscsi_kit_word(s, ISCSI_WORD_TTT), ISCSI_TAG_NONE);
}

static void what_it_does_not_know_is_rejected(void **state)
{
	struct iscsi_kit *kit = *state;
	const struct iscsi_kit_said *s;

	ISCSI_KIT_LOGIN(kit, "");
	iscsi_kit_send_pdu(kit, iscsi_kit_header(0x5c, 0x80, 3), NULL, 0);
	s = iscsi_kit_expect(kit, ISCSI_REJECT);
	assert_int_equal(s->bhs.byte2, ISCSI_REJECT_NOT_SUPPORTED);
	assert_int_equal(s->length, 48);
	assert_int_equal(s->data[0], 0x5c);
	iscsi_kit_send_pdu(kit, iscsi_kit_header(ISCSI_SNACK, 0x80, 3), NULL,
			   0);
	assert_int_equal(iscsi_kit_expect(kit, ISCSI_REJECT)->bhs.byte2,
			 ISCSI_REJECT_SNACK);
}

static void says_goodbye(void **state)
{
	struct iscsi_kit *kit = *state;
	struct iscsi_wire_bhs bhs = iscsi_kit_header(0x46, 0x82, 9);

	ISCSI_KIT_LOGIN(kit, "");
	iscsi_kit_send_pdu(kit, bhs, NULL,
			   0); /* for recovery: level 0 has none */
	assert_int_equal(
		iscsi_kit_expect(kit, ISCSI_LOGOUT_RESPONSE)->bhs.byte2,
		ISCSI_LOGOUT_NO_RECOVERY);
	iscsi_kit_send_pdu(kit, iscsi_kit_header(0x46, 0x80, 9), NULL, 0);
	assert_int_equal(kit->event.type, ISCSI_EVENT_LOGOUT);
	iscsi_session_goodbye(&kit->session);
	iscsi_kit_gather(kit);
	assert_int_equal(
		iscsi_kit_expect(kit, ISCSI_LOGOUT_RESPONSE)->bhs.byte2,
		ISCSI_LOGOUT_DONE);
}

#define TEST(f) \
	cmocka_unit_test_setup_teardown(f, iscsi_kit_setup, iscsi_kit_teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(pings_are_answered_and_sent),
		TEST(discovery_lists_targets),
		TEST(a_long_text_comes_in_pieces),
		TEST(what_it_does_not_know_is_rejected),
		TEST(says_goodbye),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
