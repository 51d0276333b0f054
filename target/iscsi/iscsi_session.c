/* SPDX-License-Identifier: Apache-2.0 */
/* Bytes to PDUs, PDUs to their handlers, and the order of commands. */
#include "target/iscsi/iscsi_session.h"

#include <errno.h>
#include <string.h>

#include "base/wire/crc32c.h"
#include "target/iscsi/iscsi_session_internal.h"

void iscsi_session_init(struct iscsi_session *session,
			const struct iscsi_session_ops *ops, void *context,
			const char *portal)
{
	*session = (struct iscsi_session){
		.ops = ops,
		.context = context,
		.portal = portal,
		.text_ttt = ISCSI_TAG_NONE,
	};
	iscsi_params_init(&session->params);
	iscsi_login_init(&session->login, &ops->login, context);
}

void iscsi_session_done(struct iscsi_session *session)
{
	iscsi_session_abandon(session);
	iscsi_login_done(&session->login);
	iscsi_text_done(&session->text);
	iscsi_answer_done(&session->answer);
}

bool iscsi_session_full(const struct iscsi_session *session)
{
	return session->n_says >= ISCSI_SAYS_MAX ||
	       session->says_bytes >= ISCSI_SAYS_BYTES_MAX;
}

/* ---- verdicts ---- */

static void event_set_more(struct iscsi_event *ret, size_t need)
{
	ret->type = ISCSI_EVENT_MORE;
	ret->need = need;
}

static void end(struct iscsi_session *session, struct iscsi_event *ret,
		enum iscsi_event_type type, const char *why)
{
	session->state = ISCSI_SESSION_CLOSED;
	ret->type = type;
	ret->why = why;
}

static void iscsi_session_drop(struct iscsi_session *session,
			       struct iscsi_event *ret, const char *why)
{
	end(session, ret, ISCSI_EVENT_DROP, why);
}

/* ---- login ---- */

static void login_pdu(struct iscsi_session *session, const void *data,
		      struct iscsi_event *ret)
{
	struct iscsi_login *login = &session->login;
	bool first = !login->begun;
	enum iscsi_login_outcome outcome;

	session->answer.length = 0;
	outcome = iscsi_login_step(login, &session->pdu, data,
				   &session->login_response, &session->answer);
	if (first) /* RFC 7143 11.12.8 */
		session->exp_cmdsn = session->pdu.cmdsn;
	switch (outcome) {
	case ISCSI_LOGIN_GOES_ON: iscsi_say_login(session); break;
	case ISCSI_LOGIN_DONE:
		session->state = ISCSI_SESSION_COMMIT;
		ret->type = ISCSI_EVENT_COMMIT;
		break;
	case ISCSI_LOGIN_FAILED:
		iscsi_say_login(session);
		end(session, ret, ISCSI_EVENT_CLOSE, login->why);
		break;
	case ISCSI_LOGIN_DROP:
		iscsi_session_drop(session, ret, login->why);
		break;
	}
}

void iscsi_session_begin(struct iscsi_session *session, uint16_t tsih)
{
	session->login_response.tsih = tsih;
	iscsi_say_login(session);
	iscsi_answer_done(&session->answer);
	session->params = session->login.params;
	session->state = ISCSI_SESSION_FULL;
}

void iscsi_session_deny(struct iscsi_session *session,
			enum iscsi_login_status status, const char *why)
{
	session->login.why = why;
	session->login_response.status = (uint16_t)status;
	session->login_response.transit = false;
	session->answer.length = 0;
	iscsi_say_login(session);
	session->state = ISCSI_SESSION_CLOSED;
}

/* ---- the order of commands (RFC 7143 4.2.2.1) ---- */

enum order {
	ORDER_NEXT,   /* it is its turn */
	ORDER_IGNORE, /* outside of the window: as if it had not come */
	ORDER_GAP,    /* one is missing; a single connection can't bring it */
};

