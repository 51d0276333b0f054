/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/pool/copies_record.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "blockd/pool/record_text.h"

#define CUT "01234567-89ab-4cde-8f01-23456789abcd"

static char *make(const char *cut, size_t n, size_t *ret_length)
{
	struct copies_record record = {.names = calloc(n + 1, EXTENT_NAME_SIZE),
				       .n = n};
	char *text = NULL;

	memcpy(record.cut, cut, strlen(cut) + 1);
	for (size_t i = 0; i < n; i++)
		(void)snprintf(record.names[i], EXTENT_NAME_SIZE,
			       "%.40s-of-a-long-name-%zu", CUT, i);
	assert_int_equal(copies_record_encode(&record, &text, ret_length, NULL),
			 0);
	copies_record_done(&record);
	return text;
}

static void gives_back_as_many_as_there_may_be(void **unused)
{
	struct copies_record back;
	size_t length;
	auto_free char *text = make(CUT, COPIES_MAX, &length);

	(void)unused;
	assert_int_equal(copies_record_decode(text, length, &back, NULL), 0);
	assert_int_equal(back.n, COPIES_MAX);
	assert_string_equal(back.cut, CUT);
	assert_non_null(strstr(back.names[255], "-255"));
	copies_record_done(&back);
}

static void refuses_what_is_damaged_or_cut_short(void **unused)
{
	struct copies_record back;
	size_t length;
	auto_free char *text = make("", 3, &length);

	(void)unused;
	for (size_t i = 0; i < length; i++)
		assert_int_equal(copies_record_decode(text, i, &back, NULL),
				 -EBADMSG);
	for (size_t i = 0; i < length; i++) {
		text[i] ^= 1;
		assert_int_equal(
			copies_record_decode(text, length, &back, NULL),
			-EBADMSG);
		text[i] ^= 1;
	}
	assert_int_equal(copies_record_decode(text, length, &back, NULL), 0);
	copies_record_done(&back);
}

static void refuses_what_is_no_list(void **unused)
{
	static const char *const pairs[][2] = {
		{"name", "../x"},
		{"name", "a/b"},
		{"cut", "x"},
		{"cut", "../../01234567-89ab-4cde-8f01-234567"},
		{"what", "x"},
	};

	(void)unused;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		struct record_writer w = {0};
		struct copies_record back;
		struct error err = {0};
		auto_free char *text = NULL;
		size_t length;

		record_text_begin(&w, "tributary-copies", 1);
		record_text_add(&w, pairs[i][0], pairs[i][1]);
		assert_int_equal(record_text_end(&w, &text, &length), 0);
		assert_int_equal(
			copies_record_decode(text, length, &back, &err),
			-EBADMSG);
		assert_true(error_text(&err)[0]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_back_as_many_as_there_may_be),
		cmocka_unit_test(refuses_what_is_damaged_or_cut_short),
		cmocka_unit_test(refuses_what_is_no_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
