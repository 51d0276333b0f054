/* SPDX-License-Identifier: Apache-2.0 */
/* The login, message by message, without a connection. */
#include "target/iscsi/iscsi_login.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define WHO "InitiatorName=iqn.a:b\0"
#define AT  "TargetName=iqn.t:x\0"

struct kit {
	struct iscsi_login login;
	struct iscsi_login_response response;
	struct iscsi_answer answer;
	const struct chap_secrets *secrets;
	enum iscsi_login_status found;
	bool session;
};

static enum iscsi_login_status find(void *context,
				    const struct iscsi_login *login,
				    const struct chap_secrets **ret)
{
	struct kit *kit = context;

	assert_string_equal(login->initiator, "iqn.a:b");
	*ret = kit->secrets;
	return kit->found;
}

static bool has_session(void *context, const struct iscsi_login *login)
{
	struct kit *kit = context;

	(void)login;
	return kit->session;
}

static const struct iscsi_login_ops ops = {find, has_session};

static const struct chap_secrets secrets = {.user = "me",
					    .secret = "secret of twelve"};

static int setup(void **state)
{
	struct kit *kit = calloc(1, sizeof(*kit));

	assert_non_null(kit);
	iscsi_login_init(&kit->login, &ops, kit);
	*state = kit;
	return 0;
}

static int teardown(void **state)
{
	struct kit *kit = *state;

	iscsi_login_done(&kit->login);
	iscsi_answer_done(&kit->answer);
	free(kit);
	return 0;
}

static void anew(struct kit *kit)
{
	iscsi_login_done(&kit->login);
	iscsi_login_init(&kit->login, &ops, kit);
}

/* @stages: "0", "1" or "0>1", with "T" for what is asked for; "+": C */
static enum iscsi_login_outcome step(struct kit *kit, const char *stages,
				     const char *text, size_t length)
{
	struct iscsi_pdu pdu = {
		.opcode = ISCSI_LOGIN_REQUEST,
		.immediate = true,
		.data_length = (uint32_t)length,
		.itt = 5,
		.login = {.stage = (uint8_t)(stages[0] - '0'),
			  .more = stages[1] == '+',
			  .isid = {1, 2, 3, 4, 5, 6}},
	};

	if (stages[1] == '>') {
		pdu.final = true;
		pdu.login.next_stage = (uint8_t)(stages[2] - '0');
	}
	kit->answer.length = 0;
	return iscsi_login_step(&kit->login, &pdu, text, &kit->response,
				&kit->answer);
}

#define STEP(kit, stages, text) step((kit), (stages), (text), sizeof(text) - 1)

static bool says(const struct kit *kit, const char *pair)
{
	for (size_t at = 0; at < kit->answer.length;
	     at += strlen(kit->answer.data + at) + 1)
		if (strcmp(kit->answer.data + at, pair) == 0)
			return true;
	return false;
}

static void goes_through_both_stages(void **state)
{
	struct kit *kit = *state;

	assert_int_equal(STEP(kit, "0>1", WHO AT "AuthMethod=CHAP,None\0"),
			 ISCSI_LOGIN_GOES_ON);
	assert_true(kit->response.transit);
	assert_int_equal(kit->response.next_stage, 1);
	assert_true(says(kit, "AuthMethod=None"));
	assert_true(says(kit, "TargetPortalGroupTag=1"));
	assert_int_equal(STEP(kit, "1>3",
			      "MaxBurstLength=65536\0"
			      "X-other=1\0"),
			 ISCSI_LOGIN_DONE);
	assert_true(says(kit, "MaxBurstLength=65536"));
	assert_true(says(kit, "X-other=NotUnderstood"));
	assert_true(says(kit, "MaxRecvDataSegmentLength=262144"));
	assert_int_equal(kit->login.params.max_burst, 65536);
}

static void goes_straight_to_the_end(void **state)
{
	struct kit *kit = *state;

	assert_int_equal(STEP(kit, "0>3", WHO AT), ISCSI_LOGIN_DONE);
	assert_int_equal(kit->response.next_stage, 3);
}

