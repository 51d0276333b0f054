/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/device/record.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"

static const struct record full = {
	.id = "v1.split-3",
	.transport = "fuse",
	.why = "the kernel has no NBD client; FUSE instead",
	.address = "[fd00::1]:10809",
	.export_name = "v1.split-3@12",
	.parts = 3,
	.size = UINT64_C(5) << 40,
	.read_only = true,
	.connections = 4,
	.dead_timeout_ms = 30000,
	.boot = "42b61ed9-e50b-479a-a7ca-9feda8d4a00e",
	.device = "/dev/loop17",
	.pid = 4711,
	.pid_start = UINT64_C(1) << 40,
	.incarnation = "incarnation=a=b",
	.ready = true,
};

static void survives_the_way_through_a_file(void **state)
{
	struct record back;
	auto_free char *text = record_encode(&full);

	(void)state;
	assert_non_null(text);
	assert_int_equal(record_decode(text, strlen(text), &back, NULL), 0);
	assert_memory_equal(&back, &full, sizeof(full));
}

static const char long_path[] =
	"version=1\nid=a\n"
	"device=/dev/mapper/a-name-that-is-longer-than-any-device-ever-had-anywhere\n";

static void refuses_damaged_records(void **state)
{
	static const char *const bad[] = {
		"",
		"id=a\n",
		"version=2\nid=a\n",
		"version=1\n",
		"version=1\nid=../../etc\n",
		"version=1\nid=a\nsize=\n",
		"version=1\nid=a\nsize=-1\n",
		"version=1\nid=a\nsize=18446744073709551616\n",
		"version=1\nid=a\nsize=12x\n",
		"version=1\nid=a\nready=2\n",
		"version=1\nid=a\npid=4294967296\n",
		"version=1\nid=a\nnonsense\n",
		long_path,
	};
	struct record r;

	(void)state;
	for (size_t i = 0; i < array_size(bad); i++)
		assert_int_equal(
			record_decode(bad[i], strlen(bad[i]), &r, NULL),
			-EINVAL);
	assert_int_equal(record_decode("version=1\n\0id=a\n", 16, &r, NULL),
			 -EINVAL);
}

static void passes_over_keys_of_a_later_version(void **state)
{
	static const char text[] = "version=1\nid=a\ncolour=red\nsize=4096\n";
	struct record r;

	(void)state;
	assert_int_equal(record_decode(text, strlen(text), &r, NULL), 0);
	assert_int_equal(r.size, 4096);
}

static void refuses_control_characters(void **state)
{
	(void)state;
	assert_true(record_text_ok("/tmp/a b=c\xc3\xa4"));
	assert_false(record_text_ok("a\nready=1"));
	assert_false(record_text_ok("a\x7f"));
}

static void is_not_found_under_another_name(void **state)
{
	char dir[] = "/tmp/trib-record.XXXXXX";
	struct record r;

	(void)state;
	assert_non_null(mkdtemp(dir));
	auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(record_load(fd, full.id, &r, NULL), -ENOENT);
	assert_int_equal(record_save(fd, &full, NULL), 0);
	assert_int_equal(record_load(fd, full.id, &r, NULL), 0);
	assert_memory_equal(&r, &full, sizeof(full));
	assert_int_equal(renameat(fd, "v1.split-3" RECORD_SUFFIX, fd,
				  "other" RECORD_SUFFIX),
			 0);
	assert_int_equal(record_load(fd, "other", &r, NULL), -EINVAL);
	assert_int_equal(record_remove(fd, "other", NULL), 0);
	assert_int_equal(record_remove(fd, "other", NULL), 0);
	assert_int_equal(rmdir(dir), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(survives_the_way_through_a_file),
		cmocka_unit_test(refuses_damaged_records),
		cmocka_unit_test(passes_over_keys_of_a_later_version),
		cmocka_unit_test(refuses_control_characters),
		cmocka_unit_test(is_not_found_under_another_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
