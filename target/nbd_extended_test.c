/* SPDX-License-Identifier: Apache-2.0 */
/* The session with extended headers: 64 bits, and payloads that say so. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "target/nbd_session.h"

#define DISK_SIZE (UINT64_C(1) << 40) /* bytes */

struct fixture {
	struct nbd_session session;
	struct nbd_event event;
	uint8_t in[1024];
	size_t length;
};

static int fake_open(void *context, const char *name, bool keep,
		     struct nbd_export *ret, struct error *err)
{
	(void)context;
	(void)keep;
	(void)err;
	ret->size = DISK_SIZE;
	ret->block_size = 1;
	ret->preferred_size = 4096;
	ret->flags = NBD_TRANSMIT_SEND_TRIM | NBD_TRANSMIT_SEND_WRITE_ZEROES |
		     NBD_TRANSMIT_SEND_CACHE;
	(void)snprintf(ret->name, sizeof(ret->name), "%s", name);
	return 0;
}

static int fake_list(void *context, struct nbd_session *session)
{
	(void)context;
	(void)session;
	return 0;
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

static enum nbd_event_type feed(struct fixture *f)
{
	for (;;) {
		size_t taken = nbd_session_feed(&f->session, f->in, f->length,
						&f->event);

		memmove(f->in, f->in + taken, f->length - taken);
		f->length -= taken;
		if (f->event.type != NBD_EVENT_MORE || taken == 0)
			return f->event.type;
	}
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

/* The type of the last reply that has no data. */
static uint32_t reply_last(struct fixture *f)
{
	struct nbd_wire_option_reply wire;
	struct nbd_output *out = &f->session.out;

	assert_true(out->length >= sizeof(wire));
	memcpy(&wire, out->data + out->length - sizeof(wire), sizeof(wire));
	assert_true(be64_get(wire.magic) == NBD_OPTION_REPLY_MAGIC);
	out->length = 0;
	return be32_get(wire.type);
}

static int setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f || nbd_session_init(&f->session, &ops, f) < 0)
		return -1;
	put(f, "\0\0\0\3", 4);
	option(f, NBD_OPT_EXTENDED_HEADERS, NULL, 0);
	if (feed(f) != NBD_EVENT_MORE || reply_last(f) != NBD_REP_ACK)
		return -1;
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

static void begin(struct fixture *f, bool allocation)
{
	if (allocation)
		option(f, NBD_OPT_SET_META_CONTEXT,
		       "\0\0\0\1d\0\0\0\1\0\0\0\17base:allocation", 28);
	option(f, NBD_OPT_GO, "\0\0\0\1d\0\0", 7);
	assert_int_equal(feed(f), NBD_EVENT_START);
	f->session.out.length = 0;
}

static void request(struct fixture *f, uint16_t type, uint16_t flags,
		    uint64_t offset, uint64_t length)
{
	struct nbd_wire_extended_request wire = {
		.magic = be32_make(NBD_EXTENDED_REQUEST_MAGIC),
		.flags = be16_make(flags),
		.type = be16_make(type),
		.cookie = be64_make(42),
		.offset = be64_make(offset),
		.length = be64_make(length),
	};

	put(f, &wire, sizeof(wire));
}

static uint32_t verdict(struct fixture *f)
{
	if (feed(f) == NBD_EVENT_REQUEST)
		return 0;
	assert_int_equal(f->event.type, NBD_EVENT_REFUSED);
	return f->event.error;
}

static void requests_may_be_longer_than_4_gib(void **state)
{
	struct fixture *f = *state;

	begin(f, false);
	request(f, NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_NO_HOLE, 0, DISK_SIZE);
	assert_int_equal(verdict(f), 0);
	assert_true(f->event.request.length == DISK_SIZE);
	request(f, NBD_CMD_TRIM, 0, DISK_SIZE / 2, DISK_SIZE / 2);
	assert_int_equal(verdict(f), 0);
	request(f, NBD_CMD_CACHE, 0, 0, UINT64_C(5) << 32);
	assert_int_equal(verdict(f), 0);
	request(f, NBD_CMD_TRIM, 0, 1, DISK_SIZE);
	assert_int_equal(verdict(f), NBD_EINVAL);
	request(f, NBD_CMD_TRIM, 0, 1, UINT64_MAX);
	assert_int_equal(verdict(f), NBD_EINVAL);
	request(f, NBD_CMD_READ, 0, 0, (UINT64_C(1) << 32) + 512);
	assert_int_equal(verdict(f), NBD_EINVAL);
}

static void compact_requests_are_garbage_now(void **state)
{
	static const uint8_t compact[32] = {0x25, 0x60, 0x95, 0x13};
	struct fixture *f = *state;

	begin(f, false);
	put(f, compact, sizeof(compact));
	assert_int_equal(feed(f), NBD_EVENT_DROP);
}

static void a_write_has_its_payload_with_the_flag_and_without(void **state)
{
	struct fixture *f = *state;

	begin(f, false);
	for (int i = 0; i < 2; i++) {
		request(f, NBD_CMD_WRITE, i ? NBD_CMD_FLAG_PAYLOAD : 0, 0, 512);
		assert_int_equal(verdict(f), 0);
		assert_int_equal(f->session.state, NBD_SESSION_PAYLOAD);
		nbd_session_payload_taken(&f->session, 512);
	}
	request(f, NBD_CMD_WRITE, NBD_CMD_FLAG_PAYLOAD, 0, UINT64_C(1) << 40);
	assert_int_equal(feed(f), NBD_EVENT_DROP);
}

static void a_payload_nobody_asked_for_is_refused_and_skipped(void **state)
{
	struct fixture *f = *state;

	begin(f, false);
	request(f, NBD_CMD_TRIM, NBD_CMD_FLAG_PAYLOAD, 0, 5);
	put(f, "12345", 5);
	assert_int_equal(verdict(f), NBD_EINVAL);
	request(f, NBD_CMD_READ, 0, 0, 512);
	assert_int_equal(verdict(f), 0);
	assert_int_equal(f->length, 0);
}

static void a_status_may_name_its_context_in_a_payload(void **state)
{
	struct fixture *f = *state;

	begin(f, true);
	request(f, NBD_CMD_BLOCK_STATUS, NBD_CMD_FLAG_PAYLOAD, 4096, 12);
	put(f, "\0\0\0\x10\0\0\0", 7);
	assert_int_equal(feed(f), NBD_EVENT_MORE);
	assert_int_equal(f->event.need, 44);
	put(f, "\0\0\0\0\1", 5);
	assert_int_equal(verdict(f), 0);
	assert_int_equal(f->length, 0);
	assert_true(f->event.request.length == UINT64_C(0x10) << 32);
	assert_true(f->event.request.offset == 4096);
	assert_int_equal(f->event.request.flags, 0);
}

static void a_status_payload_that_is_wrong_is_refused(void **state)
{
	static const char *const payloads[] = {
		"\0\0\0\0\0\0\2\0\0\0\0\2", /* another context */
		"\0\0\1\0\0\0\2\0\0\0\0\1", /* past the end */
		"\0\0\0\0\0\0\0\0\0\0\0\1", /* nothing */
	};
	struct fixture *f = *state;
	uint8_t many[NBD_STATUS_PAYLOAD_MAX + 4] = {0};

	begin(f, true);
	for (size_t i = 0; i < 3; i++) {
		request(f, NBD_CMD_BLOCK_STATUS, NBD_CMD_FLAG_PAYLOAD, 4096,
			12);
		put(f, payloads[i], 12);
		assert_int_equal(verdict(f), NBD_EINVAL);
	}
	request(f, NBD_CMD_BLOCK_STATUS, NBD_CMD_FLAG_PAYLOAD, 0, sizeof(many));
	put(f, many, sizeof(many));
	assert_int_equal(verdict(f), NBD_EINVAL);
	request(f, NBD_CMD_BLOCK_STATUS, NBD_CMD_FLAG_PAYLOAD, 0, 0);
	assert_int_equal(verdict(f), NBD_EINVAL);
	request(f, NBD_CMD_BLOCK_STATUS, 0, 0, DISK_SIZE);
	assert_int_equal(verdict(f), 0);
	assert_int_equal(f->length, 0);
}

static void structured_replies_come_too_late(void **state)
{
	struct fixture *f = *state;
	struct nbd_wire_option_reply wire;

	option(f, NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	assert_int_equal(feed(f), NBD_EVENT_MORE);
	memcpy(&wire, f->session.out.data, sizeof(wire));
	assert_int_equal(be32_get(wire.type), NBD_REP_ERR_EXT_HEADER_REQD);
	option(f, NBD_OPT_EXPORT_NAME, "d", 1);
	assert_int_equal(feed(f), NBD_EVENT_DROP);
}

static void the_flags_tell_of_payloads(void **state)
{
	struct fixture *f = *state;
	const uint8_t *data;

	option(f, NBD_OPT_GO, "\0\0\0\1d\0\0", 7);
	assert_int_equal(feed(f), NBD_EVENT_START);
	data = f->session.out.data + sizeof(struct nbd_wire_option_reply);
	/* BLOCK_STATUS_PAYLOAD, SEND_CACHE; SEND_DF, ..., HAS_FLAGS */
	assert_int_equal(data[10], 0x14);
	assert_int_equal(data[11], 0xe1);
}

#define test(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		test(requests_may_be_longer_than_4_gib),
		test(compact_requests_are_garbage_now),
		test(a_write_has_its_payload_with_the_flag_and_without),
		test(a_payload_nobody_asked_for_is_refused_and_skipped),
		test(a_status_may_name_its_context_in_a_payload),
		test(a_status_payload_that_is_wrong_is_refused),
		test(structured_replies_come_too_late),
		test(the_flags_tell_of_payloads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
