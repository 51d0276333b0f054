/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "volume/op/context.h"

struct kit {
	char dir[32], location[64];
	struct volume_context *ctx;
	atomic_bool stop;
	atomic_uint written;
};

static int set_up(void **state)
{
	struct kit *k = calloc(1, sizeof(*k));
	struct volume_config config = {.node = "n", .call_timeout_ms = 1000};
	struct error err = {0};

	assert_non_null(k);
	strcpy(k->dir, "/tmp/condition-test-XXXXXX");
	assert_non_null(mkdtemp(k->dir));
	(void)snprintf(k->location, sizeof(k->location), "local:%s/db", k->dir);
	config.store = k->location;
	if (volume_context_open(&config, &k->ctx, &err) < 0)
		fail_msg("%s", err.msg);
	*state = k;
	return 0;
}

static int tear_down(void **state)
{
	static const char *const files[] = {"db", "db-wal", "db-shm"};
	struct kit *k = *state;
	char path[64];

	volume_context_close(k->ctx);
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", k->dir, files[i]);
		(void)unlink(path);
	}
	assert_int_equal(rmdir(k->dir), 0);
	free(k);
	return 0;
}

static void *write_conditions(void *kit)
{
	struct kit *k = kit;
	struct operation op;

	while (!k->stop) {
		if (operation_begin_condition(&op, k->ctx, "vol", "writing",
					      NULL) == 0) {
			operation_end_condition(&op);
			k->written++;
		}
		(void)usleep(500);
	}
	return NULL;
}

static void no_operation_is_refused_for_a_condition(void **state)
{
	struct kit *k = *state;
	struct error err = {0};
	struct operation op;
	pthread_t thread;
	unsigned begun = 0;

	assert_int_equal(pthread_create(&thread, NULL, write_conditions, k), 0);
	while (begun < 500 || k->written < 100) {
		if (operation_begin(&op, k->ctx, "vol", "using", &err) < 0)
			fail_msg("%s", err.msg);
		operation_end(&op);
		begun++;
	}
	k->stop = true;
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void a_condition_is_no_reason_to_wait_for_others(void **state)
{
	struct kit *k = *state;
	struct operation op, other;
	int64_t start_ms;
	int tries = 0;

	assert_int_equal(operation_begin(&op, k->ctx, "vol", "using", NULL), 0);
	/* A wait is as long in each try; a busy machine is not. */
	do {
		start_ms = clock_ms();
		assert_int_equal(
			operation_begin(&other, k->ctx, "vol", "using", NULL),
			-EAGAIN);
		assert_int_equal(operation_begin_condition(&other, k->ctx,
							   "vol", "writing",
							   NULL),
				 -EAGAIN);
		assert_int_equal(
			operation_begin(&other, k->ctx, "vol", "using", NULL),
			-EAGAIN);
	} while (clock_ms() - start_ms >= CONDITION_WAIT_MS && ++tries < 10);
	assert_true(tries < 10);
	operation_end(&op);
}

static void a_condition_that_hangs_is_not_waited_for_for_ever(void **state)
{
	struct kit *k = *state;
	struct operation note, op;

	assert_int_equal(operation_begin_condition(&note, k->ctx, "vol",
						   "writing", NULL),
			 0);
	assert_int_equal(operation_begin(&op, k->ctx, "other", "using", NULL),
			 0);
	operation_end(&op);
	assert_int_equal(operation_begin(&op, k->ctx, "vol", "using", NULL),
			 -EAGAIN);
	operation_end_condition(&note);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			no_operation_is_refused_for_a_condition, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			a_condition_is_no_reason_to_wait_for_others, set_up,
			tear_down),
		cmocka_unit_test_setup_teardown(
			a_condition_that_hangs_is_not_waited_for_for_ever,
			set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
