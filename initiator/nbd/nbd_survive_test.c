/* SPDX-License-Identifier: Apache-2.0 */
#include "initiator/nbd/nbd_survive.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"

/* What the processes of a test did, in memory that all of them see. */
struct seen {
	unsigned begun;
	bool had_id; /* every process but the first */
	bool control_open;
};

static struct seen *seen;
static int control[2];

static int setup(void **state)
{
	(void)state;
	seen = mmap(NULL, sizeof(*seen), PROT_READ | PROT_WRITE,
		    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return seen == MAP_FAILED || pipe(control) < 0;
}

static int teardown(void **state)
{
	(void)state;
	(void)close(control[0]);
	return munmap(seen, sizeof(*seen));
}

static int survive(int (*serve)(void *, struct nbd_kept *), unsigned timeout_ms)
{
	struct error err = {.code = 0};

	return nbd_survive(serve, NULL, control[1], timeout_ms, &err);
}

static void begin(struct nbd_kept *kept)
{
	if (seen->begun++)
		seen->had_id = kept->id == 7;
	else
		seen->control_open = write(control[1], "x", 1) == 1;
	kept->id = 7;
}

static int serve_and_end(void *context, struct nbd_kept *kept)
{
	(void)context;
	begin(kept);
	kept->serves = true;
	return 0;
}

static int fail_at_first(void *context, struct nbd_kept *kept)
{
	(void)context;
	begin(kept);
	return -EINVAL;
}

static int be_killed_twice(void *context, struct nbd_kept *kept)
{
	(void)context;
	begin(kept);
	kept->serves = true;
	if (seen->begun < 3)
		(void)raise(SIGKILL);
	return 0;
}

static int be_refused(void *context, struct nbd_kept *kept)
{
	(void)context;
	begin(kept);
	if (seen->begun > 1) {
		kept->refused = true;
		return -ESTALE;
	}
	kept->serves = true;
	(void)raise(SIGKILL);
	return 0;
}

static int find_no_server(void *context, struct nbd_kept *kept)
{
	(void)context;
	begin(kept);
	if (seen->begun > 1)
		return -EHOSTUNREACH;
	kept->serves = true;
	(void)raise(SIGKILL);
	return 0;
}

/* A request ends each process that takes it. */
static int die_at_once(void *context, struct nbd_kept *kept)
{
	(void)context;
	begin(kept);
	kept->serves = true;
	(void)raise(SIGKILL);
	return 0;
}

static void ends_with_a_process_that_ends_well(void **state)
{
	char byte;

	(void)state;
	assert_int_equal(survive(serve_and_end, 1000), 0);
	assert_int_equal(seen->begun, 1);
	assert_true(seen->control_open);
	/* Nobody but the first process has the other end. */
	assert_int_equal(read(control[0], &byte, 1), 1);
	assert_int_equal(read(control[0], &byte, 1), 0);
}

static void does_not_repeat_a_start_that_failed(void **state)
{
	(void)state;
	assert_int_equal(survive(fail_at_first, 1000), -EIO);
	assert_int_equal(seen->begun, 1);
}

static void starts_another_for_one_that_was_killed(void **state)
{
	(void)state;
	assert_int_equal(survive(be_killed_twice, 60000), 0);
	assert_int_equal(seen->begun, 3);
	assert_true(seen->had_id);
}

static void ends_when_none_may_go_on(void **state)
{
	int64_t start = clock_ms();

	(void)state;
	assert_int_equal(survive(be_refused, 600000), -EIO);
	assert_int_equal(seen->begun, 2);
	assert_true(clock_ms() - start < 300000);
}

static void ends_when_none_could_go_on_in_time(void **state)
{
	int64_t start = clock_ms();

	(void)state;
	assert_int_equal(survive(find_no_server, 500), -EIO);
	assert_true(seen->begun > 1);
	assert_true(clock_ms() - start >= 500);
}

static void ends_when_each_dies_at_once(void **state)
{
	(void)state;
	assert_int_equal(survive(die_at_once, 500), -EIO);
	assert_true(seen->begun > 1);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(ends_with_a_process_that_ends_well),
		TEST(does_not_repeat_a_start_that_failed),
		TEST(starts_another_for_one_that_was_killed),
		TEST(ends_when_none_may_go_on),
		TEST(ends_when_none_could_go_on_in_time),
		TEST(ends_when_each_dies_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
