/* SPDX-License-Identifier: Apache-2.0 */
#include "target/iscsi/iscsi_proto.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "base/wire/crc32c.h"

#define BYTES(text) (text), (sizeof(text) - 1)

static const struct iscsi_numbers sn = {0x11121314, 0x21222324, 0x31323334};

static struct iscsi_pdu decoded(const char wire[static ISCSI_BHS_SIZE])
{
	struct iscsi_pdu pdu;

	iscsi_pdu_decode((const struct iscsi_wire_bhs *)wire, &pdu);
	return pdu;
}

static void decodes_a_command(void **state)
{
	struct iscsi_pdu pdu = decoded("\x41\xa1\0\0\x02\x01\x02\x03"
				       "\0\x05\0\0\0\0\0\0"
				       "\1\2\3\4\0\0\x10\0"
				       "\5\6\7\x8\x9\xa\xb\xc"
				       "\x2a\0\0\0\0\1\0\0\x8\0\0\0\0\0\0\xff");

	(void)state;
	assert_int_equal(pdu.opcode, ISCSI_COMMAND);
	assert_true(pdu.immediate && pdu.final);
	assert_true(pdu.command.write && !pdu.command.read);
	assert_int_equal(pdu.command.attribute, 1);
	assert_int_equal(pdu.ahs_length, 8);
	assert_int_equal(pdu.data_length, 0x010203);
	assert_true(pdu.lun == UINT64_C(0x0005000000000000));
	assert_int_equal(pdu.itt, 0x01020304);
	assert_int_equal(pdu.command.expected, 4096);
	assert_int_equal(pdu.cmdsn, 0x05060708);
	assert_int_equal(pdu.exp_statsn, 0x090a0b0c);
	assert_int_equal(pdu.command.cdb[0], 0x2a);
	assert_int_equal(pdu.command.cdb[15], 0xff);
}

static void decodes_a_login(void **state)
{
	struct iscsi_pdu pdu = decoded("\x43\xc7\2\1\0\0\0\x10"
				       "\x40\1\2\3\4\5\x12\x34"
				       "\0\0\0\7\x56\x78\0\0"
				       "\0\0\0\1\0\0\0\2"
				       "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0");

	(void)state;
	assert_int_equal(pdu.opcode, ISCSI_LOGIN_REQUEST);
	assert_true(pdu.final && pdu.login.more);
	assert_int_equal(pdu.login.stage, 1);
	assert_int_equal(pdu.login.next_stage, 3);
	assert_int_equal(pdu.login.version_max, 2);
	assert_int_equal(pdu.login.version_min, 1);
	assert_memory_equal(pdu.login.isid, "\x40\1\2\3\4\5", 6);
	assert_int_equal(pdu.login.tsih, 0x1234);
	assert_int_equal(pdu.login.cid, 0x5678);
	assert_int_equal(pdu.cmdsn, 1);
}

static void decodes_data_and_task_management(void **state)
{
	struct iscsi_pdu data = decoded("\5\x80\0\0\0\0\2\0"
					"\0\0\0\0\0\0\0\0"
					"\0\0\0\1\0\0\0\2"
					"\0\0\0\0\0\0\0\0"
					"\0\0\0\0\0\0\0\3\0\1\0\0\0\0\0");
	struct iscsi_pdu task = decoded("\x42\x85\0\0\0\0\0\0"
					"\0\0\0\0\0\0\0\0"
					"\0\0\0\1\0\0\0\2"
					"\0\0\0\3\0\0\0\4"
					"\0\0\0\5\0\0\0\0\0\0\0\0\0\0\0");

	(void)state;
	assert_int_equal(data.ttt, 2);
	assert_int_equal(data.data.datasn, 3);
	assert_int_equal(data.data.offset, 0x10000);
	assert_int_equal(task.task.function, ISCSI_LUN_RESET);
	assert_int_equal(task.ttt, 2);
	assert_int_equal(task.task.ref_cmdsn, 5);
}

static void reads_additional_headers(void **state)
{
	static const char wire[] = "\0\x05\2\0\0\0\x10\0" /* read length */
				   "\0\x09\1\0abcdefgh";  /* extended CDB */
	struct iscsi_ahs ahs;

	(void)state;
	assert_int_equal(iscsi_ahs_decode(BYTES(wire), &ahs), 0);
	assert_true(ahs.has_read_length);
	assert_int_equal(ahs.read_length, 4096);
	assert_int_equal(ahs.cdb_length, 8);
	assert_memory_equal(ahs.cdb, "abcdefgh", 8);
	assert_int_equal(iscsi_ahs_decode("", 0, &ahs), 0);
	assert_null(ahs.cdb);
}

static void refuses_additional_headers_that_do_not_fit(void **state)
{
	struct iscsi_ahs ahs = {.read_length = 77};

	(void)state;
	/* cut, longer than there is, of an unknown type, twice, empty CDB */
	assert_int_equal(iscsi_ahs_decode(BYTES("\0\5"), &ahs), -EPROTO);
	assert_int_equal(iscsi_ahs_decode(BYTES("\0\x20\1\0abc"), &ahs),
			 -EPROTO);
	assert_int_equal(iscsi_ahs_decode(BYTES("\0\5\7\0abcd"), &ahs),
			 -EPROTO);
	assert_int_equal(iscsi_ahs_decode(BYTES("\0\5\2\0\0\0\0\1"
						"\0\5\2\0\0\0\0\1"),
					  &ahs),
			 -EPROTO);
	assert_int_equal(iscsi_ahs_decode(BYTES("\0\1\1\0"), &ahs), -EPROTO);
	assert_int_equal(ahs.read_length, 77);
}