static enum order order_take(struct iscsi_session *session,
			     const struct iscsi_pdu *pdu)
{
	int32_t ahead = (int32_t)(pdu->cmdsn - session->exp_cmdsn);

	if (pdu->immediate)
		return ORDER_NEXT;
	if (ahead < 0 || ahead >= (int32_t)(ISCSI_WINDOW - session->n_open))
		return ORDER_IGNORE;
	if (ahead > 0)
		return ORDER_GAP;
	session->exp_cmdsn++;
	return ORDER_NEXT;
}

/* True: go on with it. */
static bool in_order(struct iscsi_session *session, struct iscsi_event *ret)
{
	switch (order_take(session, &session->pdu)) {
	case ORDER_NEXT: return true;
	case ORDER_IGNORE: break;
	case ORDER_GAP:
		iscsi_session_drop(session, ret,
				   "a command number was left out");
		break;
	}
	return false;
}

/* ---- the full feature phase ---- */

static void session_command(struct iscsi_session *session, const void *ahs_data,
			    struct iscsi_event *ret)
{
	const struct iscsi_pdu *pdu = &session->pdu;
	struct iscsi_ahs ahs = {0};

	iscsi_payload_begin(session, NULL, 0);
	if (!in_order(session, ret))
		return;
	if (session->login.discovery ||
	    iscsi_ahs_decode(ahs_data, pdu->ahs_length, &ahs) < 0) {
		iscsi_say_reject(session, ISCSI_REJECT_PROTOCOL);
		return;
	}
	if (iscsi_session_task(session, pdu->itt)) {
		iscsi_say_reject(session, ISCSI_REJECT_IN_PROGRESS);
		return;
	}
	if (pdu->immediate && session->n_immediate >= ISCSI_IMMEDIATE_MAX) {
		iscsi_say_reject(session, ISCSI_REJECT_TOO_MANY_IMMEDIATE);
		return;
	}
	ret->type = ISCSI_EVENT_COMMAND;
	ret->pdu = pdu;
	ret->cdb_long = ahs.cdb != NULL;
	ret->read_length = ahs.read_length;
}

static void session_logout(struct iscsi_session *session,
			   struct iscsi_event *ret)
{
	const struct iscsi_pdu *pdu = &session->pdu;
	enum iscsi_logout_answer answer;

	switch (pdu->logout.reason) {
	case ISCSI_LOGOUT_SESSION: break;
	case ISCSI_LOGOUT_CONNECTION:
		if (pdu->logout.cid == session->login.cid)
			break;
		answer = ISCSI_LOGOUT_NO_CID;
		goto refuse;
	case ISCSI_LOGOUT_RECOVERY:
		answer = ISCSI_LOGOUT_NO_RECOVERY;
		goto refuse;
	default: iscsi_say_reject(session, ISCSI_REJECT_INVALID_FIELD); return;
	}
	session->logout_itt = pdu->itt;
	session->state = ISCSI_SESSION_LOGOUT;
	ret->type = ISCSI_EVENT_LOGOUT;
	return;
refuse:
	iscsi_say(session,
		  iscsi_logout_response_make(
			  &iscsi_no_numbers, pdu->itt, (uint8_t)answer,
			  (uint16_t)session->params.time2wait, 0),
		  NULL, 0, true);
}

/* A PDU whose data, if any, is there. */
static void whole_pdu(struct iscsi_session *session, const void *data,
		      struct iscsi_event *ret)
{
	const struct iscsi_pdu *pdu = &session->pdu;

	switch (pdu->opcode) {
	case ISCSI_NOP_OUT:
		if (in_order(session, ret))
			iscsi_take_nop(session, data);
		break;
	case ISCSI_TASK_REQUEST:
		if (!in_order(session, ret))
			break;
		if (session->login.discovery) {
			iscsi_say_reject(session, ISCSI_REJECT_PROTOCOL);
			break;
		}
		ret->type = ISCSI_EVENT_MANAGE;
		ret->pdu = pdu;
		break;
	case ISCSI_TEXT_REQUEST:
		if (in_order(session, ret))
			iscsi_take_text(session, data);
		break;
	case ISCSI_LOGOUT_REQUEST:
		if (in_order(session, ret))
			session_logout(session, ret);
		break;
	case ISCSI_SNACK:
		/* Nothing is kept to be sent again (RFC 7143 11.16). */
		iscsi_say_reject(session, ISCSI_REJECT_SNACK);
		break;
	case ISCSI_LOGIN_REQUEST:
		iscsi_say_reject(session, ISCSI_REJECT_PROTOCOL);
		break;
	default: iscsi_say_reject(session, ISCSI_REJECT_NOT_SUPPORTED); break;
	}
}

