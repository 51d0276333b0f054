/* SPDX-License-Identifier: Apache-2.0 */
#include "target/iscsi/iscsi_proto.h"

#include <errno.h>

#include "base/wire/cursor.h"

#define OPCODE_MASK    0x3fu
#define FLAG_IMMEDIATE 0x40u

/* Byte 1 of each PDU */
#define COMMAND_READ      0x40u
#define COMMAND_WRITE     0x20u
#define COMMAND_ATTRIBUTE 0x07u
#define FLAG_CONTINUE     0x40u /* C of login and text */
#define DATA_IN_STATUS    0x01u
#define RESIDUAL_OVER     0x04u
#define RESIDUAL_UNDER    0x02u

enum ahs_type { /* 11.2.2.1 */
		AHS_EXTENDED_CDB = 1,
		AHS_READ_LENGTH = 2,
};

static uint32_t word(const struct iscsi_wire_bhs *wire, enum iscsi_word n)
{
	return be32_get(wire->word[n]);
}

static void set(struct iscsi_wire_bhs *wire, enum iscsi_word n, uint32_t value)
{
	wire->word[n] = be32_make(value);
}

/* ---- decoding ---- */

static void command_decode(const struct iscsi_wire_bhs *wire,
			   struct iscsi_pdu *ret)
{
	ret->command.read = wire->flags & COMMAND_READ;
	ret->command.write = wire->flags & COMMAND_WRITE;
	ret->command.attribute = wire->flags & COMMAND_ATTRIBUTE;
	ret->command.expected = word(wire, ISCSI_WORD_TTT);
	memcpy(ret->command.cdb, &wire->word[3], ISCSI_CDB_SIZE);
}

static void login_decode(const struct iscsi_wire_bhs *wire,
			 struct iscsi_pdu *ret)
{
	uint64_t isid = be64_get(wire->lun);

	ret->login.more = wire->flags & FLAG_CONTINUE;
	ret->login.stage = wire->flags >> 2 & 3;
	ret->login.next_stage = wire->flags & 3;
	ret->login.version_max = wire->byte2;
	ret->login.version_min = wire->byte3;
	memcpy(ret->login.isid, wire->lun.bytes, ISCSI_ISID_SIZE);
	ret->login.tsih = (uint16_t)isid;
	ret->login.cid = (uint16_t)(word(wire, ISCSI_WORD_TTT) >> 16);
	ret->lun = 0;
}

void iscsi_pdu_decode(const struct iscsi_wire_bhs *wire, struct iscsi_pdu *ret)
{
	*ret = (struct iscsi_pdu){
		.opcode = wire->opcode & OPCODE_MASK,
		.immediate = wire->opcode & FLAG_IMMEDIATE,
		.final = wire->flags & ISCSI_FLAG_FINAL,
		.ahs_length = 4u * wire->ahs_words,
		.data_length = (uint32_t)wire->data_length[0] << 16 |
			       (uint32_t)wire->data_length[1] << 8 |
			       wire->data_length[2],
		.lun = be64_get(wire->lun),
		.itt = be32_get(wire->itt),
		.ttt = word(wire, ISCSI_WORD_TTT),
		.cmdsn = word(wire, ISCSI_WORD_SN),
		.exp_statsn = word(wire, ISCSI_WORD_EXP_SN),
	};
	switch (ret->opcode) {
	case ISCSI_COMMAND: command_decode(wire, ret); break;
	case ISCSI_LOGIN_REQUEST: login_decode(wire, ret); break;
	case ISCSI_TASK_REQUEST:
		ret->task.function = wire->flags & 0x7f;
		ret->task.ref_cmdsn = word(wire, ISCSI_WORD_MAX_SN);
		break;
	case ISCSI_TEXT_REQUEST:
		ret->text.more = wire->flags & FLAG_CONTINUE;
		break;
	case ISCSI_DATA_OUT:
		ret->data.datasn = word(wire, ISCSI_WORD_DATASN);
		ret->data.offset = word(wire, ISCSI_WORD_OFFSET);
		break;
	case ISCSI_LOGOUT_REQUEST:
		ret->logout.reason = wire->flags & 0x7f;
		ret->logout.cid = (uint16_t)(ret->ttt >> 16);
		break;
	default: break;
	}
}

static bool extended_cdb_decode(struct cursor *c, uint32_t length,
				struct iscsi_ahs *ret)
{
	const uint8_t *bytes = cursor_bytes(c, length);

