/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that makes, deletes or reverts a snapshot is killed at each step.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/size.h"
#include "tests/snapshot_kit.h"

static void a_snapshot_killed_at_every_step_is_made_or_forgotten(void **state)
{
	struct kit *t = *state;
	unsigned n;

	assert_int_equal(kit_make(t, "v", 256 * MIB, NULL), 0);
	for (n = 1; kit_killed(t, n, "snapshot", "name=s", "from=v", NULL);
	     n++) {
		if (n % 2)
			assert_int_equal(kit_snapshot(t, "s", "v"), 0);
		assert_int_equal(volume_snapshot_delete(t->volumes, "s", NULL),
				 0);
		kit_only(t, 2);
	}
	assert_true(n > 3);
	for (n = 1; kit_killed(t, n, "unsnapshot", "name=s", NULL, NULL); n++) {
		assert_int_equal(volume_snapshot_delete(t->volumes, "s", NULL),
				 0);
		kit_only(t, 2);
		assert_int_equal(kit_snapshot(t, "s", "v"), 0);
	}
	assert_true(n > 2);
	kit_only(t, 2);
}

static void a_group_killed_at_every_step_is_made_or_forgotten(void **state)
{
	struct kit *t = *state;
	unsigned n;

	assert_int_equal(kit_make(t, "v", 256 * MIB, NULL), 0);
	assert_int_equal(kit_make(t, "w", 256 * MIB, NULL), 0);
	for (n = 1; kit_killed(t, n, "group", "name=g", "of=v", "of=w"); n++) {
		if (n % 2)
			assert_int_equal(kit_group(t, "g"), 0);
		assert_int_equal(volume_group_delete(t->volumes, "g", NULL), 0);
		kit_only(t, 4);
	}
	assert_true(n > 3);
	for (n = 1; kit_killed(t, n, "ungroup", "name=g", NULL, NULL); n++) {
		assert_int_equal(volume_group_delete(t->volumes, "g", NULL), 0);
		kit_only(t, 4);
		assert_int_equal(kit_group(t, "g"), 0);
	}
	assert_true(n > 4);
	kit_only(t, 4);
}

static void a_clone_killed_at_every_step_is_made_or_forgotten(void **state)
{
	struct kit *t = *state;
	unsigned n;

	assert_int_equal(kit_make(t, "v", 256 * MIB, NULL), 0);
	kit_write_split(t, "v", 1, 3);
	for (n = 1; kit_killed(t, n, "create", "name=c", "volume=v", NULL);
	     n++) {
		if (n % 2) {
			assert_int_equal(kit_make_from(t, VOLUME_SOURCE_VOLUME,
						       "v", "c", 0),
					 0);
			assert_int_equal(kit_content(t, "c", 1), 3);
			kit_only(t, 4);
		}
		assert_int_equal(volume_delete(t->volumes, "c", NULL), 0);
		kit_only(t, 2);
	}
	assert_true(n > 5);
	kit_only(t, 4);
}

static void a_revert_killed_at_every_step_is_finished(void **state)
{
	struct kit *t = *state;
	unsigned n;

	assert_int_equal(kit_make(t, "v", 256 * MIB, NULL), 0);
	kit_write_split(t, "v", 0, 1);
	kit_write_split(t, "v", 1, 2);
	assert_int_equal(kit_snapshot(t, "s", "v"), 0);
	for (n = 1; kit_killed(t, n, "revert", "name=v", "from=s", NULL); n++) {
		assert_int_equal(volume_revert(t->volumes, "v", "s", NULL), 0);
		assert_int_equal(kit_content(t, "v", 0), 1);
		assert_int_equal(kit_content(t, "v", 1), 2);
		kit_write_split(t, "v", 0, 10 + n);
		kit_write_split(t, "v", 1, 20 + n);
	}
	assert_true(n > 3);
	assert_int_equal(kit_content(t, "v", 1), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KIT_TEST(a_snapshot_killed_at_every_step_is_made_or_forgotten),
		KIT_TEST(a_group_killed_at_every_step_is_made_or_forgotten),
		KIT_TEST(a_clone_killed_at_every_step_is_made_or_forgotten),
		KIT_TEST(a_revert_killed_at_every_step_is_finished),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
