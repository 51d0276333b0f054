/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iSCSI (RFC 7143), bytes to structs and back, as the target sees it. No state,
 * no I/O. A PDU is a header of 48 bytes (the BHS) and optional parts (RFC 7143
 * 11.1). The parts are additional headers (AHS), a digest of the headers, and
 * data with padding and a digest of the data.
 */
#ifndef TARGET_ISCSI_PROTO_H
#define TARGET_ISCSI_PROTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/wire/wire.h"

#define ISCSI_PORT 3260 /* IANA "iscsi-target" */

#define ISCSI_BHS_SIZE    48u                /* bytes; RFC 7143 11.2 */
#define ISCSI_AHS_MAX     (255u * 4u)        /* bytes; 11.2.1.5 */
#define ISCSI_DATA_MAX    UINT32_C(0xffffff) /* bytes; 11.2.1.6 */
#define ISCSI_DIGEST_SIZE 4u                 /* bytes; 11.4 */
#define ISCSI_HEAD_MAX    (ISCSI_BHS_SIZE + ISCSI_AHS_MAX + ISCSI_DIGEST_SIZE)

#define ISCSI_CDB_SIZE 16u  /* bytes in the BHS; 11.3.5 */
#define ISCSI_CDB_MAX  260u /* with an extended CDB AHS; SPC-4 4.2.2 */

#define ISCSI_TAG_NONE UINT32_C(0xffffffff) /* 11.2.1.8 */

enum iscsi_opcode { /* RFC 7143 11.2.1.2 */
		    ISCSI_NOP_OUT = 0x00,
		    ISCSI_COMMAND = 0x01,
		    ISCSI_TASK_REQUEST = 0x02,
		    ISCSI_LOGIN_REQUEST = 0x03,
		    ISCSI_TEXT_REQUEST = 0x04,
		    ISCSI_DATA_OUT = 0x05,
		    ISCSI_LOGOUT_REQUEST = 0x06,
		    ISCSI_SNACK = 0x10,
		    ISCSI_NOP_IN = 0x20,
		    ISCSI_RESPONSE = 0x21,
		    ISCSI_TASK_RESPONSE = 0x22,
		    ISCSI_LOGIN_RESPONSE = 0x23,
		    ISCSI_TEXT_RESPONSE = 0x24,
		    ISCSI_DATA_IN = 0x25,
		    ISCSI_LOGOUT_RESPONSE = 0x26,
		    ISCSI_R2T = 0x31,
		    ISCSI_ASYNC = 0x32,
		    ISCSI_REJECT = 0x3f,
};

/* The part common to all headers; the bytes behind the tag differ. */
struct iscsi_wire_bhs {
	uint8_t opcode; /* and 0x40: for immediate delivery */
	uint8_t flags;
	uint8_t byte2, byte3;
	uint8_t ahs_words;      /* of 4 bytes */
	uint8_t data_length[3]; /* bytes, without padding */
	be64 lun;               /* or ISID and TSIH */
	be32 itt;
	be32 word[7]; /* bytes 20 to 47 */
};
static_assert(sizeof(struct iscsi_wire_bhs) == ISCSI_BHS_SIZE, "wire size");

/* The words of a BHS that mean the same in most PDUs. */
enum iscsi_word {
	ISCSI_WORD_TTT = 0,    /* bytes 20 to 23 */
	ISCSI_WORD_SN = 1,     /* CmdSN, or StatSN */
	ISCSI_WORD_EXP_SN = 2, /* ExpStatSN, or ExpCmdSN */
	ISCSI_WORD_MAX_SN = 3, /* MaxCmdSN */
	ISCSI_WORD_DATASN = 4, /* DataSN, R2TSN */
	ISCSI_WORD_OFFSET = 5, /* Buffer Offset */
	ISCSI_WORD_LENGTH = 6, /* Residual Count, Desired Length */
};

#define ISCSI_FLAG_FINAL 0x80u /* F; and T of a login */

enum iscsi_task_function { /* RFC 7143 11.5.1 */
			   ISCSI_ABORT_TASK = 1,
			   ISCSI_ABORT_TASK_SET = 2,
			   ISCSI_CLEAR_ACA = 3,
			   ISCSI_CLEAR_TASK_SET = 4,
			   ISCSI_LUN_RESET = 5,
			   ISCSI_WARM_RESET = 6,
			   ISCSI_COLD_RESET = 7,
			   ISCSI_TASK_REASSIGN = 8,
};

