/* SPDX-License-Identifier: Apache-2.0 */
#include "target/nbd/nbd_proto.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#define BYTES(text) (text), (sizeof(text) - 1)

static void decodes_a_request(void **state)
{
	static const char wire[] = "\x25\x60\x95\x13\x00\x01\x00\x06"
				   "\x01\x02\x03\x04\x05\x06\x07\x08"
				   "\x00\x00\x00\x01\x00\x00\x10\x00"
				   "\x00\x02\x00\x00";
	struct nbd_request request;

	(void)state;
	assert_int_equal(nbd_request_decode((const void *)wire, &request), 0);
	assert_int_equal(request.flags, NBD_CMD_FLAG_FUA);
	assert_int_equal(request.type, NBD_CMD_WRITE_ZEROES);
	assert_true(request.cookie == 0x0102030405060708);
	assert_true(request.offset == 0x100001000);
	assert_int_equal(request.length, 0x20000);
}

static void leaves_the_result_alone_on_a_bad_magic(void **state)
{
	static const char wire[28] = "GET / HTTP/1.1";
	struct nbd_request request = {.cookie = 77};
	struct nbd_option_header option = {.option = 77};

	(void)state;
	assert_int_equal(nbd_request_decode((const void *)wire, &request),
			 -EPROTO);
	assert_true(request.cookie == 77);
	assert_int_equal(nbd_option_decode((const void *)wire, &option),
			 -EPROTO);
	assert_int_equal(option.option, 77);
}

static void decodes_what_an_info_asks_for(void **state)
{
	struct nbd_info_request request;

	(void)state;
	assert_int_equal(nbd_info_request_decode(
				 BYTES("\0\0\0\3abc\0\2\0\3\0\1"), &request),
			 0);
	assert_int_equal(request.name.length, 3);
	assert_memory_equal(request.name.text, "abc", 3);
	assert_true(request.wants_block_size && request.wants_name);
	assert_false(request.wants_description);
}

static void ignores_an_info_it_does_not_know(void **state)
{
	struct nbd_info_request request;

	(void)state;
	assert_int_equal(nbd_info_request_decode(BYTES("\0\0\0\0\0\1\x7f\xff"),
						 &request),
			 0);
	assert_int_equal(request.name.length, 0);
}

static void refuses_info_lengths_that_do_not_fit(void **state)
{
	static const struct {
		const char *data;
		size_t length;
	} rows[] = {
		{BYTES("")},
		{BYTES("\0\0\0")},
		{BYTES("\0\0\0\0")},             /* no count */
		{BYTES("\0\0\0\0\0\1")},         /* no item */
		{BYTES("\0\0\0\0\0\1\0\1\0")},   /* a byte too many */
		{BYTES("\0\0\0\5abc\0\0")},      /* name past the end */
		{BYTES("\xff\xff\xff\xff\0\0")}, /* and far past it */
		{BYTES("\0\0\0\3a\0c\0\0")},     /* NUL in the name */
	};
	struct nbd_info_request request = {.wants_name = true};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_int_equal(nbd_info_request_decode(rows[i].data,
							 rows[i].length,
							 &request),
				 -EINVAL);
	assert_true(request.wants_name);
}

static void says_when_a_name_is_too_long(void **state)
{
	static char data[4 + NBD_STRING_MAX + 1 + 2];
	struct nbd_info_request request;
	be32 length = be32_make(NBD_STRING_MAX + 1);

	(void)state;
	memset(data, 'x', sizeof(data));
	memcpy(data, &length, sizeof(length));
	assert_int_equal(nbd_info_request_decode(data, sizeof(data), &request),
			 -E2BIG);
}

static void finds_base_allocation_among_queries(void **state)
{
	struct nbd_meta_request request;

	(void)state;
	assert_int_equal(
		nbd_meta_request_decode(BYTES("\0\0\0\1n\0\0\0\2\0\0\0\3x:y"
					      "\0\0\0\17base:allocation"),
					&request),
		0);
	assert_int_equal(request.n_queries, 2);
	assert_true(request.wants_allocation);
	assert_false(request.wants_base);
}

