/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/sysmacros.h>

#include "union/sys/statx.h"

#include <cmocka.h>

static const struct stat file = {
	.st_ino = 0x1122334455667788,
	.st_mode = S_IFCHR | 0640,
	.st_nlink = 2,
	.st_uid = 1234,
	.st_gid = 77,
	.st_size = 0x100000001,
	.st_blocks = 9,
	.st_blksize = 4096,
	.st_atim = {-1, 999999999},
	.st_mtim = {2, 3},
	.st_ctim = {4, 5},
};

static uint64_t number_at(const struct statx_out *out, size_t at, size_t size)
{
	const uint8_t *bytes = (const uint8_t *)out + at;
	uint64_t value = 0;

	if (size == 2) {
		uint16_t v;

		memcpy(&v, bytes, sizeof(v));
		return v;
	}
	if (size == 4) {
		uint32_t v;

		memcpy(&v, bytes, sizeof(v));
		return v;
	}
	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* Offsets are those of linux/fuse.h: struct fuse_statx begins at 32. */
static void each_field_is_where_the_kernel_looks(void **state)
{
	struct timespec birth = {6, 7};
	struct stat st = file;
	struct statx_out out;

	(void)state;
	st.st_rdev = makedev(8, 300);
	statx_encode(&st, &birth, 1.5, &out);
	assert_int_equal(number_at(&out, 0, 8), 1);
	assert_int_equal(number_at(&out, 8, 4), 500000000);
	assert_int_equal(number_at(&out, 32, 4), 0xfff);
	assert_int_equal(number_at(&out, 36, 4), 4096);
	assert_int_equal(number_at(&out, 48, 4), 2);
	assert_int_equal(number_at(&out, 52, 4), 1234);
	assert_int_equal(number_at(&out, 56, 4), 77);
	assert_int_equal(number_at(&out, 60, 2), S_IFCHR | 0640);
	assert_int_equal(number_at(&out, 64, 8), file.st_ino);
	assert_int_equal(number_at(&out, 72, 8), file.st_size);
	assert_int_equal(number_at(&out, 80, 8), 9);
	assert_int_equal(number_at(&out, 96, 8), UINT64_MAX); /* read */
	assert_int_equal(number_at(&out, 104, 4), 999999999);
	assert_int_equal(number_at(&out, 112, 8), 6); /* made */
	assert_int_equal(number_at(&out, 120, 4), 7);
	assert_int_equal(number_at(&out, 128, 8), 4); /* changed */
	assert_int_equal(number_at(&out, 136, 4), 5);
	assert_int_equal(number_at(&out, 144, 8), 2); /* written */
	assert_int_equal(number_at(&out, 152, 4), 3);
	assert_int_equal(number_at(&out, 160, 4), 8);
	assert_int_equal(number_at(&out, 164, 4), 300);
}

static void a_birth_that_is_not_known_is_not_in_the_mask(void **state)
{
	struct statx_out out;

	(void)state;
	statx_encode(&file, NULL, 0, &out);
	assert_int_equal(out.mask, STATX_BASIC_STATS);
	assert_int_equal(out.born.seconds, 0);
	assert_int_equal(out.valid, 0);
	assert_int_equal(out.valid_nanoseconds, 0);
}

static void what_is_trusted_for_ever_fits(void **state)
{
	struct statx_out out;

	(void)state;
	statx_encode(&file, NULL, 1e30, &out);
	assert_true(out.valid == UINT64_MAX);
	assert_int_equal(out.valid_nanoseconds, 0);
	statx_encode(&file, NULL, -1, &out);
	assert_int_equal(out.valid, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_field_is_where_the_kernel_looks),
		cmocka_unit_test(a_birth_that_is_not_known_is_not_in_the_mask),
		cmocka_unit_test(what_is_trusted_for_ever_fits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
