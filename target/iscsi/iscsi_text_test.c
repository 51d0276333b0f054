/* SPDX-License-Identifier: Apache-2.0 */
/* Texts, their values, and the keys that are negotiated with them. */
#include "target/export/iscsi_name.h"
#include "target/iscsi/iscsi_text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "target/iscsi/iscsi_keys.h"

#define BYTES(text) (text), (sizeof(text) - 1)

static int pairs(const char *data, size_t length, char *ret, size_t size)
{
	struct iscsi_text text = {0};
	struct iscsi_pair pair;
	size_t at = 0;
	int r;

	ret[0] = '\0';
	assert_int_equal(iscsi_text_append(&text, data, length), 0);
	while ((r = iscsi_text_next(&text, &at, &pair)) > 0) {
		strncat(ret, pair.key, size - strlen(ret) - 1);
		strncat(ret, ">", size - strlen(ret) - 1);
		strncat(ret, pair.value, size - strlen(ret) - 1);
		strncat(ret, ";", size - strlen(ret) - 1);
	}
	iscsi_text_done(&text);
	return r;
}

static void reads_pairs(void **state)
{
	char all[128];

	(void)state;
	assert_int_equal(
		pairs(BYTES("A=b\0X-c.d=\0E=f=g\0\0\0"), all, sizeof(all)), 0);
	assert_string_equal(all, "A>b;X-c.d>;E>f=g;");
}

static void refuses_what_is_no_pair(void **state)
{
	char all[128], key[80];

	(void)state;
	assert_int_equal(pairs(BYTES("A=b"), all, sizeof(all)), -EPROTO);
	assert_int_equal(pairs(BYTES("A\0"), all, sizeof(all)), -EPROTO);
	assert_int_equal(pairs(BYTES("=b\0"), all, sizeof(all)), -EPROTO);
	assert_int_equal(pairs(BYTES("A b=c\0"), all, sizeof(all)), -EPROTO);
	memset(key, 'k', sizeof(key));
	memcpy(key + 64, "=", 2);
	assert_int_equal(pairs(key, 66, all, sizeof(all)), -EPROTO);
}

static void a_text_is_bounded(void **state)
{
	struct iscsi_text text = {0};
	static const char kib[1024];

	(void)state;
	for (unsigned i = 0; i < ISCSI_TEXT_MAX / 1024; i++)
		assert_int_equal(iscsi_text_append(&text, kib, 1024), 0);
	assert_int_equal(iscsi_text_append(&text, kib, 1), -E2BIG);
	iscsi_text_done(&text);
}

static void reads_numbers(void **state)
{
	uint64_t n = 7;

	(void)state;
	assert_int_equal(iscsi_number_parse("0", &n), 0);
	assert_true(n == 0);
	assert_int_equal(iscsi_number_parse("0xFf", &n), 0);
	assert_true(n == 255);
	assert_int_equal(iscsi_number_parse("18446744073709551615", &n), 0);
	assert_true(n == UINT64_MAX);
	n = 7;
	assert_int_equal(iscsi_number_parse("18446744073709551616", &n),
			 -EINVAL);
	assert_int_equal(iscsi_number_parse("", &n), -EINVAL);
	assert_int_equal(iscsi_number_parse("0x", &n), -EINVAL);
	assert_int_equal(iscsi_number_parse("-1", &n), -EINVAL);
	assert_int_equal(iscsi_number_parse("1f", &n), -EINVAL);
	assert_true(n == 7);
}

static void reads_binary_values_of_both_forms(void **state)
{
	uint8_t to[8];
	char text[32];

	(void)state;
	assert_int_equal(iscsi_binary_parse("0x00fFa1", to, sizeof(to)), 3);
	assert_memory_equal(to, "\0\xff\xa1", 3);
	assert_int_equal(iscsi_binary_parse("0Xabc", to, sizeof(to)), 2);
	assert_memory_equal(to, "\x0a\xbc", 2);
	assert_int_equal(iscsi_binary_parse("0bAP+h", to, sizeof(to)), 3);
	assert_memory_equal(to, "\0\xff\xa1", 3);
	assert_int_equal(iscsi_binary_parse("0BAP8=", to, sizeof(to)), 2);
	assert_int_equal(iscsi_binary_parse("0bAA==", to, sizeof(to)), 1);
	assert_string_equal(iscsi_binary_format(text, to, 1), "0x00");
}

static void refuses_binary_values_that_are_none(void **state)
{
	static const char *const bad[] = {
		"",       "0x",    "00",     "0xg0",
		"0b",     "0bAAA", "0bA*AA", "0b====",
		"0bA===", "12ab",  "0bA=AA", "0xabcdefabcdefabcdef",
	};
	uint8_t to[8];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(iscsi_binary_parse(bad[i], to, sizeof(to)),
				 -EINVAL);
}

static void chooses_the_first_of_the_peers_list(void **state)
{
	static const char *const known[] = {"None", "CRC32C", NULL};

	(void)state;
	assert_string_equal(iscsi_list_choose("X,CRC32C,None", known),
			    "CRC32C");
	assert_null(iscsi_list_choose("CRC32", known));
	assert_null(iscsi_list_choose("", known));
	assert_true(iscsi_list_has("CHAP,None", "None"));
	assert_false(iscsi_list_has("CHAP,NoneX", "None"));
}