	/* The first byte is reserved; the rest is CDB (11.2.2.3). */
	if (!bytes || length < 2 || ret->cdb ||
	    length - 1 > ISCSI_CDB_MAX - ISCSI_CDB_SIZE)
		return false;
	ret->cdb = bytes + 1;
	ret->cdb_length = length - 1;
	return true;
}

static bool read_length_decode(struct cursor *c, uint32_t length,
			       struct iscsi_ahs *ret)
{
	if (length != 5 || ret->has_read_length)
		return false;
	(void)cursor_u8(c); /* reserved (11.2.2.4) */
	ret->read_length = cursor_be32(c);
	ret->has_read_length = true;
	return cursor_ok(c);
}

static bool ahs_decode(struct cursor *c, struct iscsi_ahs *ret)
{
	uint32_t length = cursor_be16(c);
	uint8_t type = cursor_u8(c);
	bool ok;

	if (!cursor_ok(c))
		return false;
	switch (type) {
	case AHS_EXTENDED_CDB: ok = extended_cdb_decode(c, length, ret); break;
	case AHS_READ_LENGTH: ok = read_length_decode(c, length, ret); break;
	default: ok = false; break; /* 11.2.2.1: reserved */
	}
	if (!ok)
		return false;
	(void)cursor_bytes(c, iscsi_padding(length + 3));
	return cursor_ok(c);
}

int iscsi_ahs_decode(const void *data, size_t length, struct iscsi_ahs *ret)
{
	struct cursor c = cursor_make(data, length);
	struct iscsi_ahs found = {0};

	while (cursor_left(&c) > 0)
		if (!ahs_decode(&c, &found))
			return -EPROTO;
	*ret = found;
	return 0;
}

/* ---- encoding ---- */

/* Every PDU of ours that has no other use of the bit has F (11.2.1.3). */
static struct iscsi_wire_bhs bhs_make(uint8_t opcode, uint32_t itt,
				      const struct iscsi_numbers *sn,
				      uint32_t data_length)
{
	struct iscsi_wire_bhs wire = {
		.opcode = opcode,
		.flags = ISCSI_FLAG_FINAL,
		.data_length = {(uint8_t)(data_length >> 16),
				(uint8_t)(data_length >> 8),
				(uint8_t)data_length},
		.itt = be32_make(itt),
	};

	assert(data_length <= ISCSI_DATA_MAX);
	set(&wire, ISCSI_WORD_SN, sn->statsn);
	set(&wire, ISCSI_WORD_EXP_SN, sn->exp_cmdsn);
	set(&wire, ISCSI_WORD_MAX_SN, sn->max_cmdsn);
	return wire;
}

struct iscsi_wire_bhs iscsi_nop_in_make(const struct iscsi_numbers *sn,
					uint64_t lun, uint32_t itt,
					uint32_t ttt, uint32_t data_length)
{
	struct iscsi_wire_bhs wire = bhs_make(ISCSI_NOP_IN, itt, sn,
					      data_length);

	wire.lun = be64_make(lun);
	set(&wire, ISCSI_WORD_TTT, ttt);
	return wire;
}

static uint8_t residual_flags(const struct iscsi_residual *residual)
{
	return (uint8_t)((residual->over ? RESIDUAL_OVER : 0) |
			 (residual->under ? RESIDUAL_UNDER : 0));
}

struct iscsi_wire_bhs iscsi_response_make(const struct iscsi_numbers *sn,
					  uint32_t itt, uint8_t status,
					  const struct iscsi_residual *residual,
					  uint32_t exp_datasn,
					  uint32_t data_length)
{
	struct iscsi_wire_bhs wire = bhs_make(ISCSI_RESPONSE, itt, sn,
					      data_length);

	wire.flags |= residual_flags(residual);
	wire.byte3 = status;
	set(&wire, ISCSI_WORD_DATASN, exp_datasn);
	set(&wire, ISCSI_WORD_LENGTH, residual->count);
	return wire;
}

struct iscsi_wire_bhs iscsi_task_response_make(const struct iscsi_numbers *sn,
					       uint32_t itt, uint8_t response)
{
	struct iscsi_wire_bhs wire = bhs_make(ISCSI_TASK_RESPONSE, itt, sn, 0);

	wire.byte2 = response;
	return wire;
}

