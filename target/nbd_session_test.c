/* SPDX-License-Identifier: Apache-2.0 */
#include "target/nbd_session.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define FIXED (NBD_FLAG_C_FIXED_NEWSTYLE | NBD_FLAG_C_NO_ZEROES)

/* A session, the bytes for it, and a server with two exports. */
struct fixture {
	struct nbd_session session;
	struct nbd_event event;
	uint8_t in[300000];
	size_t length;
	size_t replies; /* where the next reply starts in session.out */
	uint16_t device_flags;
	uint32_t block_size;
	unsigned opened, kept;
};

static int fake_open(void *context, const char *name, bool keep,
		     struct nbd_export *ret, struct error *err)
{
	struct fixture *f = context;

	if (strcmp(name, "secret") == 0)
		return error_set(err, EACCES, "not allowed from here");
	if (strcmp(name, "broken") == 0)
		return error_set(err, EIO, "no medium");
	if (strcmp(name, "disk") != 0)
		return error_set(err, ENOENT, "there is no such export");
	f->opened++;
	f->kept += keep;
	ret->size = 1 << 20;
	ret->block_size = f->block_size;
	ret->preferred_size = 4096;
	ret->flags = f->device_flags;
	(void)snprintf(ret->name, sizeof(ret->name), "disk");
	(void)snprintf(ret->description, sizeof(ret->description), "words");
	return 0;
}

static int fake_list(void *context, struct nbd_session *session)
{
	int r = nbd_session_list_add(session, "disk");

	(void)context;
	return r < 0 ? r : nbd_session_list_add(session, "more");
}

static const struct nbd_session_ops ops = {
	.open = fake_open,
	.list = fake_list,
};

static void put(struct fixture *f, const void *data, size_t length)
{
	assert_true(length <= sizeof(f->in) - f->length);
	if (length > 0)
		memcpy(f->in + f->length, data, length);
	f->length += length;
}

/* Feed what was put, until something else than MORE comes of it. */
static enum nbd_event_type feed(struct fixture *f)
{
	for (;;) {
		size_t taken = nbd_session_feed(&f->session, f->in, f->length,
						&f->event);

		assert_true(taken <= f->length);
		memmove(f->in, f->in + taken, f->length - taken);
		f->length -= taken;
		if (f->event.type != NBD_EVENT_MORE || taken == 0)
			return f->event.type;
	}
}

static void client_flags(struct fixture *f, uint32_t flags)
{
	be32 wire = be32_make(flags);

	put(f, &wire, sizeof(wire));
}

static void option(struct fixture *f, uint32_t number, const void *data,
		   size_t length)
{
	struct nbd_wire_option wire = {
		.magic = be64_make(NBD_OPTION_MAGIC),
		.option = be32_make(number),
		.length = be32_make((uint32_t)length),
	};

	put(f, &wire, sizeof(wire));
	put(f, data, length);
}

static void option_named(struct fixture *f, uint32_t number, const char *name,
			 const char *rest, size_t rest_length)
{
	uint8_t data[256];
	be32 length = be32_make((uint32_t)strlen(name));

	memcpy(data, &length, sizeof(length));
	memcpy(data + 4, name, strlen(name));
	memcpy(data + 4 + strlen(name), rest, rest_length);
	option(f, number, data, 4 + strlen(name) + rest_length);
}

#define go(f, name)   option_named(f, NBD_OPT_GO, name, "\0\0", 2)
#define info(f, name) option_named(f, NBD_OPT_INFO, name, "\0\0", 2)

static void select_allocation(struct fixture *f, const char *name)
{
	option_named(f, NBD_OPT_SET_META_CONTEXT, name,
		     "\0\0\0\1\0\0\0\17base:allocation", 23);
}

