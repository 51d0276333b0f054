/* SPDX-License-Identifier: Apache-2.0 */
#include "target/iscsi/iscsi_login.h"
#include "target/export/iscsi_name.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define PORTAL_GROUP_TAG 1 /* all portals reach all sessions; 13.9 */

struct step {
	struct iscsi_login *login;
	const struct iscsi_pdu *pdu;
	struct iscsi_answer *answer;
	struct iscsi_pair pairs[ISCSI_LOGIN_PAIRS_MAX];
	unsigned n_pairs;
	struct iscsi_chap_keys chap_keys;
	bool chap_spoken;
};

void iscsi_login_init(struct iscsi_login *login,
		      const struct iscsi_login_ops *ops, void *context)
{
	*login = (struct iscsi_login){.ops = ops, .context = context};
	iscsi_params_init(&login->params);
}

void iscsi_login_done(struct iscsi_login *login)
{
	iscsi_text_done(&login->text);
}

static enum iscsi_login_status login_fail(struct iscsi_login *login,
					  enum iscsi_login_status status,
					  const char *why)
{
	login->why = why;
	return status;
}

/* ---- the header ---- */

static enum iscsi_login_status first_check(struct iscsi_login *login,
					   const struct iscsi_pdu *pdu)
{
	login->begun = true;
	login->stage = pdu->login.stage;
	login->itt = pdu->itt;
	login->tsih = pdu->login.tsih;
	login->cid = pdu->login.cid;
	memcpy(login->isid, pdu->login.isid, sizeof(login->isid));
	if (pdu->login.version_min > 0)
		return login_fail(login, ISCSI_LOGIN_VERSION,
				  "only version 0 is spoken here");
	if (login->tsih == 0)
		return ISCSI_LOGIN_OK;
	if (login->ops->has_session(login->context, login))
		return login_fail(login, ISCSI_LOGIN_TOO_MANY,
				  "a second connection to a session");
	return login_fail(login, ISCSI_LOGIN_NO_SESSION,
			  "its session handle is unknown");
}

static bool transit_ok(const struct iscsi_pdu *pdu)
{
	uint8_t stage = pdu->login.stage, next = pdu->login.next_stage;

	if (!pdu->final)
		return true;
	return next > stage && next != 2 && !pdu->login.more;
}

/*
 * Check that fixed fields stayed as they were, and others are possible at all
 * (11.12).
 */
static enum iscsi_login_status login_header_check(struct iscsi_login *login,
						  const struct iscsi_pdu *pdu)
{
	if (!login->begun) {
		enum iscsi_login_status status = first_check(login, pdu);

		if (status != ISCSI_LOGIN_OK)
			return status;
	}
	if (++login->messages > ISCSI_LOGIN_MESSAGES_MAX)
		return login_fail(login, ISCSI_LOGIN_INITIATOR_ERROR,
				  "the login does not end");
	if (pdu->itt != login->itt || pdu->login.cid != login->cid ||
	    pdu->login.tsih != login->tsih ||
	    memcmp(pdu->login.isid, login->isid, sizeof(login->isid)) != 0)
		return login_fail(
			login, ISCSI_LOGIN_INVALID,
			"tag, ISID, TSIH or CID changed inside a login");
	if (pdu->login.stage != login->stage || pdu->login.stage > 1 ||
	    !transit_ok(pdu))
		return login_fail(login, ISCSI_LOGIN_INITIATOR_ERROR,
				  "stages that can't be");
	return ISCSI_LOGIN_OK;
}

/* ---- keys ---- */

static enum iscsi_login_status pairs_read(struct step *step)
{
	struct iscsi_login *login = step->login;
	size_t at = 0;
	int r;

	for (;;) {
		struct iscsi_pair pair;

		r = iscsi_text_next(&login->text, &at, &pair);
		if (r == 0)
			return ISCSI_LOGIN_OK;
		if (r < 0)
			return login_fail(login, ISCSI_LOGIN_INITIATOR_ERROR,
					  "text that is not key=value");
		if (step->n_pairs == ISCSI_LOGIN_PAIRS_MAX)
			return login_fail(login, ISCSI_LOGIN_INITIATOR_ERROR,
					  "too many keys");
		step->pairs[step->n_pairs++] = pair;
	}
}

/* The value of @key, once; NULL: not there. */
static const char *value_of(const struct step *step, const char *key)
{
	for (unsigned i = 0; i < step->n_pairs; i++)
		if (strcmp(step->pairs[i].key, key) == 0)
			return step->pairs[i].value;
	return NULL;
}

static bool name_take(char *to, const char *name)
{
	if (!iscsi_name_ok(name))
		return false;
	(void)snprintf(to, ISCSI_NAME_MAX + 1, "%s", name);
	return true;
}

/* Return find()'s reason to refuse. */
static const char *refusal(enum iscsi_login_status status)
{
	switch (status) {
	case ISCSI_LOGIN_NOT_AUTHORIZED: return "it may not use that target";
	case ISCSI_LOGIN_REMOVED: return "the target is of another epoch";
	case ISCSI_LOGIN_NOT_FOUND: return "there is no such target";
	default: return "the target is not available";
	}
}

