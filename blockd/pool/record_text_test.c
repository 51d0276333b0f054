/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/pool/record_text.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"

#define KIND "tributary-test"

static char *make(const char *value, size_t *ret_length)
{
	struct record_writer w = {0};
	char *text;

	record_text_begin(&w, KIND, 1);
	record_text_add(&w, "text", value);
	record_text_add_number(&w, "number", UINT64_MAX);
	record_text_add_flag(&w, "flag", true);
	record_text_add_pair(&w, "pair", "a=b", "c\nd");
	assert_int_equal(record_text_end(&w, &text, ret_length), 0);
	return text;
}

static int open_text(const char *text, size_t length, struct error *err)
{
	struct record_reader r;
	int rc = record_text_open(&r, text, length, KIND, 1, err);

	record_text_close(&r);
	return rc;
}

static void gives_back_what_was_written(void **state)
{
	struct record_reader r;
	char *key, *value, *name;
	uint64_t number;
	size_t length;
	bool flag;
	auto_free char *text = make("50% of \x01 and \xff", &length);

	(void)state;
	assert_int_equal(record_text_open(&r, text, length, KIND, 1, NULL), 0);
	assert_int_equal(record_text_next(&r, &key, &value, NULL), 1);
	assert_string_equal(key, "text");
	assert_int_equal(record_text_decode(value, 1, 100, NULL), 0);
	assert_string_equal(value, "50% of \x01 and \xff");
	assert_int_equal(record_text_next(&r, &key, &value, NULL), 1);
	assert_int_equal(record_text_number(value, &number, NULL), 0);
	assert_true(number == UINT64_MAX);
	assert_int_equal(record_text_next(&r, &key, &value, NULL), 1);
	assert_int_equal(record_text_flag(value, &flag, NULL), 0);
	assert_true(flag);
	assert_int_equal(record_text_next(&r, &key, &value, NULL), 1);
	assert_int_equal(record_text_pair(value, &name, &value, NULL), 0);
	assert_int_equal(record_text_decode(name, 1, 100, NULL), 0);
	assert_int_equal(record_text_decode(value, 1, 100, NULL), 0);
	assert_string_equal(name, "a=b");
	assert_string_equal(value, "c\nd");
	assert_int_equal(record_text_next(&r, &key, &value, NULL), 0);
	record_text_close(&r);
}

static void refuses_every_single_changed_bit(void **state)
{
	size_t length;
	auto_free char *text = make("x", &length);

	(void)state;
	for (size_t i = 0; i < length * 8; i++) {
		text[i / 8] ^= (char)(1 << i % 8);
		assert_int_equal(open_text(text, length, NULL), -EBADMSG);
		text[i / 8] ^= (char)(1 << i % 8);
	}
	assert_int_equal(open_text(text, length, NULL), 0);
}

static void refuses_every_shorter_record(void **state)
{
	size_t length;
	auto_free char *text = make("x", &length);

	(void)state;
	for (size_t i = 0; i < length; i++)
		assert_int_equal(open_text(text, i, NULL), -EBADMSG);
}

static void refuses_another_kind_and_a_newer_version(void **state)
{
	struct record_reader r;
	struct record_writer w = {0};
	struct error err = {0};
	size_t length;
	char *text;

	(void)state;
	record_text_begin(&w, KIND, 2);
	assert_int_equal(record_text_end(&w, &text, &length), 0);
	assert_int_equal(record_text_open(&r, text, length, KIND, 1, &err),
			 -EBADMSG);
	assert_non_null(strstr(err.msg, "version 2"));
	record_text_close(&r);
	assert_int_equal(record_text_open(&r, text, length, "other", 2, &err),
			 -EBADMSG);
	record_text_close(&r);
	free(text);
}

static void refuses_to_grow_past_its_limit(void **state)
{
	struct record_writer w = {0};
	char value[1001];
	size_t length;
	char *text;

	(void)state;
	memset(value, 'x', 1000);
	value[1000] = '\0';
	record_text_begin(&w, KIND, 1);
	for (int i = 0; i < RECORD_TEXT_MAX / 1000 + 1; i++)
		record_text_add(&w, "k", value);
	assert_int_equal(record_text_end(&w, &text, &length), -EFBIG);
}

static void refuses_values_not_in_their_one_written_form(void **state)
{
	const char *bad[] = {"%41", "%0a%0", "%0A", "%00", "a b", "a=b", "%"};
	const char *numbers[] = {"",   "01", "-1",
				 "1x", " 1", "18446744073709551616"};
	uint64_t number;
	bool flag;

	(void)state;
	for (size_t i = 0; i < array_size(bad); i++) {
		char value[16];

		(void)snprintf(value, sizeof(value), "%s", bad[i]);
		assert_int_equal(record_text_decode(value, 0, 10, NULL),
				 -EBADMSG);
	}
	for (size_t i = 0; i < array_size(numbers); i++)
		assert_int_equal(record_text_number(numbers[i], &number, NULL),
				 -EBADMSG);
	assert_int_equal(record_text_flag("Yes", &flag, NULL), -EBADMSG);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_back_what_was_written),
		cmocka_unit_test(refuses_every_single_changed_bit),
		cmocka_unit_test(refuses_every_shorter_record),
		cmocka_unit_test(refuses_another_kind_and_a_newer_version),
		cmocka_unit_test(refuses_to_grow_past_its_limit),
		cmocka_unit_test(refuses_values_not_in_their_one_written_form),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