/* The next reply in the output: its type; its data in @ret_data. */
static uint32_t reply_next(struct fixture *f, const uint8_t **ret_data,
			   uint32_t *ret_length)
{
	struct nbd_wire_option_reply wire;
	uint32_t length;

	assert_true(f->session.out.length >= f->replies + sizeof(wire));
	memcpy(&wire, f->session.out.data + f->replies, sizeof(wire));
	assert_true(be64_get(wire.magic) == NBD_OPTION_REPLY_MAGIC);
	length = be32_get(wire.length);
	f->replies += sizeof(wire);
	assert_true(f->session.out.length >= f->replies + length);
	if (ret_data)
		*ret_data = f->session.out.data + f->replies;
	if (ret_length)
		*ret_length = length;
	f->replies += length;
	return be32_get(wire.type);
}

static void replies_are(struct fixture *f, uint32_t type)
{
	assert_int_equal(reply_next(f, NULL, NULL), type);
	assert_int_equal(f->replies, f->session.out.length);
}

static void request(struct fixture *f, uint16_t type, uint16_t flags,
		    uint64_t offset, uint32_t length)
{
	struct nbd_wire_request wire = {
		.magic = be32_make(NBD_REQUEST_MAGIC),
		.flags = be16_make(flags),
		.type = be16_make(type),
		.cookie = be64_make(42),
		.offset = be64_make(offset),
		.length = be32_make(length),
	};

	put(f, &wire, sizeof(wire));
}

/* What one request leads to: 0 for go on, else the NBD error. */
static uint32_t verdict(struct fixture *f, uint16_t type, uint16_t flags,
			uint64_t offset, uint32_t length)
{
	request(f, type, flags, offset, length);
	if (feed(f) == NBD_EVENT_REQUEST)
		return 0;
	assert_int_equal(f->event.type, NBD_EVENT_REFUSED);
	assert_non_null(f->event.why);
	return f->event.error;
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || nbd_session_init(&f->session, &ops, f) < 0)
		return -1;
	f->replies = sizeof(struct nbd_wire_greeting);
	f->block_size = 1;
	f->device_flags = NBD_TRANSMIT_SEND_FLUSH | NBD_TRANSMIT_SEND_FUA |
			  NBD_TRANSMIT_SEND_TRIM |
			  NBD_TRANSMIT_SEND_WRITE_ZEROES;
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	nbd_session_done(&f->session);
	free(f);
	return 0;
}