/* Names of initiator and target: in the first message (6.3.1, 13.4 to 13.6). */
static enum iscsi_login_status identify(struct step *step)
{
	struct iscsi_login *login = step->login;
	const char *initiator = value_of(step, "InitiatorName");
	const char *target = value_of(step, "TargetName");
	const char *type = value_of(step, "SessionType");
	enum iscsi_login_status status;

	if (type && strcmp(type, "Discovery") != 0 &&
	    strcmp(type, "Normal") != 0)
		return login_fail(login, ISCSI_LOGIN_NO_SESSION_TYPE,
				  "a SessionType that is none");
	login->discovery = type && strcmp(type, "Discovery") == 0;
	if (!initiator)
		return login_fail(login, ISCSI_LOGIN_MISSING,
				  "no InitiatorName");
	if (!target && !login->discovery)
		return login_fail(login, ISCSI_LOGIN_MISSING, "no TargetName");
	if (!name_take(login->initiator, initiator))
		return login_fail(login, ISCSI_LOGIN_INITIATOR_ERROR,
				  "an InitiatorName that is none");
	if (target && !name_take(login->target, target))
		return login_fail(login, ISCSI_LOGIN_NOT_FOUND,
				  "a TargetName that is none");
	login->found = true;
	status = login->ops->find(login->context, login, &login->secrets);
	if (status != ISCSI_LOGIN_OK && !login->why)
		login->why = refusal(status);
	return status;
}

static bool wants_proof(const struct iscsi_login *login)
{
	return login->secrets && login->secrets->user[0] != '\0';
}

/* AuthMethod (12.1) */
static enum iscsi_login_status method_take(struct step *step, const char *value)
{
	struct iscsi_login *login = step->login;
	const char *method = wants_proof(login) ? "CHAP" : "None";

	if (login->method_chosen)
		return login_fail(login, ISCSI_LOGIN_INITIATOR_ERROR,
				  "AuthMethod is given twice");
	if (!iscsi_list_has(value, method))
		return login_fail(
			login, ISCSI_LOGIN_AUTHENTICATION,
			wants_proof(login)
				? "CHAP is asked for, it does not offer it"
				: "it offers no way to log in without a "
				  "proof, and none is set up");
	login->method_chosen = true;
	if (wants_proof(login))
		iscsi_chap_init(&login->chap, login->secrets);
	iscsi_answer_add(step->answer, "AuthMethod", method);
	return ISCSI_LOGIN_OK;
}

static bool identifies(const char *key)
{
	return strcmp(key, "InitiatorName") == 0 ||
	       strcmp(key, "TargetName") == 0 ||
	       strcmp(key, "SessionType") == 0;
}

/* A key of neither stage: a CHAP one, or one that we don't know. */
static enum iscsi_login_status other_take(struct step *step,
					  const struct iscsi_pair *pair)
{
	struct iscsi_login *login = step->login;

	if (strncmp(pair->key, "CHAP_", 5) == 0) {
		if (login->stage != ISCSI_STAGE_SECURITY ||
		    !login->method_chosen || !wants_proof(login) ||
		    !iscsi_chap_key(&step->chap_keys, pair))
			return login_fail(login, ISCSI_LOGIN_AUTHENTICATION,
					  "CHAP keys out of turn");
		step->chap_spoken = true;
		return ISCSI_LOGIN_OK;
	}
	iscsi_answer_add(step->answer, pair->key, "NotUnderstood"); /* 6.2 */
	return ISCSI_LOGIN_OK;
}

static enum iscsi_login_status pair_take(struct step *step,
					 const struct iscsi_pair *pair)
{
	struct iscsi_login *login = step->login;
	bool operational = login->stage == ISCSI_STAGE_OPERATIONAL;

	if (identifies(pair->key))
		return ISCSI_LOGIN_OK;
	if (strcmp(pair->key, "AuthMethod") == 0) {
		if (operational)
			return login_fail(
				login, ISCSI_LOGIN_INITIATOR_ERROR,
				"AuthMethod in the operational stage");
		return method_take(step, pair->value);
	}
	switch (iscsi_key_take(&login->params, &login->seen, pair,
			       operational ? ISCSI_PHASE_LOGIN : 0,
			       login->discovery, step->answer)) {
	case ISCSI_KEY_ANSWERED:
	case ISCSI_KEY_REFUSED: return ISCSI_LOGIN_OK;
	case ISCSI_KEY_UNKNOWN: return other_take(step, pair);
	case ISCSI_KEY_NOT_NOW:
		/* A declaration that needs no answer does no harm. */
		if (strcmp(pair->key, "InitiatorAlias") == 0)
			return ISCSI_LOGIN_OK;
		return login_fail(login, ISCSI_LOGIN_INITIATOR_ERROR,
				  "an operational key in the security stage");
	case ISCSI_KEY_TWICE: break;
	}
	return login_fail(login, ISCSI_LOGIN_INITIATOR_ERROR,
			  "a key comes twice");
}

