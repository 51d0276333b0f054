/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "base/size.h"

static uint64_t parsed(const char *text)
{
	struct error err = {0};
	uint64_t bytes = 0;

	if (size_parse(text, &bytes, &err) < 0)
		fail_msg("%s: %s", text, err.msg);
	return bytes;
}

static void reads_sizes_as_people_write_them(void **state)
{
	(void)state;
	assert_int_equal(parsed("0"), 0);
	assert_int_equal(parsed("4096"), 4096);
	assert_int_equal(parsed("512B"), 512);
	assert_int_equal(parsed("64KiB"), 65536);
	assert_int_equal(parsed("64Ki"), 65536); /* as Kubernetes has it */
	assert_int_equal(parsed("64kib"), 65536);
	assert_int_equal(parsed("64k"), 65536);
	assert_int_equal(parsed("1.5GiB"), 1610612736);
	assert_int_equal(parsed("2G"), 2147483648);
	assert_int_equal(parsed("10GB"), 10000000000);
	assert_int_equal(parsed("1T"), TIB);
	assert_int_equal(parsed("0.1KiB"), 102);
	assert_int_equal(parsed("0.5000000000000000000000001M"), MIB / 2);
	assert_true(parsed("9223372036854775807") == INT64_MAX);
}

static void refuses_what_is_no_size(void **state)
{
	static const char *const bad[] = {
		"",
		"-1",
		"+1",
		"G",
		"1X",
		"1 ",
		" 1",
		"1.",
		".5G",
		"1.5",
		"1.5B",
		"1..5G",
		"0x10",
		"1G1",
		"1  G",
		"1e3",
		"8E",
		"8388608T",
		"nan",
		"99999999999999999999",
		"9223372036854775808",
		"18446744073709551616T",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct error err = {0};
		uint64_t bytes = 7;

		if (size_parse(bad[i], &bytes, &err) != -EINVAL)
			fail_msg("'%s' was taken", bad[i]);
		assert_int_equal(bytes, 7);
		assert_true(err.msg[0]);
	}
}

static void an_error_quotes_no_more_than_a_line(void **state)
{
	struct error err = {0};
	char text[4096];
	uint64_t bytes;

	(void)state;
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(size_parse(text, &bytes, &err), -EINVAL);
	assert_true(strlen(err.msg) < 200);
	assert_non_null(strstr(err.msg, "GiB"));
}

static void writes_sizes_for_people(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} rows[] = {
		{0, "0 B"},
		{1023, "1023 B"},
		{1024, "1.00 KiB"},
		{1536, "1.50 KiB"},
		{1048575, "1.00 MiB"},
		{5 * GIB, "5.00 GiB"},
		{INT64_MAX, "8.00 EiB"},
		{UINT64_MAX, "16.00 EiB"},
	};
	char buf[SIZE_TEXT_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
		assert_string_equal(size_format(buf, rows[i].bytes),
				    rows[i].text);
}

static void reads_what_it_wrote(void **state)
{
	char buf[SIZE_TEXT_MAX];
	uint64_t bytes;

	(void)state;
	for (bytes = 1; bytes <= INT64_MAX / 2; bytes *= 2)
		assert_true(parsed(size_format(buf, bytes)) == bytes);
}

static void rounds_up_and_not_past_the_end(void **state)
{
	uint64_t got = 1;

	(void)state;
	assert_int_equal(size_round_up(0, 4096, &got), 0);
	assert_int_equal(got, 0);
	assert_int_equal(size_round_up(1, 4096, &got), 0);
	assert_int_equal(got, 4096);
	assert_int_equal(size_round_up(4096, 4096, &got), 0);
	assert_int_equal(got, 4096);
	assert_int_equal(size_round_up(10, 3, &got), 0);
	assert_int_equal(got, 12);
	assert_int_equal(size_round_up(UINT64_MAX - 1, 4096, &got), -ERANGE);
	assert_int_equal(got, 12);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_sizes_as_people_write_them),
		cmocka_unit_test(refuses_what_is_no_size),
		cmocka_unit_test(an_error_quotes_no_more_than_a_line),
		cmocka_unit_test(writes_sizes_for_people),
		cmocka_unit_test(reads_what_it_wrote),
		cmocka_unit_test(rounds_up_and_not_past_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
