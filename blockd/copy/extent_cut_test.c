/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts, and quiesces they are made under. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/size.h"
#include "blockd/copy/cut_intent.h"
#include "blockd/copy/quiesce.h"
#include "blockd/dir/pool_dir_internal.h"
#include "blockd/testkit/cut_kit.h"

static const char *const both[] = {"y", "x"};

/* ---- cuts ---- */

static void cuts_several_and_remembers_what_they_are(void **state)
{
	struct kit *k = *state;
	struct extent *x, *s;

	kit_create(k, "x");
	kit_create(k, "y");
	kit_fill(k, "x", 'x', MIB);
	assert_int_equal(kit_cut(k, CUT, NULL, both, 2, NULL), 0);
	assert_true(kit_reserved(k) == 9 * MIB);
	for (int i = 0; i < 2; i++) {
		x = kit_find(k, "x");
		s = kit_find(k, "s-x");
		assert_int_equal(s->record.kind, EXTENT_KIND_SNAPSHOT);
		assert_int_equal(s->record.state, EXTENT_OK);
		assert_true(s->record.size == 4 * MIB);
		assert_true(s->record.reserved == MIB);
		assert_true(s->bytes == MIB);
		assert_string_equal(s->record.origin.name, "x");
		assert_string_equal(s->record.origin.id, x->record.id);
		assert_string_equal(s->record.origin.cut, CUT);
		assert_int_equal(extent_resize(s, 8 * MIB, NULL), -EINVAL);
		extent_unref(x);
		extent_unref(s);
		kit_fill(k, "x", 'y', MIB);
		assert_int_equal(kit_first_byte(k, "s-x"), 'x');
		kit_restart(k);
		assert_true(kit_reserved(k) == 9 * MIB);
	}
}

static void gives_back_what_a_cut_made(void **state)
{
	struct kit *k = *state;
	struct error err = {0};

	kit_create(k, "x");
	kit_create(k, "y");
	assert_int_equal(kit_cut(k, CUT, NULL, both, 2, NULL), 0);
	assert_int_equal(kit_cut(k, CUT, NULL, both, 2, NULL), 0);
	assert_int_equal(kit_cut(k, CUT_2, NULL, both, 2, &err), -EEXIST);
	assert_int_equal(kit_remove(k, "s-x"), 0);
	assert_int_equal(kit_cut(k, CUT, NULL, both, 2, &err), -ESTALE);
	assert_non_null(strstr(err.msg, "only 1 of 2"));
	assert_int_equal(kit_remove(k, "s-y"), 0);
	assert_int_equal(kit_cut(k, CUT_2, NULL, both, 2, NULL), 0);
}

static void makes_all_or_none(void **state)
{
	struct kit *k = *state;
	struct error err = {0};

	kit_create(k, "x");
	kit_create(k, "y");
	kit_copy_fails_at = 2;
	assert_int_equal(kit_cut(k, CUT, NULL, both, 2, &err), -ENOSPC);
	assert_false(kit_is_there(k, "s-x") || kit_is_there(k, "s-y"));
	assert_true(kit_reserved(k) == 8 * MIB);
	kit_copy_fails_at = 0;
	kit_create(k, "s-y");
	assert_int_equal(kit_cut(k, CUT, NULL, both, 2, &err), -EEXIST);
	assert_non_null(strstr(err.msg, "no snapshot"));
	assert_false(kit_is_there(k, "s-x"));
	assert_int_equal(kit_remove(k, "s-y"), 0);
	assert_int_equal(kit_cut(k, CUT, NULL, both, 2, NULL), 0);
}

/*
 * Leave a cut as a crash between two pools does: a note, and the snapshots of
 * the first pool.
 */
static void note_half(struct kit *k)
{
	char names[2][EXTENT_NAME_SIZE] = {"s-x", "s-y"};
	struct copies_record note = {.cut = CUT, .names = names, .n = 2};

	kit_create(k, "x");
	kit_create(k, "y");
	assert_int_equal(kit_cut_x(k, NULL), 0);
	assert_int_equal(cut_intent_begin(k->node, &note, NULL), 0);
}