/* ---- a whole message ---- */

static enum iscsi_login_status chap_go(struct step *step)
{
	struct iscsi_login *login = step->login;

	iscsi_chap_step(&login->chap, &step->chap_keys, step->answer,
			&login->why);
	if (login->chap.state == ISCSI_CHAP_FAILED)
		return ISCSI_LOGIN_AUTHENTICATION;
	if (login->chap.state == ISCSI_CHAP_PASSED)
		login->authenticated = true;
	return ISCSI_LOGIN_OK;
}

/* Say the keys that we declare of our own accord. */
static void declare(struct step *step, bool first)
{
	struct iscsi_login *login = step->login;

	if (first && !login->discovery)
		iscsi_answer_add_number(step->answer, "TargetPortalGroupTag",
					PORTAL_GROUP_TAG);
	if (login->stage == ISCSI_STAGE_OPERATIONAL && !login->said_segment) {
		login->said_segment = true;
		iscsi_answer_add_number(step->answer,
					"MaxRecvDataSegmentLength",
					ISCSI_SEGMENT_MAX);
	}
}

static enum iscsi_login_status message_take(struct step *step)
{
	struct iscsi_login *login = step->login;
	bool first = !login->found;
	enum iscsi_login_status status = pairs_read(step);

	if (status == ISCSI_LOGIN_OK && first)
		status = identify(step);
	if (status == ISCSI_LOGIN_OK && !wants_proof(login))
		login->authenticated = true;
	if (status == ISCSI_LOGIN_OK && !login->authenticated &&
	    login->stage != ISCSI_STAGE_SECURITY)
		status = login_fail(login, ISCSI_LOGIN_AUTHENTICATION,
				    "CHAP is asked for, it skips it");
	for (unsigned i = 0; i < step->n_pairs && status == ISCSI_LOGIN_OK; i++)
		status = pair_take(step, &step->pairs[i]);
	if (status == ISCSI_LOGIN_OK && step->chap_spoken)
		status = chap_go(step);
	if (status != ISCSI_LOGIN_OK)
		return status;
	declare(step, first);
	if (step->pdu->final && !login->authenticated && !login->method_chosen)
		return login_fail(login, ISCSI_LOGIN_AUTHENTICATION,
				  "CHAP is asked for, it skips it");
	return ISCSI_LOGIN_OK;
}

/* Take one PDU; its text is read when the last piece is there. */
static enum iscsi_login_status pdu_take(struct step *step, const void *data)
{
	struct iscsi_login *login = step->login;
	const struct iscsi_pdu *pdu = step->pdu;
	enum iscsi_login_status status = login_header_check(login, pdu);
	int r;

	if (status != ISCSI_LOGIN_OK)
		return status;
	r = iscsi_text_append(&login->text, data, pdu->data_length);
	if (r == -ENOMEM)
		return login_fail(login, ISCSI_LOGIN_NO_RESOURCES, "no memory");
	if (r < 0)
		return login_fail(login, ISCSI_LOGIN_INITIATOR_ERROR,
				  "a text that is too long");
	if (pdu->login.more)
		return ISCSI_LOGIN_OK;
	status = message_take(step);
	login->text.length = 0;
	if (status == ISCSI_LOGIN_OK && step->answer->failed)
		status = login_fail(login, ISCSI_LOGIN_NO_RESOURCES,
				    "no memory");
	return status;
}

/* Tell whether nothing keeps us in the security stage. */
static bool may_transit(const struct iscsi_login *login,
			const struct iscsi_pdu *pdu)
{
	return pdu->final && login->authenticated;
}

enum iscsi_login_outcome iscsi_login_step(struct iscsi_login *login,
					  const struct iscsi_pdu *pdu,
					  const void *data,
					  struct iscsi_login_response *ret,
					  struct iscsi_answer *answer)
{
	struct step step = {.login = login, .pdu = pdu, .answer = answer};
	enum iscsi_login_status status;

	if (pdu->opcode != ISCSI_LOGIN_REQUEST || pdu->ahs_length > 0) {
		login->why = "it sends something else than a login";
		return ISCSI_LOGIN_DROP;
	}
	status = pdu_take(&step, data);
	*ret = (struct iscsi_login_response){
		.stage = pdu->login.stage,
		.tsih = pdu->login.tsih,
		.itt = pdu->itt,
		.status = (uint16_t)status,
	};
	memcpy(ret->isid, pdu->login.isid, sizeof(ret->isid));
	if (status != ISCSI_LOGIN_OK) {
		answer->length = 0;
		return ISCSI_LOGIN_FAILED;
	}
	if (!may_transit(login, pdu))
		return ISCSI_LOGIN_GOES_ON;
	ret->transit = true;
	ret->next_stage = pdu->login.next_stage;
	login->stage = pdu->login.next_stage;
	return login->stage == ISCSI_STAGE_FULL ? ISCSI_LOGIN_DONE
						: ISCSI_LOGIN_GOES_ON;
}