enum iscsi_task_answer { /* RFC 7143 11.6.1 */
			 ISCSI_TASK_COMPLETE = 0,
			 ISCSI_TASK_NOT_THERE = 1,
			 ISCSI_TASK_NO_LUN = 2,
			 ISCSI_TASK_STILL_ALLEGIANT = 3,
			 ISCSI_TASK_NO_REASSIGN = 4,
			 ISCSI_TASK_NOT_SUPPORTED = 5,
			 ISCSI_TASK_REJECTED = 255,
};

enum iscsi_reject_reason { /* RFC 7143 11.17.1 */
			   ISCSI_REJECT_DATA_DIGEST = 0x02,
			   ISCSI_REJECT_SNACK = 0x03,
			   ISCSI_REJECT_PROTOCOL = 0x04,
			   ISCSI_REJECT_NOT_SUPPORTED = 0x05,
			   ISCSI_REJECT_TOO_MANY_IMMEDIATE = 0x06,
			   ISCSI_REJECT_IN_PROGRESS = 0x07,
			   ISCSI_REJECT_INVALID_ACK = 0x08,
			   ISCSI_REJECT_INVALID_FIELD = 0x09,
			   ISCSI_REJECT_NO_RESOURCES = 0x0a,
};

enum iscsi_async_event { /* RFC 7143 11.9.1 */
			 ISCSI_ASYNC_SENSE = 0,
			 ISCSI_ASYNC_LOGOUT = 1,
			 ISCSI_ASYNC_DROP_CONNECTION = 2,
			 ISCSI_ASYNC_DROP_SESSION = 3,
			 ISCSI_ASYNC_NEGOTIATE = 4,
};

enum iscsi_logout_reason { /* RFC 7143 11.14.1 */
			   ISCSI_LOGOUT_SESSION = 0,
			   ISCSI_LOGOUT_CONNECTION = 1,
			   ISCSI_LOGOUT_RECOVERY = 2,
};

enum iscsi_logout_answer { /* RFC 7143 11.15.1 */
			   ISCSI_LOGOUT_DONE = 0,
			   ISCSI_LOGOUT_NO_CID = 1,
			   ISCSI_LOGOUT_NO_RECOVERY = 2,
};

enum iscsi_stage { /* RFC 7143 11.12.3 */
		   ISCSI_STAGE_SECURITY = 0,
		   ISCSI_STAGE_OPERATIONAL = 1,
		   ISCSI_STAGE_FULL = 3,
};

/* Status-Class and Status-Detail (RFC 7143 11.13.5), class first. */
enum iscsi_login_status {
	ISCSI_LOGIN_OK = 0x0000,
	ISCSI_LOGIN_INITIATOR_ERROR = 0x0200,
	ISCSI_LOGIN_AUTHENTICATION = 0x0201,
	ISCSI_LOGIN_NOT_AUTHORIZED = 0x0202,
	ISCSI_LOGIN_NOT_FOUND = 0x0203,
	ISCSI_LOGIN_REMOVED = 0x0204,
	ISCSI_LOGIN_VERSION = 0x0205,
	ISCSI_LOGIN_TOO_MANY = 0x0206,
	ISCSI_LOGIN_MISSING = 0x0207,
	ISCSI_LOGIN_NO_SESSION_TYPE = 0x0209,
	ISCSI_LOGIN_NO_SESSION = 0x020a,
	ISCSI_LOGIN_INVALID = 0x020b,
	ISCSI_LOGIN_TARGET_ERROR = 0x0300,
	ISCSI_LOGIN_UNAVAILABLE = 0x0301,
	ISCSI_LOGIN_NO_RESOURCES = 0x0302,
};

#define ISCSI_ISID_SIZE 6u /* bytes; RFC 7143 11.12.5 */

/* ---- what an initiator sends ---- */

struct iscsi_pdu {
	uint8_t opcode; /* enum iscsi_opcode, or anything */
	bool immediate;
	bool final;           /* F; T of a login */
	uint32_t ahs_length;  /* bytes */
	uint32_t data_length; /* bytes, without padding */
	uint64_t lun;         /* as on the wire: 8 bytes, SAM-5 4.7 */
	uint32_t itt;
	uint32_t ttt; /* or Referenced Task Tag */
	uint32_t cmdsn;
	uint32_t exp_statsn;
	union {
		struct {
			bool read, write;
			uint8_t attribute; /* 11.3.1 */
			uint32_t expected; /* bytes to transfer */
			uint8_t cdb[ISCSI_CDB_SIZE];
		} command;
		struct {
			uint8_t function; /* enum iscsi_task_function */
			uint32_t ref_cmdsn;
		} task;
		struct {
			bool more; /* C */
			uint8_t stage, next_stage;
			uint8_t version_max, version_min;
			uint8_t isid[ISCSI_ISID_SIZE];
			uint16_t tsih, cid;
		} login;
		struct {
			bool more; /* C */
		} text;
		struct {
			uint32_t datasn;
			uint32_t offset; /* bytes */
		} data;
		struct {
			uint8_t reason; /* enum iscsi_logout_reason */
			uint16_t cid;
		} logout;
	};
};