/* A data digest that is wrong, of a PDU that is no command's (7.8). */
static void digest_refuse(struct iscsi_session *session,
			  struct iscsi_event *ret)
{
	bool counts = session->pdu.opcode == ISCSI_NOP_OUT ||
		      session->pdu.opcode == ISCSI_TEXT_REQUEST ||
		      session->pdu.opcode == ISCSI_TASK_REQUEST ||
		      session->pdu.opcode == ISCSI_LOGOUT_REQUEST;

	if (counts && !in_order(session, ret))
		return;
	iscsi_say_reject(session, ISCSI_REJECT_DATA_DIGEST);
}

/* ---- framing ---- */

static bool is_full(const struct iscsi_session *session)
{
	return session->state == ISCSI_SESSION_FULL;
}

static uint32_t head_size(const struct iscsi_session *session)
{
	return ISCSI_BHS_SIZE + session->pdu.ahs_length +
	       (is_full(session) && session->params.header_digest
			? ISCSI_DIGEST_SIZE
			: 0);
}

/* Behind the data: padding and digest. */
static uint32_t trailer_size(const struct iscsi_session *session)
{
	uint32_t length = session->pdu.data_length;

	if (length == 0)
		return 0;
	return iscsi_padding(length) +
	       (is_full(session) && session->params.data_digest
			? ISCSI_DIGEST_SIZE
			: 0);
}

static bool digest_ok(uint32_t crc, const uint8_t *wire)
{
	le32 digest = iscsi_digest_make(crc);

	return memcmp(&digest, wire, sizeof(digest)) == 0;
}

/* Check the digest. @crc: of the data; @trailer: the bytes behind it */
static bool data_ok(const struct iscsi_session *session, uint32_t crc,
		    const uint8_t *trailer)
{
	uint32_t padding = iscsi_padding(session->pdu.data_length);

	if (!is_full(session) || !session->params.data_digest ||
	    session->pdu.data_length == 0)
		return true;
	return digest_ok(crc32c(crc, trailer, padding), trailer + padding);
}

static uint32_t segment_max(const struct iscsi_session *session)
{
	return is_full(session) ? ISCSI_SEGMENT_MAX : ISCSI_LOGIN_SEGMENT_MAX;
}

/* The payload of a command or Data-Out, as far as it goes by here. */
static size_t feed_payload(struct iscsi_session *session, const uint8_t *data,
			   size_t length, struct iscsi_event *ret)
{
	uint32_t trailer = trailer_size(session);
	size_t skip;

	if (session->payload_take > 0) {
		ret->type = ISCSI_EVENT_PAYLOAD;
		ret->task = session->payload_task;
		ret->offset = session->payload_task->received;
		ret->length = session->payload_take;
		return 0;
	}
	if (session->payload_skip > 0) {
		skip = length < session->payload_skip ? length
						      : session->payload_skip;
		if (session->params.data_digest)
			session->payload_crc = crc32c(session->payload_crc,
						      data, skip);
		session->payload_skip -= (uint32_t)skip;
		if (session->payload_skip > 0 || trailer > 0) {
			event_set_more(ret,
				       session->payload_skip > 0 ? 1 : trailer);
			return skip;
		}
		data += skip;
		length -= skip;
	} else {
		skip = 0;
	}
	if (length < trailer) {
		event_set_more(ret, trailer);
		return skip;
	}
	session->in_payload = false;
	event_set_more(ret, ISCSI_BHS_SIZE);
	if (iscsi_payload_end(session,
			      data_ok(session, session->payload_crc, data))) {
		ret->type = ISCSI_EVENT_READY;
		ret->task = session->payload_task;
	} else if (iscsi_payload_tells(session)) {
		ret->type = ISCSI_EVENT_PART;
		ret->task = session->payload_task;
	}
	return skip + trailer;
}