static void a_cut_of_which_a_part_is_left_is_undone_at_start(void **state)
{
	struct kit *k = *state;

	note_half(k);
	assert_int_equal(cut_intent_settle(k->node, CUT, NULL), -EAGAIN);
	kit_restart(k);
	assert_false(kit_is_there(k, "s-x"));
	assert_true(kit_reserved(k) == 8 * MIB);
	assert_int_equal(cut_intent_settle(k->node, CUT, NULL), 0);
	assert_int_equal(kit_cut(k, CUT, NULL, both, 2, NULL), 0);
	kit_restart(k);
	assert_true(kit_is_there(k, "s-x") && kit_is_there(k, "s-y"));
}

static void a_cut_of_which_a_part_is_left_is_made_anew(void **state)
{
	struct kit *k = *state;

	note_half(k);
	assert_int_equal(kit_cut(k, CUT, NULL, both, 2, NULL), -ESTALE);
	cut_intent_leave(k->node, CUT);
	assert_int_equal(kit_cut(k, CUT, NULL, both, 2, NULL), 0);
	assert_int_equal(cut_intent_settle(k->node, CUT, NULL), 0);
	assert_true(kit_is_there(k, "s-x") && kit_is_there(k, "s-y"));
}

/* Deleting one of two snapshots leaves the other. */
static void a_cut_that_is_taken_apart_is_not_undone(void **state)
{
	struct kit *k = *state;
	char names[2][EXTENT_NAME_SIZE] = {"s-x", "s-y"};
	struct copies_record note = {.cut = CUT, .names = names, .n = 2};

	kit_create(k, "x");
	kit_create(k, "y");
	assert_int_equal(kit_cut(k, CUT, NULL, both, 2, NULL), 0);
	assert_int_equal(cut_intent_begin(k->node, &note, NULL), 0);
	cut_intent_leave(k->node, CUT);
	assert_int_equal(kit_remove(k, "s-y"), 0);
	kit_restart(k);
	assert_true(kit_is_there(k, "s-x"));
}

static void refuses_cuts_that_make_no_sense(void **state)
{
	struct kit *k = *state;
	const char *twice[] = {"x", "x"}, *none[] = {"x", "z"};
	const char *snapshot[] = {"s-x"};
	struct error err = {0};

	kit_create(k, "x");
	assert_int_equal(kit_cut(k, "1", NULL, both, 1, &err), -EINVAL);
	assert_int_equal(kit_cut(k, CUT, NULL, twice, 2, &err), -EINVAL);
	assert_int_equal(kit_cut(k, CUT, NULL, both, 0, &err), -EINVAL);
	assert_int_equal(kit_cut(k, CUT, NULL, none, 2, &err), -ENOENT);
	assert_int_equal(kit_cut_x(k, NULL), 0);
	assert_int_equal(kit_cut(k, CUT_2, NULL, snapshot, 1, &err), -EINVAL);
	kit_method = POOL_COPY_NONE;
	assert_int_equal(
		kit_cut(k, CUT_2, NULL, (const char *[]){"x"}, 1, &err),
		-EEXIST);
	assert_int_equal(kit_create_from(k, "c", 4 * MIB, "s-x", &err),
			 -EOPNOTSUPP);
	assert_non_null(strstr(err.msg, "no snapshots"));
}

