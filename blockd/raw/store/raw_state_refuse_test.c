/* SPDX-License-Identifier: Apache-2.0 */
/* What a raw pool's state does not take from a medium. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "blockd/raw/store/raw_state.h"

static void object_of(struct raw_state *state, uint32_t id, uint64_t clusters)
{
	assert_int_equal(
		raw_state_apply(state,
				&(struct raw_record){.type = RAW_OBJECT,
						     .object = id,
						     .clusters = clusters,
						     .text = ""},
				NULL),
		0);
}

static void refuses_a_cluster_that_another_maps(void **unused)
{
	struct raw_record map = {.type = RAW_MAP, .object = 1, .count = 2};
	struct raw_state state;
	struct error err;

	(void)unused;
	assert_int_equal(raw_state_init(&state, 16, RAW_CLUSTER_SHIFT_MIN), 0);
	object_of(&state, 1, 8);
	object_of(&state, 2, 8);
	assert_int_equal(raw_state_replay(&state, &map, &err), 0);
	assert_int_equal(raw_state_replay(&state, &map, &err), 0); /* again */
	map.object = 2;
	assert_int_equal(raw_state_replay(&state, &map, &err), -EBADMSG);
	assert_string_equal(error_text(&err),
			    "object 2 maps cluster 0, which is in use");
	map.physical = 15;
	assert_int_equal(raw_state_replay(&state, &map, &err), -EBADMSG);
	map.physical = 8;
	map.logical = 7;
	assert_int_equal(raw_state_replay(&state, &map, &err), -EBADMSG);
	raw_state_done(&state);
}

static void bounds_what_a_medium_can_make_it_allocate(void **unused)
{
	struct raw_record object = {
		.type = RAW_OBJECT, .clusters = RAW_CLUSTERS_MAX, .text = ""};
	struct raw_state state;
	unsigned made = 0;

	(void)unused;
	assert_int_equal(raw_state_init(&state, 16, RAW_CLUSTER_SHIFT_MIN), 0);
	for (uint32_t id = 1; id <= 100; id++) {
		object.object = id;
		made += raw_state_apply(&state, &object, NULL) == 0;
	}
	assert_int_equal(made,
			 RAW_SLOTS_MAX / (RAW_CLUSTERS_MAX / RAW_LEAF_ENTRIES));
	object.object = 1;
	object.type = RAW_DROP;
	assert_int_equal(raw_state_apply(&state, &object, NULL), 0);
	object.type = RAW_OBJECT;
	assert_int_equal(raw_state_apply(&state, &object, NULL), 0);
	object.object = RAW_OBJECTS_MAX + 1;
	object.clusters = 1;
	assert_int_equal(raw_state_apply(&state, &object, NULL), -EBADMSG);
	raw_state_done(&state);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refuses_a_cluster_that_another_maps),
		cmocka_unit_test(bounds_what_a_medium_can_make_it_allocate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
