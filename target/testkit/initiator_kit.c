/* SPDX-License-Identifier: Apache-2.0 */
#include "target/testkit/initiator_kit.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include <string.h>

#include "base/wire/crc32c.h"
#include "target/scsi/scsi_defs.h"
#include "target/testkit/target_test_kit.h"

void initiator_put_pdu(struct initiator *c, struct iscsi_wire_bhs bhs,
		       const void *data, uint32_t length, uint32_t wrong)
{
	le32 digest = le32_make(crc32c(0, data, length) ^ wrong);

	assert_int_equal(length % 4, 0);
	bhs.data_length[0] = (uint8_t)(length >> 16);
	bhs.data_length[1] = (uint8_t)(length >> 8);
	bhs.data_length[2] = (uint8_t)length;
	client_put(c->fd, &bhs, sizeof(bhs));
	if (length > 0)
		client_put(c->fd, data, length);
	if (length > 0 && c->digest)
		client_put(c->fd, &digest, sizeof(digest));
}

uint32_t initiator_word(const struct initiator *c, enum iscsi_word n)
{
	return be32_get(c->bhs.word[n]);
}

void initiator_get_pdu(struct initiator *c, uint8_t opcode)
{
	const uint8_t *n = c->bhs.data_length;
	le32 digest;
	uint32_t padding;

	client_get(c->fd, &c->bhs, sizeof(c->bhs));
	assert_int_equal(c->bhs.opcode, opcode);
	c->length = (uint32_t)n[0] << 16 | (uint32_t)n[1] << 8 | n[2];
	padding = iscsi_padding(c->length);
	assert_true(c->length + padding <= sizeof(c->data));
	client_get(c->fd, c->data, c->length + padding);
	if (c->length > 0 && c->digest) {
		client_get(c->fd, &digest, sizeof(digest));
		assert_int_equal(le32_get(digest),
				 crc32c(0, c->data, c->length + padding));
	}
}

struct iscsi_wire_bhs initiator_header(uint8_t opcode, uint8_t flags,
				       uint32_t itt)
{
	return (struct iscsi_wire_bhs){
		.opcode = opcode, .flags = flags, .itt = be32_make(itt)};
}

void initiator_say(struct initiator *c, uint8_t opcode, uint8_t flags,
		   uint32_t length, uint8_t byte1)
{
	struct iscsi_wire_bhs bhs = initiator_header(ISCSI_COMMAND, flags,
						     ++c->itt);
	be32 blocks = be32_make(length / INITIATOR_BLOCK);
	uint8_t cdb[16] = {opcode, byte1};

	if (opcode)
		memcpy(cdb + 10, &blocks, sizeof(blocks));
	bhs.word[ISCSI_WORD_TTT] = be32_make(length);
	bhs.word[ISCSI_WORD_SN] = be32_make(c->cmdsn++);
	memcpy(&bhs.word[3], cdb, sizeof(cdb));
	initiator_put_pdu(c, bhs, NULL, 0, 0);
}

void initiator_say_read(struct initiator *c)
{
	initiator_say(c, SCSI_READ_16, INITIATOR_READS | INITIATOR_SIMPLE,
		      INITIATOR_LARGE, 0);
}

void initiator_say_write(struct initiator *c)
{
	initiator_say(c, SCSI_WRITE_16, INITIATOR_WRITES | INITIATOR_SIMPLE,
		      INITIATOR_LARGE, 0);
}

uint8_t initiator_get_status(struct initiator *c)
{
	initiator_get_pdu(c, ISCSI_RESPONSE);
	assert_int_equal(be32_get(c->bhs.itt), c->itt);
	return c->bhs.byte3;
}

uint8_t initiator_be_ready(struct initiator *c)
{
	initiator_say(c, 0, 0x80 | INITIATOR_SIMPLE, 0, 0);
	return initiator_get_status(c);
}

void initiator_give(struct initiator *c, const uint8_t *data, uint32_t wrong)
{
	struct iscsi_wire_bhs bhs = initiator_header(ISCSI_DATA_OUT, 0x80,
						     c->itt);
	uint32_t offset, length;

	initiator_get_pdu(c, ISCSI_R2T);
	assert_int_equal(be32_get(c->bhs.itt), c->itt);
	offset = initiator_word(c, ISCSI_WORD_OFFSET);
	length = initiator_word(c, ISCSI_WORD_LENGTH);
	assert_int_equal(length,
			 INITIATOR_PART); /* MaxBurstLength, as by default */
	bhs.word[ISCSI_WORD_TTT] = c->bhs.word[ISCSI_WORD_TTT];
	bhs.word[ISCSI_WORD_OFFSET] = be32_make(offset);
	initiator_put_pdu(c, bhs, data + offset, length, wrong);
}

bool initiator_get_data(struct initiator *c, uint8_t *to, uint32_t at,
			uint32_t end)
{
	while (at < end) {
		initiator_get_pdu(c, ISCSI_DATA_IN);
		assert_int_equal(be32_get(c->bhs.itt), c->itt);
		assert_int_equal(initiator_word(c, ISCSI_WORD_OFFSET), at);
		assert_true(c->length <= end - at);
		memcpy(to + at, c->data, c->length);
		at += c->length;
	}
	return c->bhs.flags & 1;
}

void initiator_say_abort(struct initiator *c)
{
	struct iscsi_wire_bhs bhs = initiator_header(
		ISCSI_TASK_REQUEST | 0x40, 0x80 | ISCSI_ABORT_TASK, 999);

	bhs.word[ISCSI_WORD_TTT] = be32_make(c->itt); /* its tag */
	bhs.word[ISCSI_WORD_SN] = be32_make(c->cmdsn);
	initiator_put_pdu(c, bhs, NULL, 0, 0);
}

void initiator_say_reset(struct initiator *c)
{
	struct iscsi_wire_bhs bhs = initiator_header(
		ISCSI_TASK_REQUEST | 0x40, 0x80 | ISCSI_LUN_RESET, 998);

	bhs.word[ISCSI_WORD_TTT] = be32_make(ISCSI_TAG_NONE);
	bhs.word[ISCSI_WORD_SN] = be32_make(c->cmdsn);
	initiator_put_pdu(c, bhs, NULL, 0, 0);
}

void initiator_get_task_response(struct initiator *c)
{
	initiator_get_pdu(c, ISCSI_TASK_RESPONSE);
	assert_int_equal(c->bhs.byte2, ISCSI_TASK_COMPLETE);
}

void initiator_login(struct initiator *c, const char *text, size_t length,
		     uint8_t isid)
{
	static uint8_t keys[512];
	struct iscsi_wire_bhs bhs = initiator_header(0x43, 0x87, 1);

	memcpy(keys, text, length);
	memset(keys + length, 0, 4);
	bhs.lun.bytes[0] = 0x80;
	bhs.lun.bytes[5] = isid;
	bhs.word[ISCSI_WORD_SN] = be32_make(1);
	c->digest = false;
	initiator_put_pdu(c, bhs, keys, (uint32_t)(length + 3) & ~3u, 0);
	initiator_get_pdu(c, ISCSI_LOGIN_RESPONSE);
	assert_int_equal(initiator_word(c, ISCSI_WORD_DATASN) >> 16,
			 0); /* status */
	c->cmdsn = 1;
	c->itt = 1;
}
