/* SPDX-License-Identifier: Apache-2.0 */
/* Messages besides answers to commands; pings and texts. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/iscsi/iscsi_session_internal.h"

#define PORTAL_GROUP "1" /* as in the login, 13.9 */

const struct iscsi_numbers iscsi_no_numbers = {0};

void iscsi_queue(struct iscsi_session *session, struct iscsi_item *item)
{
	item->next = NULL;
	if (session->last)
		session->last->next = item;
	else
		session->first = item;
	session->last = item;
}

void iscsi_unqueue(struct iscsi_session *session, struct iscsi_item *item)
{
	struct iscsi_item **at = &session->first, *before = NULL;

	while (*at != item) {
		before = *at;
		at = &before->next;
	}
	*at = item->next;
	if (session->last == item)
		session->last = before;
}

static struct iscsi_say *pdu_say(struct iscsi_session *session,
				 struct iscsi_wire_bhs bhs, const void *data,
				 uint32_t length, bool numbered)
{
	struct iscsi_say *new = malloc(sizeof(*new) + length);

	if (!new) {
		session->failed = true;
		return NULL;
	}
	*new = (struct iscsi_say){
		.bhs = bhs, .numbered = numbered, .length = length};
	if (length > 0) {
		assert(data);
		memcpy(new->data, data, length);
	}
	session->n_says++;
	session->says_bytes += length;
	iscsi_queue(session, &new->item);
	return new;
}

void iscsi_say(struct iscsi_session *session, struct iscsi_wire_bhs bhs,
	       const void *data, uint32_t length, bool numbered)
{
	(void)pdu_say(session, bhs, data, length, numbered);
}

void iscsi_say_login(struct iscsi_session *session)
{
	struct iscsi_login_response *response = &session->login_response;
	struct iscsi_say *new;

	response->data_length = (uint32_t)session->answer.length;
	new = pdu_say(session,
		      iscsi_login_response_make(&iscsi_no_numbers, response),
		      session->answer.data, response->data_length, true);
	if (new)
		new->plain = true;
}

void iscsi_say_reject(struct iscsi_session *session,
		      enum iscsi_reject_reason reason)
{
	iscsi_say(session,
		  iscsi_reject_make(&iscsi_no_numbers, (uint8_t)reason),
		  &session->bhs, sizeof(session->bhs), true);
}

void iscsi_session_task_response(struct iscsi_session *session, uint32_t itt,
				 enum iscsi_task_answer response)
{
	iscsi_say(session,
		  iscsi_task_response_make(&iscsi_no_numbers, itt,
					   (uint8_t)response),
		  NULL, 0, true);
}

void iscsi_session_async(struct iscsi_session *session,
			 enum iscsi_async_event event)
{
	uint16_t wait = (uint16_t)session->params.time2wait;

	/* Parameter 1 of DROP_CONNECTION is the CID (11.9.1). */
	iscsi_say(session,
		  iscsi_async_make(&iscsi_no_numbers, 0, (uint8_t)event, 0,
				   event == ISCSI_ASYNC_DROP_CONNECTION
					   ? session->login.cid
					   : 0,
				   wait, 0, 0),
		  NULL, 0, true);
}

void iscsi_session_goodbye(struct iscsi_session *session)
{
	iscsi_say(session,
		  iscsi_logout_response_make(
			  &iscsi_no_numbers, session->logout_itt,
			  ISCSI_LOGOUT_DONE,
			  (uint16_t)session->params.time2wait, 0),
		  NULL, 0, true);
	session->state = ISCSI_SESSION_CLOSED;
}

/* ---- pings (RFC 7143 11.18, 11.19) ---- */

static uint32_t ttt_make(struct iscsi_session *session)
{
	if (++session->ttt == ISCSI_TAG_NONE)
		session->ttt = 0;
	return session->ttt;
}

void iscsi_session_ping(struct iscsi_session *session)
{
	session->ping = true;
	iscsi_say(session,
		  iscsi_nop_in_make(&iscsi_no_numbers, 0, ISCSI_TAG_NONE,
				    ttt_make(session), 0),
		  NULL, 0, false);
}

void iscsi_take_nop(struct iscsi_session *session, const void *data)
{
	const struct iscsi_pdu *pdu = &session->pdu;
	uint32_t length = pdu->data_length;

	if (pdu->itt == ISCSI_TAG_NONE)
		return; /* the answer to ours, or a sign of life */
	if (length > session->params.max_segment)
		length = session->params.max_segment; /* 11.18.5 */
	iscsi_say(session,
		  iscsi_nop_in_make(&iscsi_no_numbers, pdu->lun, pdu->itt,
				    ISCSI_TAG_NONE, length),
		  data, length, true);
}

/* ---- text (RFC 7143 11.10, 11.11) ---- */

