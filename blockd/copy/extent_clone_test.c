/* SPDX-License-Identifier: Apache-2.0 */
/* Clones, copies byte by byte, and operations on snapshots. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/size.h"
#include "blockd/copy/copy_job.h"
#include "blockd/testkit/cut_kit.h"

static const char *const both[] = {"y", "x"};

/* ---- clones ---- */

static void makes_an_extent_from_a_snapshot_and_from_an_extent(void **state)
{
	struct kit *k = *state;
	struct extent *c;
	struct error err = {0};

	kit_create(k, "x");
	kit_fill(k, "x", '1', MIB);
	assert_int_equal(kit_cut_x(k, NULL), 0);
	kit_fill(k, "x", '2', MIB);
	assert_int_equal(kit_create_from(k, "c", 8 * MIB, "s-x", NULL), 0);
	assert_int_equal(kit_create_from(k, "c", 8 * MIB, "s-x", NULL), 0);
	assert_int_equal(kit_create_from(k, "d", 4 * MIB, "x", NULL), 0);
	assert_int_equal(kit_first_byte(k, "c"), '1');
	assert_int_equal(kit_first_byte(k, "d"), '2');
	assert_true(kit_reserved(k) == 17 * MIB);
	assert_int_equal(kit_create_from(k, "c", 8 * MIB, "x", &err), -EEXIST);
	assert_non_null(strstr(err.msg, "made from 's-x'"));
	assert_int_equal(kit_create_from(k, "c", 8 * MIB, NULL, &err), -EEXIST);
	assert_int_equal(kit_create_from(k, "s-x", 4 * MIB, NULL, &err),
			 -EEXIST);
	assert_int_equal(kit_create_from(k, "e", 2 * MIB, "s-x", &err),
			 -ERANGE);
	assert_int_equal(kit_create_from(k, "e", 4 * MIB, "z", &err), -ENOENT);
	c = kit_find(k, "c");
	assert_int_equal(c->record.kind, EXTENT_KIND_EXTENT);
	assert_string_equal(c->record.origin.name, "s-x");
	assert_string_equal(c->record.origin.cut, "");
	assert_int_equal(c->record.origin.method, POOL_COPY_SHARED);
	extent_unref(c);
}

static void refuses_a_source_of_another_id_or_pool(void **state)
{
	struct kit *k = *state;
	struct extent_request request = {
		.name = "c",
		.size = 4 * MIB,
		.source = "x",
		.source_id = CUT,
	};
	struct extent *extent;

	kit_create(k, "x");
	assert_int_equal(extent_create(k->node, &request, &extent, NULL, NULL),
			 -ESTALE);
	request.source_id = NULL;
	request.pool = "b";
	assert_int_equal(extent_create(k->node, &request, &extent, NULL, NULL),
			 -EINVAL);
	assert_false(kit_is_there(k, "c"));
}

static void a_clone_may_be_thick(void **state)
{
	struct kit *k = *state;
	struct extent_request request = {
		.name = "c",
		.size = 8 * MIB,
		.source = "x",
		.thick = true,
	};
	struct extent *extent;
	struct error err = {0};

	kit_create(k, "x");
	kit_fill(k, "x", 'x', MIB);
	assert_int_equal(extent_create(k->node, &request, &extent, NULL, NULL),
			 0);
	assert_true(extent->record.thick);
	extent_unref(extent);
	assert_int_equal(kit_first_byte(k, "c"), 'x');
	assert_int_equal(extent_create(k->node, &request, &extent, NULL, NULL),
			 0);
	extent_unref(extent);
	request.thick = false;
	assert_int_equal(extent_create(k->node, &request, &extent, NULL, &err),
			 -EEXIST);
	assert_non_null(strstr(err.msg, "is thick"));
}

/* ---- byte by byte ---- */

static void wait_copied(struct kit *k, const char *name)
{
	struct extent *extent = kit_find(k, name);
	int64_t until_ms = clock_ms() + 20000;

	assert_non_null(extent);
	while (extent_begin(extent, NULL) == -EBUSY) {
		assert_true(clock_ms() < until_ms);
		kit_pause_ms(1);
	}
	extent_end(extent);
	extent_unref(extent);
}

