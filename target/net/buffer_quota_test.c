/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "base/testkit/loop_kit.h"
#include "target/net/buffer_quota.h"

#define KIB   UINT32_C(1024)
#define LIMIT (1024 * KIB) /* of the loop that the kit makes */

struct fixture {
	struct loop *loop;
	struct buffer_quota a, b;
};

static int setup(void **state)
{
	static struct fixture fixture;

	fixture = (struct fixture){.loop = loop_make(0)};
	buffer_quota_pair(&fixture.a, &fixture.b, LIMIT);
	*state = &fixture;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(f->a.held, 0);
	assert_int_equal(f->b.held, 0);
	assert_int_equal(loop_iobufs_in_use(f->loop), 0);
	loop_free(f->loop);
	return 0;
}

static void one_alone_may_have_all(void **state)
{
	struct fixture *f = *state;
	struct iobuf *all = buffer_quota_get(&f->a, f->loop, LIMIT);

	assert_non_null(all);
	assert_null(buffer_quota_get(&f->b, f->loop, 4 * KIB));
	buffer_quota_put(&f->a, f->loop, all);
}

static void while_the_other_waits_it_gets_a_half(void **state)
{
	struct fixture *f = *state;
	struct iobuf *of_a[5], *of_b;

	for (unsigned i = 0; i < 4; i++)
		of_a[i] = buffer_quota_get(&f->a, f->loop, LIMIT / 4);
	f->b.waits = true;
	buffer_quota_put(&f->a, f->loop, of_a[3]);
	assert_null(buffer_quota_get(&f->a, f->loop, LIMIT / 4));
	of_b = buffer_quota_get(&f->b, f->loop, LIMIT / 4);
	assert_non_null(of_b);
	buffer_quota_put(&f->a, f->loop, of_a[2]);
	assert_null(buffer_quota_get(&f->a, f->loop, LIMIT / 4));
	f->b.waits = false;
	of_a[2] = buffer_quota_get(&f->a, f->loop, LIMIT / 4);
	assert_non_null(of_a[2]);
	for (unsigned i = 0; i < 3; i++)
		buffer_quota_put(&f->a, f->loop, of_a[i]);
	buffer_quota_put(&f->b, f->loop, of_b);
}

/* A holder of no buffer gets one, however large. */
static void nobody_waits_for_ever(void **state)
{
	struct fixture *f = *state;
	struct iobuf *all;

	f->a.waits = f->b.waits = true;
	all = buffer_quota_get(&f->a, f->loop, LIMIT);
	assert_non_null(all);
	buffer_quota_put(&f->a, f->loop, all);
}

static void a_little_is_of_the_reserve(void **state)
{
	struct fixture *f = *state;
	struct iobuf *all = buffer_quota_get(&f->a, f->loop, LIMIT);
	struct iobuf *little;

	assert_null(buffer_quota_get_reserve(f->loop, BUFFER_RESERVE_MAX, 1));
	little = buffer_quota_get_reserve(f->loop, BUFFER_RESERVE_MAX - 4 * KIB,
					  4 * KIB);
	assert_non_null(little);
	buffer_quota_put(&f->b, f->loop, little);
	buffer_quota_put(&f->a, f->loop, all);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_alone_may_have_all),
		TEST(while_the_other_waits_it_gets_a_half),
		TEST(nobody_waits_for_ever),
		TEST(a_little_is_of_the_reserve),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