struct iscsi_wire_bhs iscsi_data_in_make(const struct iscsi_numbers *sn,
					 const struct iscsi_data_in *data)
{
	struct iscsi_wire_bhs wire = bhs_make(ISCSI_DATA_IN, data->itt, sn,
					      data->data_length);

	wire.flags = data->final ? ISCSI_FLAG_FINAL : 0;
	set(&wire, ISCSI_WORD_TTT, ISCSI_TAG_NONE);
	set(&wire, ISCSI_WORD_DATASN, data->datasn);
	set(&wire, ISCSI_WORD_OFFSET, data->offset);
	if (!data->with_status) { /* StatSN is reserved then (11.7.4) */
		set(&wire, ISCSI_WORD_SN, 0);
		return wire;
	}
	wire.flags |= DATA_IN_STATUS | residual_flags(&data->residual);
	wire.byte3 = data->status;
	set(&wire, ISCSI_WORD_LENGTH, data->residual.count);
	return wire;
}

struct iscsi_wire_bhs iscsi_r2t_make(const struct iscsi_numbers *sn,
				     uint64_t lun, uint32_t itt, uint32_t ttt,
				     uint32_t r2tsn, uint32_t offset,
				     uint32_t length)
{
	struct iscsi_wire_bhs wire = bhs_make(ISCSI_R2T, itt, sn, 0);

	wire.lun = be64_make(lun);
	set(&wire, ISCSI_WORD_TTT, ttt);
	set(&wire, ISCSI_WORD_DATASN, r2tsn);
	set(&wire, ISCSI_WORD_OFFSET, offset);
	set(&wire, ISCSI_WORD_LENGTH, length);
	return wire;
}

struct iscsi_wire_bhs iscsi_async_make(const struct iscsi_numbers *sn,
				       uint64_t lun, uint8_t event,
				       uint8_t vcode, uint16_t parameter1,
				       uint16_t parameter2, uint16_t parameter3,
				       uint32_t data_length)
{
	struct iscsi_wire_bhs wire = bhs_make(ISCSI_ASYNC, ISCSI_TAG_NONE, sn,
					      data_length);

	wire.lun = be64_make(lun);
	set(&wire, ISCSI_WORD_DATASN,
	    (uint32_t)event << 24 | (uint32_t)vcode << 16 | parameter1);
	set(&wire, ISCSI_WORD_OFFSET, (uint32_t)parameter2 << 16 | parameter3);
	return wire;
}

struct iscsi_wire_bhs iscsi_reject_make(const struct iscsi_numbers *sn,
					uint8_t reason)
{
	struct iscsi_wire_bhs wire = bhs_make(ISCSI_REJECT, ISCSI_TAG_NONE, sn,
					      ISCSI_BHS_SIZE);

	wire.byte2 = reason;
	return wire;
}

struct iscsi_wire_bhs iscsi_text_response_make(const struct iscsi_numbers *sn,
					       uint64_t lun, uint32_t itt,
					       uint32_t ttt, bool final,
					       bool more, uint32_t data_length)
{
	struct iscsi_wire_bhs wire = bhs_make(ISCSI_TEXT_RESPONSE, itt, sn,
					      data_length);

	wire.flags = (uint8_t)((final ? ISCSI_FLAG_FINAL : 0) |
			       (more ? FLAG_CONTINUE : 0));
	wire.lun = be64_make(lun);
	set(&wire, ISCSI_WORD_TTT, ttt);
	return wire;
}

struct iscsi_wire_bhs iscsi_logout_response_make(const struct iscsi_numbers *sn,
						 uint32_t itt, uint8_t response,
						 uint16_t time2wait,
						 uint16_t time2retain)
{
	struct iscsi_wire_bhs wire = bhs_make(ISCSI_LOGOUT_RESPONSE, itt, sn,
					      0);

	wire.byte2 = response;
	set(&wire, ISCSI_WORD_OFFSET, (uint32_t)time2wait << 16 | time2retain);
	return wire;
}

struct iscsi_wire_bhs iscsi_login_response_make(
	const struct iscsi_numbers *sn,
	const struct iscsi_login_response *login)
{
	struct iscsi_wire_bhs wire = bhs_make(ISCSI_LOGIN_RESPONSE, login->itt,
					      sn, login->data_length);
	uint8_t tsih[2] = {(uint8_t)(login->tsih >> 8), (uint8_t)login->tsih};

	wire.flags = (uint8_t)((login->transit ? ISCSI_FLAG_FINAL : 0) |
			       (login->more ? FLAG_CONTINUE : 0) |
			       (login->stage & 3) << 2 |
			       (login->transit ? login->next_stage & 3 : 0));
	memcpy(wire.lun.bytes, login->isid, ISCSI_ISID_SIZE);
	memcpy(wire.lun.bytes + ISCSI_ISID_SIZE, tsih, sizeof(tsih));
	set(&wire, ISCSI_WORD_DATASN, (uint32_t)login->status << 16);
	return wire;
}