static void copies_byte_by_byte_behind_the_answer(void **state)
{
	struct kit *k = *state;
	struct extent *x, *c;
	struct error err = {0};

	kit_create(k, "x");
	kit_fill(k, "x", 'x', MIB);
	kit_method = POOL_COPY_BYTES;
	atomic_store(&kit_copy_waits, true);
	assert_int_equal(kit_create_from(k, "c", 4 * MIB, "x", NULL), 0);
	assert_int_equal(kit_create_from(k, "c", 4 * MIB, "x", NULL), 0);
	c = kit_find(k, "c");
	x = kit_find(k, "x");
	assert_int_equal(c->record.state, EXTENT_COPYING);
	while (copy_job_done_bytes(c) == 0)
		kit_pause_ms(1);
	assert_true(copy_job_done_bytes(c) == MIB); /* of 4 */
	assert_int_equal(extent_resize(c, 8 * MIB, NULL), -EBUSY);
	assert_int_equal(extent_resize(x, 8 * MIB, &err), -EBUSY);
	assert_non_null(strstr(err.msg, "is being copied"));
	assert_int_equal(kit_remove(k, "x"), -EBUSY);
	atomic_store(&kit_copy_waits, false);
	wait_copied(k, "c");
	assert_int_equal(kit_first_byte(k, "c"), 'x');
	while (atomic_load(&x->copied_from))
		kit_pause_ms(1);
	extent_unref(c);
	extent_unref(x);
	assert_int_equal(kit_remove(k, "x"), 0);
	kit_restart(k);
	assert_int_equal(kit_first_byte(k, "c"), 'x');
}

static void a_delete_stops_a_copy(void **state)
{
	struct kit *k = *state;
	struct extent *x;

	kit_create(k, "x");
	kit_create(k, "y");
	kit_method = POOL_COPY_BYTES;
	atomic_store(&kit_copy_waits, true);
	assert_int_equal(kit_cut(k, CUT, NULL, both, 2, NULL), 0);
	assert_int_equal(kit_remove(k, "s-y"), 0);
	assert_false(kit_is_there(k, "s-x") || kit_is_there(k, "s-y"));
	assert_true(kit_reserved(k) == 8 * MIB);
	x = kit_find(k, "x");
	assert_int_equal(atomic_load(&x->copied_from), 0);
	extent_unref(x);
	assert_int_equal(kit_create_from(k, "c", 4 * MIB, "x", NULL), 0);
	kit_restart(k); /* stops it too */
	assert_false(kit_is_there(k, "c"));
}

static void copies_nothing_that_is_exported_to_be_written(void **state)
{
	struct kit *k = *state;
	struct extent *x;
	struct error err = {0};

	kit_create(k, "x");
	kit_method = POOL_COPY_BYTES;
	x = kit_find(k, "x");
	x->record.export.exists = x->record.export.active = true;
	assert_int_equal(kit_cut_x(k, &err), -EBUSY);
	assert_non_null(strstr(err.msg, "byte by byte"));
	x->record.export.read_only = true;
	assert_int_equal(kit_cut_x(k, &err), 0);
	wait_copied(k, "s-x");
	extent_unref(x);
}

/* ---- revert, limits, ranges ---- */

static void reverts_to_a_snapshot_of_its_own(void **state)
{
	struct kit *k = *state;
	struct extent *x;
	struct error err = {0};

	kit_create(k, "x");
	kit_create(k, "y");
	kit_fill(k, "x", '1', MIB);
	assert_int_equal(kit_cut(k, CUT, NULL, both, 2, NULL), 0);
	kit_fill(k, "x", '2', MIB);
	x = kit_find(k, "x");
	assert_int_equal(extent_resize(x, 8 * MIB, NULL), 0);
	assert_int_equal(extent_revert(k->node, "x", NULL, "s-y", &err),
			 -EINVAL);
	assert_int_equal(extent_revert(k->node, "x", NULL, "y", &err), -EINVAL);
	assert_int_equal(extent_revert(k->node, "x", CUT, "s-x", &err),
			 -ESTALE);
	x->record.export.exists = x->record.export.active = true;
	assert_int_equal(extent_revert(k->node, "x", NULL, "s-x", &err),
			 -EBUSY);
	x->record.export.active = false;
	assert_int_equal(extent_revert(k->node, "x", NULL, "s-x", &err), 0);
	assert_int_equal(kit_first_byte(k, "x"), '1');
	assert_true(x->record.size == 8 * MIB);
	extent_unref(x);
}