/* Past the handshake. */
static void begin(struct fixture *f, bool structured, bool allocation)
{
	client_flags(f, FIXED);
	if (structured)
		option(f, NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	if (allocation)
		select_allocation(f, "disk");
	go(f, "disk");
	assert_int_equal(feed(f), NBD_EVENT_START);
	f->session.out.length = f->replies = 0;
}

/* ---- handshake ---- */

static void greets_with_fixed_newstyle(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(f->session.out.length, 18);
	assert_memory_equal(f->session.out.data, "NBDMAGICIHAVEOPT\0\3", 18);
}

static void go_starts_and_tells_size_and_block_sizes(void **state)
{
	struct fixture *f = *state;
	const uint8_t *data;
	uint32_t length;

	client_flags(f, FIXED);
	go(f, "disk");
	assert_int_equal(feed(f), NBD_EVENT_START);
	assert_int_equal(reply_next(f, &data, &length), NBD_REP_INFO);
	assert_int_equal(length, 12);
	assert_memory_equal(data, "\0\0\0\0\0\0\0\x10\0\0\0\x6d", 12);
	assert_int_equal(reply_next(f, &data, &length), NBD_REP_INFO);
	assert_memory_equal(data, "\0\3\0\0\0\1\0\0\x10\0\2\0\0\0", 14);
	replies_are(f, NBD_REP_ACK);
	assert_int_equal(f->kept, 1);
	assert_true(nbd_session_transmits(&f->session));
}

static void info_tells_what_is_asked_and_does_not_start(void **state)
{
	struct fixture *f = *state;
	const uint8_t *data;

	client_flags(f, FIXED);
	option_named(f, NBD_OPT_INFO, "disk", "\0\2\0\1\0\2", 6);
	assert_int_equal(feed(f), NBD_EVENT_MORE);
	assert_int_equal(reply_next(f, NULL, NULL), NBD_REP_INFO);
	assert_int_equal(reply_next(f, &data, NULL), NBD_REP_INFO);
	assert_memory_equal(data, "\0\1disk", 6);
	assert_int_equal(reply_next(f, &data, NULL), NBD_REP_INFO);
	assert_memory_equal(data, "\0\2words", 7);
	assert_int_equal(reply_next(f, NULL, NULL), NBD_REP_INFO);
	replies_are(f, NBD_REP_ACK);
	assert_int_equal(f->kept, 0);
	assert_false(nbd_session_transmits(&f->session));
}

static void export_name_answers_with_and_without_zeroes(void **state)
{
	struct fixture *f = *state;

	client_flags(f, NBD_FLAG_C_FIXED_NEWSTYLE);
	option(f, NBD_OPT_EXPORT_NAME, "disk", 4);
	assert_int_equal(feed(f), NBD_EVENT_START);
	assert_int_equal(f->session.out.length, 18 + 134);
	nbd_session_done(&f->session);
	assert_int_equal(nbd_session_init(&f->session, &ops, f), 0);
	client_flags(f, FIXED);
	option(f, NBD_OPT_EXPORT_NAME, "disk", 4);
	assert_int_equal(feed(f), NBD_EVENT_START);
	assert_int_equal(f->session.out.length, 18 + 10);
	assert_memory_equal(f->session.out.data + 18,
			    "\0\0\0\0\0\x10\0\0\0\x6d", 10);
}

static void export_name_without_that_export_closes(void **state)
{
	struct fixture *f = *state;

	client_flags(f, FIXED);
	option(f, NBD_OPT_EXPORT_NAME, "nope", 4);
	assert_int_equal(feed(f), NBD_EVENT_CLOSE);
}

static void says_why_an_export_is_not_to_be_had(void **state)
{
	struct fixture *f = *state;
	const uint8_t *data;
	uint32_t length;

	client_flags(f, FIXED);
	go(f, "nope");
	assert_int_equal(feed(f), NBD_EVENT_MORE);
	replies_are(f, NBD_REP_ERR_UNKNOWN);
	info(f, "secret");
	feed(f);
	assert_int_equal(reply_next(f, &data, &length), NBD_REP_ERR_POLICY);
	assert_int_equal(length, strlen("not allowed from here"));
	assert_memory_equal(data, "not allowed from here", length);
	go(f, "broken");
	feed(f);
	replies_are(f, NBD_REP_ERR_PLATFORM);
	go(f, "disk"); /* and it goes on */
	assert_int_equal(feed(f), NBD_EVENT_START);
}

static void lists_exports(void **state)
{
	struct fixture *f = *state;
	const uint8_t *data;

	client_flags(f, FIXED);
	option(f, NBD_OPT_LIST, NULL, 0);
	feed(f);
	assert_int_equal(reply_next(f, &data, NULL), NBD_REP_SERVER);
	assert_memory_equal(data, "\0\0\0\4disk", 8);
	assert_int_equal(reply_next(f, NULL, NULL), NBD_REP_SERVER);
	replies_are(f, NBD_REP_ACK);
	option(f, NBD_OPT_LIST, "x", 1);
	feed(f);
	replies_are(f, NBD_REP_ERR_INVALID);
}

static void abort_is_acknowledged_and_closes(void **state)
{
	struct fixture *f = *state;

	client_flags(f, FIXED);
	option(f, NBD_OPT_ABORT, NULL, 0);
	assert_int_equal(feed(f), NBD_EVENT_CLOSE);
	replies_are(f, NBD_REP_ACK);
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
	struct fixture *f = *state;

	client_flags(f, FIXED);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		option(f, rows[i].number, NULL, 0);
		assert_int_equal(feed(f), NBD_EVENT_MORE);
		replies_are(f, rows[i].answer);
	}
}

