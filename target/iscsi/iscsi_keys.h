/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operational keys (RFC 7143 13): the kind of each, our answer, and its
 * result. A table, and the one function that reads it.
 */
#ifndef TARGET_ISCSI_KEYS_H
#define TARGET_ISCSI_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "target/iscsi/iscsi_text.h"

/* Our limits, where a key's result is the smaller of both sides' values. */
#define ISCSI_SEGMENT_MAX     (UINT32_C(256) << 10) /* bytes we take in a PDU */
#define ISCSI_BURST_MAX       (UINT32_C(1) << 20)   /* bytes of one R2T */
#define ISCSI_FIRST_BURST_MAX (UINT32_C(128) << 10) /* bytes, unasked for */
#define ISCSI_R2T_MAX         4u                    /* outstanding, a task */

/* The parameters of a session: RFC 7143's defaults, then the agreed values. */
struct iscsi_params {
	bool header_digest, data_digest; /* CRC32C */
	bool initial_r2t, immediate_data;
	uint32_t max_segment; /* bytes that the initiator takes in a PDU */
	uint32_t max_burst, first_burst; /* bytes */
	uint32_t max_r2t;
	uint32_t time2wait, time2retain; /* seconds */
};

void iscsi_params_init(struct iscsi_params *params);

/* When a key is used (the "Use" of RFC 7143 13). */
enum iscsi_phase {
	ISCSI_PHASE_LOGIN = 1 << 0, /* operational negotiation */
	ISCSI_PHASE_FULL = 1 << 1,
};

enum iscsi_verdict {
	ISCSI_KEY_ANSWERED, /* or needs no answer */
	ISCSI_KEY_UNKNOWN,  /* not in the table: the caller's, or nobody's */
	ISCSI_KEY_REFUSED,  /* "Reject" was answered */
	ISCSI_KEY_NOT_NOW,  /* it may not come in this phase */
	ISCSI_KEY_TWICE,    /* in one negotiation: 6.1, an error */
};

/*
 * The peer said @pair: take note in @params, and answer.
 *
 * @seen       one bit for each key of the negotiation; 0 at its start
 * @discovery  a discovery session: keys of data transfer are irrelevant
 */
enum iscsi_verdict iscsi_key_take(struct iscsi_params *params, uint64_t *seen,
				  const struct iscsi_pair *pair,
				  enum iscsi_phase phase, bool discovery,
				  struct iscsi_answer *answer);

#endif
