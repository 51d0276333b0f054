/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the iSCSI session: a session that is fed with bytes, no sockets,
 * and its output. Discovery finds the targets iqn.t:x and iqn.t:y.
 */
#ifndef TARGET_ISCSI_SESSION_KIT_H
#define TARGET_ISCSI_SESSION_KIT_H

#include "target/iscsi/iscsi_session.h"

#define ISCSI_KIT_PAYLOAD_MAX (UINT32_C(1) << 20)

struct iscsi_kit {
	struct iscsi_session session;
	struct iscsi_batch batch;
	uint8_t out[2u << 20]; /* output not looked at yet */
	size_t out_start, out_end;
	bool header_digest, data_digest; /* in what we read and write */
	struct iscsi_event event;        /* the last one that was not MORE */
	struct iscsi_pdu pdu;            /* of it */
	struct iscsi_task *task;         /* of the last command */
	uint8_t memory[ISCSI_KIT_PAYLOAD_MAX]; /* where payloads go */
	bool no_buffer;                        /* for the next command */
	uint32_t wanted;                       /* of the next command */
	unsigned n_done;                       /* tasks that are out */
	unsigned n_ready;
	uint32_t cmdsn;
};

/* A PDU of the session's. */
struct iscsi_kit_said {
	struct iscsi_wire_bhs bhs;
	uint8_t data[300u << 10];
	uint32_t length; /* bytes of @data */
};

/* Data of which no two places are alike. */
extern uint8_t iscsi_kit_pattern[ISCSI_KIT_PAYLOAD_MAX];

/* cmocka's: *@state is a struct iscsi_kit. */
int iscsi_kit_setup(void **state);
int iscsi_kit_teardown(void **state);

/* ---- input ---- */

struct iscsi_wire_bhs iscsi_kit_header(uint8_t opcode, uint8_t flags,
				       uint32_t itt);
void iscsi_kit_set(struct iscsi_wire_bhs *bhs, enum iscsi_word n,
		   uint32_t value);

/* The header of a command. @flags: 0x40 read, 0x20 write, 0x80 final */
struct iscsi_wire_bhs iscsi_kit_command(struct iscsi_kit *kit, uint8_t flags,
					uint32_t itt, uint32_t expected);
struct iscsi_wire_bhs iscsi_kit_data_out(bool final, uint32_t itt, uint32_t ttt,
					 uint32_t datasn, uint32_t offset);

/* Send it with @length bytes of @data, and what digests are to be. */
void iscsi_kit_send_pdu(struct iscsi_kit *kit, struct iscsi_wire_bhs bhs,
			const void *data, uint32_t length);

/* Any bytes, all of which it has to take. */
void iscsi_kit_feed(struct iscsi_kit *kit, const uint8_t *data, size_t length);

/* Log in with those keys, NUL after each. */
void iscsi_kit_login(struct iscsi_kit *kit, const char *text, size_t length);
#define ISCSI_KIT_NAMES "InitiatorName=iqn.a:b\0TargetName=iqn.t:x\0"
#define ISCSI_KIT_LOGIN(kit, text)                   \
	iscsi_kit_login((kit), ISCSI_KIT_NAMES text, \
			sizeof(ISCSI_KIT_NAMES text) - 1)

/* The last command is answered GOOD, with bytes of the pattern. */
void iscsi_kit_answer(struct iscsi_kit *kit, uint32_t in_length);

/* ---- output ---- */

/* Send all that is ready. */
void iscsi_kit_gather(struct iscsi_kit *kit);

/* The next PDU, whose digests are right; NULL: there is none. Until the next.
 */
const struct iscsi_kit_said *iscsi_kit_said(struct iscsi_kit *kit);

/* Take the next PDU, which must be of @opcode. */
const struct iscsi_kit_said *iscsi_kit_expect(struct iscsi_kit *kit,
					      uint8_t opcode);

uint32_t iscsi_kit_word(const struct iscsi_kit_said *s, enum iscsi_word n);

#endif