static void refuses_more_queries_than_there_are_bytes(void **state)
{
	struct nbd_meta_request request;

	(void)state;
	assert_int_equal(nbd_meta_request_decode(
				 BYTES("\0\0\0\0\xff\xff\xff\xff"), &request),
			 -EINVAL);
	assert_int_equal(nbd_meta_request_decode(BYTES("\0\0\0\0\0\0\0\0rest"),
						 &request),
			 -EINVAL);
}

static void forces_the_preferred_block_size_into_the_rules(void **state)
{
	static const uint32_t rows[][3] = {
		{1, 1, 512},
		{1, 4096, 4096},
		{4096, 512, 4096},
		{1, UINT32_C(1) << 31, NBD_PAYLOAD_MAX},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct nbd_wire_info_block_size wire = nbd_info_block_size_make(
			rows[i][0], rows[i][1]);

		assert_int_equal(be32_get(wire.minimum), rows[i][0]);
		assert_int_equal(be32_get(wire.preferred), rows[i][2]);
		assert_int_equal(be32_get(wire.maximum), NBD_PAYLOAD_MAX);
	}
}

static void encodes_replies_as_the_protocol_has_them(void **state)
{
	static const struct nbd_reply plain = {.cookie = 1, .offset = 77};
	uint8_t to[NBD_REPLY_HEAD_MAX];

	(void)state;
	assert_int_equal(nbd_simple_reply_encode(to, 0x1122334455667788, 28),
			 16);
	assert_memory_equal(to,
			    "\x67\x44\x66\x98\0\0\0\x1c"
			    "\x11\x22\x33\x44\x55\x66\x77\x88",
			    16);
	assert_int_equal(nbd_data_chunk_encode(to, &plain, 0x1000, 0x200, true),
			 28);
	assert_memory_equal(to,
			    "\x66\x8e\x33\xef\0\1\0\1\0\0\0\0\0\0\0\1\0\0\2\x8"
			    "\0\0\0\0\0\0\x10\0",
			    28);
	assert_int_equal(nbd_error_chunk_encode(to, &plain, 22, 5), 26);
	assert_memory_equal(to,
			    "\x66\x8e\x33\xef\0\1\x80\1\0\0\0\0\0\0\0\1"
			    "\0\0\0\xb\0\0\0\x16\0\5",
			    26);
}

static void encodes_extended_replies_with_the_offset(void **state)
{
	static const struct nbd_reply wide = {
		.extended = true, .cookie = 1, .offset = 0x1000};
	uint8_t to[NBD_REPLY_HEAD_MAX];

	(void)state;
	assert_int_equal(nbd_data_chunk_encode(to, &wide, 0x1000, 0x200, true),
			 40);
	assert_memory_equal(to,
			    "\x6e\x8a\x27\x8c\0\1\0\1\0\0\0\0\0\0\0\1"
			    "\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\2\x8"
			    "\0\0\0\0\0\0\x10\0",
			    40);
	assert_int_equal(nbd_none_chunk_encode(to, &wide), 32);
	assert_memory_equal(to,
			    "\x6e\x8a\x27\x8c\0\1\0\0\0\0\0\0\0\0\0\1"
			    "\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\0\0",
			    32);
	assert_int_equal(nbd_error_chunk_encode(to, &wide, 22, 5), 38);
	assert_int_equal(nbd_status_chunk_encode(to, &wide, 24), 32);
	assert_memory_equal(to + 4, "\0\1\0\6", 4);
}

static void tells_runs_of_more_than_32_bits(void **state)
{
	static const struct blockdev_status runs[] = {
		{.length = UINT64_C(5) << 32, .flags = BLOCKDEV_HOLE},
		{.length = 4096},
	};
	uint8_t to[NBD_STATUS_SIZE(2)];

	(void)state;
	assert_int_equal(nbd_status_encode(to, true, runs, 2), sizeof(to));
	assert_memory_equal(to,
			    "\0\0\0\1\0\0\0\2"
			    "\0\0\0\5\0\0\0\0\0\0\0\0\0\0\0\1"
			    "\0\0\0\0\0\0\x10\0\0\0\0\0\0\0\0\0",
			    40);
}

