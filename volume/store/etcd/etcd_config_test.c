/* SPDX-License-Identifier: Apache-2.0 */
/* Locations of etcd stores, and base64. */
#include "volume/store/etcd/etcd_config.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/store/http/base64.h"

static void every_word_of_a_location_is_read(void **state)
{
	struct etcd_config config;

	(void)state;
	assert_int_equal(
		etcd_config_parse("/a/b,endpoint=https://h:1,"
				  "endpoint=https://[fe80::1]:2,ca=/c,cert=/d,"
				  "key=/e,user=u,password-file=/p",
				  &config, NULL),
		0);
	assert_string_equal(config.prefix, "/a/b");
	assert_int_equal(config.n_endpoints, 2);
	assert_string_equal(config.endpoints[0], "https://h:1");
	assert_string_equal(config.endpoints[1], "https://[fe80::1]:2");
	assert_string_equal(config.ca.path, "/c");
	assert_string_equal(config.certificate.path, "/d");
	assert_string_equal(config.key.path, "/e");
	assert_string_equal(config.user, "u");
	assert_string_equal(config.password_path, "/p");
	etcd_config_done(&config);
}

static void the_prefix_has_a_default(void **state)
{
	struct etcd_config config;

	(void)state;
	assert_int_equal(
		etcd_config_parse(",endpoint=http://h:1", &config, NULL), 0);
	assert_string_equal(config.prefix, "/tributary");
	etcd_config_done(&config);
}

static void a_bad_location_is_refused_with_the_reason(void **state)
{
	static const struct {
		const char *location, *said;
	} bad[] = {
		{"", "no endpoint"},
		{"/p", "no endpoint"},
		{"p,endpoint=http://h:1", "prefix"},
		{"/,endpoint=http://h:1", "prefix"},
		{"/p/,endpoint=http://h:1", "prefix"},
		{"/p\xff,endpoint=http://h:1", "prefix"},
		{",endpoint=", "endpoint"},
		{",endpoint=ftp://h:1", "endpoint"},
		{",endpoint=https://", "endpoint"},
		{",endpoint=https://u:p@h:1", "endpoint"},
		{",endpoint=https://h:1/", "endpoint"},
		{",endpoint=http://h:1,cert=/c", "go together"},
		{",endpoint=http://h:1,key=/k", "go together"},
		{",endpoint=http://127.0.0.1:1,user=u", "go together"},
		{",endpoint=http://h:1,user=u,password-file=/p", "plain text"},
		{",endpoint=https://h:1,endpoint=http://127.0.0.1.evil.example:"
		 "1,user=u,password-file=/p",
		 "plain text"},
		{",endpoint=https://h:1,ca=", "bytes"},
		{",endpoint=https://h:1,port=2", "not known"},
		{",endpoint=https://h:1,", "not known"},
	};

	(void)state;
	for (size_t i = 0; i < array_size(bad); i++) {
		struct etcd_config config;
		struct error err = {0};

		assert_int_equal(
			etcd_config_parse(bad[i].location, &config, &err),
			-EINVAL);
		if (!strstr(err.msg, bad[i].said))
			fail_msg("'%s': %s", bad[i].location, err.msg);
	}
}

static void a_password_in_a_location_is_not_repeated(void **state)
{
	struct etcd_config config;
	struct error err = {0};

	(void)state;
	assert_int_equal(etcd_config_parse(",endpoint=https://h:1,user=u,"
					   "password=hunter2",
					   &config, &err),
			 -EINVAL);
	assert_non_null(strstr(err.msg, "'password' is not known"));
	assert_null(strstr(err.msg, "hunter2"));
}

static void base64_goes_both_ways(void **state)
{
	static const char *const texts[] = {"",     "f",     "fo",    "foo",
					    "foob", "fooba", "foobar"};
	static const char *const coded[] = {
		"",         "Zg==",     "Zm8=",    "Zm9v",
		"Zm9vYg==", "Zm9vYmE=", "Zm9vYmFy"}; /* RFC 4648 10 */
	static const char *const bad[] = {
		"Z", "Zg", "Zg=", "Z===", "Zg=a", "Zg==Zg==", "Z\ng=", "===="};
	uint8_t all[256];
	size_t length;

	(void)state;
	for (size_t i = 0; i < array_size(texts); i++) {
		auto_free char *out = base64_encode(texts[i], strlen(texts[i]));
		auto_free char *back = base64_decode(coded[i], &length);

		assert_string_equal(out, coded[i]);
		assert_string_equal(back, texts[i]);
		assert_int_equal(length, strlen(texts[i]));
	}
	for (size_t i = 0; i < array_size(bad); i++)
		assert_null(base64_decode(bad[i], &length));
	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = (uint8_t)i;
	for (size_t i = 0; i <= sizeof(all); i++) {
		auto_free char *out = base64_encode(all, i);
		auto_free char *back = base64_decode(out, &length);

		assert_int_equal(length, i);
		assert_memory_equal(back, all, i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_word_of_a_location_is_read),
		cmocka_unit_test(the_prefix_has_a_default),
		cmocka_unit_test(a_bad_location_is_refused_with_the_reason),
		cmocka_unit_test(a_password_in_a_location_is_not_repeated),
		cmocka_unit_test(base64_goes_both_ways),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
