/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/uuid_name.h"

static void a_uuid_is_random_and_of_version_4(void **state)
{
	char a[UUID_TEXT_SIZE], b[UUID_TEXT_SIZE];

	(void)state;
	assert_ptr_equal(uuid_make(a), a);
	uuid_make(b);
	assert_int_equal(strlen(a), 36);
	assert_string_not_equal(a, b);
	assert_int_equal(a[14], '4');
	assert_non_null(strchr("89ab", a[19]));
	assert_int_equal(strspn(a, "0123456789abcdef-"), 36);
	assert_true(a[8] == '-' && a[13] == '-' && a[18] == '-' &&
		    a[23] == '-');
}

static void the_boot_id_stays(void **state)
{
	char a[UUID_TEXT_SIZE], b[UUID_TEXT_SIZE];

	(void)state;
	assert_int_equal(boot_id_read(a), 0);
	assert_int_equal(boot_id_read(b), 0);
	assert_string_equal(a, b);
	assert_int_equal(strlen(a), 36);
}

static void takes_names_that_are_safe_everywhere(void **state)
{
	static const char longest[] =
		"a23456789012345678901234567890123456789012345678901234567890123";
	static const char *const good[] = {"a",       "9",    "node-1",
					   "a.b_c-d", "x--y", longest};

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		struct error err = {0};

		if (name_check("pool", good[i], &err) < 0)
			fail_msg("%s", err.msg);
	}
}

static void refuses_other_names_and_tells_the_rule(void **state)
{
	static const struct {
		const char *name, *rule;
	} rows[] = {
		{"", "empty"},
		{"a234567890123456789012345678901234567890123456789012345678901234",
		 "longer than 63"},
		{"Pool", "a-z"},
		{"a/b", "a-z"},
		{"a@1", "a-z"},
		{"a b", "a-z"},
		{"a\n", "a-z"},
		{"\xc3\xa9t\xc3\xa9", "\\xc3"},
		{".a", "start and end"},
		{"a-", "start and end"},
		{"-", "start and end"},
		{"a..b", "\"..\""},
		{"..", "start and end"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct error err = {0};

		if (name_check("extent", rows[i].name, &err) != -EINVAL)
			fail_msg("'%s' was taken", rows[i].name);
		assert_non_null(strstr(err.msg, "the extent name"));
		if (!strstr(err.msg, rows[i].rule))
			fail_msg("'%s': %s", rows[i].name, err.msg);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_uuid_is_random_and_of_version_4),
		cmocka_unit_test(the_boot_id_stays),
		cmocka_unit_test(takes_names_that_are_safe_everywhere),
		cmocka_unit_test(refuses_other_names_and_tells_the_rule),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
