/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "union/options.h"

#include <cmocka.h>

#define WORDS_MAX 8

static struct union_options options;
static struct error err;

/* Parse the words, up to a NULL, as a command line. */
static int parse(const char *const *words)
{
	char *argv[WORDS_MAX + 1] = {(char *)"trib-union"};
	int argc = 1;

	while (*words)
		argv[argc++] = (char *)*words++; /* is not written to */
	union_options_done(&options);
	memset(&err, 0, sizeof(err));
	return union_options_parse(argc, argv, &options, &err);
}
#define PARSE(...) parse((const char *const[]){__VA_ARGS__, NULL})

static void refused(const char *text, int r)
{
	assert_true(r < 0);
	assert_non_null(strstr(err.msg, text));
}

static void defaults_are_what_the_help_says(void **state)
{
	(void)state;
	assert_int_equal(PARSE("/a", "/mnt"), 0);
	assert_int_equal(options.branch_count, 1);
	assert_string_equal(options.branches[0].path, "/a");
	assert_string_equal(options.mountpoint, "/mnt");
	assert_string_equal(options.policy->name, "mfs");
	assert_int_equal(options.threads, 8);
	assert_true(options.allow_other);
	assert_true(options.passthrough);
	assert_false(options.foreground);
	assert_int_equal(options.min_free, 0);
	assert_int_equal(options.ready_fd, -1);
}

static void a_label_with_categories_reaches_libfuse_whole(void **state)
{
	(void)state;
	assert_int_equal(
		PARSE("-o",
		      "nodev,context=\"system_u:object_r:x_t:s0:c1,c2\",noexec",
		      "/a", "/mnt"),
		0);
	assert_string_equal(
		options.mount_flags,
		",nodev,context=\"system_u:object_r:x_t:s0:c1\\,c2\",noexec");
	assert_int_equal(PARSE("-o", "rootcontext=a:b,policy=ff", "/a", "/mnt"),
			 0);
	assert_string_equal(options.mount_flags, ",rootcontext=a:b");
	assert_string_equal(options.policy->name, "ff");
}

static void options_are_taken_in_both_spellings(void **state)
{
	(void)state;
	assert_int_equal(PARSE("-o", "policy=ff,minfreespace=1G,nosuid",
			       "-othreads=3,passthrough=off,fsname=v,noatime",
			       "-f", "/a", "/mnt"),
			 0);
	assert_string_equal(options.policy->name, "ff");
	assert_int_equal(options.min_free, 1 << 30);
	assert_int_equal(options.threads, 3);
	assert_false(options.passthrough);
	assert_true(options.foreground);
	assert_string_equal(options.fsname, "v");
	assert_string_equal(options.mount_flags, ",nosuid,noatime");
}

static void branches_have_flags_and_escapes(void **state)
{
	(void)state;
	assert_int_equal(
		PARSE("/a=local:/b\\:c\\=ro=ro:/d\\\\=local,ro:/e", "/mnt"), 0);
	assert_int_equal(options.branch_count, 4);
	assert_string_equal(options.branches[0].path, "/a");
	assert_int_equal(options.branches[0].flags, BRANCH_LOCAL);
	assert_string_equal(options.branches[1].path, "/b:c=ro");
	assert_int_equal(options.branches[1].flags, BRANCH_RO);
	assert_string_equal(options.branches[2].path, "/d\\");
	assert_int_equal(options.branches[2].flags, BRANCH_LOCAL | BRANCH_RO);
	assert_string_equal(options.branches[3].path, "/e");
}

static void refuses_the_unknown_by_name(void **state)
{
	(void)state;
	refused("cache.files", PARSE("-o", "cache.files=off", "/a", "/mnt"));
	refused("--fast", PARSE("--fast", "/a", "/mnt"));
	refused("policy=best", PARSE("-o", "policy=best", "/a", "/mnt"));
	refused("quick", PARSE("/a=quick", "/mnt"));
	refused("passthrough=on", PARSE("-o", "passthrough=on", "/a", "/m"));
	refused("third", PARSE("/a", "/mnt", "third"));
}

static void refuses_bad_values(void **state)
{
	(void)state;
	refused("threads=0", PARSE("-o", "threads=0", "/a", "/mnt"));
	refused("threads=9x", PARSE("-o", "threads=9x", "/a", "/mnt"));
	refused("threads=-1", PARSE("-o", "threads=-1", "/a", "/mnt"));
	refused("minfreespace", PARSE("-o", "minfreespace=much", "/a", "/m"));
	refused("needs a value", PARSE("-o", "policy", "/a", "/mnt"));
	refused("takes no value", PARSE("-o", "allow_other=1", "/a", "/mnt"));
	refused("-o needs", PARSE("/a", "/mnt", "-o"));
	refused("nosuid", PARSE("-o", "nosuid=1", "/a", "/mnt"));
	refused("context", PARSE("-o", "context", "/a", "/mnt"));
	refused("seclabel", PARSE("-o", "seclabel", "/a", "/mnt"));
}

static void refuses_missing_and_empty_branches(void **state)
{
	(void)state;
	refused("missing", PARSE("/a"));
	refused("empty", PARSE("/a::/b", "/mnt"));
	refused("empty", PARSE("=ro", "/mnt"));
	refused("empty", PARSE("", "/mnt"));
}

static void refuses_more_branches_than_fit(void **state)
{
	char list[2 * 257 + 1] = "";
	unsigned i;

	(void)state;
	for (i = 0; i < 256; i++)
		strcat(list, i ? ":a" : "a");
	assert_int_equal(PARSE(list, "/mnt"), 0);
	assert_int_equal(options.branch_count, 256);
	strcat(list, ":a");
	refused("256", PARSE(list, "/mnt"));
}

static void help_asks_for_nothing_else(void **state)
{
	(void)state;
	assert_int_equal(PARSE("--help"), 0);
	assert_true(options.help);
	assert_int_equal(PARSE("-V"), 0);
	assert_true(options.version);
}

static int done(void **state)
{
	(void)state;
	union_options_done(&options);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults_are_what_the_help_says),
		cmocka_unit_test(options_are_taken_in_both_spellings),
		cmocka_unit_test(a_label_with_categories_reaches_libfuse_whole),
		cmocka_unit_test(branches_have_flags_and_escapes),
		cmocka_unit_test(refuses_the_unknown_by_name),
		cmocka_unit_test(refuses_bad_values),
		cmocka_unit_test(refuses_missing_and_empty_branches),
		cmocka_unit_test(refuses_more_branches_than_fit),
		cmocka_unit_test(help_asks_for_nothing_else),
	};

	return cmocka_run_group_tests(tests, NULL, done);
}