static void has_room_for_what_a_snapshot_may_take(void **state)
{
	struct kit *k = *state;
	struct error err = {0};

	kit_create(k, "x");
	kit_fill(k, "x", 'x', 2 * MIB);
	assert_int_equal(
		kit_create_from(k, "z", KIT_CAPACITY - 5 * MIB, NULL, NULL), 0);
	assert_int_equal(kit_cut_x(k, &err), -ENOSPC);
	assert_false(kit_is_there(k, "s-x"));
	assert_int_equal(kit_remove(k, "z"), 0);
	assert_int_equal(kit_cut_x(k, NULL), 0);
	assert_true(kit_reserved(k) == 6 * MIB);
	assert_int_equal(kit_remove(k, "x"), 0); /* in any order */
	assert_int_equal(kit_first_byte(k, "s-x"), 'x');
	assert_int_equal(kit_remove(k, "s-x"), 0);
	assert_true(kit_reserved(k) == 0);
}

static struct node_pool_info pool_info(struct kit *k)
{
	struct node_pool_info *list, found;
	size_t n;

	assert_int_equal(node_list_pools(k->node, "a", &list, &n, NULL), 0);
	assert_int_equal(n, 1);
	found = list[0];
	free(list);
	return found;
}

static bool has_reflinks(struct kit *k)
{
	char path[128];
	enum pool_copy_method method;
	int fd;

	(void)snprintf(path, sizeof(path), "%s/a/extents", k->dir);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	method = pool_dir_probe(fd);
	(void)close(fd);
	return method == POOL_COPY_REFLINK;
}

/* What files that were copied have is theirs alone. */
static void says_what_its_snapshots_keep(void **state)
{
	struct kit *k = *state;
	struct extent_usage usage = {0};
	struct node_pool_info pool;
	struct extent *s;

	kit_create(k, "x");
	kit_fill(k, "x", 'x', 2 * MIB);
	assert_int_equal(kit_cut_x(k, NULL), 0);
	s = kit_find(k, "s-x");
	assert_int_equal(extent_usage(s, &usage, NULL), 0);
	extent_unref(s);
	pool = pool_info(k);
	assert_true(pool.nominal == 8 * MIB);
	if (has_reflinks(k)) {
		assert_true(!pool.sharing_known ||
			    pool.sharing.reclaimable == 0);
	} else {
		assert_true(pool.sharing_known);
		assert_true(pool.sharing.shared == 0);
		assert_true(usage.allocated >= 2 * MIB);
		assert_true(pool.sharing.reclaimable == usage.allocated);
	}
	assert_int_equal(kit_remove(k, "s-x"), 0);
	pool = pool_info(k);
	assert_true(pool.nominal == 4 * MIB);
	assert_true(pool.sharing.reclaimable == 0);
}

/* ---- quiesces ---- */

static int quiesce(struct kit *k, const char *name, unsigned ms)
{
	return extents_quiesce(k->node, HOLD, &name, 1, "", ms, 0, NULL);
}

static void cuts_under_a_hold_that_lasts(void **state)
{
	struct kit *k = *state;
	struct error err = {0};

	kit_create(k, "x");
	kit_create(k, "y");
	assert_int_equal(quiesce(k, "x", 10001), -EINVAL);
	assert_int_equal(quiesce(k, "z", 1000), -ENOENT);
	assert_int_equal(kit_cut(k, CUT, HOLD, both, 2, &err), -ESTALE);
	assert_int_equal(quiesce(k, "x", 10000), 0);
	assert_int_equal(quiesce(k, "x", 10000), 0); /* again */
	assert_int_equal(quiesce(k, "y", 10000), -EEXIST);
	assert_int_equal(kit_cut(k, CUT, HOLD, both, 2, &err), -ESTALE);
	assert_int_equal(kit_cut(k, CUT, HOLD, &both[1], 1, &err), 0);
	assert_true(quiesce_end(k->node->quiesces, HOLD));
	assert_false(quiesce_end(k->node->quiesces, HOLD));
	assert_int_equal(quiesce(k, "x", 10000), -ESTALE);
}