static void knows_a_name(void **state)
{
	char name[ISCSI_NAME_MAX + 2];

	(void)state;
	assert_true(iscsi_name_ok("iqn.2025-01.io.union:vol-1:7"));
	assert_false(iscsi_name_ok(""));
	assert_false(iscsi_name_ok("iqn.2025 x"));
	assert_false(iscsi_name_ok("a\nb"));
	memset(name, 'a', sizeof(name));
	name[ISCSI_NAME_MAX + 1] = '\0';
	assert_false(iscsi_name_ok(name));
	name[ISCSI_NAME_MAX] = '\0';
	assert_true(iscsi_name_ok(name));
}

/* ---- keys ---- */

/* Return the answer to "key=value", with '|' for NUL. */
static const char *say(struct iscsi_params *params, uint64_t *seen,
		       const char *key, const char *value, bool discovery,
		       enum iscsi_verdict verdict)
{
	static char text[128];
	struct iscsi_answer answer = {0};
	struct iscsi_pair pair = {key, value};

	assert_int_equal(iscsi_key_take(params, seen, &pair, ISCSI_PHASE_LOGIN,
					discovery, &answer),
			 verdict);
	assert_true(answer.length < sizeof(text));
	text[0] = '\0';
	if (answer.length > 0)
		memcpy(text, answer.data, answer.length);
	iscsi_answer_done(&answer);
	return text;
}

static void negotiates_each_kind_of_key(void **state)
{
	struct iscsi_params p;
	uint64_t seen = 0;
	enum iscsi_verdict ok = ISCSI_KEY_ANSWERED;

	(void)state;
	iscsi_params_init(&p);
	assert_true(p.initial_r2t && p.immediate_data && !p.header_digest);
	assert_string_equal(
		say(&p, &seen, "HeaderDigest", "X,CRC32C,None", false, ok),
		"HeaderDigest=CRC32C");
	assert_true(p.header_digest);
	assert_string_equal(say(&p, &seen, "InitialR2T", "No", false, ok),
			    "InitialR2T=No");
	assert_false(p.initial_r2t);
	assert_string_equal(say(&p, &seen, "ImmediateData", "No", false, ok),
			    "ImmediateData=No");
	assert_string_equal(
		say(&p, &seen, "MaxBurstLength", "16776192", false, ok),
		"MaxBurstLength=1048576");
	assert_int_equal(p.max_burst, ISCSI_BURST_MAX);
	assert_string_equal(say(&p, &seen, "DefaultTime2Wait", "0", false, ok),
			    "DefaultTime2Wait=2");
	assert_string_equal(say(&p, &seen, "MaxConnections", "8", false, ok),
			    "MaxConnections=1");
	assert_string_equal(
		say(&p, &seen, "ErrorRecoveryLevel", "2", false, ok),
		"ErrorRecoveryLevel=0");
	assert_string_equal(say(&p, &seen, "DataPDUInOrder", "No", false, ok),
			    "DataPDUInOrder=Yes");
	assert_string_equal(
		say(&p, &seen, "MaxRecvDataSegmentLength", "512", false, ok),
		"");
	assert_int_equal(p.max_segment, 512);
	assert_string_equal(say(&p, &seen, "OFMarker", "Yes", false, ok),
			    "OFMarker=No");
}

static void rejects_values_that_are_none(void **state)
{
	struct iscsi_params p;
	uint64_t seen = 0;
	enum iscsi_verdict no = ISCSI_KEY_REFUSED;

	(void)state;
	iscsi_params_init(&p);
	assert_string_equal(say(&p, &seen, "MaxBurstLength", "511", false, no),
			    "MaxBurstLength=Reject");
	assert_int_equal(p.max_burst, 262144);
	assert_string_equal(say(&p, &seen, "DataDigest", "MD5", false, no),
			    "DataDigest=Reject");
	assert_string_equal(say(&p, &seen, "ImmediateData", "yes", false, no),
			    "ImmediateData=Reject");
	assert_string_equal(
		say(&p, &seen, "ImmediateData", "Yes", false, ISCSI_KEY_TWICE),
		"");
	assert_string_equal(
		say(&p, &seen, "X-what", "1", false, ISCSI_KEY_UNKNOWN), "");
}

static void keys_of_transfer_are_irrelevant_to_discovery(void **state)
{
	struct iscsi_params p;
	uint64_t seen = 0;

	(void)state;
	iscsi_params_init(&p);
	assert_string_equal(
		say(&p, &seen, "InitialR2T", "No", true, ISCSI_KEY_ANSWERED),
		"InitialR2T=Irrelevant");
	assert_true(p.initial_r2t);
	assert_string_equal(say(&p, &seen, "DataDigest", "CRC32C", true,
				ISCSI_KEY_ANSWERED),
			    "DataDigest=CRC32C");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_pairs),
		cmocka_unit_test(refuses_what_is_no_pair),
		cmocka_unit_test(a_text_is_bounded),
		cmocka_unit_test(reads_numbers),
		cmocka_unit_test(reads_binary_values_of_both_forms),
		cmocka_unit_test(refuses_binary_values_that_are_none),
		cmocka_unit_test(chooses_the_first_of_the_peers_list),
		cmocka_unit_test(knows_a_name),
		cmocka_unit_test(negotiates_each_kind_of_key),
		cmocka_unit_test(rejects_values_that_are_none),
		cmocka_unit_test(keys_of_transfer_are_irrelevant_to_discovery),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