int iscsi_session_list_add(struct iscsi_session *session, const char *name)
{
	char address[128];

	if (session->list_only && strcmp(session->list_only, name) != 0)
		return 0;
	iscsi_answer_add(&session->answer, "TargetName", name);
	if (session->portal[0] != '\0') {
		(void)snprintf(address, sizeof(address), "%s," PORTAL_GROUP,
			       session->portal);
		iscsi_answer_add(&session->answer, "TargetAddress", address);
	}
	return session->answer.failed ? -ENOMEM : 0;
}

/*
 * SendTargets (RFC 7143 C): All in a discovery session, a name, or nothing
 * for the session's own target.
 */
static void send_targets(struct iscsi_session *session, const char *what)
{
	const char *own = session->login.target;
	bool all = strcmp(what, "All") == 0;
	bool discovery = session->login.discovery;
	bool ok = discovery ? what[0] != '\0'
			    : what[0] == '\0' || strcmp(what, own) == 0;

	if (!ok) {
		iscsi_answer_add(&session->answer, "SendTargets", "Reject");
		return;
	}
	session->list_only = !discovery ? own : all ? NULL : what;
	if (session->ops->list(session->context, session) < 0)
		session->answer.failed = true;
	session->list_only = NULL;
}

/* A key that is no operational one of the full feature phase. */
static void other_key(struct iscsi_session *session,
		      const struct iscsi_pair *pair)
{
	if (strcmp(pair->key, "SendTargets") == 0)
		send_targets(session, pair->value);
	else
		iscsi_answer_add(&session->answer, pair->key, "NotUnderstood");
}

/* The text is whole: answer it. False: it is none. */
static bool text_answer(struct iscsi_session *session)
{
	uint64_t seen = 0;
	size_t at = 0;

	for (;;) {
		struct iscsi_pair pair;
		int r = iscsi_text_next(&session->text, &at, &pair);

		if (r <= 0)
			return r == 0;
		switch (iscsi_key_take(
			&session->params, &seen, &pair, ISCSI_PHASE_FULL,
			session->login.discovery, &session->answer)) {
		case ISCSI_KEY_ANSWERED:
		case ISCSI_KEY_REFUSED: break;
		case ISCSI_KEY_UNKNOWN: other_key(session, &pair); break;
		case ISCSI_KEY_NOT_NOW:
		case ISCSI_KEY_TWICE: return false;
		}
	}
}

static void text_reset(struct iscsi_session *session)
{
	session->text.length = 0;
	session->text_ttt = ISCSI_TAG_NONE;
	session->text_sent = 0;
	iscsi_answer_done(&session->answer);
}

static void text_reject(struct iscsi_session *session,
			enum iscsi_reject_reason reason)
{
	text_reset(session);
	iscsi_say_reject(session, reason);
}

/* As much of the answer as the peer takes at once. */
static void text_say(struct iscsi_session *session)
{
	struct iscsi_answer *answer = &session->answer;
	size_t left = answer->length - session->text_sent;
	bool more = left > session->params.max_segment;
	bool final = session->pdu.final && !more;
	uint32_t length = more ? session->params.max_segment : (uint32_t)left;

	if (!final && session->text_ttt == ISCSI_TAG_NONE)
		session->text_ttt = ttt_make(session);
	iscsi_say(session,
		  iscsi_text_response_make(
			  &iscsi_no_numbers, session->pdu.lun, session->pdu.itt,
			  final ? ISCSI_TAG_NONE : session->text_ttt, final,
			  more, length),
		  answer->data ? answer->data + session->text_sent : NULL,
		  length, true);
	session->text_sent += length;
	if (final)
		text_reset(session);
}

void iscsi_take_text(struct iscsi_session *session, const void *data)
{
	const struct iscsi_pdu *pdu = &session->pdu;
	int r;

	if (pdu->ttt == ISCSI_TAG_NONE) { /* a new one (11.10.4) */
		if (session->text_itt != pdu->itt ||
		    session->text_ttt != ISCSI_TAG_NONE)
			text_reset(session);
		session->text_itt = pdu->itt;
	} else if (pdu->ttt != session->text_ttt ||
		   pdu->itt != session->text_itt) {
		text_reject(session, ISCSI_REJECT_PROTOCOL);
		return;
	}
	if (pdu->text.more && pdu->final) {
		text_reject(session, ISCSI_REJECT_PROTOCOL);
		return;
	}
	r = iscsi_text_append(&session->text, data, pdu->data_length);
	if (r < 0) {
		text_reject(session, ISCSI_REJECT_NO_RESOURCES);
		return;
	}
	if (!pdu->text.more && session->text.length > 0) {
		if (!text_answer(session)) {
			text_reject(session, ISCSI_REJECT_PROTOCOL);
			return;
		}
		session->text.length = 0;
	}
	if (session->answer.failed) {
		text_reject(session, ISCSI_REJECT_NO_RESOURCES);
		return;
	}
	text_say(session);
}
