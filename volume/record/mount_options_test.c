/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>

#include "base/cleanup.h"
#include "volume/record/mount_options.h"

static struct mount_options parsed(const char *text, const char *fs_type)
{
	struct mount_options options;
	struct error err = {0};

	if (mount_options_parse(text, fs_type, &options, &err) < 0)
		fail_msg("%s: %s", text, err.msg);
	return options;
}

static void none_are_none(void **state)
{
	static const char *const texts[] = {NULL, "", ",", "defaults", "rw,,"};

	(void)state;
	for (size_t i = 0; i < array_size(texts); i++) {
		struct mount_options options = parsed(texts[i], "ext4");

		assert_int_equal(options.flags, 0);
		assert_string_equal(options.data, "");
		assert_string_equal(options.view, "");
	}
}

static void each_goes_where_it_concerns(void **state)
{
	struct mount_options options = parsed(
		"noatime,discard,nosuid,commit=30,lazytime,sync", "ext4");

	(void)state;
	assert_int_equal(options.flags,
			 MS_NOATIME | MS_NOSUID | MS_LAZYTIME | MS_SYNCHRONOUS);
	assert_string_equal(options.data, "discard,commit=30");
	assert_string_equal(options.view, "noatime,nosuid,sync");
}

static void the_later_of_two_that_exclude_each_other_holds(void **state)
{
	struct mount_options options = parsed("noatime,relatime", "xfs");

	(void)state;
	assert_int_equal(options.flags, MS_RELATIME);
	options = parsed("relatime,noatime", "xfs");
	assert_int_equal(options.flags, MS_NOATIME);
}

static void a_label_with_categories_is_one_option(void **state)
{
	static const char label[] =
		"context=\"system_u:object_r:container_file_t:s0:c12,c345\"";
	char text[256];
	struct mount_options options;

	(void)state;
	(void)snprintf(text, sizeof(text), "nodev,%s,noexec", label);
	options = parsed(text, "xfs");
	assert_int_equal(options.flags, MS_NODEV | MS_NOEXEC);
	assert_string_equal(options.data, label);
	(void)snprintf(text, sizeof(text), "nodev,%s,noexec", label);
	assert_string_equal(options.view, text);
}

static void what_could_break_a_volume_is_named(void **state)
{
	static const struct {
		const char *text, *fs_type, *named;
	} rows[] = {
		{"noatime,suid", "ext4", "'suid'"},
		{"dev", "ext4", "'dev'"},
		{"bind", "ext4", "'bind'"},
		{"noload", "ext4", "'noload'"},
		{"norecovery", "xfs", "'norecovery'"},
		{"nouuid", "xfs", "'nouuid'"},
		{"nobarrier", "ext4", "'nobarrier'"},
		{"data=writeback", "ext4", "'data=writeback'"},
		{"journal_path=/x", "ext4", "'journal_path=/x'"},
		{"commit=5", "xfs", "'commit=5'"},
		{"commit", "ext4", "'commit' needs"},
		{"commit=-1", "ext4", "'commit=-1' needs"},
		{"commit=99999999", "ext4", "needs a whole number"},
		{"noatime=1", "ext4", "'noatime=1' takes no"},
		{"context=", "ext4", "'context=' needs"},
		{"context", "ext4", "'context' needs"},
		{"context=a\\,suid", "ext4", "'context=a\\' needs"},
		{"context=\"a,suid", "ext4", "without its other"},
		{"NOATIME", "ext4", "'NOATIME'"},
		{" noatime", "ext4", "' noatime'"},
		{"policy=ff", "ext4", "'policy=ff'"},
		{"fsname=x", "ext4", "'fsname=x'"},
	};

	(void)state;
	for (size_t i = 0; i < array_size(rows); i++) {
		struct mount_options options;
		struct error err = {0};

		assert_int_equal(mount_options_parse(rows[i].text,
						     rows[i].fs_type, &options,
						     &err),
				 -EINVAL);
		if (!strstr(err.msg, rows[i].named))
			fail_msg("%s: %s", rows[i].text, err.msg);
	}
}

static void too_many_are_refused(void **state)
{
	static char text[3 * MOUNT_OPTIONS_MAX];
	struct mount_options options;

	(void)state;
	while (strlen(text) < MOUNT_OPTIONS_MAX + 16)
		strcat(text, "discard,");
	assert_int_equal(mount_options_parse(text, "ext4", &options, NULL),
			 -EINVAL);
	memset(text, 'x', sizeof(text) - 1);
	assert_int_equal(mount_options_parse(text, "ext4", &options, NULL),
			 -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(none_are_none),
		cmocka_unit_test(each_goes_where_it_concerns),
		cmocka_unit_test(
			the_later_of_two_that_exclude_each_other_holds),
		cmocka_unit_test(a_label_with_categories_is_one_option),
		cmocka_unit_test(what_could_break_a_volume_is_named),
		cmocka_unit_test(too_many_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
