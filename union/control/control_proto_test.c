/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "union/branch/branch.h"
#include "union/control/control_proto.h"

#include <cmocka.h>

static struct control_request request;
static struct error err;

static int decode_bytes(const char *data, size_t length)
{
	control_request_done(&request);
	memset(&err, 0, sizeof(err));
	return control_request_decode(data, length, &request, &err);
}

static int decode(const char *text)
{
	return decode_bytes(text, strlen(text));
}

static void refused(const char *words, int r)
{
	assert_int_equal(r, -EINVAL);
	assert_non_null(strstr(err.msg, words));
	assert_null(request.branch.path);
}

static int done(void **state)
{
	(void)state;
	control_request_done(&request);
	return 0;
}

static void takes_the_commands(void **state)
{
	(void)state;
	assert_int_equal(decode("status\n"), 0);
	assert_int_equal(request.command, CONTROL_STATUS);
	assert_int_equal(decode("upgrade\n"), 0);
	assert_int_equal(request.command, CONTROL_UPGRADE);
	assert_null(request.branch.path);
	assert_int_equal(decode("add /srv/disk 3\n"), 0);
	assert_int_equal(request.command, CONTROL_ADD);
	assert_string_equal(request.branch.path, "/srv/disk 3");
	assert_int_equal(request.branch.flags, 0);
	assert_int_equal(decode("add /x\\:y\\=\\\\=local,ro\n"), 0);
	assert_string_equal(request.branch.path, "/x:y=\\");
	assert_int_equal(request.branch.flags, BRANCH_LOCAL | BRANCH_RO);
}

static void takes_what_changes_a_branch(void **state)
{
	(void)state;
	assert_int_equal(decode("remove /a b\n"), 0);
	assert_int_equal(request.command, CONTROL_REMOVE);
	assert_string_equal(request.branch.path, "/a b");
	assert_int_equal(decode("set /a=nc,4G\n"), 0);
	assert_int_equal(request.command, CONTROL_SET);
	assert_int_equal(request.branch.flags, BRANCH_NC);
	assert_int_equal(request.branch.min_free, UINT64_C(4) << 30);
	assert_int_equal(decode("drain 1048576 /a\n"), 0);
	assert_int_equal(request.command, CONTROL_DRAIN);
	assert_int_equal(request.rate, 1 << 20);
	assert_string_equal(request.branch.path, "/a");
	assert_int_equal(decode("stop /a\\:b\n"), 0);
	assert_int_equal(request.command, CONTROL_STOP);
	assert_string_equal(request.branch.path, "/a:b");
}

static void takes_settings(void **state)
{
	(void)state;
	assert_int_equal(decode("policy category.create=mfs\n"), 0);
	assert_int_equal(request.command, CONTROL_POLICY);
	assert_int_equal(request.settings_count, 1);
	assert_string_equal(request.settings[0].name, "category.create");
	assert_string_equal(request.settings[0].value, "mfs");
	assert_int_equal(decode("policy func.mkdir=ff x=y=z\n"), 0);
	assert_int_equal(request.settings_count, 2);
	assert_string_equal(request.settings[0].name, "func.mkdir");
	assert_string_equal(request.settings[0].value, "ff");
	assert_string_equal(request.settings[1].name, "x");
	assert_string_equal(request.settings[1].value, "y=z");
	assert_null(request.branch.path);
}

static void refuses_what_is_no_setting(void **state)
{
	char line[CONTROL_SETTINGS_MAX * 4 + 16] = "policy";
	unsigned i;

	(void)state;
	refused("unknown command", decode("policy\n"));
	refused("NAME=VALUE", decode("policy \n"));
	refused("NAME=VALUE", decode("policy mfs\n"));
	refused("NAME=VALUE", decode("policy =mfs\n"));
	refused("NAME=VALUE", decode("policy policy=\n"));
	refused("NAME=VALUE", decode("policy a=b \n"));
	refused("NAME=VALUE", decode("policy a=b  c=d\n"));
	for (i = 0; i < CONTROL_SETTINGS_MAX; i++)
		(void)strcat(line, " a=b"); /* fits */
	(void)strcat(line, "\n");
	assert_int_equal(decode(line), 0);
	assert_int_equal(request.settings_count, CONTROL_SETTINGS_MAX);
	(void)strcpy(line + strlen(line) - 1, " a=b\n");
	refused("more than", decode(line));
}

