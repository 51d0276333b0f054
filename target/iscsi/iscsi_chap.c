/* SPDX-License-Identifier: Apache-2.0 */
#include "target/iscsi/iscsi_chap.h"

#include <errno.h>
#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"

/* CHAP_A (RFC 1994, IANA "PPP Authentication Algorithms"), best first. */
static const struct {
	uint8_t number;
	const char *text;
	gnutls_digest_algorithm_t digest;
} algorithms[] = {
	{7, "7", GNUTLS_DIG_SHA256},
	{6, "6", GNUTLS_DIG_SHA1},
	{5, "5", GNUTLS_DIG_MD5},
};

/* ---- the protocol ---- */

void iscsi_chap_init(struct iscsi_chap *chap,
		     const struct chap_secrets *secrets)
{
	*chap = (struct iscsi_chap){.secrets = secrets};
}

bool iscsi_chap_key(struct iscsi_chap_keys *keys, const struct iscsi_pair *pair)
{
	const struct {
		const char *name;
		const char **to;
	} known[] = {
		{"CHAP_A", &keys->algorithm}, {"CHAP_N", &keys->name},
		{"CHAP_R", &keys->response},  {"CHAP_I", &keys->id},
		{"CHAP_C", &keys->challenge},
	};

	for (size_t i = 0; i < array_size(known); i++) {
		if (strcmp(known[i].name, pair->key) != 0)
			continue;
		if (*known[i].to)
			return false;
		*known[i].to = pair->value;
		return true;
	}
	return false;
}

int iscsi_chap_respond(uint8_t algorithm, uint8_t id, const char *secret,
		       const uint8_t *challenge, size_t length,
		       uint8_t ret[static ISCSI_CHAP_DIGEST_MAX])
{
	uint8_t message[1 + CHAP_SECRET_MAX + ISCSI_BINARY_MAX];
	size_t n = strlen(secret), i = 0;
	int r;

	if (n > CHAP_SECRET_MAX || length > ISCSI_BINARY_MAX)
		return -EINVAL;
	while (i < array_size(algorithms) && algorithms[i].number != algorithm)
		i++;
	if (i == array_size(algorithms))
		return -EOPNOTSUPP;
	message[0] = id;
	memcpy(message + 1, secret, n);
	memcpy(message + 1 + n, challenge, length);
	r = gnutls_hash_fast(algorithms[i].digest, message, 1 + n + length,
			     ret);
	explicit_bzero(message, sizeof(message));
	return r < 0 ? -EOPNOTSUPP
		     : (int)gnutls_hash_get_len(algorithms[i].digest);
}

static void chap_fail(struct iscsi_chap *chap, const char **ret_why,
		      const char *why)
{
	chap->state = ISCSI_CHAP_FAILED;
	*ret_why = why;
}

/* Choose the first algorithm of the peer's list that we have. */
static void algorithm_step(struct iscsi_chap *chap,
			   const struct iscsi_chap_keys *keys,
			   struct iscsi_answer *answer, const char **ret_why)
{
	static const char *const known[] = {"7", "6", "5", NULL};
	char text[3 + 2 * ISCSI_CHAP_CHALLENGE_SIZE];
	const char *chosen;

	if (!keys->algorithm || keys->name || keys->response || keys->id ||
	    keys->challenge) {
		chap_fail(chap, ret_why, "CHAP_A was to come, alone");
		return;
	}
	chosen = iscsi_list_choose(keys->algorithm, known);
	if (!chosen) {
		chap_fail(chap, ret_why, "no CHAP algorithm in common");
		return;
	}
	if (gnutls_rnd(GNUTLS_RND_NONCE, &chap->id, sizeof(chap->id)) < 0 ||
	    gnutls_rnd(GNUTLS_RND_NONCE, chap->challenge,
		       sizeof(chap->challenge)) < 0) {
		chap_fail(chap, ret_why, "no random numbers");
		return;
	}
	chap->algorithm = (uint8_t)(chosen[0] - '0');
	chap->state = ISCSI_CHAP_RESPONSE;
	iscsi_answer_add(answer, "CHAP_A", chosen);
	iscsi_answer_add_number(answer, "CHAP_I", chap->id);
	iscsi_answer_add(answer, "CHAP_C",
			 iscsi_binary_format(text, chap->challenge,
					     sizeof(chap->challenge)));
}

