/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "launch/launch_proto.h"

static const char *const words[] = {"trib-union", "", "a b", "/m", NULL};

static void *encoded(size_t *ret_length)
{
	const struct launch_request request = {
		.pid = 77,
		.flags = LAUNCH_HAS_LOG,
		.argv = (const char **)words,
		.argc = 4,
	};
	void *data;

	assert_int_equal(
		launch_request_encode(&request, &data, ret_length, NULL), 0);
	return data;
}

static void a_request_comes_out_as_it_went_in(void **state)
{
	(void)state;
	struct launch_request request;
	size_t length;
	auto_free void *data = encoded(&length);

	assert_int_equal(launch_request_decode(data, length, &request, NULL),
			 0);
	assert_int_equal(request.pid, 77);
	assert_int_equal(request.flags, LAUNCH_HAS_LOG);
	assert_int_equal(request.argc, 4);
	for (size_t i = 0; i < 4; i++)
		assert_string_equal(request.argv[i], words[i]);
	assert_null(request.argv[4]);
	launch_request_done(&request);
}

static void a_request_that_is_cut_or_longer_is_refused(void **state)
{
	(void)state;
	struct launch_request request;
	size_t length;
	auto_free char *data = encoded(&length);
	char longer[256] = {0};

	for (size_t n = 0; n < length; n++)
		assert_int_equal(launch_request_decode(data, n, &request, NULL),
				 -EPROTO);
	memcpy(longer, data, length);
	assert_int_equal(
		launch_request_decode(longer, length + 1, &request, NULL),
		-EPROTO);
}

/* Byte @at of a good request made @value. */
static int changed(size_t at, int value)
{
	struct launch_request request;
	size_t length;
	auto_free char *data = encoded(&length);

	data[at] = (char)value;
	return launch_request_decode(data, length, &request, NULL);
}

static void a_request_that_makes_no_sense_is_refused(void **state)
{
	(void)state;
	assert_int_equal(changed(0, 0), -EPROTO);
	assert_int_equal(changed(5, 2), -EPROTONOSUPPORT);
	assert_int_equal(changed(7, 8), -EPROTO);    /* a flag not known */
	assert_int_equal(changed(8, 0x80), -EPROTO); /* a negative pid */
	assert_int_equal(changed(11, 0), -EPROTO);   /* pid 0 */
	assert_int_equal(changed(15, 0), -EPROTO);   /* no words */
	assert_int_equal(changed(15, 5), -EPROTO);   /* more than there are */
	assert_int_equal(changed(13, 1), -E2BIG);
}

static void a_request_has_its_bounds(void **state)
{
	(void)state;
	static char large[LAUNCH_REQUEST_MAX];
	static const char *many[LAUNCH_ARGS_MAX + 2];
	const char *argv[] = {"trib-nbd", large, NULL};
	struct launch_request request = {.pid = 1, .argv = argv, .argc = 2};
	struct error err = {0};
	size_t length;
	void *data;

	memset(large, 'x', sizeof(large) - 1);
	assert_int_equal(launch_request_encode(&request, &data, &length, &err),
			 -E2BIG);
	assert_non_null(strstr(err.msg, "128 KiB and 1024 words"));
	large[sizeof(large) - 1 - 16 - 10] = '\0'; /* the head, "trib-nbd" */
	assert_int_equal(launch_request_encode(&request, &data, &length, NULL),
			 0);
	assert_true(length <= LAUNCH_REQUEST_MAX);
	free(data);
	for (size_t i = 0; i <= LAUNCH_ARGS_MAX; i++)
		many[i] = "x";
	request.argv = many;
	request.argc = LAUNCH_ARGS_MAX + 1;
	assert_int_equal(launch_request_encode(&request, &data, &length, NULL),
			 -E2BIG);
}

static void a_reply_is_a_pid_or_an_error(void **state)
{
	(void)state;
	struct launch_reply reply = {.pid = 4711}, copy;
	char wire[LAUNCH_REPLY_MAX];
	size_t n = launch_reply_encode(&reply, wire);

	assert_int_equal(launch_reply_decode(wire, n, &copy), 0);
	assert_int_equal(copy.code, 0);
	assert_int_equal(copy.pid, 4711);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(launch_reply_decode(wire, i, &copy), -EPROTO);

	reply.code = ENOENT;
	memset(reply.text, 'y', LAUNCH_TEXT_MAX);
	n = launch_reply_encode(&reply, wire);
	assert_int_equal(n, LAUNCH_REPLY_MAX);
	assert_int_equal(launch_reply_decode(wire, n, &copy), 0);
	assert_int_equal(copy.code, ENOENT);
	assert_int_equal(copy.pid, 0);
	assert_string_equal(copy.text, reply.text);
	wire[5] = 9;
	assert_int_equal(launch_reply_decode(wire, n, &copy), -EPROTONOSUPPORT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_request_comes_out_as_it_went_in),
		cmocka_unit_test(a_request_that_is_cut_or_longer_is_refused),
		cmocka_unit_test(a_request_that_makes_no_sense_is_refused),
		cmocka_unit_test(a_request_has_its_bounds),
		cmocka_unit_test(a_reply_is_a_pid_or_an_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