static void decodes_an_extended_request(void **state)
{
	struct nbd_wire_extended_request wire;
	struct nbd_request request = {0};

	(void)state;
	memcpy(&wire,
	       "\x21\xe4\x1c\x71\0\1\0\6\1\2\3\4\5\6\7\x8"
	       "\0\0\0\1\0\0\0\0\0\0\0\2\0\0\0\0",
	       sizeof(wire));
	assert_int_equal(nbd_extended_request_decode(&wire, &request), 0);
	assert_int_equal(request.type, NBD_CMD_WRITE_ZEROES);
	assert_int_equal(request.flags, NBD_CMD_FLAG_FUA);
	assert_true(request.cookie == UINT64_C(0x0102030405060708));
	assert_true(request.offset == UINT64_C(1) << 32);
	assert_true(request.length == UINT64_C(2) << 32);
	wire.magic = be32_make(NBD_REQUEST_MAGIC);
	assert_int_equal(nbd_extended_request_decode(&wire, &request), -EPROTO);
}

static void takes_a_status_payload_of_our_one_context(void **state)
{
	uint64_t length = 7;

	(void)state;
	assert_int_equal(nbd_status_payload_decode(
				 BYTES("\0\0\0\1\0\0\0\0\0\0\0\1"), &length),
			 0);
	assert_true(length == UINT64_C(1) << 32);
	assert_int_equal(nbd_status_payload_decode(
				 BYTES("\0\0\0\1\0\0\0\0\0\0\0\2"), &length),
			 -EINVAL);
	assert_int_equal(
		nbd_status_payload_decode(BYTES("\0\0\0\1\0\0\0\0"), &length),
		-EINVAL);
	assert_int_equal(
		nbd_status_payload_decode(
			BYTES("\0\0\0\1\0\0\0\0\0\0\0\1\0\0\0\1"), &length),
		-EINVAL);
	assert_int_equal(nbd_status_payload_decode("", 0, &length), -EINVAL);
}

static void merges_neighbours_with_one_status(void **state)
{
	static const struct blockdev_status runs[] = {
		{.length = 4096},
		{.length = 4096},
		{.length = 65536, .flags = BLOCKDEV_HOLE | BLOCKDEV_ZERO},
		{.length = 512, .flags = BLOCKDEV_ZERO},
	};
	uint8_t to[NBD_STATUS_SIZE(4)];

	(void)state;
	assert_int_equal(nbd_status_encode(to, false, runs, 4), 4 + 3 * 8);
	assert_memory_equal(to,
			    "\0\0\0\1\0\0\x20\0\0\0\0\0\0\1\0\0\0\0\0\3"
			    "\0\0\2\0\0\0\0\2",
			    28);
}

static void turns_every_errno_into_one_the_protocol_has(void **state)
{
	static const uint32_t known[] = {
		NBD_EPERM,  NBD_EIO,       NBD_ENOMEM,  NBD_EINVAL,
		NBD_ENOSPC, NBD_EOVERFLOW, NBD_ENOTSUP, NBD_ESHUTDOWN,
	};

	(void)state;
	assert_int_equal(nbd_error_from_errno(0), 0);
	assert_int_equal(nbd_error_from_errno(-EROFS), NBD_EPERM);
	assert_int_equal(nbd_error_from_errno(-EDQUOT), NBD_ENOSPC);
	for (int e = 1; e < 200; e++) {
		uint32_t error = nbd_error_from_errno(-e);
		bool found = false;

		for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
			found |= known[i] == error;
		assert_true(found);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(decodes_a_request),
		cmocka_unit_test(leaves_the_result_alone_on_a_bad_magic),
		cmocka_unit_test(decodes_what_an_info_asks_for),
		cmocka_unit_test(ignores_an_info_it_does_not_know),
		cmocka_unit_test(refuses_info_lengths_that_do_not_fit),
		cmocka_unit_test(says_when_a_name_is_too_long),
		cmocka_unit_test(finds_base_allocation_among_queries),
		cmocka_unit_test(refuses_more_queries_than_there_are_bytes),
		cmocka_unit_test(
			forces_the_preferred_block_size_into_the_rules),
		cmocka_unit_test(encodes_replies_as_the_protocol_has_them),
		cmocka_unit_test(encodes_extended_replies_with_the_offset),
		cmocka_unit_test(tells_runs_of_more_than_32_bits),
		cmocka_unit_test(decodes_an_extended_request),
		cmocka_unit_test(takes_a_status_payload_of_our_one_context),
		cmocka_unit_test(merges_neighbours_with_one_status),
		cmocka_unit_test(turns_every_errno_into_one_the_protocol_has),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