/* A freeze that can't be leaves the writes of its extents as they were. */
static void a_device_that_is_not_ours_or_not_there_holds_nothing(void **state)
{
	struct kit *k = *state;
	const char *const name = "x";
	struct error err = {0};
	char long_one[200];
	struct extent *x;

	kit_create(k, "x");
	x = kit_find(k, "x");
	memset(long_one, 'a', sizeof(long_one) - 1);
	long_one[sizeof(long_one) - 1] = '\0';
	assert_int_equal(
		extents_quiesce(k->node, HOLD, NULL, 0, "", 1000, 0, &err),
		-EINVAL);
	assert_int_equal(extents_quiesce(k->node, HOLD, NULL, 0, long_one, 1000,
					 0, &err),
			 -EINVAL);
	assert_int_equal(
		extents_quiesce(k->node, HOLD, NULL, 0, "LVM-x", 1000, 0, &err),
		-EPERM);
	assert_int_equal(extents_quiesce(k->node, HOLD, &name, 1, "TRIB-/..",
					 1000, 0, &err),
			 -EPERM);
	assert_true(extents_quiesce(k->node, HOLD, &name, 1, "TRIB-none", 1000,
				    0, &err) < 0);
	assert_false(gate_is_closed(&x->gate));
	assert_false(quiesce_end(k->node->quiesces, HOLD));
	assert_int_equal(quiesce(k, "x", 10000), 0);
	assert_int_equal(extents_quiesce(k->node, HOLD, &name, 1, "TRIB-none",
					 1000, 0, &err),
			 -EEXIST);
	assert_true(quiesce_end(k->node->quiesces, HOLD));
	extent_unref(x);
}

static void leaves_nothing_of_a_cut_whose_hold_lapsed(void **state)
{
	struct kit *k = *state;
	struct extent *x;
	struct error err = {0};

	kit_create(k, "x");
	x = kit_find(k, "x");
	kit_copy_takes_ms = 200;
	assert_int_equal(quiesce(k, "x", 100), 0);
	assert_int_equal(kit_cut(k, CUT, HOLD, &both[1], 1, &err), -ESTALE);
	while (gate_is_closed(&x->gate))
		kit_pause_ms(1);
	extent_unref(x);
	assert_false(kit_is_there(k, "s-x"));
	assert_true(kit_reserved(k) == 4 * MIB);
	assert_false(quiesce_end(k->node->quiesces, HOLD));
	kit_restart(k);
	assert_false(kit_is_there(k, "s-x"));
}

/* Requests that do not pass the gate: held before it closes, for as long. */
static void a_device_is_held_for_as_long_as_the_gate(void **state)
{
	struct kit *k = *state;

	kit_create(k, "x");
	assert_int_equal(quiesce(k, "x", 10000), 0);
	assert_int_equal(kit_holds, 0); /* it has none */
	assert_true(quiesce_end(k->node->quiesces, HOLD));

	kit_has_device = true;
	assert_int_equal(kit_cut_x(k, NULL), 0);
	assert_int_equal(kit_holds, 0);
	assert_int_equal(kit_held, 1);
	assert_int_equal(
		extents_quiesce(k->node, CUT, both + 1, 1, "", 10000, 0, NULL),
		0);
	assert_int_equal(kit_holds, 1);
	assert_true(quiesce_end(k->node->quiesces, CUT));
	assert_int_equal(kit_holds, 0);
	assert_int_equal(
		extents_quiesce(k->node, CUT_2, both + 1, 1, "", 50, 0, NULL),
		0);
	assert_int_equal(kit_held, 3);
	while (kit_holds) /* it lapses */
		kit_pause_ms(1);
	assert_false(quiesce_end(k->node->quiesces, CUT_2));
}