static void tls_begins_once_and_forgets_what_was_before(void **state)
{
	struct fixture *f = *state;

	f->session.tls = NBD_TLS_OFFERED;
	client_flags(f, FIXED);
	option(f, NBD_OPT_EXTENDED_HEADERS, NULL, 0);
	select_allocation(f, "disk");
	option(f, NBD_OPT_STARTTLS, NULL, 0);
	assert_int_equal(feed(f), NBD_EVENT_TLS);
	assert_int_equal(f->length, 0);
	assert_false(f->session.structured || f->session.extended ||
		     f->session.allocation);
	nbd_session_tls_on(&f->session);
	f->replies = f->session.out.length;
	option(f, NBD_OPT_STARTTLS, NULL, 0);
	assert_int_equal(feed(f), NBD_EVENT_MORE);
	replies_are(f, NBD_REP_ERR_INVALID);
	go(f, "disk");
	assert_int_equal(feed(f), NBD_EVENT_START);
}

static void nothing_is_answered_where_tls_must_be(void **state)
{
	static const uint32_t rows[] = {NBD_OPT_LIST,
					NBD_OPT_INFO,
					NBD_OPT_GO,
					NBD_OPT_STRUCTURED_REPLY,
					NBD_OPT_EXTENDED_HEADERS,
					77};
	struct fixture *f = *state;

	f->session.tls = NBD_TLS_REQUIRED;
	client_flags(f, FIXED);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		option_named(f, rows[i], "disk", "\0\0", 2);
		assert_int_equal(feed(f), NBD_EVENT_MORE);
		replies_are(f, NBD_REP_ERR_TLS_REQD);
	}
	assert_int_equal(f->opened, 0);
	option(f, NBD_OPT_EXPORT_NAME, "disk", 4);
	assert_int_equal(feed(f), NBD_EVENT_CLOSE);
}

static void malformed_options_are_answered_and_survived(void **state)
{
	struct fixture *f = *state;

	client_flags(f, FIXED);
	option(f, NBD_OPT_GO, "\0\0\0\77x", 5);
	option(f, NBD_OPT_STRUCTURED_REPLY, "x", 1);
	option(f, NBD_OPT_STARTTLS, "x", 1);
	feed(f);
	for (int i = 0; i < 3; i++)
		assert_int_equal(reply_next(f, NULL, NULL),
				 NBD_REP_ERR_INVALID);
	assert_false(f->session.structured);
	go(f, "disk");
	assert_int_equal(feed(f), NBD_EVENT_START);
}

static void a_long_option_is_refused_and_skipped(void **state)
{
	struct fixture *f = *state;
	void *data = calloc(1, NBD_OPTION_DATA_MAX + 1);

	assert_non_null(data);
	client_flags(f, FIXED);
	option(f, NBD_OPT_GO, data, NBD_OPTION_DATA_MAX + 1);
	go(f, "disk");
	free(data);
	assert_int_equal(feed(f), NBD_EVENT_START);
	assert_int_equal(reply_next(f, NULL, NULL), NBD_REP_ERR_TOO_BIG);
	assert_int_equal(reply_next(f, NULL, NULL), NBD_REP_INFO);
}

static void a_name_of_4097_bytes_is_too_big(void **state)
{
	struct fixture *f = *state;
	uint8_t data[4 + NBD_STRING_MAX + 1 + 2];
	be32 length = be32_make(NBD_STRING_MAX + 1);

	memset(data, 'n', sizeof(data));
	memcpy(data, &length, sizeof(length));
	client_flags(f, FIXED);
	option(f, NBD_OPT_GO, data, sizeof(data));
	feed(f);
	replies_are(f, NBD_REP_ERR_TOO_BIG);
}

static void a_huge_option_drops_before_its_data(void **state)
{
	struct fixture *f = *state;
	struct nbd_wire_option wire = {
		.magic = be64_make(NBD_OPTION_MAGIC),
		.option = be32_make(NBD_OPT_GO),
		.length = be32_make(UINT32_MAX),
	};

	client_flags(f, FIXED);
	put(f, &wire, sizeof(wire));
	assert_int_equal(feed(f), NBD_EVENT_DROP);
	assert_int_equal(feed(f), NBD_EVENT_CLOSE); /* and stays so */
}

