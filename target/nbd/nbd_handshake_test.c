/* SPDX-License-Identifier: Apache-2.0 */
/* The session up to the export: the handshake and its options. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "target/testkit/nbd_session_kit.h"

static void greets_with_fixed_newstyle(void **state)
{
	struct nbd_kit *f = *state;

	assert_int_equal(f->session.out.length, 18);
	assert_memory_equal(f->session.out.data, "NBDMAGICIHAVEOPT\0\3", 18);
}

static void go_starts_and_tells_size_and_block_sizes(void **state)
{
	struct nbd_kit *f = *state;
	const uint8_t *data;
	uint32_t length;

	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	nbd_kit_go(f, "disk");
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_START);
	assert_int_equal(nbd_kit_reply_next(f, &data, &length), NBD_REP_INFO);
	assert_int_equal(length, 12);
	assert_memory_equal(data, "\0\0\0\0\0\0\0\x10\0\0\0\x6d", 12);
	assert_int_equal(nbd_kit_reply_next(f, &data, &length), NBD_REP_INFO);
	assert_memory_equal(data, "\0\3\0\0\0\1\0\0\x10\0\2\0\0\0", 14);
	nbd_kit_replies_are(f, NBD_REP_ACK);
	assert_int_equal(f->kept, 1);
	assert_true(nbd_session_transmits(&f->session));
}

static void info_tells_what_is_asked_and_does_not_start(void **state)
{
	struct nbd_kit *f = *state;
	const uint8_t *data;

	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	nbd_kit_option_named(f, NBD_OPT_INFO, "disk", "\0\2\0\1\0\2", 6);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_MORE);
	assert_int_equal(nbd_kit_reply_next(f, NULL, NULL), NBD_REP_INFO);
	assert_int_equal(nbd_kit_reply_next(f, &data, NULL), NBD_REP_INFO);
	assert_memory_equal(data, "\0\1disk", 6);
	assert_int_equal(nbd_kit_reply_next(f, &data, NULL), NBD_REP_INFO);
	assert_memory_equal(data, "\0\2words", 7);
	assert_int_equal(nbd_kit_reply_next(f, NULL, NULL), NBD_REP_INFO);
	nbd_kit_replies_are(f, NBD_REP_ACK);
	assert_int_equal(f->kept, 0);
	assert_false(nbd_session_transmits(&f->session));
}

static void export_name_answers_with_and_without_zeroes(void **state)
{
	struct nbd_kit *f = *state;

	nbd_kit_client_flags(f, NBD_FLAG_C_FIXED_NEWSTYLE);
	nbd_kit_option(f, NBD_OPT_EXPORT_NAME, "disk", 4);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_START);
	assert_int_equal(f->session.out.length, 18 + 134);
	nbd_kit_again(f);
	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	nbd_kit_option(f, NBD_OPT_EXPORT_NAME, "disk", 4);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_START);
	assert_int_equal(f->session.out.length, 18 + 10);
	assert_memory_equal(f->session.out.data + 18,
			    "\0\0\0\0\0\x10\0\0\0\x6d", 10);
}

static void export_name_without_that_export_closes(void **state)
{
	struct nbd_kit *f = *state;

	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	nbd_kit_option(f, NBD_OPT_EXPORT_NAME, "nope", 4);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_CLOSE);
}

static void says_why_an_export_is_not_to_be_had(void **state)
{
	struct nbd_kit *f = *state;
	const uint8_t *data;
	uint32_t length;

	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	nbd_kit_go(f, "nope");
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_MORE);
	nbd_kit_replies_are(f, NBD_REP_ERR_UNKNOWN);
	nbd_kit_info(f, "secret");
	nbd_kit_feed(f);
	assert_int_equal(nbd_kit_reply_next(f, &data, &length),
			 NBD_REP_ERR_POLICY);
	assert_int_equal(length, strlen("not allowed from here"));
	assert_memory_equal(data, "not allowed from here", length);
	nbd_kit_go(f, "broken");
	nbd_kit_feed(f);
	nbd_kit_replies_are(f, NBD_REP_ERR_PLATFORM);
	nbd_kit_go(f, "disk"); /* and it goes on */
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_START);
}

static void lists_exports(void **state)
{
	struct nbd_kit *f = *state;
	const uint8_t *data;

	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	nbd_kit_option(f, NBD_OPT_LIST, NULL, 0);
	nbd_kit_feed(f);
	assert_int_equal(nbd_kit_reply_next(f, &data, NULL), NBD_REP_SERVER);
	assert_memory_equal(data, "\0\0\0\4disk", 8);
	assert_int_equal(nbd_kit_reply_next(f, NULL, NULL), NBD_REP_SERVER);
	nbd_kit_replies_are(f, NBD_REP_ACK);
	nbd_kit_option(f, NBD_OPT_LIST, "x", 1);
	nbd_kit_feed(f);
	nbd_kit_replies_are(f, NBD_REP_ERR_INVALID);
}

