/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/rpc_address.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h> /* needs those before it */

static const struct row {
	const char *text, *listen, *target;
} good[] = {
	{"unix:/run/a.sock", "unix:/run/a.sock", "unix:/run/a.sock"},
	{"unix:/tmp/a b%#?.s", "unix:/tmp/a b%#?.s",
	 "unix:/tmp/a%20b%25%23%3F.s"},
	{"tcp:127.0.0.1:0", "127.0.0.1:0", "ipv4:127.0.0.1:0"},
	{"tcp:[::1]:65535", "[::1]:65535", "ipv6:[::1]:65535"},
	{"tcp:[fe80::1:2]:1", "[fe80::1:2]:1", "ipv6:[fe80::1:2]:1"},
	{"tcp:node-1.example:10", "node-1.example:10",
	 "dns:///node-1.example:10"},
};

static void takes_what_it_writes(void **state)
{
	char buf[RPC_TARGET_MAX];
	struct rpc_address a;

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		const struct row *row = &good[i];

		assert_int_equal(rpc_address_parse(row->text, &a, NULL), 0);
		assert_string_equal(rpc_address_format(buf, &a), row->text);
		assert_string_equal(rpc_address_listen(buf, &a), row->listen);
		assert_string_equal(rpc_address_target(buf, &a), row->target);
	}
}

static void takes_ipv4_in_brackets(void **state)
{
	char buf[RPC_TARGET_MAX];
	struct rpc_address a;

	(void)state;
	assert_int_equal(rpc_address_parse("tcp:[10.0.0.1]:7", &a, NULL), 0);
	assert_string_equal(rpc_address_format(buf, &a), "tcp:10.0.0.1:7");
	assert_string_equal(rpc_address_target(buf, &a), "ipv4:10.0.0.1:7");
}

static void refuses_what_is_none(void **state)
{
	static const char *const bad[] = {
		"",
		"unix",
		"unix:",
		"unix:a",
		"unix:/",
		"unix:/a/",
		"/run/a.sock",
		"tcp:",
		"tcp:host",
		"tcp::1",
		"tcp:host:",
		"tcp:host:x",
		"tcp:host:-1",
		"tcp:host: 1",
		"tcp:host:1 ",
		"tcp:h:65536",
		"tcp:h:100000",
		"tcp:h:0000001",
		"tcp:::1:5",
		"tcp:[::1]",
		"tcp:[::1:5",
		"tcp:[::1]5",
		"tcp:[]:5",
		"tcp:[1.2.3]:5",
		"tcp:[node-1]:5",
		"tcp:[fe80::g]:5",
		"tcp:a b:5",
		"tcp:a/b:5",
		"TCP:h:5",
		"http://h:5",
		"tcp:h%00:5",
	};
	struct rpc_address a = {.port = 7};
	struct error err;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (rpc_address_parse(bad[i], &a, &err) != -EINVAL)
			fail_msg("took '%s'", bad[i]);
		assert_non_null(strstr(err.msg, bad[i]));
		assert_non_null(strstr(err.msg, "unix:/PATH or tcp:HOST:PORT"));
	}
	assert_int_equal(a.port, 7); /* untouched */
}

static void says_how_long_a_path_may_be(void **state)
{
	char text[8 + RPC_PATH_MAX + 2] = "unix:/";
	char buf[RPC_TARGET_MAX];
	struct rpc_address a;
	struct error err;

	(void)state;
	memset(text + 6, ' ', RPC_PATH_MAX - 1);
	text[5 + RPC_PATH_MAX] = '\0';
	assert_int_equal(rpc_address_parse(text, &a, NULL), 0);
	assert_int_equal(strlen(a.path), 107);
	/* the longest target there can be */
	assert_int_equal(strlen(rpc_address_target(buf, &a)),
			 strlen("unix:/") + 3 * (RPC_PATH_MAX - 1));
	text[5 + RPC_PATH_MAX] = 'x';
	text[6 + RPC_PATH_MAX] = '\0';
	assert_int_equal(rpc_address_parse(text, &a, &err), -ENAMETOOLONG);
	assert_non_null(strstr(err.msg, "108 bytes, a socket's may have 107"));
}

static void refuses_a_host_that_is_too_long(void **state)
{
	char text[300] = "tcp:";
	struct rpc_address a;

	(void)state;
	memset(text + 4, 'a', RPC_HOST_MAX);
	(void)strcpy(text + 4 + RPC_HOST_MAX, ":1");
	assert_int_equal(rpc_address_parse(text, &a, NULL), 0);
	(void)strcpy(text + 4 + RPC_HOST_MAX, "a:1");
	assert_int_equal(rpc_address_parse(text, &a, NULL), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(takes_what_it_writes),
		cmocka_unit_test(takes_ipv4_in_brackets),
		cmocka_unit_test(refuses_what_is_none),
		cmocka_unit_test(says_how_long_a_path_may_be),
		cmocka_unit_test(refuses_a_host_that_is_too_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
