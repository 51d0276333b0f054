/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CHAP as iSCSI uses it (RFC 7143 12.1.3, RFC 1994). The initiator proves that
 * it knows a secret. If the initiator asks for it, the target proves that it
 * knows another one. A state machine over key=value pairs; no I/O. Secrets
 * never reach a log.
 */
#ifndef TARGET_ISCSI_CHAP_H
#define TARGET_ISCSI_CHAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/wire/chap_secrets.h"
#include "target/iscsi/iscsi_text.h"

#define ISCSI_CHAP_DIGEST_MAX     32 /* bytes of a response: SHA-256 */
#define ISCSI_CHAP_CHALLENGE_SIZE 32 /* bytes of ours */

enum iscsi_chap_state {
	ISCSI_CHAP_ALGORITHM, /* awaits CHAP_A */
	ISCSI_CHAP_RESPONSE,  /* awaits CHAP_N and CHAP_R */
	ISCSI_CHAP_PASSED,
	ISCSI_CHAP_FAILED,
};

struct iscsi_chap {
	const struct chap_secrets *secrets; /* borrowed */
	enum iscsi_chap_state state;
	uint8_t algorithm; /* as in CHAP_A */
	uint8_t id;        /* CHAP_I of ours */
	uint8_t challenge[ISCSI_CHAP_CHALLENGE_SIZE];
};

/* The keys that the peer said in one message; NULL: not said. Borrowed. */
struct iscsi_chap_keys {
	const char *algorithm; /* CHAP_A */
	const char *name;      /* CHAP_N */
	const char *response;  /* CHAP_R */
	const char *id;        /* CHAP_I */
	const char *challenge; /* CHAP_C */
};

/* @secrets: borrowed as long as @chap is used */
void iscsi_chap_init(struct iscsi_chap *chap,
		     const struct chap_secrets *secrets);

/*
 * Put a pair of the peer's into @keys, if it is one of CHAP's. False: another
 * key, or a key said twice.
 */
bool iscsi_chap_key(struct iscsi_chap_keys *keys,
		    const struct iscsi_pair *pair);

/*
 * Answer one message of the peer's. Anything wrong leads to ISCSI_CHAP_FAILED;
 * @ret_why (static text) is for our log, not for the peer.
 */
void iscsi_chap_step(struct iscsi_chap *chap,
		     const struct iscsi_chap_keys *keys,
		     struct iscsi_answer *answer, const char **ret_why);

/*
 * The response to @challenge (RFC 1994 4.1): a digest of id, secret and
 * challenge. Returns its bytes, or -EOPNOTSUPP: no such algorithm here.
 */
int iscsi_chap_respond(uint8_t algorithm, uint8_t id, const char *secret,
		       const uint8_t *challenge, size_t length,
		       uint8_t ret[static ISCSI_CHAP_DIGEST_MAX]);

#endif