static void encodes_a_data_in_with_and_without_status(void **state)
{
	struct iscsi_data_in data = {
		.itt = 0x01020304,
		.datasn = 5,
		.offset = 0x1000,
		.data_length = 0x200,
	};
	struct iscsi_wire_bhs wire = iscsi_data_in_make(&sn, &data);

	(void)state;
	assert_memory_equal(&wire,
			    "\x25\0\0\0\0\0\2\0\0\0\0\0\0\0\0\0\1\2\3\4"
			    "\xff\xff\xff\xff\0\0\0\0\x21\x22\x23\x24"
			    "\x31\x32\x33\x34\0\0\0\5\0\0\x10\0\0\0\0\0",
			    48);
	data.final = data.with_status = true;
	data.residual = (struct iscsi_residual){.under = true, .count = 512};
	wire = iscsi_data_in_make(&sn, &data);
	assert_memory_equal(&wire,
			    "\x25\x83\0\0\0\0\2\0\0\0\0\0\0\0\0\0\1\2\3\4"
			    "\xff\xff\xff\xff\x11\x12\x13\x14\x21\x22\x23\x24"
			    "\x31\x32\x33\x34\0\0\0\5\0\0\x10\0\0\0\2\0",
			    48);
}

static void encodes_a_response(void **state)
{
	struct iscsi_residual over = {.over = true, .count = 1};
	struct iscsi_wire_bhs wire = iscsi_response_make(&sn, 9, 2, &over, 3,
							 20);

	(void)state;
	assert_memory_equal(&wire,
			    "\x21\x84\0\2\0\0\0\x14\0\0\0\0\0\0\0\0\0\0\0\x9"
			    "\0\0\0\0\x11\x12\x13\x14\x21\x22\x23\x24"
			    "\x31\x32\x33\x34\0\0\0\3\0\0\0\0\0\0\0\1",
			    48);
}

static void encodes_r2t_login_logout_and_async(void **state)
{
	struct iscsi_login_response login = {
		.transit = true,
		.stage = 1,
		.next_stage = 3,
		.isid = {1, 2, 3, 4, 5, 6},
		.tsih = 0x1234,
		.itt = 7,
		.status = ISCSI_LOGIN_NOT_FOUND,
	};
	struct iscsi_wire_bhs wire = iscsi_r2t_make(&sn, 0, 1, 2, 3, 4, 5);

	(void)state;
	assert_memory_equal((uint8_t *)&wire + 20, "\0\0\0\2", 4);
	assert_memory_equal((uint8_t *)&wire + 36, "\0\0\0\3\0\0\0\4\0\0\0\5",
			    12);
	wire = iscsi_login_response_make(&sn, &login);
	assert_int_equal(wire.flags, 0x87);
	assert_memory_equal((uint8_t *)&wire + 8, "\1\2\3\4\5\6\x12\x34", 8);
	assert_memory_equal((uint8_t *)&wire + 36, "\2\3\0\0", 4);
	wire = iscsi_logout_response_make(&sn, 1, 2, 3, 4);
	assert_int_equal(wire.byte2, 2);
	assert_memory_equal((uint8_t *)&wire + 40, "\0\3\0\4", 4);
	wire = iscsi_async_make(&sn, 0, 3, 1, 2, 4, 5, 0);
	assert_memory_equal((uint8_t *)&wire + 16, "\xff\xff\xff\xff", 4);
	assert_memory_equal((uint8_t *)&wire + 36, "\3\1\0\2\0\4\0\5", 8);
}

/* RFC 7143 appendix A.4 / RFC 3720 B.4: 32 bytes of zeroes. */
static void digests_are_as_the_rfc_has_them(void **state)
{
	static const uint8_t zeroes[32];
	le32 digest = iscsi_digest_make(crc32c(0, zeroes, sizeof(zeroes)));

	(void)state;
	assert_memory_equal(&digest, "\xaa\x36\x91\x8a", 4);
}

static void pads_to_four_bytes(void **state)
{
	(void)state;
	assert_int_equal(iscsi_padding(0), 0);
	assert_int_equal(iscsi_padding(1), 3);
	assert_int_equal(iscsi_padding(4), 0);
	assert_int_equal(iscsi_padding(ISCSI_DATA_MAX), 1);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(decodes_a_command),
		cmocka_unit_test(decodes_a_login),
		cmocka_unit_test(decodes_data_and_task_management),
		cmocka_unit_test(reads_additional_headers),
		cmocka_unit_test(refuses_additional_headers_that_do_not_fit),
		cmocka_unit_test(encodes_a_data_in_with_and_without_status),
		cmocka_unit_test(encodes_a_response),
		cmocka_unit_test(encodes_r2t_login_logout_and_async),
		cmocka_unit_test(digests_are_as_the_rfc_has_them),
		cmocka_unit_test(pads_to_four_bytes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
