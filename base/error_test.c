/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/error.h"

static void sets_code_and_text_in_one_statement(void **state)
{
	struct error err = {0};

	(void)state;
	assert_int_equal(error_set(&err, ENOENT, "open '%s'", "x"), -ENOENT);
	assert_int_equal(err.code, ENOENT);
	assert_string_equal(err.msg, "open 'x'");
	assert_int_equal(error_set(NULL, EBUSY, "no words"), -EBUSY);
}

static void a_failure_without_a_code_is_still_one(void **state)
{
	struct error err = {0};

	(void)state;
	assert_int_equal(error_set(&err, 0, "odd"), -EIO);
	assert_int_equal(err.code, EIO);
	assert_int_equal(error_set(NULL, 0, "odd"), -EIO);
	assert_int_equal(error_prefix(NULL, 0, "x: "), -EIO);
}

static void the_old_text_may_be_part_of_the_new(void **state)
{
	struct error err = {0};

	(void)state;
	(void)error_set(&err, EINVAL, "inner");
	(void)error_set(&err, err.code, "outer: %s", err.msg);
	assert_string_equal(err.msg, "outer: inner");
}

static void a_prefix_keeps_code_and_text(void **state)
{
	struct error err = {0};

	(void)state;
	(void)error_set(&err, EBUSY, "in use");
	assert_int_equal(error_prefix(&err, -EBUSY, "attach '%s': ", "v"),
			 -EBUSY);
	assert_int_equal(err.code, EBUSY);
	assert_string_equal(err.msg, "attach 'v': in use");
}

static void a_prefix_returns_the_same_with_and_without_an_error(void **state)
{
	struct error unset = {0}, other = {.code = ENOENT};

	(void)state;
	assert_int_equal(error_prefix(NULL, -EBUSY, "x: "), -EBUSY);
	assert_int_equal(error_prefix(&unset, -EBUSY, "x: "), -EBUSY);
	assert_int_equal(unset.code, EBUSY);
	assert_int_equal(error_prefix(&other, -EBUSY, "x: "), -EBUSY);
	assert_int_equal(other.code, ENOENT);
}

static void a_prefix_of_an_unset_error_is_an_error(void **state)
{
	struct error err = {0};

	(void)state;
	assert_int_equal(error_prefix(&err, 0, "attach: "), -EIO);
	assert_int_equal(err.code, EIO);
	assert_string_equal(err.msg, "attach: unknown error");
}

static void long_text_is_cut(void **state)
{
	struct error err = {0};
	char text[2 * ERROR_TEXT_MAX];

	(void)state;
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	(void)error_set(&err, EIO, "%s", text);
	assert_int_equal(strlen(err.msg), ERROR_TEXT_MAX - 1);
	(void)error_prefix(&err, -EIO, "b: ");
	assert_int_equal(strlen(err.msg), ERROR_TEXT_MAX - 1);
	assert_memory_equal(err.msg, "b: aaa", 6);
	(void)error_prefix(&err, -EIO, "%s", text);
	assert_int_equal(strlen(err.msg), ERROR_TEXT_MAX - 1);
}

static void there_is_always_some_text(void **state)
{
	struct error err = {.code = ENOSPC};

	(void)state;
	assert_string_equal(error_text(&err), "No space left on device");
	err.code = 0;
	assert_string_equal(error_text(&err), "unknown error");
	assert_string_equal(error_text(NULL), "unknown error");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sets_code_and_text_in_one_statement),
		cmocka_unit_test(a_failure_without_a_code_is_still_one),
		cmocka_unit_test(the_old_text_may_be_part_of_the_new),
		cmocka_unit_test(a_prefix_keeps_code_and_text),
		cmocka_unit_test(
			a_prefix_returns_the_same_with_and_without_an_error),
		cmocka_unit_test(a_prefix_of_an_unset_error_is_an_error),
		cmocka_unit_test(long_text_is_cut),
		cmocka_unit_test(there_is_always_some_text),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