static void takes_a_text_in_pieces(void **state)
{
	struct kit *kit = *state;

	assert_int_equal(STEP(kit, "1+", "InitiatorName=iqn."),
			 ISCSI_LOGIN_GOES_ON);
	assert_false(kit->response.transit);
	assert_int_equal(kit->answer.length, 0);
	assert_int_equal(STEP(kit, "1>3", "a:b\0" AT "ErrorRecoveryLevel=2\0"),
			 ISCSI_LOGIN_DONE);
	assert_true(says(kit, "ErrorRecoveryLevel=0"));
}

static void discovery_needs_no_target(void **state)
{
	struct kit *kit = *state;

	assert_int_equal(STEP(kit, "1>3",
			      WHO "SessionType=Discovery\0"
				  "InitialR2T=No\0"),
			 ISCSI_LOGIN_DONE);
	assert_true(kit->login.discovery);
	assert_true(says(kit, "InitialR2T=Irrelevant"));
	assert_false(says(kit, "TargetPortalGroupTag=1"));
}

static void fails(struct kit *kit, enum iscsi_login_outcome outcome,
		  enum iscsi_login_status status)
{
	assert_int_equal(outcome, ISCSI_LOGIN_FAILED);
	assert_int_equal(kit->response.status, status);
	assert_false(kit->response.transit);
	assert_int_equal(kit->answer.length, 0);
}

static void names_have_to_be_there(void **state)
{
	struct kit *kit = *state;

	fails(kit, STEP(kit, "1>3", AT), ISCSI_LOGIN_MISSING);
	anew(kit);
	fails(kit, STEP(kit, "1>3", WHO), ISCSI_LOGIN_MISSING);
	anew(kit);
	fails(kit, STEP(kit, "1>3", WHO "SessionType=Strange\0"),
	      ISCSI_LOGIN_NO_SESSION_TYPE);
	anew(kit);
	kit->found = ISCSI_LOGIN_NOT_FOUND;
	fails(kit, STEP(kit, "1>3", WHO AT), ISCSI_LOGIN_NOT_FOUND);
}

static void refuses_stages_that_cannot_be(void **state)
{
	static const char *const bad[] = {"1>1", "1>0", "1>2", "0>0",
					  "2>3", "3>3", "0>2"};
	struct kit *kit = *state;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		anew(kit);
		fails(kit, STEP(kit, bad[i], WHO AT),
		      ISCSI_LOGIN_INITIATOR_ERROR);
	}
	anew(kit);
	assert_int_equal(STEP(kit, "1", WHO AT), ISCSI_LOGIN_GOES_ON);
	fails(kit, STEP(kit, "0>1", ""), ISCSI_LOGIN_INITIATOR_ERROR);
}

static void refuses_what_may_not_be_said(void **state)
{
	static const struct {
		const char *stages, *text;
		size_t length;
	} bad[] = {
#define BAD(stages, text) {stages, WHO AT text, sizeof(WHO AT text) - 1}
		BAD("1>3", "InitialR2T=No\0InitialR2T=No\0"),
		BAD("0>1", "InitialR2T=No\0"),
		BAD("1>3", "AuthMethod=None\0"),
		BAD("0>1", "AuthMethod=None\0AuthMethod=None\0"),
		BAD("1>3", "no pair\0"),
	};
	struct kit *kit = *state;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		anew(kit);
		fails(kit, step(kit, bad[i].stages, bad[i].text, bad[i].length),
		      ISCSI_LOGIN_INITIATOR_ERROR);
	}
}

static void nobody_goes_around_chap(void **state)
{
	static const struct {
		const char *stages, *text;
		size_t length;
	} bad[] = {
		BAD("1>3", ""),
		BAD("0>1", ""),
		BAD("0>3", "AuthMethod=None\0"),
		BAD("0", "CHAP_A=5\0"),
		BAD("0", "AuthMethod=CHAP\0CHAP_N=me\0CHAP_R=0x00\0"),
	};
	struct kit *kit = *state;

	kit->secrets = &secrets;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		anew(kit);
		fails(kit, step(kit, bad[i].stages, bad[i].text, bad[i].length),
		      ISCSI_LOGIN_AUTHENTICATION);
	}
	/* What the peer offers of its own accord does not help either. */
	anew(kit);
	assert_int_equal(STEP(kit, "0>3", WHO AT "AuthMethod=CHAP,None\0"),
			 ISCSI_LOGIN_GOES_ON);
	assert_false(kit->response.transit);
	fails(kit, STEP(kit, "1>3", ""), ISCSI_LOGIN_INITIATOR_ERROR);
}

