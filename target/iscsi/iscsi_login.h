/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The login phase (RFC 7143 6.3) as a state machine: requests in; responses
 * and a verdict out. It has no descriptor and never waits.
 *
 * Security stage, operational stage, full feature phase; the initiator leads.
 * Names of initiator and target come with the first message. The owner says by
 * ops->find() whether the initiator may have that target, and which secret it
 * has to know. MaxConnections is 1: there is one connection to a session.
 */
#ifndef TARGET_ISCSI_LOGIN_H
#define TARGET_ISCSI_LOGIN_H

#include <stdbool.h>
#include <stdint.h>

#include "target/export/iscsi_name.h"
#include "target/iscsi/iscsi_chap.h"
#include "target/iscsi/iscsi_keys.h"
#include "target/iscsi/iscsi_proto.h"
#include "target/iscsi/iscsi_text.h"

#define ISCSI_LOGIN_MESSAGES_MAX 64 /* requests of one login; ours */
#define ISCSI_LOGIN_PAIRS_MAX    64 /* keys in one message; ours */

struct iscsi_login;

struct iscsi_login_ops {
	/*
	 * Find the target. login->initiator is there, and login->target unless
	 * it is a discovery session. Returns enum iscsi_login_status. With OK
	 * sets @ret: the secrets to prove, borrowed as long as the login goes
	 * on.
	 */
	enum iscsi_login_status (*find)(void *context,
					const struct iscsi_login *login,
					const struct chap_secrets **ret);
	/* Tell whether there is a session with login->tsih, which is not 0. */
	bool (*has_session)(void *context, const struct iscsi_login *login);
};

struct iscsi_login {
	const struct iscsi_login_ops *ops; /* borrowed */
	void *context;

	/* Names that the initiator said. */
	char initiator[ISCSI_NAME_MAX + 1];
	char target[ISCSI_NAME_MAX + 1];
	bool discovery;
	uint8_t isid[ISCSI_ISID_SIZE];
	uint16_t tsih, cid;

	struct iscsi_params params; /* agreed so far */
	uint64_t seen;              /* iscsi_key_take() */
	const char *why;            /* of a failure, for the log; static text */

	bool begun, found;
	bool method_chosen; /* AuthMethod */
	bool authenticated;
	bool said_segment; /* our MaxRecvDataSegmentLength */
	uint8_t stage;
	uint32_t itt;
	unsigned messages;
	const struct chap_secrets *secrets; /* borrowed */
	struct iscsi_chap chap;
	struct iscsi_text text;
};

enum iscsi_login_outcome {
	ISCSI_LOGIN_GOES_ON, /* send the response */
	/*
	 * Make the session, set the response's TSIH, send it: then the full
	 * feature phase begins.
	 */
	ISCSI_LOGIN_DONE,
	ISCSI_LOGIN_FAILED, /* send the response, close */
	ISCSI_LOGIN_DROP,   /* not a login: close at once */
};

void iscsi_login_init(struct iscsi_login *login,
		      const struct iscsi_login_ops *ops, void *context);
void iscsi_login_done(struct iscsi_login *login);

/*
 * The next PDU.
 *
 * @data    pdu->data_length bytes
 * @ret     the response, but for its data_length
 * @answer  empty; its text
 */
enum iscsi_login_outcome iscsi_login_step(struct iscsi_login *login,
					  const struct iscsi_pdu *pdu,
					  const void *data,
					  struct iscsi_login_response *ret,
					  struct iscsi_answer *answer);

#endif
