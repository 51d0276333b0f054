/* SPDX-License-Identifier: Apache-2.0 */
#include "target/export/initiators.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/un.h>

#include <cmocka.h>

static struct peer_address peer(const char *text)
{
	struct sockaddr_in in = {.sin_family = AF_INET};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct peer_address ret;
	const void *address = &un;

	if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
		address = &in;
	else if (inet_pton(AF_INET6, text, &in6.sin6_addr) == 1)
		address = &in6;
	assert_int_equal(peer_address_from(address, &ret), 0);
	return ret;
}

static bool admits(const char *rule, const char *address)
{
	struct peer_address from = peer(address);
	struct initiators list;

	assert_int_equal(initiators_parse(&rule, 1, &list, NULL), 0);
	return initiators_admit(&list, &from);
}

static void admits_what_it_names_and_no_other(void **state)
{
	(void)state;
	assert_true(admits("10.0.0.7", "10.0.0.7"));
	assert_false(admits("10.0.0.7", "10.0.0.8"));
	assert_true(admits("fd00::1", "fd00::1"));
	assert_false(admits("fd00::1", "fd00::2"));
	assert_true(admits("unix", "unix"));
	assert_false(admits("unix", "127.0.0.1"));
	assert_false(admits("127.0.0.1", "unix"));
}

static void any_admits_everybody(void **state)
{
	(void)state;
	assert_true(admits("any", "10.0.0.7"));
	assert_true(admits("any", "fd00::1"));
	assert_true(admits("any", "unix"));
}

static void an_empty_list_admits_nobody(void **state)
{
	struct peer_address from = peer("127.0.0.1");
	struct initiators list;

	(void)state;
	assert_int_equal(initiators_parse(NULL, 0, &list, NULL), 0);
	assert_false(initiators_admit(&list, &from));
}

static void a_prefix_ends_within_a_byte(void **state)
{
	(void)state;
	assert_true(admits("10.16.0.0/12", "10.31.255.255"));
	assert_false(admits("10.16.0.0/12", "10.32.0.0"));
	assert_true(admits("0.0.0.0/0", "203.0.113.9"));
	assert_false(admits("0.0.0.0/0", "fd00::1"));
	assert_true(admits("fd00:0:0:8::/61", "fd00:0:0:f::1"));
	assert_false(admits("fd00:0:0:8::/61", "fd00:0:0:10::1"));
	assert_true(admits("fd00::1/128", "fd00::1"));
}

static void a_mapped_address_is_its_ipv4(void **state)
{
	(void)state;
	assert_true(admits("10.0.0.7", "::ffff:10.0.0.7"));
	assert_true(admits("::ffff:10.0.0.7", "10.0.0.7"));
	assert_true(admits("::ffff:10.0.0.0/104", "10.9.9.9"));
	assert_false(admits("::ffff:10.0.0.0/104", "11.0.0.1"));
}

static void refuses_what_is_no_address(void **state)
{
	static const char *const rows[] = {
		"",
		"10.0.0",
		"10.0.0.7/33",
		"10.0.0.7/",
		"10.0.0.7/-1",
		"10.0.0.7/8x",
		"fd00::/129",
		"host.example",
		"Any",
		"/8",
		"tls:",
		"tls:@any",
		"tls:name@host",
		"10.0.0.7/ 8",
		"fd00::1fd00::1fd00::1fd00::1fd00::1fd00::1fd00::1fd00::1",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct initiators list = {.count = 77};
		struct error err = {0};

		assert_int_equal(initiators_parse(&rows[i], 1, &list, &err),
				 -EINVAL);
		assert_int_equal(list.count, 77);
		assert_non_null(strstr(err.msg, "initiator \""));
	}
}

static bool admits_named(const char *rule, const char *address,
			 const char *name)
{
	struct peer_address from = peer(address);
	struct peer_names names = {0};
	struct initiators list;

	if (name)
		peer_names_add(&names, name, strlen(name));
	from.names = &names;
	assert_int_equal(initiators_parse(&rule, 1, &list, NULL), 0);
	return initiators_admit(&list, &from);
}