/*
 * Decode a header. Every header decodes to something. An opcode that is not an
 * initiator's leaves only the common part.
 */
void iscsi_pdu_decode(const struct iscsi_wire_bhs *wire, struct iscsi_pdu *ret);

/* Bytes of padding behind @length bytes (11.1). */
static inline uint32_t iscsi_padding(uint32_t length)
{
	return -length & 3u;
}

/* The content of additional headers (11.2.2). */
struct iscsi_ahs {
	const uint8_t *cdb;  /* borrowed: the bytes behind the BHS's 16 */
	uint32_t cdb_length; /* bytes */
	bool has_read_length;
	uint32_t read_length; /* expected, of a bidirectional command */
};

/* -EPROTO: lengths that do not fit, or one that is there twice. */
int iscsi_ahs_decode(const void *data, size_t length, struct iscsi_ahs *ret);

/* ---- what we send ---- */

/* Numbers of every PDU to an initiator (11.2.1.9 and on). */
struct iscsi_numbers {
	uint32_t statsn;
	uint32_t exp_cmdsn;
	uint32_t max_cmdsn;
};

/*
 * All fields that are not named below are zero. @data_length: bytes of data
 * that follow, without padding.
 */
struct iscsi_wire_bhs iscsi_nop_in_make(const struct iscsi_numbers *sn,
					uint64_t lun, uint32_t itt,
					uint32_t ttt, uint32_t data_length);

/* Residual Count (11.4.5): of either sign. */
struct iscsi_residual {
	bool over;      /* the command would have moved more */
	bool under;     /* it moved less */
	uint32_t count; /* bytes */
};

/* @exp_datasn: Data-In PDUs and R2Ts sent for the command. */
struct iscsi_wire_bhs iscsi_response_make(const struct iscsi_numbers *sn,
					  uint32_t itt, uint8_t status,
					  const struct iscsi_residual *residual,
					  uint32_t exp_datasn,
					  uint32_t data_length);

struct iscsi_wire_bhs iscsi_task_response_make(const struct iscsi_numbers *sn,
					       uint32_t itt, uint8_t response);

struct iscsi_data_in {
	uint32_t itt;
	uint32_t datasn;
	uint32_t offset; /* bytes */
	uint32_t data_length;
	bool final;
	bool with_status; /* S: sn->statsn, @status and @residual count */
	uint8_t status;
	struct iscsi_residual residual;
};

struct iscsi_wire_bhs iscsi_data_in_make(const struct iscsi_numbers *sn,
					 const struct iscsi_data_in *data);

/* @r2tsn, @offset, @length as 11.8; sn->statsn is the next one. */
struct iscsi_wire_bhs iscsi_r2t_make(const struct iscsi_numbers *sn,
				     uint64_t lun, uint32_t itt, uint32_t ttt,
				     uint32_t r2tsn, uint32_t offset,
				     uint32_t length);

struct iscsi_wire_bhs iscsi_async_make(const struct iscsi_numbers *sn,
				       uint64_t lun, uint8_t event,
				       uint8_t vcode, uint16_t parameter1,
				       uint16_t parameter2, uint16_t parameter3,
				       uint32_t data_length);

/* The header that is rejected follows as data. */
struct iscsi_wire_bhs iscsi_reject_make(const struct iscsi_numbers *sn,
					uint8_t reason);

struct iscsi_wire_bhs iscsi_text_response_make(const struct iscsi_numbers *sn,
					       uint64_t lun, uint32_t itt,
					       uint32_t ttt, bool final,
					       bool more, uint32_t data_length);

/* @time2wait, @time2retain: seconds */
struct iscsi_wire_bhs iscsi_logout_response_make(const struct iscsi_numbers *sn,
						 uint32_t itt, uint8_t response,
						 uint16_t time2wait,
						 uint16_t time2retain);

struct iscsi_login_response {
	bool transit, more; /* T, C */
	uint8_t stage, next_stage;
	uint8_t isid[ISCSI_ISID_SIZE];
	uint16_t tsih;
	uint32_t itt;
	uint16_t status; /* enum iscsi_login_status */
	uint32_t data_length;
};

struct iscsi_wire_bhs iscsi_login_response_make(
	const struct iscsi_numbers *sn,
	const struct iscsi_login_response *login);

/* A digest as it is on the wire (11.4, RFC 3720 appendix B.4). */
static inline le32 iscsi_digest_make(uint32_t crc)
{
	return le32_make(crc);
}

#endif
