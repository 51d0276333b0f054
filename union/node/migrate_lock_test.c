/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/cleanup.h"
#include "union/node/migrate_lock.h"

#include <cmocka.h>

static struct migrate_lock set;

static int setup(void **state)
{
	(void)state;
	return migrate_lock_init(&set);
}

static int done(void **state)
{
	(void)state;
	migrate_lock_done(&set);
	return 0;
}

static void requests_pass_together(void **state)
{
	const uint64_t one[] = {7, 7 + MIGRATE_LOCK_LOCKS}, two[] = {9, 7};
	struct migrate_lock_pass a, b;

	(void)state;
	a = migrate_lock_enter(&set, one, 2); /* both are one lock */
	b = migrate_lock_enter(&set, two, 2);
	assert_int_equal(a.second, -1);
	assert_true(b.first < b.second);
	migrate_lock_leave(&set, b);
	migrate_lock_leave(&set, a);
}

static void a_move_waits_for_requests_but_not_for_ever(void **state)
{
	const uint64_t request[] = {7}, moved[] = {300, 8, 7, 8};
	struct migrate_lock_pass pass = migrate_lock_enter(&set, request, 1);
	struct migrate_lock_hold hold;

	(void)state;
	assert_int_equal(migrate_lock_close(&set, moved, 4, &hold), -EBUSY);
	migrate_lock_leave(&set, pass);
	/* Nothing stayed behind of the attempt. */
	assert_int_equal(migrate_lock_close(&set, moved, 4, &hold), 0);
	migrate_lock_open(&hold);
	migrate_lock_open(&hold);
	pass = migrate_lock_enter(&set, moved, 2);
	migrate_lock_leave(&set, pass);
}

static void whoever_was_there_is_waited_for(void **state)
{
	const uint64_t request[] = {255};
	struct migrate_lock_pass pass = migrate_lock_enter(&set, request, 1);

	(void)state;
	assert_int_equal(migrate_lock_drain(&set, 20), -EBUSY);
	migrate_lock_leave(&set, pass);
	assert_int_equal(migrate_lock_drain(&set, 20000), 0);
}

static void *wait_for_all(void *context)
{
	(void)context;
	return (void *)(intptr_t)migrate_lock_drain(&set, 20000);
}

/* A request during a drain neither waits for that, nor is waited for. */
static void who_waits_holds_up_nobody(void **state)
{
	const uint64_t request[] = {11};
	struct migrate_lock_pass pass = migrate_lock_enter(&set, request, 1),
				 later;
	unsigned phase = atomic_load(&set.phase);
	struct migrate_lock_hold hold;
	pthread_t waits;
	void *r;

	(void)state;
	assert_int_equal(pthread_create(&waits, NULL, wait_for_all, NULL), 0);
	while (atomic_load(&set.phase) == phase)
		(void)sched_yield();
	later = migrate_lock_enter(&set, request, 1);
	migrate_lock_leave(&set, pass);
	assert_int_equal(pthread_join(waits, &r), 0);
	assert_int_equal((intptr_t)r, 0);
	pass = later;
	assert_int_equal(migrate_lock_drain(&set, 20), -EBUSY);
	migrate_lock_leave(&set, pass);
	assert_int_equal(migrate_lock_drain(&set, 20000), 0);
	/* A move is waited for as well. */
	assert_int_equal(migrate_lock_close(&set, request, 1, &hold), 0);
	assert_int_equal(migrate_lock_drain(&set, 20), -EBUSY);
	migrate_lock_open(&hold);
	assert_int_equal(migrate_lock_drain(&set, 20000), 0);
	assert_int_equal(migrate_lock_drain(&set, 20000), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_pass_together),
		cmocka_unit_test(a_move_waits_for_requests_but_not_for_ever),
		cmocka_unit_test(whoever_was_there_is_waited_for),
		cmocka_unit_test(who_waits_holds_up_nobody),
	};

	return cmocka_run_group_tests(tests, setup, done);
}