static void a_name_must_have_been_proved(void **state)
{
	struct peer_address from = peer("10.0.0.7");
	const char *rule = "tls:node-1@10.0.0.0/8";
	struct initiators list;

	(void)state;
	assert_true(admits_named("tls:node-1", "10.0.0.7", "node-1"));
	assert_false(admits_named("tls:node-1", "10.0.0.7", "node-10"));
	assert_false(admits_named("tls:node-1", "10.0.0.7", NULL));
	assert_true(admits_named("tls:*", "fd00::1", "anybody"));
	assert_false(admits_named("tls:*", "fd00::1", NULL));
	assert_true(admits_named(rule, "10.0.0.7", "node-1"));
	assert_false(admits_named(rule, "11.0.0.7", "node-1"));
	assert_true(admits_named("tls:a@b@any", "10.0.0.7", "a@b"));
	assert_false(admits("tls:node-1", "10.0.0.7"));
	/* A peer without TLS is told when TLS would help. */
	assert_int_equal(initiators_parse(&rule, 1, &list, NULL), 0);
	assert_true(initiators_want_tls(&list, &from));
	from = peer("11.0.0.7");
	assert_false(initiators_want_tls(&list, &from));
}

static bool admits_initiator(const char *rule, const char *address,
			     const char *name)
{
	struct peer_address from = peer(address);
	struct initiators list;

	from.initiator = name;
	assert_int_equal(initiators_parse(&rule, 1, &list, NULL), 0);
	assert_false(initiators_want_tls(&list, &from));
	return initiators_admit(&list, &from);
}

static void an_initiator_must_have_the_name(void **state)
{
	static const char *const bad[] = {"iscsi:", "iscsi:a b", "iscsi:*",
					  "iscsi:iqn.x@", "iscsi:iqn.x@here"};

	(void)state;
	assert_true(admits_initiator("iscsi:iqn.x:a", "10.0.0.7", "iqn.X:A"));
	assert_false(admits_initiator("iscsi:iqn.x:a", "10.0.0.7", "iqn.x:ab"));
	assert_false(admits_initiator("iscsi:iqn.x:a@11.0.0.0/8", "10.0.0.7",
				      "iqn.x:a"));
	assert_true(admits_initiator("iscsi:iqn.x:a@10.0.0.0/8", "10.0.0.7",
				     "iqn.x:a"));
	assert_true(admits_initiator("10.0.0.7", "10.0.0.7", "iqn.x:a"));
	/* Neither proves what the other protocol wants. */
	assert_false(admits_initiator("tls:iqn.x:a", "10.0.0.7", "iqn.x:a"));
	assert_false(admits("iscsi:iqn.x:a", "10.0.0.7"));
	assert_false(admits_named("iscsi:iqn.x:a", "10.0.0.7", "iqn.x:a"));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(initiators_parse(&bad[i], 1,
						  &(struct initiators){0},
						  NULL),
				 -EINVAL);
}

static void names_that_are_none_are_left_out(void **state)
{
	char longest[PEER_NAME_MAX + 1];
	struct peer_names names = {0};

	(void)state;
	memset(longest, 'x', sizeof(longest));
	peer_names_add(&names, "", 0);
	peer_names_add(&names, "a\0b", 3);
	peer_names_add(&names, "a b", 3);
	peer_names_add(&names, longest, PEER_NAME_MAX);
	assert_int_equal(names.count, 0);
	for (unsigned i = 0; i < PEER_NAMES_MAX + 3; i++)
		peer_names_add(&names, longest, PEER_NAME_MAX - 1);
	assert_int_equal(names.count, PEER_NAMES_MAX);
}

static void refuses_more_rows_than_it_holds(void **state)
{
	const char *rows[TARGET_INITIATORS_MAX + 1];
	struct initiators list;

	(void)state;
	for (size_t i = 0; i <= TARGET_INITIATORS_MAX; i++)
		rows[i] = "any";
	assert_int_equal(
		initiators_parse(rows, TARGET_INITIATORS_MAX, &list, NULL), 0);
	assert_int_equal(
		initiators_parse(rows, TARGET_INITIATORS_MAX + 1, &list, NULL),
		-EINVAL);
}

static void names_a_peer_for_people(void **state)
{
	char text[PEER_ADDRESS_TEXT_MAX];
	struct peer_address from = peer("::ffff:10.0.0.7");

	(void)state;
	assert_string_equal(peer_address_format(&from, text, sizeof(text)),
			    "10.0.0.7");
	from = peer("unix");
	assert_string_equal(peer_address_format(&from, text, sizeof(text)),
			    "the unix socket");
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(admits_what_it_names_and_no_other),
		cmocka_unit_test(any_admits_everybody),
		cmocka_unit_test(an_empty_list_admits_nobody),
		cmocka_unit_test(a_prefix_ends_within_a_byte),
		cmocka_unit_test(a_mapped_address_is_its_ipv4),
		cmocka_unit_test(refuses_what_is_no_address),
		cmocka_unit_test(a_name_must_have_been_proved),
		cmocka_unit_test(an_initiator_must_have_the_name),
		cmocka_unit_test(names_that_are_none_are_left_out),
		cmocka_unit_test(refuses_more_rows_than_it_holds),
		cmocka_unit_test(names_a_peer_for_people),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
