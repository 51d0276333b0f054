/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots of several volumes at one instant. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "tests/snapshot_kit.h"

static void a_group_is_one_instant_and_goes_as_one(void **state)
{
	struct kit *t = *state;
	const struct snapshot_filter filter = {.group = "g", .cut = true};
	struct record_place place = {0};
	const struct snapshot_filter page = {.max = 1, .place = &place};
	struct snapshot_record **members = NULL;
	struct group_record *g = NULL;
	bool more = false;
	size_t n = 0;

	assert_int_equal(kit_make(t, "v", 256 * MIB, NULL), 0);
	assert_int_equal(kit_make(t, "w", 256 * MIB, NULL), 0);
	assert_int_equal(kit_group(t, "g"), 0);
	assert_int_equal(kit_group(t, "g"), 0);
	assert_int_equal(volume_group_get(t->volumes, "g", &g, NULL), 0);
	assert_int_equal(g->phase, SNAPSHOT_READY);
	assert_int_equal(g->n_members, 2);
	assert_string_equal(g->members[0].volume, "v");
	assert_int_equal(volume_snapshot_list(t->volumes, &filter, &members, &n,
					      NULL, NULL, NULL),
			 0);
	assert_int_equal(n, 2);
	for (size_t i = 0; i < n; i++) {
		assert_string_equal(members[i]->cut, g->cut);
		assert_int_equal(members[i]->cut_s, g->cut_s);
	}
	snapshot_records_free(members, n);
	group_record_free(g);
	assert_int_equal(volume_snapshot_list(t->volumes, &page, &members, &n,
					      &more, NULL, NULL),
			 0);
	assert_int_equal(n, 1);
	assert_string_equal(members[0]->name, "g-0");
	assert_true(more);
	snapshot_records_free(members, n);
	assert_string_equal(place.after, "g-0");
	assert_int_equal(volume_snapshot_list(t->volumes, &page, &members, &n,
					      &more, NULL, NULL),
			 0);
	assert_int_equal(n, 1);
	assert_string_equal(members[0]->name, "g-1");
	assert_false(more);
	snapshot_records_free(members, n);
	assert_int_equal(volume_snapshot_delete(t->volumes, "g-0", NULL),
			 -EPERM);
	assert_int_equal(
		kit_make_from(t, VOLUME_SOURCE_SNAPSHOT, "g-1", "r", 0), 0);
	assert_int_equal(volume_group_delete(t->volumes, "g", NULL), 0);
	assert_int_equal(volume_group_delete(t->volumes, "g", NULL), 0);
	kit_only(t, 6);
}

static void a_group_that_fails_leaves_none_of_its_members(void **state)
{
	struct kit *t = *state;

	assert_int_equal(kit_make(t, "v", 256 * MIB, NULL), 0);
	assert_int_equal(kit_make(t, "w", 256 * MIB, NULL), 0);
	atomic_store(&t->nodes[1].cut_fails, ENOSPC);
	assert_int_equal(kit_group(t, "g"), -ENOSPC);
	assert_false(kit_there(t, "g-0"));
	kit_only(t, 4);
	/* A name that somebody has is his. */
	assert_int_equal(kit_snapshot(t, "g-1", "v"), 0);
	assert_int_equal(kit_group(t, "g"), -EEXIST);
	assert_false(kit_there(t, "g-0"));
	assert_true(kit_there(t, "g-1"));
	kit_only(t, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		KIT_TEST(a_group_is_one_instant_and_goes_as_one),
		KIT_TEST(a_group_that_fails_leaves_none_of_its_members),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