static void chap_leads_to_the_end(void **state)
{
	struct kit *kit = *state;
	uint8_t digest[ISCSI_CHAP_DIGEST_MAX];
	char text[256], hex[80];
	int n;

	kit->secrets = &secrets;
	assert_int_equal(STEP(kit, "0", WHO AT "AuthMethod=CHAP\0"),
			 ISCSI_LOGIN_GOES_ON);
	assert_true(says(kit, "AuthMethod=CHAP"));
	assert_int_equal(STEP(kit, "0", "CHAP_A=5\0"), ISCSI_LOGIN_GOES_ON);
	assert_true(says(kit, "CHAP_A=5"));
	n = iscsi_chap_respond(5, kit->login.chap.id, secrets.secret,
			       kit->login.chap.challenge,
			       ISCSI_CHAP_CHALLENGE_SIZE, digest);
	assert_int_equal(n, 16);
	n = snprintf(text, sizeof(text), "CHAP_N=me%cCHAP_R=%s%c", 0,
		     iscsi_binary_format(hex, digest, 16), 0);
	assert_int_equal(step(kit, "0>1", text, (size_t)n),
			 ISCSI_LOGIN_GOES_ON);
	assert_true(kit->response.transit);
	assert_int_equal(STEP(kit, "1>3", ""), ISCSI_LOGIN_DONE);
}

static void a_login_ends(void **state)
{
	struct kit *kit = *state;
	enum iscsi_login_outcome outcome = STEP(kit, "1", WHO AT);
	unsigned n = 1;

	while (outcome == ISCSI_LOGIN_GOES_ON) {
		outcome = STEP(kit, "1", "");
		n++;
	}
	fails(kit, outcome, ISCSI_LOGIN_INITIATOR_ERROR);
	assert_int_equal(n, ISCSI_LOGIN_MESSAGES_MAX + 1);
}

static void what_names_the_login_may_not_change(void **state)
{
	struct kit *kit = *state;
	struct iscsi_pdu pdu = {
		.opcode = ISCSI_LOGIN_REQUEST,
		.itt = 6,
		.login = {.stage = 1, .isid = {1, 2, 3, 4, 5, 6}}};

	assert_int_equal(STEP(kit, "1", WHO AT), ISCSI_LOGIN_GOES_ON);
	kit->answer.length = 0;
	fails(kit,
	      iscsi_login_step(&kit->login, &pdu, "", &kit->response,
			       &kit->answer),
	      ISCSI_LOGIN_INVALID);
	pdu.opcode = ISCSI_NOP_OUT;
	assert_int_equal(iscsi_login_step(&kit->login, &pdu, "", &kit->response,
					  &kit->answer),
			 ISCSI_LOGIN_DROP);
}

static void a_second_connection_is_refused(void **state)
{
	struct kit *kit = *state;
	struct iscsi_pdu pdu = {.opcode = ISCSI_LOGIN_REQUEST,
				.login = {.stage = 1, .tsih = 9}};

	kit->session = true;
	fails(kit,
	      iscsi_login_step(&kit->login, &pdu, "", &kit->response,
			       &kit->answer),
	      ISCSI_LOGIN_TOO_MANY);
	kit->session = false;
	anew(kit);
	fails(kit,
	      iscsi_login_step(&kit->login, &pdu, "", &kit->response,
			       &kit->answer),
	      ISCSI_LOGIN_NO_SESSION);
	pdu.login.tsih = 0;
	pdu.login.version_min = 1;
	anew(kit);
	fails(kit,
	      iscsi_login_step(&kit->login, &pdu, "", &kit->response,
			       &kit->answer),
	      ISCSI_LOGIN_VERSION);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	static const struct CMUnitTest tests[] = {
		TEST(goes_through_both_stages),
		TEST(goes_straight_to_the_end),
		TEST(takes_a_text_in_pieces),
		TEST(discovery_needs_no_target),
		TEST(names_have_to_be_there),
		TEST(refuses_stages_that_cannot_be),
		TEST(refuses_what_may_not_be_said),
		TEST(nobody_goes_around_chap),
		TEST(chap_leads_to_the_end),
		TEST(a_login_ends),
		TEST(what_names_the_login_may_not_change),
		TEST(a_second_connection_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
