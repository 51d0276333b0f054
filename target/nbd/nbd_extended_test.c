/* SPDX-License-Identifier: Apache-2.0 */
/* The session with extended headers: 64 bits, and payloads that say so. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "target/testkit/nbd_session_kit.h"

#define DISK_SIZE (UINT64_C(1) << 40) /* bytes */

/* The type of the last reply that has no data. */
static uint32_t reply_last(struct nbd_kit *f)
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
	struct nbd_kit *f;

	if (nbd_kit_setup(state) < 0)
		return -1;
	f = *state;
	f->size = DISK_SIZE;
	f->device_flags = NBD_TRANSMIT_SEND_TRIM |
			  NBD_TRANSMIT_SEND_WRITE_ZEROES |
			  NBD_TRANSMIT_SEND_CACHE;
	nbd_kit_client_flags(f, NBD_KIT_FIXED);
	nbd_kit_option(f, NBD_OPT_EXTENDED_HEADERS, NULL, 0);
	return nbd_kit_feed(f) != NBD_EVENT_MORE || reply_last(f) != NBD_REP_ACK
		       ? -1
		       : 0;
}

static void begin(struct nbd_kit *f, bool allocation)
{
	if (allocation)
		nbd_kit_select_allocation(f, "disk");
	nbd_kit_go(f, "disk");
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_START);
	f->session.out.length = 0;
}

static void request(struct nbd_kit *f, uint16_t type, uint16_t flags,
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

	nbd_kit_put(f, &wire, sizeof(wire));
}

static void requests_may_be_longer_than_4_gib(void **state)
{
	struct nbd_kit *f = *state;

	begin(f, false);
	request(f, NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_NO_HOLE, 0, DISK_SIZE);
	assert_int_equal(nbd_kit_judge(f), 0);
	assert_true(f->event.request.length == DISK_SIZE);
	request(f, NBD_CMD_TRIM, 0, DISK_SIZE / 2, DISK_SIZE / 2);
	assert_int_equal(nbd_kit_judge(f), 0);
	request(f, NBD_CMD_CACHE, 0, 0, UINT64_C(5) << 32);
	assert_int_equal(nbd_kit_judge(f), 0);
	request(f, NBD_CMD_TRIM, 0, 1, DISK_SIZE);
	assert_int_equal(nbd_kit_judge(f), NBD_EINVAL);
	request(f, NBD_CMD_TRIM, 0, 1, UINT64_MAX);
	assert_int_equal(nbd_kit_judge(f), NBD_EINVAL);
	request(f, NBD_CMD_READ, 0, 0, (UINT64_C(1) << 32) + 512);
	assert_int_equal(nbd_kit_judge(f), NBD_EINVAL);
}

static void compact_requests_are_garbage_now(void **state)
{
	static const uint8_t compact[32] = {0x25, 0x60, 0x95, 0x13};
	struct nbd_kit *f = *state;

	begin(f, false);
	nbd_kit_put(f, compact, sizeof(compact));
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_DROP);
}

static void a_write_has_its_payload_with_the_flag_and_without(void **state)
{
	struct nbd_kit *f = *state;

	begin(f, false);
	for (int i = 0; i < 2; i++) {
		request(f, NBD_CMD_WRITE, i ? NBD_CMD_FLAG_PAYLOAD : 0, 0, 512);
		assert_int_equal(nbd_kit_judge(f), 0);
		assert_int_equal(f->session.state, NBD_SESSION_PAYLOAD);
		nbd_session_payload_taken(&f->session, 512);
	}
	request(f, NBD_CMD_WRITE, NBD_CMD_FLAG_PAYLOAD, 0, UINT64_C(1) << 40);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_DROP);
}

static void a_payload_nobody_asked_for_is_refused_and_skipped(void **state)
{
	struct nbd_kit *f = *state;

	begin(f, false);
	request(f, NBD_CMD_TRIM, NBD_CMD_FLAG_PAYLOAD, 0, 5);
	nbd_kit_put(f, "12345", 5);
	assert_int_equal(nbd_kit_judge(f), NBD_EINVAL);
	request(f, NBD_CMD_READ, 0, 0, 512);
	assert_int_equal(nbd_kit_judge(f), 0);
	assert_int_equal(f->length, 0);
}

static void a_status_may_name_its_context_in_a_payload(void **state)
{
	struct nbd_kit *f = *state;

	begin(f, true);
	request(f, NBD_CMD_BLOCK_STATUS, NBD_CMD_FLAG_PAYLOAD, 4096, 12);
	nbd_kit_put(f, "\0\0\0\x10\0\0\0", 7);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_MORE);
	assert_int_equal(f->event.need, 44);
	nbd_kit_put(f, "\0\0\0\0\1", 5);
	assert_int_equal(nbd_kit_judge(f), 0);
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
	struct nbd_kit *f = *state;
	uint8_t many[NBD_STATUS_PAYLOAD_MAX + 4] = {0};

	begin(f, true);
	for (size_t i = 0; i < 3; i++) {
		request(f, NBD_CMD_BLOCK_STATUS, NBD_CMD_FLAG_PAYLOAD, 4096,
			12);
		nbd_kit_put(f, payloads[i], 12);
		assert_int_equal(nbd_kit_judge(f), NBD_EINVAL);
	}
	request(f, NBD_CMD_BLOCK_STATUS, NBD_CMD_FLAG_PAYLOAD, 0, sizeof(many));
	nbd_kit_put(f, many, sizeof(many));
	assert_int_equal(nbd_kit_judge(f), NBD_EINVAL);
	request(f, NBD_CMD_BLOCK_STATUS, NBD_CMD_FLAG_PAYLOAD, 0, 0);
	assert_int_equal(nbd_kit_judge(f), NBD_EINVAL);
	request(f, NBD_CMD_BLOCK_STATUS, 0, 0, DISK_SIZE);
	assert_int_equal(nbd_kit_judge(f), 0);
	assert_int_equal(f->length, 0);
}

static void structured_replies_come_too_late(void **state)
{
	struct nbd_kit *f = *state;
	struct nbd_wire_option_reply wire;

	nbd_kit_option(f, NBD_OPT_STRUCTURED_REPLY, NULL, 0);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_MORE);
	memcpy(&wire, f->session.out.data, sizeof(wire));
	assert_int_equal(be32_get(wire.type), NBD_REP_ERR_EXT_HEADER_REQD);
	nbd_kit_option(f, NBD_OPT_EXPORT_NAME, "disk", 4);
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_DROP);
}

static void the_flags_tell_of_payloads(void **state)
{
	struct nbd_kit *f = *state;
	const uint8_t *data;

	nbd_kit_go(f, "disk");
	assert_int_equal(nbd_kit_feed(f), NBD_EVENT_START);
	data = f->session.out.data + sizeof(struct nbd_wire_option_reply);
	/* BLOCK_STATUS_PAYLOAD, SEND_CACHE; SEND_DF, ..., HAS_FLAGS */
	assert_int_equal(data[10], 0x14);
	assert_int_equal(data[11], 0xe1);
}

#define test(name) \
	cmocka_unit_test_setup_teardown(name, setup, nbd_kit_teardown)

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
