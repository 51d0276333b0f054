/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/pool/space_floor.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/size.h"

#define WRITE (64 * KIB)

/* The file system of these tests. */
static atomic_ullong free_bytes;

static int tell_free(int fd, uint64_t *ret)
{
	(void)fd;
	*ret = atomic_load(&free_bytes);
	return 0;
}

/* Of files without blocks. */
static uint64_t all_missing(int fd, uint64_t offset, uint64_t length)
{
	(void)fd;
	(void)offset;
	return length;
}

static const struct space_floor_ops ops = {tell_free, all_missing};

static struct space_floor *floor_of(uint64_t bytes, uint64_t keep)
{
	struct space_floor *floor = space_floor_new(0, &ops);

	assert_non_null(floor);
	atomic_store(&free_bytes, bytes);
	space_floor_set(floor, keep);
	return floor;
}

static struct space_share *share_of(struct space_floor *floor)
{
	struct space_share *share = space_share_new(floor, -1);

	assert_non_null(share);
	return share;
}

static bool begin(struct space_share *share)
{
	uint64_t bytes = WRITE;

	return space_share_take(share, WRITE) ||
	       space_share_ask(share, 0, WRITE, &bytes) == 0;
}

static void end(struct space_share *share)
{
	atomic_fetch_sub(&free_bytes, WRITE);
	space_share_done(share, WRITE);
}

static unsigned write_all(struct space_share *share)
{
	unsigned n = 0;

	for (; begin(share); n++)
		end(share);
	return n;
}

static void gives_all_that_is_above_it_and_no_more(void **state)
{
	struct space_floor *floor = floor_of(100 * MIB, 90 * MIB);
	struct space_share *share;

	(void)state;
	share = share_of(floor);
	assert_int_equal(write_all(share), 10 * MIB / WRITE);
	assert_int_equal(atomic_load(&free_bytes), 90 * MIB);
	/* There is room again: of the file system, and by a lower floor. */
	atomic_fetch_add(&free_bytes, WRITE);
	assert_int_equal(write_all(share), 1);
	space_floor_set(floor, 89 * MIB);
	assert_int_equal(write_all(share), MIB / WRITE);
	space_share_free(share);
	space_floor_unref(floor);
}

static void takes_back_what_others_do_not_use(void **state)
{
	struct space_floor *floor = floor_of(100 * MIB, 0);
	struct space_share *idle[8], *busy;

	(void)state;
	for (int i = 0; i < 8; i++) {
		idle[i] = share_of(floor);
		assert_true(begin(idle[i]));
		end(idle[i]);
		assert_true(atomic_load(&idle[i]->left) > 0);
	}
	busy = share_of(floor);
	assert_int_equal(write_all(busy), 100 * MIB / WRITE - 8);
	for (int i = 0; i < 8; i++) {
		assert_false(begin(idle[i]));
		space_share_free(idle[i]);
	}
	space_share_free(busy);
	space_floor_unref(floor);
}

static void counts_what_is_still_being_written(void **state)
{
	struct space_floor *floor = floor_of(10 * WRITE, 9 * WRITE);
	struct space_share *a, *b;

	(void)state;
	a = share_of(floor);
	b = share_of(floor);
	assert_true(begin(a));
	assert_false(begin(b));
	assert_int_equal(space_floor_check(floor, 1), -ENOSPC);
	space_share_done(a, WRITE); /* it failed: nothing is written */
	assert_int_equal(space_floor_check(floor, WRITE), 0);
	assert_true(begin(b));
	end(b);
	space_share_free(a);
	space_share_free(b);
	space_floor_unref(floor);
}

static void a_higher_floor_counts_at_once(void **state)
{
	struct space_floor *floor = floor_of(100 * MIB, 0);
	struct space_share *share;

	(void)state;
	share = share_of(floor);
	assert_true(begin(share));
	end(share);
	space_floor_set(floor, UINT64_MAX);
	assert_false(begin(share));
	space_share_free(share);
	space_floor_unref(floor);
}

/* ---- raced ---- */

#define KEEP    (500 * WRITE)
#define WRITERS 4

static atomic_uint below;

static void *writer(void *floor_)
{
	struct space_floor *floor = floor_;
	struct space_share *share;
	unsigned had = 0;

	share = share_of(floor);
	for (unsigned i = 0; i < 200000; i++) {
		if (begin(share)) {
			end(share);
			had++;
		} else if (had) { /* something is deleted */
			atomic_fetch_add(&free_bytes, WRITE);
			had--;
		}
		if (atomic_load(&free_bytes) < KEEP)
			atomic_fetch_add(&below, 1);
	}
	space_share_free(share);
	return NULL;
}

static void is_never_passed_however_many_write(void **state)
{
	struct space_floor *floor = floor_of(KEEP + 100 * WRITE, KEEP);
	pthread_t threads[WRITERS];
	struct space_share *last;

	(void)state;
	atomic_store(&below, 0);
	for (int i = 0; i < WRITERS; i++)
		assert_int_equal(
			pthread_create(&threads[i], NULL, writer, floor), 0);
	for (int i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(atomic_load(&below), 0);
	/* And nothing is lost: all of it can be taken. */
	last = share_of(floor);
	(void)write_all(last);
	assert_int_equal(atomic_load(&free_bytes), KEEP);
	space_share_free(last);
	space_floor_unref(floor);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(gives_all_that_is_above_it_and_no_more),
		cmocka_unit_test(takes_back_what_others_do_not_use),
		cmocka_unit_test(counts_what_is_still_being_written),
		cmocka_unit_test(a_higher_floor_counts_at_once),
		cmocka_unit_test(is_never_passed_however_many_write),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
