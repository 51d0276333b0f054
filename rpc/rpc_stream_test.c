/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rpc/rpc_test_kit.h"

/* The messages that came of a stream. */
struct got {
	atomic_int n;
	bool in_order;
	int end_at; /* each() then fails with EXDEV; 0: never */
	int slow_us;
};

static int each(void *context, const ProtobufCMessage *m)
{
	const Tributary__V1__Extent *extent = (const void *)m;
	struct got *got = context;
	int n = atomic_fetch_add(&got->n, 1);
	char name[32];

	(void)snprintf(name, sizeof(name), "extent-%d", n);
	if (extent->size != (uint64_t)n || strcmp(extent->name, name) != 0)
		got->in_order = false;
	if (got->slow_us)
		(void)usleep((unsigned)got->slow_us);
	return got->end_at && n + 1 >= got->end_at ? -EXDEV : 0;
}

static int list(struct kit *kit, const char *pool, int timeout_ms,
		struct got *got)
{
	Tributary__V1__ListExtentsRequest in =
		TRIBUTARY__V1__LIST_EXTENTS_REQUEST__INIT;

	got->in_order = true;
	in.pool = (char *)pool;
	return rpc_client_stream(kit->client, kit_methods[1].path, &in.base,
				 kit_methods[1].out, timeout_ms, each, got,
				 &kit->err);
}

static void brings_every_message_in_order(void **state)
{
	struct kit *kit = *state;
	struct got got = {0};

	kit_start(kit);
	assert_int_equal(list(kit, "5000", 20000, &got), 0);
	assert_int_equal(got.n, 5000);
	assert_true(got.in_order);
}

static void may_be_empty(void **state)
{
	struct kit *kit = *state;
	struct got got = {0};

	kit_start(kit);
	assert_int_equal(list(kit, "0", 5000, &got), 0);
	assert_int_equal(got.n, 0);
}

static void ends_with_the_error_of_its_handler(void **state)
{
	struct kit *kit = *state;
	struct got got = {0};

	kit_start(kit);
	assert_int_equal(list(kit, "stuck", 5000, &got), -ESTALE);
	assert_string_equal(kit->err.msg, "stuck");
	assert_int_equal(got.n, 3);
}

static void ends_when_the_client_has_enough(void **state)
{
	struct kit *kit = *state;
	struct got got = {.end_at = 10};

	kit_start(kit);
	assert_int_equal(list(kit, "ever", 20000, &got), -EXDEV);
	assert_int_equal(got.n, 10);
	assert_true(kit_eventually(&kit->seen.cancelled, 1));
	assert_true(kit_eventually(&kit->seen.ended, 1));
	/* the channel is as good as before */
	assert_int_equal(kit_get(kit, "echo:x", 30000, NULL), 0);
}

static void ends_at_its_deadline(void **state)
{
	struct kit *kit = *state;
	struct got got = {0};
	int64_t start;
	int deadline_ms = 300;

	kit_start(kit);
	/* Try with a longer deadline, until something came before it. */
	for (; got.n == 0; deadline_ms *= 2) {
		assert_true(deadline_ms < 20000);
		start = clock_ms();
		assert_int_equal(list(kit, "ever", deadline_ms, &got),
				 -ETIMEDOUT);
		assert_true(clock_ms() - start < deadline_ms + 20000);
	}
	assert_true(kit_eventually(&kit->seen.cancelled, 1));
}

static void waits_for_a_slow_reader(void **state)
{
	struct kit *kit = *state;
	struct got got = {.slow_us = 200};

	kit_start(kit);
	assert_int_equal(list(kit, "3000", 30000, &got), 0);
	assert_int_equal(got.n, 3000);
	assert_true(got.in_order);
}

struct stopper {
	struct kit *kit;
	struct got got;
	int result;
};

static void *stopper_run(void *context)
{
	struct stopper *s = context;

	s->result = list(s->kit, "ever", 60000, &s->got);
	return NULL;
}

/* An endless stream does not use the whole grace up. */
static void ends_at_once_when_the_server_stops(void **state)
{
	struct kit *kit = *state;
	struct stopper s = {.kit = kit};
	pthread_t thread;
	int64_t start;

	kit_start(kit);
	assert_int_equal(pthread_create(&thread, NULL, stopper_run, &s), 0);
	assert_true(kit_eventually(&s.got.n, 5));
	start = clock_ms();
	rpc_server_stop(kit->server, 30000);
	kit->server = NULL;
	assert_true(clock_ms() - start < 20000);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(s.result, -EHOSTUNREACH);
	assert_string_equal(kit->err.msg, "the server is stopping");
}

static void says_where_nobody_answers(void **state)
{
	struct kit *kit = *state;
	struct got got = {0};

	assert_int_equal(
		rpc_client_new(kit->address, NULL, NULL, &kit->client, NULL),
		0);
	assert_int_equal(list(kit, "5", 300, &got), -EHOSTUNREACH);
	assert_non_null(strstr(kit->err.msg, kit->address));
	assert_int_equal(got.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(f) cmocka_unit_test_setup_teardown(f, kit_setup, kit_teardown)
		T(brings_every_message_in_order),
		T(may_be_empty),
		T(ends_with_the_error_of_its_handler),
		T(ends_when_the_client_has_enough),
		T(ends_at_its_deadline),
		T(waits_for_a_slow_reader),
		T(ends_at_once_when_the_server_stops),
		T(says_where_nobody_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