static void refuses_what_is_no_command(void **state)
{
	(void)state;
	refused("unknown command", decode("\n"));
	refused("unknown command", decode("statusx\n"));
	refused("unknown command", decode("status \n"));
	refused("unknown command", decode("add\n"));
	refused("unknown command", decode("empty /a\n"));
	refused("unknown command", decode("drain\n"));
	refused("path of a branch only", decode("remove /a=ro\n"));
	refused("path of a branch only", decode("stop /a=4G\n"));
	refused("path of a branch only", decode("drain 0 /a=nc\n"));
	refused("drain RATE BRANCH", decode("drain /a\n"));
	refused("drain RATE BRANCH", decode("drain -1 /a\n"));
	refused("drain RATE BRANCH", decode("drain 1k /a\n"));
	refused("drain RATE BRANCH", decode("drain 5\n"));
	refused("drain RATE BRANCH", decode("drain 18446744073709551616 /a\n"));
	refused("empty branch path", decode("add \n"));
	refused("empty branch path", decode("add =ro\n"));
	refused("branch flag", decode("add /a=wr\n"));
	refused("one branch", decode("add /a:/b\n"));
	refused("one branch", decode("add /a=ro:\n"));
}

static void refuses_a_line_that_is_none(void **state)
{
	(void)state;
	refused("newline", decode(""));
	refused("newline", decode("status"));
	refused("one line", decode("status\nstatus\n"));
	refused("one line", decode("status\n "));
	refused("control character", decode("status\r\n"));
	refused("control character", decode("add /a\177\n"));
	refused("control character", decode_bytes("add /a\0/b\n", 10));
}

static void bounds_a_request_and_its_path(void **state)
{
	auto_free char *data = malloc(CONTROL_REQUEST_MAX + 1);

	(void)state;
	assert_non_null(data);
	memset(data, 'x', CONTROL_REQUEST_MAX + 1);
	assert_false(control_request_is_whole(data, CONTROL_REQUEST_MAX - 1));
	assert_true(control_request_is_whole(data, CONTROL_REQUEST_MAX));
	refused("longer", decode_bytes(data, CONTROL_REQUEST_MAX));
	data[CONTROL_REQUEST_MAX] = '\n';
	refused("longer", decode_bytes(data, CONTROL_REQUEST_MAX + 1));
	memcpy(data, "add ", 4);
	data[4 + PATH_MAX] = '\n';
	refused("path is longer", decode_bytes(data, 4 + PATH_MAX + 1));
	data[4 + PATH_MAX - 1] = '\n';
	assert_int_equal(decode_bytes(data, 4 + PATH_MAX), 0);
	assert_int_equal(strlen(request.branch.path), PATH_MAX - 1);
}

static void a_reply_is_one_line(void **state)
{
	auto_free char *ok = control_reply_ok("{\"id\":2}");
	auto_free char *error = control_reply_error("no\nok {}");
	const char *text;

	(void)state;
	assert_string_equal(ok, "ok {\"id\":2}\n");
	assert_string_equal(error, "error no?ok {}\n");
	assert_int_equal(control_reply_decode(ok, strlen(ok), &text), 0);
	assert_string_equal(text, "{\"id\":2}");
	assert_int_equal(control_reply_decode(error, strlen(error), &text),
			 -EREMOTEIO);
	assert_string_equal(text, "no?ok {}");
}

static void refuses_what_is_no_reply(void **state)
{
	static const char *const bad[] = {"",          "\n",      "ok",
					  "ok {}",     "ok\n",    "okay {}\n",
					  "ok {}\n\n", "error\n", "fine {}\n"};
	char data[16];
	const char *text;
	size_t i;

	(void)state;
	for (i = 0; i < array_size(bad); i++) {
		(void)strcpy(data, bad[i]); /* all are short */
		assert_int_equal(
			control_reply_decode(data, strlen(data), &text),
			-EPROTO);
	}
	memcpy(data, "ok \0\n", 5);
	assert_int_equal(control_reply_decode(data, 5, &text), -EPROTO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_the_commands),
		cmocka_unit_test(takes_what_changes_a_branch),
		cmocka_unit_test(takes_settings),
		cmocka_unit_test(refuses_what_is_no_setting),
		cmocka_unit_test(refuses_what_is_no_command),
		cmocka_unit_test(refuses_a_line_that_is_none),
		cmocka_unit_test(bounds_a_request_and_its_path),
		cmocka_unit_test(a_reply_is_one_line),
		cmocka_unit_test(refuses_what_is_no_reply),
	};

	return cmocka_run_group_tests(tests, NULL, done);
}