/* In the same time whatever is wrong. */
static bool response_right(const struct iscsi_chap *chap,
			   const struct iscsi_chap_keys *keys)
{
	const struct chap_secrets *secrets = chap->secrets;
	uint8_t ours[ISCSI_CHAP_DIGEST_MAX] = {0};
	uint8_t theirs[ISCSI_CHAP_DIGEST_MAX] = {0};
	int n = iscsi_chap_respond(chap->algorithm, chap->id, secrets->secret,
				   chap->challenge, sizeof(chap->challenge),
				   ours);
	int m = iscsi_binary_parse(keys->response, theirs, sizeof(theirs));
	bool name = strcmp(keys->name, secrets->user) == 0;
	bool digest = gnutls_memcmp(ours, theirs, sizeof(ours)) == 0;

	return n > 0 && m == n && name & digest;
}

/* The initiator wants the target to prove itself. */
static void mutual_step(struct iscsi_chap *chap,
			const struct iscsi_chap_keys *keys,
			struct iscsi_answer *answer, const char **ret_why)
{
	const struct chap_secrets *secrets = chap->secrets;
	uint8_t challenge[ISCSI_BINARY_MAX], digest[ISCSI_CHAP_DIGEST_MAX];
	char text[3 + 2 * ISCSI_CHAP_DIGEST_MAX];
	uint64_t id = 0;
	int length, n;

	length = keys->id && keys->challenge
			 ? iscsi_binary_parse(keys->challenge, challenge,
					      sizeof(challenge))
			 : -EINVAL;
	if (length < 0 || iscsi_number_parse(keys->id, &id) < 0 || id > 255) {
		chap_fail(chap, ret_why, "CHAP_I and CHAP_C are not whole");
		return;
	}
	if (length == ISCSI_CHAP_CHALLENGE_SIZE &&
	    memcmp(challenge, chap->challenge, (size_t)length) == 0) {
		/*
		 * The peer would have us answer its own challenge (RFC 7143
		 * 12.1.3, 9.2.1).
		 */
		chap_fail(chap, ret_why, "our own challenge came back");
		return;
	}
	if (secrets->mutual_user[0] == '\0') {
		chap_fail(chap, ret_why,
			  "it wants a proof from us; none is set up");
		return;
	}
	n = iscsi_chap_respond(chap->algorithm, (uint8_t)id,
			       secrets->mutual_secret, challenge,
			       (size_t)length, digest);
	if (n < 0) {
		chap_fail(chap, ret_why, "the digest can't be made");
		return;
	}
	iscsi_answer_add(answer, "CHAP_N", secrets->mutual_user);
	iscsi_answer_add(answer, "CHAP_R",
			 iscsi_binary_format(text, digest, (size_t)n));
	chap->state = ISCSI_CHAP_PASSED;
}

static void response_step(struct iscsi_chap *chap,
			  const struct iscsi_chap_keys *keys,
			  struct iscsi_answer *answer, const char **ret_why)
{
	if (!keys->name || !keys->response || keys->algorithm) {
		chap_fail(chap, ret_why, "CHAP_N and CHAP_R were to come");
		return;
	}
	if (!response_right(chap, keys)) {
		chap_fail(chap, ret_why, "wrong user or secret");
		return;
	}
	if (keys->id || keys->challenge)
		mutual_step(chap, keys, answer, ret_why);
	else
		chap->state = ISCSI_CHAP_PASSED;
}

void iscsi_chap_step(struct iscsi_chap *chap,
		     const struct iscsi_chap_keys *keys,
		     struct iscsi_answer *answer, const char **ret_why)
{
	switch (chap->state) {
	case ISCSI_CHAP_ALGORITHM:
		algorithm_step(chap, keys, answer, ret_why);
		break;
	case ISCSI_CHAP_RESPONSE:
		response_step(chap, keys, answer, ret_why);
		break;
	case ISCSI_CHAP_PASSED:
	case ISCSI_CHAP_FAILED:
		chap_fail(chap, ret_why, "CHAP keys out of turn");
		break;
	}
}
