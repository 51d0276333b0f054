/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/wire/crc32c.h"

static void gives_the_check_value(void **state)
{
	(void)state;
	assert_int_equal(crc32c(0, "123456789", 9), 0xe3069283);
}

static void gives_the_values_of_rfc_3720_b_4(void **state)
{
	uint8_t data[32];

	(void)state;
	memset(data, 0, sizeof(data));
	assert_int_equal(crc32c(0, data, sizeof(data)), 0x8a9136aa);
	memset(data, 0xff, sizeof(data));
	assert_int_equal(crc32c(0, data, sizeof(data)), 0x62a8ab43);
}

static void pieces_give_what_the_whole_gives(void **state)
{
	uint8_t data[1000];
	size_t split;

	(void)state;
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7 + i / 256);
	for (split = 0; split <= sizeof(data); split += 37)
		assert_int_equal(crc32c(crc32c(0, data, split), data + split,
					sizeof(data) - split),
				 crc32c(0, data, sizeof(data)));
}

static void nothing_changes_nothing(void **state)
{
	(void)state;
	assert_int_equal(crc32c(0, NULL, 0), 0);
	assert_int_equal(crc32c(0x12345678, NULL, 0), 0x12345678);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_the_check_value),
		cmocka_unit_test(gives_the_values_of_rfc_3720_b_4),
		cmocka_unit_test(pieces_give_what_the_whole_gives),
		cmocka_unit_test(nothing_changes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
