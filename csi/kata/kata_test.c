/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/process.h"
#include "csi/kata/kata_record.h"
#include "csi/kata/kata_shim.h"

static char run[64];

static int setup(void **state)
{
	(void)state;
	(void)strcpy(run, "/tmp/trib-kata.XXXXXX");
	return mkdtemp(run) ? 0 : -1;
}

static int teardown(void **state)
{
	const char *const argv[] = {"rm", "-rf", "--one-file-system", run,
				    NULL};

	(void)state;
	return process_must(argv, 10000, NULL);
}

/* Names as `printf PATH | basenc --base64url` has them. */
static void a_path_has_its_directory(void **state)
{
	static const struct {
		const char *path, *name;
	} cases[] = {
		{"/a", "L2E="},
		{"/ab", "L2Fi"},
		{"/abc", "L2FiYw=="},
		{"/var/lib/kubelet/pods/x/volumes/kubernetes.io~csi/p/mount",
		 "L3Zhci9saWIva3ViZWxldC9wb2RzL3gvdm9sdW1lcy9rdWJlcm5ldGVzLmlv"
		 "fmNzaS9wL21vdW50"},
		{"/\xc3\xbf\xc3\xbe?>", "L8O_w74_Pg=="},
	};
	char dir[PATH_MAX], want[PATH_MAX], path[KATA_PATH_MAX + 2];

	(void)state;
	for (size_t i = 0; i < array_size(cases); i++) {
		(void)snprintf(want, sizeof(want),
			       "/r/kata-containers/shared/direct-volumes/%s",
			       cases[i].name);
		assert_int_equal(
			kata_record_dir("/r", cases[i].path, dir, NULL), 0);
		assert_string_equal(dir, want);
	}
	memset(path, 'x', sizeof(path));
	path[0] = '/';
	path[KATA_PATH_MAX] = '\0';
	assert_int_equal(kata_record_dir("/r", path, dir, NULL), 0);
	assert_true(strlen(strrchr(dir, '/') + 1) <= NAME_MAX);
	path[KATA_PATH_MAX] = 'x';
	path[KATA_PATH_MAX + 1] = '\0';
	assert_int_equal(kata_record_dir("/r", path, dir, NULL), -ENAMETOOLONG);
}

static void assert_mode(const char *path, mode_t mode)
{
	struct stat st;

	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, mode);
}

static void a_record_is_what_the_runtime_reads(void **state)
{
	const char *const options[] = {"noatime", "ro"};
	const struct kata_record record = {
		.device = "/dev/loop3",
		.fs_type = "ext4",
		.options = options,
		.n_options = 2,
		.has_group = true,
		.group = 4711,
	};
	char dir[PATH_MAX], path[PATH_MAX + 32];
	auto_free char *text = NULL;
	size_t length;

	(void)state;
	assert_false(kata_record_exists(run, "/t"));
	assert_int_equal(kata_record_write(run, "/t", &record, NULL), 0);
	assert_int_equal(kata_record_write(run, "/t", &record, NULL), 0);
	assert_true(kata_record_exists(run, "/t"));
	assert_int_equal(kata_record_dir(run, "/t", dir, NULL), 0);
	assert_mode(dir, 0700);
	(void)snprintf(path, sizeof(path), "%s/mountInfo.json", dir);
	assert_mode(path, 0600);
	assert_int_equal(file_read(AT_FDCWD, path, 4096, &text, &length, NULL),
			 0);
	assert_string_equal(text,
			    "{\"volume-type\":\"directvol\","
			    "\"device\":\"\\/dev\\/loop3\",\"fstype\":\"ext4\","
			    "\"metadata\":{\"fsGroup\":\"4711\","
			    "\"fsGroupChangePolicy\":\"OnRootMismatch\"},"
			    "\"options\":[\"noatime\",\"ro\"]}");
}

static void a_sandbox_is_found_and_goes_with_the_record(void **state)
{
	const struct kata_record record = {.device = "/dev/x",
					   .fs_type = "ext4"};
	char dir[PATH_MAX], path[PATH_MAX + 32], sandbox[KATA_SANDBOX_SIZE];

	(void)state;
	assert_int_equal(kata_record_sandbox(run, "/t", sandbox, NULL),
			 -ENOENT);
	assert_int_equal(kata_record_write(run, "/t", &record, NULL), 0);
	assert_int_equal(kata_record_sandbox(run, "/t", sandbox, NULL),
			 -ENOENT);
	assert_int_equal(kata_record_dir(run, "/t", dir, NULL), 0);
	/* A name that is no id is never part of a path. */
	(void)snprintf(path, sizeof(path), "%s/a b", dir);
	(void)close(open(path, O_WRONLY | O_CREAT, 0600));
	assert_int_equal(kata_record_sandbox(run, "/t", sandbox, NULL),
			 -ENOENT);
	(void)snprintf(path, sizeof(path), "%s/sandbox-1.x", dir);
	(void)close(open(path, O_WRONLY | O_CREAT, 0600));
	assert_int_equal(kata_record_sandbox(run, "/t", sandbox, NULL), 0);
	assert_string_equal(sandbox, "sandbox-1.x");
	assert_int_equal(kata_record_remove(run, "/t", NULL), 0);
	assert_int_equal(kata_record_remove(run, "/t", NULL), 0);
	assert_false(kata_record_exists(run, "/t"));
}

static int parse(const char *text, struct kata_stats *ret)
{
	return kata_stats_parse(text, strlen(text), ret);
}

static void answers_of_both_runtimes_are_read(void **state)
{
	struct kata_stats s = {0};

	(void)state;
	assert_int_equal(
		parse("{\"usage\":[{\"available\":1,\"total\":3,\"used\":2,"
		      "\"unit\":1},{\"total\":9,\"unit\":2}],"
		      "\"volume_condition\":{\"abnormal\":true,"
		      "\"message\":\"bad\"}}",
		      &s),
		0);
	assert_true(s.has_bytes && s.has_inodes && s.abnormal);
	assert_int_equal(s.bytes.total, 3);
	assert_int_equal(s.bytes.used, 2);
	assert_int_equal(s.bytes.available, 1);
	assert_int_equal(s.inodes.total, 9);
	assert_string_equal(s.message, "bad");
	assert_int_equal(parse("{\"usage\":[{\"total\":\"5\",\"used\":-1,"
			       "\"unit\":\"BYTES\"},7,null]}",
			       &s),
			 0);
	assert_int_equal(s.bytes.total, 5);
	assert_int_equal(s.bytes.used, 0);
	assert_false(s.has_inodes || s.abnormal);
	assert_int_equal(parse("", &s), -EBADMSG);
	assert_int_equal(parse("[]", &s), -EBADMSG);
	assert_int_equal(parse("{\"usage\":3}", &s), -EBADMSG);
	assert_int_equal(parse("{\"usage\":[", &s), -EBADMSG);
}

static void a_shim_that_is_gone_is_said_to_be(void **state)
{
	struct kata_stats s;
	struct error err = {0};

	(void)state;
	assert_int_equal(kata_shim_stats(run, "s", "/t", &s, &err),
			 -EHOSTUNREACH);
	assert_non_null(strstr(err.msg, "'s' does not answer"));
	assert_int_equal(kata_shim_resize(run, "s", "/t", 1, NULL),
			 -EHOSTUNREACH);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_path_has_its_directory),
		TEST(a_record_is_what_the_runtime_reads),
		TEST(a_sandbox_is_found_and_goes_with_the_record),
		cmocka_unit_test(answers_of_both_runtimes_are_read),
		TEST(a_shim_that_is_gone_is_said_to_be),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
