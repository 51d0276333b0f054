/* SPDX-License-Identifier: Apache-2.0 */
#include "target/iscsi/iscsi_chap.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static const struct chap_secrets secrets = {
	.user = "0xinitiator",
	.secret = "secret of twelve",
	.mutual_user = "0btarget",
	.mutual_secret = "another of twelve",
};

/* The value of @key in @answer; NULL: not said. */
static const char *said(const struct iscsi_answer *answer, const char *key)
{
	size_t n = strlen(key);

	for (size_t at = 0; at < answer->length;
	     at += strlen(answer->data + at) + 1)
		if (strncmp(answer->data + at, key, n) == 0 &&
		    answer->data[at + n] == '=')
			return answer->data + at + n + 1;
	return NULL;
}

struct dialogue {
	struct iscsi_chap chap;
	struct iscsi_answer answer;
	const char *why;
	char response[2 + 2 * ISCSI_CHAP_DIGEST_MAX + 1];
};

/* Up to the challenge; d->response is right. */
static void begin(struct dialogue *d, const char *algorithms,
		  const char *secret)
{
	struct iscsi_chap_keys keys = {.algorithm = algorithms};
	uint8_t challenge[ISCSI_BINARY_MAX], digest[ISCSI_CHAP_DIGEST_MAX];
	int length, n;

	*d = (struct dialogue){.why = NULL};
	iscsi_chap_init(&d->chap, &secrets);
	iscsi_chap_step(&d->chap, &keys, &d->answer, &d->why);
	assert_int_equal(d->chap.state, ISCSI_CHAP_RESPONSE);
	length = iscsi_binary_parse(said(&d->answer, "CHAP_C"), challenge,
				    sizeof(challenge));
	assert_int_equal(length, ISCSI_CHAP_CHALLENGE_SIZE);
	n = iscsi_chap_respond((uint8_t)atoi(said(&d->answer, "CHAP_A")),
			       (uint8_t)atoi(said(&d->answer, "CHAP_I")),
			       secret, challenge, (size_t)length, digest);
	assert_true(n > 0);
	(void)iscsi_binary_format(d->response, digest, (size_t)n);
	d->answer.length = 0;
}

static void go(struct dialogue *d, const struct iscsi_chap_keys *keys,
	       enum iscsi_chap_state expected)
{
	iscsi_chap_step(&d->chap, keys, &d->answer, &d->why);
	assert_int_equal(d->chap.state, expected);
	assert_true((d->why != NULL) == (expected == ISCSI_CHAP_FAILED));
}

/* RFC 1994's digest is md5(id, secret, challenge); made by other means. */
static void makes_the_digest_of_the_rfc(void **state)
{
	uint8_t digest[ISCSI_CHAP_DIGEST_MAX];

	(void)state;
	assert_int_equal(iscsi_chap_respond(5, 'a', "bc",
					    (const uint8_t *)"def", 3, digest),
			 16);
	/* md5("abcdef") */
	assert_memory_equal(digest,
			    "\xe8\x0b\x50\x17\x09\x89\x50\xfc"
			    "\x58\xaa\xd8\x3c\x8c\x14\x97\x8e",
			    16);
	assert_int_equal(iscsi_chap_respond(4, 1, "x", digest, 1, digest),
			 -EOPNOTSUPP);
}

static void lets_in_who_knows_the_secret(void **state)
{
	static const char *const algorithms[] = {"5", "6", "7", "9,6,5"};

	(void)state;
	for (size_t i = 0; i < 4; i++) {
		struct iscsi_chap_keys keys = {.name = "0xinitiator"};
		struct dialogue d;

		begin(&d, algorithms[i], secrets.secret);
		keys.response = d.response;
		go(&d, &keys, ISCSI_CHAP_PASSED);
		assert_int_equal(d.answer.length, 0);
		iscsi_answer_done(&d.answer);
	}
}

static void refuses_who_does_not(void **state)
{
	static const struct {
		const char *secret, *name, *response;
	} bad[] = {
		{"another secret", "0xinitiator", NULL},
		{"secret of twelve", "initiator", NULL},
		{"secret of twelve", "0xinitiator", "0x00"},
		{"secret of twelve", "0xinitiator", "no number"},
		{"secret of twelve", "", NULL},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct iscsi_chap_keys keys = {.name = bad[i].name};
		struct dialogue d;

		begin(&d, "5", bad[i].secret);
		keys.response = bad[i].response ?: d.response;
		go(&d, &keys, ISCSI_CHAP_FAILED);
		iscsi_answer_done(&d.answer);
	}
}