static void garbage_drops(void **state)
{
	struct fixture *f = *state;

	put(f, "GET / HTTP/1.1\r\n\r\n", 18);
	assert_int_equal(feed(f), NBD_EVENT_DROP);
	f->length = 0;
	nbd_session_done(&f->session);
	assert_int_equal(nbd_session_init(&f->session, &ops, f), 0);
	client_flags(f, FIXED);
	put(f, "GET / HTTP/1.1\r\n\r\n", 18);
	assert_int_equal(feed(f), NBD_EVENT_DROP);
}

static void an_old_client_gets_only_export_name(void **state)
{
	struct fixture *f = *state;

	client_flags(f, 0);
	go(f, "disk");
	assert_int_equal(feed(f), NBD_EVENT_DROP);
}

static void asks_for_the_bytes_it_needs(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(feed(f), NBD_EVENT_MORE);
	assert_int_equal(f->event.need, 4);
	client_flags(f, FIXED);
	assert_int_equal(feed(f), NBD_EVENT_MORE);
	assert_int_equal(f->event.need, 16);
	go(f, "disk");
	f->length -= 3;
	assert_int_equal(feed(f), NBD_EVENT_MORE);
	assert_int_equal(f->event.need, 16 + 4 + 4 + 2);
	assert_int_equal(f->length, 16 + 4 + 4 + 2 - 3); /* none taken */
}

