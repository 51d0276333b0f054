/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rpc_text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h> /* needs those before it */

#include "rpc/rpc.h"

static void cleans(const char *in, size_t length, const char *want)
{
	char buf[64];

	assert_string_equal(rpc_text_clean(buf, sizeof(buf), in, length), want);
}

#define CLEANS(in, want) cleans(in, sizeof(in) - 1, want)

static void keeps_good_text(void **state)
{
	(void)state;
	CLEANS("", "");
	CLEANS("plain ~", "plain ~");
	CLEANS("\u00a0 \u07ff \u0800 \ud7ff \ue000 \uffff",
	       "\u00a0 \u07ff \u0800 \ud7ff \ue000 \uffff");
	CLEANS("\U00010000\U0010ffff", "\U00010000\U0010ffff");
}

static void replaces_what_is_no_text(void **state)
{
	(void)state;
	CLEANS("a\0b\nc\x1b[0m\x7f", "a b c [0m ");
	CLEANS("\xc2\x80\xc2\x9f", "  ");
	CLEANS("\x80\xff\xc3", "???");
	CLEANS("\xc0\xaf", "??");           /* too long for '/' */
	CLEANS("\xe0\x9f\xbf", "???");      /* too long */
	CLEANS("\xed\xa0\x80", "???");      /* a surrogate */
	CLEANS("\xf4\x90\x80\x80", "????"); /* past U+10FFFF */
	CLEANS("\xf0\x9f\x98", "???");      /* cut off */
	CLEANS("\xe2\x82x", "??x");
}

static void cuts_between_characters(void **state)
{
	char buf[5];

	(void)state;
	assert_string_equal(rpc_text_clean(buf, 5, "abcdef", 6), "abcd");
	assert_string_equal(rpc_text_clean(buf, 5, "abc\u00e4", 5), "abc");
	assert_string_equal(rpc_text_clean(buf, 5, "ab\u00e4", 4), "ab\u00e4");
	assert_string_equal(rpc_text_clean(buf, 1, "abc", 3), "");
}

static void knows_each_errno_by_its_name(void **state)
{
	(void)state;
	for (int e = 1; e < 200; e++) {
		const char *name = strerrorname_np(e);

		if (name)
			assert_int_equal(rpc_errno_parse(name, strlen(name)),
					 e);
	}
	assert_int_equal(rpc_errno_parse("EBUSY", 5), EBUSY);
}

static void knows_no_other_name(void **state)
{
	(void)state;
	assert_int_equal(rpc_errno_parse("", 0), 0);
	assert_int_equal(rpc_errno_parse("0", 1), 0);
	assert_int_equal(rpc_errno_parse("16", 2), 0);
	assert_int_equal(rpc_errno_parse("ebusy", 5), 0);
	assert_int_equal(rpc_errno_parse("EBUSYX", 6), 0);
	assert_int_equal(rpc_errno_parse("EBUSY", 4), 0);
	assert_int_equal(rpc_errno_parse("EBUSY\0", 6), 0);
}

static void maps_every_code_there_and_back(void **state)
{
	(void)state;
	for (int c = 0; c <= RPC_UNAUTHENTICATED; c++) {
		enum rpc_code code = (enum rpc_code)c;
		int error = rpc_code_to_errno(code);

		assert_string_not_equal(rpc_code_name(code), "");
		assert_true(c == 0 ? error == 0 : error > 0);
		/* three have no errno of their own */
		if (code != RPC_UNKNOWN && code != RPC_DATA_LOSS &&
		    code != RPC_UNAUTHENTICATED)
			assert_int_equal(rpc_code_from_errno(error), code);
	}
	assert_int_equal(rpc_code_from_errno(ESTALE), RPC_FAILED_PRECONDITION);
	assert_int_equal(rpc_code_from_errno(EXDEV), RPC_INTERNAL);
	assert_int_equal(rpc_code_to_errno((enum rpc_code)99), EIO);
	assert_string_equal(rpc_code_name((enum rpc_code)99), "UNKNOWN");
	assert_string_equal(rpc_code_name((enum rpc_code) - 1), "UNKNOWN");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(keeps_good_text),
		cmocka_unit_test(replaces_what_is_no_text),
		cmocka_unit_test(cuts_between_characters),
		cmocka_unit_test(knows_each_errno_by_its_name),
		cmocka_unit_test(knows_no_other_name),
		cmocka_unit_test(maps_every_code_there_and_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