static void proves_itself_when_asked(void **state)
{
	static const uint8_t challenge[] = "any challenge";
	uint8_t digest[ISCSI_CHAP_DIGEST_MAX], theirs[ISCSI_CHAP_DIGEST_MAX];
	struct iscsi_chap_keys keys = {
		.name = "0xinitiator",
		.id = "0x21",
		.challenge = "0b"
			     "YW55IGNoYWxsZW5nZQ==",
	};
	struct dialogue d;

	(void)state;
	begin(&d, "7", secrets.secret);
	keys.response = d.response;
	go(&d, &keys, ISCSI_CHAP_PASSED);
	assert_string_equal(said(&d.answer, "CHAP_N"), "0btarget");
	assert_int_equal(iscsi_chap_respond(7, 0x21, secrets.mutual_secret,
					    challenge, sizeof(challenge) - 1,
					    digest),
			 32);
	assert_int_equal(iscsi_binary_parse(said(&d.answer, "CHAP_R"), theirs,
					    sizeof(theirs)),
			 32);
	assert_memory_equal(digest, theirs, 32);
	iscsi_answer_done(&d.answer);
}

static void does_not_answer_its_own_challenge(void **state)
{
	char own[3 + 2 * ISCSI_CHAP_CHALLENGE_SIZE];
	struct iscsi_chap_keys keys = {.name = "0xinitiator", .id = "1"};
	struct dialogue d;

	(void)state;
	begin(&d, "5", secrets.secret);
	keys.response = d.response;
	keys.challenge = iscsi_binary_format(own, d.chap.challenge,
					     ISCSI_CHAP_CHALLENGE_SIZE);
	go(&d, &keys, ISCSI_CHAP_FAILED);
	assert_null(said(&d.answer, "CHAP_R"));
	iscsi_answer_done(&d.answer);
}

static void refuses_keys_out_of_turn(void **state)
{
	struct iscsi_chap_keys keys = {.name = "0xinitiator",
				       .response = "0x00"};
	struct dialogue d = {.why = NULL};

	(void)state;
	iscsi_chap_init(&d.chap, &secrets);
	go(&d, &keys, ISCSI_CHAP_FAILED);
	keys = (struct iscsi_chap_keys){.algorithm = "8"};
	d.why = NULL;
	iscsi_chap_init(&d.chap, &secrets);
	go(&d, &keys, ISCSI_CHAP_FAILED);
	iscsi_answer_done(&d.answer);
}

static void two_challenges_differ(void **state)
{
	struct dialogue a, b;

	(void)state;
	begin(&a, "5", "x");
	begin(&b, "5", "x");
	assert_memory_not_equal(a.chap.challenge, b.chap.challenge,
				ISCSI_CHAP_CHALLENGE_SIZE);
	iscsi_answer_done(&a.answer);
	iscsi_answer_done(&b.answer);
}

/* ---- files ---- */

static int load(const char *text, unsigned mode, struct chap_secrets *ret,
		struct error *err)
{
	char path[] = "/tmp/iscsi_chap_test.XXXXXX";
	int fd = mkstemp(path), r;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	(void)close(fd);
	r = chap_secrets_load(path, ret, err);
	(void)unlink(path);
	return r;
}

static void reads_a_file_of_secrets(void **state)
{
	struct chap_secrets s = {.user = ""};
	struct error err = {0};

	(void)state;
	assert_int_equal(load("# of one target\n\nuser 0xodd name\n"
			      "secret  with spaces at \n"
			      "mutual-user t\nmutual-secret 0123456789ab",
			      0600, &s, &err),
			 0);
	assert_string_equal(s.user, "0xodd name");
	assert_string_equal(s.secret, " with spaces at ");
	assert_string_equal(s.mutual_secret, "0123456789ab");
}

static void refuses_files_that_will_not_do(void **state)
{
	static const struct {
		const char *text;
		unsigned mode;
		int code;
	} bad[] = {
		{"user u\nsecret 0123456789ab\n", 0640, EPERM},
		{"user u\nsecret topsecret\n", 0600, EINVAL},
		{"user u\n", 0600, EINVAL},
		{"secret 0123456789ab\n", 0600, EINVAL},
		{"mutual-user u\nmutual-secret 0123456789ab\n", 0600, EINVAL},
		{"user u\nsecret 0123456789ab\nmutual-user m\n"
		 "mutual-secret 0123456789ab\n",
		 0600, EINVAL},
		{"user u\nuser v\nsecret 0123456789ab\n", 0600, EINVAL},
		{"topsecret value\n", 0600, EINVAL},
		{"user u\nsecret\n", 0600, EINVAL},
	};
	struct chap_secrets s = {.user = "kept"};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct error err = {0};

		assert_int_equal(load(bad[i].text, bad[i].mode, &s, &err),
				 -bad[i].code);
		assert_null(strstr(err.msg, "0123456789ab"));
		assert_null(strstr(err.msg, "topsecret"));
	}
	assert_string_equal(s.user, "kept");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(makes_the_digest_of_the_rfc),
		cmocka_unit_test(lets_in_who_knows_the_secret),
		cmocka_unit_test(refuses_who_does_not),
		cmocka_unit_test(proves_itself_when_asked),
		cmocka_unit_test(does_not_answer_its_own_challenge),
		cmocka_unit_test(refuses_keys_out_of_turn),
		cmocka_unit_test(two_challenges_differ),
		cmocka_unit_test(reads_a_file_of_secrets),
		cmocka_unit_test(refuses_files_that_will_not_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
