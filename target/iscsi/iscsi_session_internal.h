/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of iscsi_session.h. Nobody else includes it. */
#ifndef TARGET_ISCSI_SESSION_INTERNAL_H
#define TARGET_ISCSI_SESSION_INTERNAL_H

#include "target/iscsi/iscsi_session.h"

/* A PDU of ours that is no answer to a command. */
struct iscsi_say {
	struct iscsi_item item;
	struct iscsi_wire_bhs bhs; /* numbers are filled in when it is sent */
	bool numbered;             /* it uses up a StatSN */
	bool plain;                /* of the login: no digests */
	uint32_t length;           /* bytes */
	uint8_t data[];
};

void iscsi_queue(struct iscsi_session *session, struct iscsi_item *item);
/* Take @item, which is in the queue, out of it. */
void iscsi_unqueue(struct iscsi_session *session, struct iscsi_item *item);

/* ---- iscsi_unsolicited.c ---- */

/* Queue it with a copy of @data. */
void iscsi_say(struct iscsi_session *session, struct iscsi_wire_bhs bhs,
	       const void *data, uint32_t length, bool numbered);

void iscsi_say_login(struct iscsi_session *session);
void iscsi_say_reject(struct iscsi_session *session,
		      enum iscsi_reject_reason reason);

/* Numbers of a PDU that gets them later. */
extern const struct iscsi_numbers iscsi_no_numbers;

/* Handle session->pdu with its data. */
void iscsi_take_nop(struct iscsi_session *session, const void *data);
void iscsi_take_text(struct iscsi_session *session, const void *data);

/* ---- iscsi_data_out.c ---- */

/* The header of a Data-Out. NULL: it is fine; else why to drop the peer. */
const char *iscsi_take_data_out(struct iscsi_session *session);

/*
 * End the data of a PDU, all of which is there. True: session->payload_task is
 * whole.
 */
bool iscsi_payload_end(struct iscsi_session *session, bool digest_ok);

/* After that: its owner is to be told how much of it there is. */
bool iscsi_payload_tells(const struct iscsi_session *session);

/*
 * Begin the data of a PDU. The data goes to @task (NULL: nowhere), from @offset
 * on.
 */
void iscsi_payload_begin(struct iscsi_session *session, struct iscsi_task *task,
			 uint32_t offset);

static inline uint32_t min(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

#endif