static void contexts_need_structured_replies(void **state)
{
	struct fixture *f = *state;

	client_flags(f, FIXED);
	select_allocation(f, "disk");
	feed(f);
	replies_are(f, NBD_REP_ERR_INVALID);
	option(f, NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	select_allocation(f, "nope");
	select_allocation(f, "disk");
	feed(f);
	assert_int_equal(reply_next(f, NULL, NULL), NBD_REP_ACK);
	assert_int_equal(reply_next(f, NULL, NULL), NBD_REP_ERR_UNKNOWN);
	assert_int_equal(reply_next(f, NULL, NULL), NBD_REP_META_CONTEXT);
	replies_are(f, NBD_REP_ACK);
	assert_true(f->session.allocation);
}

static void a_list_of_contexts_selects_none(void **state)
{
	struct fixture *f = *state;

	client_flags(f, FIXED);
	option(f, NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	option_named(f, NBD_OPT_LIST_META_CONTEXT, "disk", "\0\0\0\0", 4);
	option_named(f, NBD_OPT_LIST_META_CONTEXT, "disk",
		     "\0\0\0\1\0\0\0\5base:", 13);
	option_named(f, NBD_OPT_LIST_META_CONTEXT, "disk",
		     "\0\0\0\1\0\0\0\3x:y", 11);
	feed(f);
	assert_int_equal(reply_next(f, NULL, NULL), NBD_REP_ACK);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(reply_next(f, NULL, NULL),
				 NBD_REP_META_CONTEXT);
		assert_int_equal(reply_next(f, NULL, NULL), NBD_REP_ACK);
	}
	replies_are(f, NBD_REP_ACK);
	assert_false(f->session.allocation);
}

static void contexts_of_another_export_do_not_hold(void **state)
{
	struct fixture *f = *state;

	begin(f, true, true);
	assert_true(f->session.allocation);
	nbd_session_done(&f->session);
	assert_int_equal(nbd_session_init(&f->session, &ops, f), 0);
	client_flags(f, FIXED);
	option(f, NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	select_allocation(f, "disk");
	feed(f);
	f->session.meta_name[0] = 'x'; /* it was for another name */
	go(f, "disk");
	assert_int_equal(feed(f), NBD_EVENT_START);
	assert_false(f->session.allocation);
}

/* ---- transmission ---- */

static void lets_good_requests_through(void **state)
{
	struct fixture *f = *state;

	begin(f, true, true);
	assert_int_equal(verdict(f, NBD_CMD_READ, 0, 0, 1 << 20), 0);
	assert_true(f->event.request.cookie == 42);
	assert_int_equal(verdict(f, NBD_CMD_READ, NBD_CMD_FLAG_DF, 5, 7), 0);
	assert_int_equal(verdict(f, NBD_CMD_FLUSH, 0, 0, 0), 0);
	assert_int_equal(verdict(f, NBD_CMD_FLUSH, NBD_CMD_FLAG_FUA, 9, 9), 0);
	assert_int_equal(verdict(f, NBD_CMD_TRIM, NBD_CMD_FLAG_FUA, 0, 512), 0);
	assert_int_equal(
		verdict(f, NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_NO_HOLE, 0, 512),
		0);
	assert_int_equal(
		verdict(f, NBD_CMD_BLOCK_STATUS, NBD_CMD_FLAG_REQ_ONE, 0, 512),
		0);
	request(f, NBD_CMD_DISC, 0, 0, 0);
	assert_int_equal(feed(f), NBD_EVENT_CLOSE);
}

static void refuses_requests_past_the_end(void **state)
{
	static const struct {
		uint64_t offset;
		uint32_t length;
	} rows[] = {
		{1 << 20, 1},    {(1 << 20) - 1, 2},       {0, (1 << 20) + 1},
		{UINT64_MAX, 1}, {UINT64_MAX - 511, 1024}, /* wraps */
	};
	struct fixture *f = *state;

	begin(f, true, true);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		uint64_t offset = rows[i].offset;
		uint32_t length = rows[i].length;

		assert_int_equal(verdict(f, NBD_CMD_READ, 0, offset, length),
				 NBD_EINVAL);
		assert_int_equal(verdict(f, NBD_CMD_TRIM, 0, offset, length),
				 NBD_EINVAL);
		assert_int_equal(
			verdict(f, NBD_CMD_BLOCK_STATUS, 0, offset, length),
			NBD_EINVAL);
		assert_int_equal(
			verdict(f, NBD_CMD_WRITE_ZEROES, 0, offset, length),
			NBD_ENOSPC);
	}
}

static void a_grown_export_is_reached_to_its_new_end(void **state)
{
	enum { MIB = 1 << 20 };
	struct fixture *f = *state;

	nbd_session_grow(&f->session, 8 * MIB); /* has no export yet */
	begin(f, false, false);
	assert_int_equal(verdict(f, NBD_CMD_READ, 0, MIB, 512), NBD_EINVAL);
	nbd_session_grow(&f->session, 2 * MIB);
	nbd_session_grow(&f->session, MIB);
	assert_int_equal(verdict(f, NBD_CMD_READ, 0, MIB, 512), 0);
	assert_int_equal(verdict(f, NBD_CMD_READ, 0, 2 * MIB - 512, 512), 0);
	assert_int_equal(verdict(f, NBD_CMD_READ, 0, 2 * MIB - 256, 512),
			 NBD_EINVAL);
	assert_int_equal(verdict(f, NBD_CMD_WRITE_ZEROES, 0, 2 * MIB, 512),
			 NBD_ENOSPC);
}

static void refuses_flags_and_commands_not_offered(void **state)
{
	struct fixture *f = *state;

	f->device_flags &= ~NBD_TRANSMIT_SEND_TRIM;
	begin(f, false, false);
	assert_int_equal(verdict(f, NBD_CMD_READ, NBD_CMD_FLAG_DF, 0, 512),
			 NBD_EINVAL);
	assert_int_equal(verdict(f, NBD_CMD_READ, NBD_CMD_FLAG_NO_HOLE, 0, 512),
			 NBD_EINVAL);
	assert_int_equal(verdict(f, NBD_CMD_READ, 1 << 15, 0, 512), NBD_EINVAL);
	assert_int_equal(verdict(f, NBD_CMD_WRITE_ZEROES,
				 NBD_CMD_FLAG_FAST_ZERO, 0, 512),
			 NBD_EINVAL);
	assert_int_equal(verdict(f, NBD_CMD_TRIM, 0, 0, 512), NBD_EINVAL);
	assert_int_equal(verdict(f, NBD_CMD_BLOCK_STATUS, 0, 0, 512),
			 NBD_EINVAL);
	assert_int_equal(verdict(f, NBD_CMD_CACHE, 0, 0, 512), NBD_EINVAL);
	assert_int_equal(verdict(f, NBD_CMD_RESIZE, 0, 0, 512), NBD_EINVAL);
	assert_int_equal(verdict(f, 999, 0, 0, 512), NBD_EINVAL);
	assert_int_equal(verdict(f, NBD_CMD_READ, 0, 0, 0), NBD_EINVAL);
	assert_int_equal(verdict(f, NBD_CMD_READ, 0, 0, 512), 0);
}

static void a_read_only_export_takes_no_change(void **state)
{
	struct fixture *f = *state;

	f->device_flags = NBD_TRANSMIT_READ_ONLY;
	begin(f, false, false);
	assert_int_equal(verdict(f, NBD_CMD_TRIM, 0, 0, 512), NBD_EPERM);
	assert_int_equal(verdict(f, NBD_CMD_WRITE_ZEROES, 0, 0, 512),
			 NBD_EPERM);
	request(f, NBD_CMD_WRITE, 0, 0, 512);
	assert_int_equal(feed(f), NBD_EVENT_REFUSED);
	assert_int_equal(f->event.error, NBD_EPERM);
}

static void a_block_size_is_held_to(void **state)
{
	struct fixture *f = *state;

	f->block_size = 4096;
	begin(f, false, false);
	assert_int_equal(verdict(f, NBD_CMD_READ, 0, 512, 4096), NBD_EINVAL);
	assert_int_equal(verdict(f, NBD_CMD_READ, 0, 4096, 512), NBD_EINVAL);
	assert_int_equal(verdict(f, NBD_CMD_READ, 0, 4096, 4096), 0);
}

static void the_payload_of_a_write_is_the_owners(void **state)
{
	struct fixture *f = *state;

	begin(f, false, false);
	request(f, NBD_CMD_WRITE, 0, 0, 512);
	assert_int_equal(feed(f), NBD_EVENT_REQUEST);
	assert_int_equal(f->session.state, NBD_SESSION_PAYLOAD);
	nbd_session_payload_taken(&f->session, 500);
	assert_int_equal(f->session.state, NBD_SESSION_PAYLOAD);
	nbd_session_payload_taken(&f->session, 12);
	assert_int_equal(verdict(f, NBD_CMD_READ, 0, 0, 512), 0);
}

static void the_payload_of_a_refused_write_is_skipped(void **state)
{
	struct fixture *f = *state;
	uint8_t payload[512] = {0};

	begin(f, false, false);
	request(f, NBD_CMD_WRITE, 0, 1 << 20, sizeof(payload));
	assert_int_equal(feed(f), NBD_EVENT_REFUSED);
	assert_int_equal(f->event.error, NBD_ENOSPC);
	put(f, payload, sizeof(payload));
	assert_int_equal(verdict(f, NBD_CMD_READ, 0, 0, 512), 0);
	request(f, NBD_CMD_WRITE, 0, 0, sizeof(payload));
	assert_int_equal(feed(f), NBD_EVENT_REQUEST);
	nbd_session_payload_skip(&f->session); /* the owner had no memory */
	put(f, payload, sizeof(payload));
	assert_int_equal(verdict(f, NBD_CMD_READ, 0, 0, 512), 0);
}

static void a_refused_write_that_is_huge_drops(void **state)
{
	struct fixture *f = *state;

	begin(f, false, false);
	request(f, NBD_CMD_WRITE, 0, 0, NBD_DRAIN_MAX + 1);
	assert_int_equal(feed(f), NBD_EVENT_DROP);
}

static void a_request_that_is_garbage_drops(void **state)
{
	struct fixture *f = *state;

	begin(f, false, false);
	put(f, "no request has such a magic.", 28);
	assert_int_equal(feed(f), NBD_EVENT_DROP);
	assert_false(nbd_session_transmits(&f->session));
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
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
		TEST(lets_good_requests_through),
		TEST(refuses_requests_past_the_end),
		TEST(a_grown_export_is_reached_to_its_new_end),
		TEST(refuses_flags_and_commands_not_offered),
		TEST(a_read_only_export_takes_no_change),
		TEST(a_block_size_is_held_to),
		TEST(the_payload_of_a_write_is_the_owners),
		TEST(the_payload_of_a_refused_write_is_skipped),
		TEST(a_refused_write_that_is_huge_drops),
		TEST(a_request_that_is_garbage_drops),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