/* The header is whole: a command, or data of one. Its data comes later. */
static void payload_pdu(struct iscsi_session *session, const uint8_t *data,
			struct iscsi_event *ret)
{
	const char *why;

	session->in_payload = session->pdu.data_length > 0;
	if (session->pdu.opcode == ISCSI_COMMAND) {
		session_command(session, data + ISCSI_BHS_SIZE, ret);
		return;
	}
	why = iscsi_take_data_out(session);
	if (why) {
		iscsi_session_drop(session, ret, why);
	} else if (!session->in_payload && iscsi_payload_end(session, true)) {
		ret->type = ISCSI_EVENT_READY;
		ret->task = session->payload_task;
	}
}

/* @data: a whole PDU */
static void contiguous_pdu(struct iscsi_session *session, const uint8_t *data,
			   struct iscsi_event *ret)
{
	const uint8_t *body = data + head_size(session);
	uint32_t length = session->pdu.data_length;
	uint32_t crc = 0;

	if (!is_full(session)) {
		login_pdu(session, body, ret);
		return;
	}
	if (session->params.data_digest)
		crc = crc32c(0, body, length);
	if (!data_ok(session, crc, body + length))
		digest_refuse(session, ret);
	else
		whole_pdu(session, body, ret);
}

static bool head_ok(struct iscsi_session *session, const uint8_t *data,
		    struct iscsi_event *ret)
{
	uint32_t covered = ISCSI_BHS_SIZE + session->pdu.ahs_length;

	if (is_full(session) && session->params.header_digest &&
	    !digest_ok(crc32c(0, data, covered), data + covered)) {
		/* The next PDU can't be found (RFC 7143 7.7). */
		iscsi_session_drop(session, ret, "a header digest is wrong");
		return false;
	}
	if (session->pdu.data_length > segment_max(session)) {
		iscsi_session_drop(session, ret, "more data than we take");
		return false;
	}
	return true;
}

static size_t feed_pdu(struct iscsi_session *session, const uint8_t *data,
		       size_t length, struct iscsi_event *ret)
{
	size_t need;

	memcpy(&session->bhs, data, sizeof(session->bhs));
	iscsi_pdu_decode(&session->bhs, &session->pdu);
	need = head_size(session);
	if (length < need) {
		event_set_more(ret, need);
		return 0;
	}
	if (!head_ok(session, data, ret))
		return 0;
	session->ping = false; /* it lives */
	if (is_full(session) && (session->pdu.opcode == ISCSI_COMMAND ||
				 session->pdu.opcode == ISCSI_DATA_OUT)) {
		payload_pdu(session, data, ret);
		return need;
	}
	need += session->pdu.data_length + trailer_size(session);
	if (length < need) {
		event_set_more(ret, need);
		return 0;
	}
	contiguous_pdu(session, data, ret);
	return need;
}

size_t iscsi_session_feed(struct iscsi_session *session, const void *data,
			  size_t length, struct iscsi_event *ret)
{
	bool in_payload = session->in_payload;
	size_t consumed;

	*ret = (struct iscsi_event){.type = ISCSI_EVENT_MORE,
				    .need = ISCSI_BHS_SIZE};
	if (session->state == ISCSI_SESSION_CLOSED) {
		ret->type = ISCSI_EVENT_CLOSE;
		return 0;
	}
	if (session->state != ISCSI_SESSION_LOGIN && !is_full(session))
		return 0;
	if (session->in_payload)
		consumed = feed_payload(session, data, length, ret);
	else if (length < ISCSI_BHS_SIZE)
		consumed = 0;
	else
		consumed = feed_pdu(session, data, length, ret);
	ret->again = consumed > 0 || in_payload != session->in_payload;
	if (session->failed && ret->type != ISCSI_EVENT_DROP)
		iscsi_session_drop(session, ret, "no memory for an answer");
	return consumed;
}