/* All that takes long comes before, and writes go on meanwhile. */
static void a_quiesce_may_be_prepared_first(void **state)
{
	struct kit *k = *state;
	struct error err = {0};
	struct extent *x, *y;
	const char *const names[] = {"x", "y"};

	kit_create(k, "x");
	kit_create(k, "y");
	x = kit_find(k, "x");
	y = kit_find(k, "y");
	kit_has_device = true;
	for (int again = 0; again < 2; again++)
		assert_int_equal(extents_quiesce(k->node, HOLD, names, 2, "",
						 10000, QUIESCE_PREPARE, &err),
				 0);
	assert_int_equal(kit_holds, 2);
	assert_int_equal(kit_suspended, 0);
	assert_false(gate_is_closed(&x->gate) || gate_is_closed(&y->gate));
	assert_int_equal(kit_cut(k, CUT, HOLD, both, 2, &err), -ESTALE);
	assert_int_equal(
		extents_quiesce(k->node, HOLD, names, 1, "", 10000, 0, &err),
		-EEXIST);
	assert_int_equal(
		extents_quiesce(k->node, HOLD, names, 2, "", 10000, 0, &err),
		0);
	assert_int_equal(kit_held, 2);
	assert_int_equal(kit_suspended, 2);
	assert_true(gate_is_closed(&x->gate) && gate_is_closed(&y->gate));
	assert_int_equal(kit_cut(k, CUT, HOLD, both, 2, &err), 0);
	assert_true(quiesce_end(k->node->quiesces, HOLD));
	assert_int_equal(kit_holds, 0);

	/* Never begun, it was not held; and it lapses, as others do. */
	assert_int_equal(extents_quiesce(k->node, CUT, names, 2, "", 10000,
					 QUIESCE_PREPARE, &err),
			 0);
	assert_false(quiesce_end(k->node->quiesces, CUT));
	assert_int_equal(kit_holds, 0);
	assert_int_equal(extents_quiesce(k->node, CUT_2, names, 2, "", 50,
					 QUIESCE_PREPARE, &err),
			 0);
	while (kit_holds)
		kit_pause_ms(1);
	assert_int_equal(
		extents_quiesce(k->node, CUT_2, names, 2, "", 50, 0, &err),
		-ESTALE);
	extent_unref(x);
	extent_unref(y);
}

static void a_device_that_is_not_held_leaves_nothing_of_a_cut(void **state)
{
	struct kit *k = *state;
	struct error err = {0};

	kit_create(k, "x");
	kit_has_device = true;
	kit_hold_result = -ETIMEDOUT;
	assert_int_equal(kit_cut_x(k, &err), -ETIMEDOUT);
	assert_int_equal(kit_holds, 0);
	kit_hold_result = 0;
	/* Not for all of the time. */
	kit_release_result = -ESTALE;
	assert_int_equal(kit_cut_x(k, &err), -ESTALE);
	assert_int_equal(kit_holds, 0);
	assert_false(kit_is_there(k, "s-x"));
	kit_release_result = 0;
	assert_int_equal(kit_cut_x(k, &err), 0);
}

int main(void)
{
#define WITH_KIT(test) \
	cmocka_unit_test_setup_teardown(test, kit_setup, kit_teardown)
	const struct CMUnitTest tests[] = {
		WITH_KIT(cuts_several_and_remembers_what_they_are),
		WITH_KIT(gives_back_what_a_cut_made),
		WITH_KIT(makes_all_or_none),
		WITH_KIT(a_cut_of_which_a_part_is_left_is_undone_at_start),
		WITH_KIT(a_cut_of_which_a_part_is_left_is_made_anew),
		WITH_KIT(a_cut_that_is_taken_apart_is_not_undone),
		WITH_KIT(refuses_cuts_that_make_no_sense),
		WITH_KIT(has_room_for_what_a_snapshot_may_take),
		WITH_KIT(says_what_its_snapshots_keep),
		WITH_KIT(cuts_under_a_hold_that_lasts),
		WITH_KIT(a_quiesce_may_be_prepared_first),
		WITH_KIT(a_device_that_is_not_ours_or_not_there_holds_nothing),
		WITH_KIT(leaves_nothing_of_a_cut_whose_hold_lapsed),
		WITH_KIT(a_device_is_held_for_as_long_as_the_gate),
		WITH_KIT(a_device_that_is_not_held_leaves_nothing_of_a_cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