static void abort_is_acknowledged_and_closes(void **state)
{
	struct nbd_kit *f = *state;

	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	nbd_kit_option(f, NBD_OPT_ABORT, NULL, 0);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_CLOSE);
	nbd_kit_replies_are(f, NBD_REP_ACK);
}

static void answers_options_it_does_not_have(void **state)
{
	static const struct {
		uint32_t number, answer;
	} rows[] = {
		{NBD_OPT_STARTTLS, NBD_REP_ERR_POLICY},
		{NBD_OPT_PEEK_EXPORT, NBD_REP_ERR_UNSUP},
		{77, NBD_REP_ERR_UNSUP},
		{0, NBD_REP_ERR_UNSUP},
		{UINT32_MAX, NBD_REP_ERR_UNSUP},
	};
	struct nbd_kit *f = *state;

	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		nbd_kit_option(f, rows[i].number, NULL, 0);
		assert_int_equal(nbd_kit_feed(f), NBD_EVENT_MORE);
		nbd_kit_replies_are(f, rows[i].answer);
	}
}

static void tls_begins_once_and_forgets_what_was_before(void **state)
{
	struct nbd_kit *f = *state;

	f->session.tls = NBD_TLS_OFFERED;
	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	nbd_kit_option(f, NBD_OPT_EXTENDED_HEADERS, NULL, 0);
	nbd_kit_select_allocation(f, "disk");
	nbd_kit_option(f, NBD_OPT_STARTTLS, NULL, 0);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_TLS);
	assert_int_equal(f->length, 0);
	assert_false(f->session.structured || f->session.extended ||
		     f->session.allocation);
	nbd_session_tls_on(&f->session);
	f->replies = f->session.out.length;
	nbd_kit_option(f, NBD_OPT_STARTTLS, NULL, 0);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_MORE);
	nbd_kit_replies_are(f, NBD_REP_ERR_INVALID);
	nbd_kit_go(f, "disk");
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_START);
}

static void nothing_is_answered_where_tls_must_be(void **state)
{
	static const uint32_t rows[] = {NBD_OPT_LIST,
					NBD_OPT_INFO,
					NBD_OPT_GO,
					NBD_OPT_STRUCTURED_REPLY,
					NBD_OPT_EXTENDED_HEADERS,
					77};
	struct nbd_kit *f = *state;

	f->session.tls = NBD_TLS_REQUIRED;
	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		nbd_kit_option_named(f, rows[i], "disk", "\0\0", 2);
		assert_int_equal(nbd_kit_feed(f), NBD_EVENT_MORE);
		nbd_kit_replies_are(f, NBD_REP_ERR_TLS_REQD);
	}
	assert_int_equal(f->opened, 0);
	nbd_kit_option(f, NBD_OPT_EXPORT_NAME, "disk", 4);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_CLOSE);
}

static void malformed_options_are_answered_and_survived(void **state)
{
	struct nbd_kit *f = *state;

	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	nbd_kit_option(f, NBD_OPT_GO, "\0\0\0\77x", 5);
	nbd_kit_option(f, NBD_OPT_STRUCTURED_REPLY, "x", 1);
	nbd_kit_option(f, NBD_OPT_STARTTLS, "x", 1);
	nbd_kit_feed(f);
	for (int i = 0; i < 3; i++)
		assert_int_equal(nbd_kit_reply_next(f, NULL, NULL),
				 NBD_REP_ERR_INVALID);
	assert_false(f->session.structured);
	nbd_kit_go(f, "disk");
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_START);
}

static void a_long_option_is_refused_and_skipped(void **state)
{
	struct nbd_kit *f = *state;
	void *data = calloc(1, NBD_OPTION_DATA_MAX + 1);

	assert_non_null(data);
	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	nbd_kit_option(f, NBD_OPT_GO, data, NBD_OPTION_DATA_MAX + 1);
	nbd_kit_go(f, "disk");
	free(data);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_START);
	assert_int_equal(nbd_kit_reply_next(f, NULL, NULL),
			 NBD_REP_ERR_TOO_BIG);
	assert_int_equal(nbd_kit_reply_next(f, NULL, NULL), NBD_REP_INFO);
}

static void a_name_of_4097_bytes_is_too_big(void **state)
{
	struct nbd_kit *f = *state;
	uint8_t data[4 + NBD_STRING_MAX + 1 + 2];
	be32 length = be32_make(NBD_STRING_MAX + 1);

	memset(data, 'n', sizeof(data));
	memcpy(data, &length, sizeof(length));
	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	nbd_kit_option(f, NBD_OPT_GO, data, sizeof(data));
	nbd_kit_feed(f);
	nbd_kit_replies_are(f, NBD_REP_ERR_TOO_BIG);
}

static void a_huge_option_drops_before_its_data(void **state)
{
	struct nbd_kit *f = *state;
	struct nbd_wire_option wire = {
		.magic = be64_make(NBD_OPTION_MAGIC),
		.option = be32_make(NBD_OPT_GO),
		.length = be32_make(UINT32_MAX),
	};

	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	nbd_kit_put(f, &wire, sizeof(wire));
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_DROP);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_CLOSE); /* and stays so */
}

