/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "volume/branch_fs.h"

#define UUID  "6b2c2f5e-2f0a-4a55-9a0e-0a4d1f6c7b11"
#define SMALL (UINT64_C(64) << 20) /* a sparse file */

/* mkfs.xfs says what is wrong, and then how it is to be used. */
static void says_why_mkfs_failed(void **state)
{
	static const char *const types[] = {"xfs", "ext4"};
	char path[] = "/tmp/branch-fs-test-XXXXXX";
	auto_close int fd = mkstemp(path);
	struct error err = {0};

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, SMALL), 0);
	for (size_t i = 0; i < array_size(types); i++) {
		const char *uuid = i ? "none" : UUID;

		assert_int_equal(
			branch_fs_make(path, types[i], uuid, true, -1, &err),
			-EIO);
		assert_non_null(strstr(err.msg, types[i]));
		assert_non_null(strstr(err.msg, i ? "UUID: none" : "larger"));
		assert_null(strstr(err.msg, "<value>"));
	}
	assert_int_equal(unlink(path), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(says_why_mkfs_failed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