static void keeps_limits(void **state)
{
	struct kit *k = *state;
	const struct extent_limits bad = {.bytes_per_second = 1};
	const struct extent_limits good = {.iops = 7};
	struct extent *x;

	kit_create(k, "x");
	x = kit_find(k, "x");
	assert_int_equal(extent_set_limits(x, &bad, NULL), -EINVAL);
	assert_int_equal(extent_set_limits(x, &good, NULL), 0);
	extent_unref(x);
	kit_restart(k);
	x = kit_find(k, "x");
	assert_true(x->record.limits.iops == 7);
	assert_true(x->gate.limit.rates.iops == 7);
	extent_unref(x);
}

static int say_busy(void *context, struct extent *extent, const char *before,
		    struct error *err)
{
	(void)context;
	(void)extent;
	(void)before;
	return error_set(err, EBUSY, "it is used");
}

static void lists_ranges_from_where_it_is_asked(void **state)
{
	struct kit *k = *state;
	struct extent_range ranges[3];
	struct extent *x, *one;
	struct error err = {0};
	uint64_t end;
	size_t n;

	kit_create(k, "x");
	assert_int_equal(kit_cut_x(k, NULL), 0);
	x = kit_find(k, "x");
	one = kit_find(k, "s-x");
	assert_int_equal(extent_ranges(one, NULL, 1, ranges, 3, &n, &end, NULL),
			 0);
	assert_int_equal(n, 3);
	assert_true(ranges[0].offset == 1); /* cut off */
	assert_true(ranges[0].length == 64 * KIB - 1);
	assert_true(ranges[2].offset == 2 * MIB);
	assert_true(end == 2 * MIB + 64 * KIB);
	assert_int_equal(
		extent_ranges(one, NULL, end, ranges, 3, &n, &end, NULL), 0);
	assert_int_equal(n, 1); /* the snapshot ends there */
	assert_true(end == 4 * MIB);
	assert_int_equal(extent_ranges(one, one, 0, ranges, 3, &n, &end, NULL),
			 0);
	assert_int_equal(n, 2);
	assert_int_equal(
		extent_ranges(one, NULL, 4 * MIB, ranges, 3, &n, &end, NULL),
		0);
	assert_int_equal(n, 0);
	assert_int_equal(extent_ranges(one, NULL, 4 * MIB + 1, ranges, 3, &n,
				       &end, &err),
			 -ERANGE);
	/* An extent that nobody writes to has ranges, too. */
	assert_int_equal(extent_ranges(x, NULL, 0, ranges, 3, &n, &end, NULL),
			 0);
	assert_int_equal(n, 3);
	x->record.export.active = true;
	x->record.export.read_only = true;
	assert_int_equal(extent_ranges(x, NULL, 0, ranges, 3, &n, &end, NULL),
			 0);
	x->record.export.read_only = false;
	assert_int_equal(extent_ranges(x, NULL, 0, ranges, 3, &n, &end, &err),
			 -EBUSY);
	x->record.export.active = false;
	k->node->users.check_idle = say_busy;
	assert_int_equal(extent_ranges(x, NULL, 0, ranges, 3, &n, &end, &err),
			 -EBUSY);
	k->node->users.check_idle = NULL;
	assert_int_equal(extent_ranges(one, x, 0, ranges, 3, &n, &end, &err),
			 -EINVAL);
	extent_unref(x);
	extent_unref(one);
}

int main(void)
{
#define WITH_KIT(test) \
	cmocka_unit_test_setup_teardown(test, kit_setup, kit_teardown)
	const struct CMUnitTest tests[] = {
		WITH_KIT(makes_an_extent_from_a_snapshot_and_from_an_extent),
		WITH_KIT(refuses_a_source_of_another_id_or_pool),
		WITH_KIT(a_clone_may_be_thick),
		WITH_KIT(copies_byte_by_byte_behind_the_answer),
		WITH_KIT(a_delete_stops_a_copy),
		WITH_KIT(copies_nothing_that_is_exported_to_be_written),
		WITH_KIT(reverts_to_a_snapshot_of_its_own),
		WITH_KIT(keeps_limits),
		WITH_KIT(lists_ranges_from_where_it_is_asked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