static void garbage_drops(void **state)
{
	struct nbd_kit *f = *state;

	nbd_kit_put(f, "GET / HTTP/1.1\r\n\r\n", 18);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_DROP);
	f->length = 0;
	nbd_kit_again(f);
	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	nbd_kit_put(f, "GET / HTTP/1.1\r\n\r\n", 18);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_DROP);
}

static void an_old_client_gets_only_export_name(void **state)
{
	struct nbd_kit *f = *state;

	nbd_kit_client_flags(f, 0);
	nbd_kit_go(f, "disk");
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_DROP);
}

static void asks_for_the_bytes_it_needs(void **state)
{
	struct nbd_kit *f = *state;

	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_MORE);
	assert_int_equal(f->event.need, 4);
	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_MORE);
	assert_int_equal(f->event.need, 16);
	nbd_kit_go(f, "disk");
	f->length -= 3;
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_MORE);
	assert_int_equal(f->event.need, 16 + 4 + 4 + 2);
	assert_int_equal(f->length, 16 + 4 + 4 + 2 - 3); /* none taken */
}

static void contexts_need_structured_replies(void **state)
{
	struct nbd_kit *f = *state;

	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	nbd_kit_select_allocation(f, "disk");
	nbd_kit_feed(f);
	nbd_kit_replies_are(f, NBD_REP_ERR_INVALID);
	nbd_kit_option(f, NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	nbd_kit_select_allocation(f, "nope");
	nbd_kit_select_allocation(f, "disk");
	nbd_kit_feed(f);
	assert_int_equal(nbd_kit_reply_next(f, NULL, NULL), NBD_REP_ACK);
	assert_int_equal(nbd_kit_reply_next(f, NULL, NULL),
			 NBD_REP_ERR_UNKNOWN);
	assert_int_equal(nbd_kit_reply_next(f, NULL, NULL),
			 NBD_REP_META_CONTEXT);
	nbd_kit_replies_are(f, NBD_REP_ACK);
	assert_true(f->session.allocation);
}

static void a_list_of_contexts_selects_none(void **state)
{
	struct nbd_kit *f = *state;

	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	nbd_kit_option(f, NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	nbd_kit_option_named(f, NBD_OPT_LIST_META_CONTEXT, "disk", "\0\0\0\0",
			     4);
	nbd_kit_option_named(f, NBD_OPT_LIST_META_CONTEXT, "disk",
			     "\0\0\0\1\0\0\0\5base:", 13);
	nbd_kit_option_named(f, NBD_OPT_LIST_META_CONTEXT, "disk",
			     "\0\0\0\1\0\0\0\3x:y", 11);
	nbd_kit_feed(f);
	assert_int_equal(nbd_kit_reply_next(f, NULL, NULL), NBD_REP_ACK);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(nbd_kit_reply_next(f, NULL, NULL),
				 NBD_REP_META_CONTEXT);
		assert_int_equal(nbd_kit_reply_next(f, NULL, NULL),
				 NBD_REP_ACK);
	}
	nbd_kit_replies_are(f, NBD_REP_ACK);
	assert_false(f->session.allocation);
}

static void contexts_of_another_export_do_not_hold(void **state)
{
	struct nbd_kit *f = *state;

	nbd_kit_begin(f, true, true);
	assert_true(f->session.allocation);
	nbd_kit_again(f);
	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	nbd_kit_option(f, NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	nbd_kit_select_allocation(f, "disk");
	nbd_kit_feed(f);
	f->session.meta_name[0] = 'x'; /* it was for another name */
	nbd_kit_go(f, "disk");
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_START);
	assert_false(f->session.allocation);
}

int main(void)
{
#define TEST(name) \
	cmocka_unit_test_setup_teardown(name, nbd_kit_setup, nbd_kit_teardown)
	static const struct CMUnitTest tests[] = {
		TEST(greets_with_fixed_newstyle),
		TEST(go_starts_and_tells_size_and_block_sizes),
		TEST(info_tells_what_is_asked_and_does_not_start),
		TEST(export_name_answers_with_and_without_zeroes),
		TEST(export_name_without_that_export_closes),
		TEST(says_why_an_export_is_not_to_be_had),
		TEST(lists_exports),
		TEST(abort_is_acknowledged_and_closes),
		TEST(answers_options_it_does_not_have),
		TEST(tls_begins_once_and_forgets_what_was_before),
		TEST(nothing_is_answered_where_tls_must_be),
		TEST(malformed_options_are_answered_and_survived),
		TEST(a_long_option_is_refused_and_skipped),
		TEST(a_name_of_4097_bytes_is_too_big),
		TEST(a_huge_option_drops_before_its_data),
		TEST(garbage_drops),
		TEST(an_old_client_gets_only_export_name),
		TEST(asks_for_the_bytes_it_needs),
		TEST(contexts_need_structured_replies),
		TEST(a_list_of_contexts_selects_none),
		TEST(contexts_of_another_export_do_not_hold),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
