/* SPDX-License-Identifier: Apache-2.0 */
/* ControllerExpandVolume over the socket, on nodes that are not there. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "csi/testkit/controller_test_kit.h"

struct expand {
	Csi__V1__ControllerExpandVolumeRequest in;
	Csi__V1__CapacityRange range;
	struct create c; /* for its capability */
};

static void expand_init(struct expand *e, const char *id, uint64_t bytes)
{
	csi__v1__controller_expand_volume_request__init(&e->in);
	csi__v1__capacity_range__init(&e->range);
	create_init(&e->c, "unused", GIB);
	e->in.volume_id = (char *)id;
	e->in.capacity_range = &e->range;
	e->range.required_bytes = (int64_t)bytes;
}

static void expanded(struct test *t, const struct expand *e, uint64_t bytes)
{
	Csi__V1__ControllerExpandVolumeResponse *reply = NULL;

	if (kit_call(&t->kit, EXPAND, &e->in, &reply) != RPC_OK)
		fail_msg("%s", t->kit.err.msg);
	assert_int_equal(reply->capacity_bytes, bytes);
	assert_true(reply->node_expansion_required);
	kit_free(reply);
}

static uint64_t free_bytes(struct test *t)
{
	return fake_node_free(&t->nodes[0]) + fake_node_free(&t->nodes[1]);
}

static void makes_it_larger_once_however_often_it_is_asked(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	struct expand e = {0};

	expand_init(&e, id, 2 * GIB);
	expanded(t, &e, 2 * GIB);
	expanded(t, &e, 2 * GIB);
	assert_int_equal(free_bytes(t), 3 * GIB);
	/* What came late is as large already. */
	expand_init(&e, id, GIB);
	expanded(t, &e, 2 * GIB);
	expand_init(&e, id, 0);
	e.range.limit_bytes = (int64_t)(2 * GIB);
	expanded(t, &e, 2 * GIB);
	assert_int_equal(free_bytes(t), 3 * GIB);
}

static void rounds_up_to_what_an_extent_can_have(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	struct expand e = {0};

	expand_init(&e, id, GIB + 1);
	expanded(t, &e, GIB + 4096);
	expand_init(&e, id, GIB + 4097);
	e.range.limit_bytes = (int64_t)(GIB + 8191);
	kit_refused(&t->kit, EXPAND, &e.in, RPC_OUT_OF_RANGE, "limit");
	e.range.limit_bytes = (int64_t)(GIB + 8192);
	expanded(t, &e, GIB + 8192);
}

static void refuses_a_range_it_cannot_be_in(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	struct expand e = {0};

	expand_init(&e, id, 0);
	e.range.limit_bytes = (int64_t)(512 * MIB);
	kit_refused(&t->kit, EXPAND, &e.in, RPC_OUT_OF_RANGE, "1073741824");
	expand_init(&e, id, 2 * GIB);
	e.range.limit_bytes = (int64_t)GIB;
	kit_refused(&t->kit, EXPAND, &e.in, RPC_OUT_OF_RANGE, "limit");
	expand_init(&e, id, INT64_MAX);
	kit_refused(&t->kit, EXPAND, &e.in, RPC_OUT_OF_RANGE, "at most");
	expand_init(&e, id, 2 * GIB);
	e.range.required_bytes = -1;
	kit_refused(&t->kit, EXPAND, &e.in, RPC_INVALID_ARGUMENT, "negative");
	e.in.capacity_range = NULL;
	kit_refused(&t->kit, EXPAND, &e.in, RPC_INVALID_ARGUMENT,
		    "capacity_range");
	assert_int_equal(free_bytes(t), 4 * GIB);
}

static void refuses_what_is_not_there_or_used_so(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	struct expand e = {0};

	expand_init(&e, FAKE_ID, 2 * GIB);
	kit_refused(&t->kit, EXPAND, &e.in, RPC_NOT_FOUND, "gone");
	expand_init(&e, "", 2 * GIB);
	kit_refused(&t->kit, EXPAND, &e.in, RPC_INVALID_ARGUMENT, "volume_id");
	expand_init(&e, id, 2 * GIB);
	e.in.volume_capability = &e.c.cap;
	e.c.mode.mode = MODE(MULTI_NODE_MULTI_WRITER);
	kit_refused(&t->kit, EXPAND, &e.in, RPC_INVALID_ARGUMENT, "mode");
	e.c.mode.mode = MODE(SINGLE_NODE_WRITER);
	e.c.mount.fs_type = "xfs";
	kit_refused(&t->kit, EXPAND, &e.in, RPC_INVALID_ARGUMENT, "ext4");
	e.c.mount.fs_type = "ext4";
	expanded(t, &e, 2 * GIB);
}

static void no_room_changes_nothing_and_says_where_it_is(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", 4 * GIB);
	struct expand e = {0};

	expand_init(&e, id, 6 * GIB);
	/* Final for who asks, who may then ask for less. */
	kit_refused(&t->kit, EXPAND, &e.in, RPC_OUT_OF_RANGE, "free");
	assert_int_equal(free_bytes(t), GIB);
	expand_init(&e, id, 4 * GIB);
	expanded(t, &e, 4 * GIB);
	expand_init(&e, id, 5 * GIB);
	expanded(t, &e, 5 * GIB);
	assert_int_equal(free_bytes(t), 0);
}

static void a_silent_node_is_not_final_and_a_repeat_finishes(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", 4 * GIB);
	struct expand e = {0};

	expand_init(&e, id, 5 * GIB);
	atomic_store(&t->nodes[1].fails, EHOSTUNREACH);
	kit_refused(&t->kit, EXPAND, &e.in, RPC_UNAVAILABLE, "not finished");
	expanded(t, &e, 5 * GIB);
	assert_int_equal(free_bytes(t), 0);
}

/* Or the claim could be lowered while a node restarts. */
static void no_size_is_infeasible_while_a_node_is_silent(void **state)
{
	struct test *t = *state;
	struct expand e = {0};
	struct create c = {0};
	auto_free char *id = NULL;

	create_init(&c, "pvc-1", GIB);
	create_parameter(&c, "placement", "packed");
	id = created(t, &c, GIB); /* on host1, which has a GiB left */
	fake_node_down(&t->nodes[1]);
	expand_init(&e, id, 4 * GIB);
	kit_refused(&t->kit, EXPAND, &e.in, RPC_UNAVAILABLE, "host");
	assert_int_equal(fake_node_free(&t->nodes[0]), GIB);
	fake_node_up(&t->nodes[1]);
	/* A node that was silent is waited for only briefly. */
	while (kit_call(&t->kit, EXPAND, &e.in, NULL) == RPC_UNAVAILABLE)
		;
	assert_int_equal(free_bytes(t), GIB);
}

static void what_has_grown_is_still_the_volume_of_its_name(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	struct expand e = {0};
	struct create c = {0};
	char *again;

	expand_init(&e, id, 2 * GIB);
	expanded(t, &e, 2 * GIB);
	create_init(&c, "pvc-1", GIB);
	again = created(t, &c, 2 * GIB);
	assert_string_equal(again, id);
	free(again);
	c.range.limit_bytes = (int64_t)GIB;
	kit_refused(&t->kit, CREATE, &c.in, RPC_ALREADY_EXISTS, "2147483648");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(makes_it_larger_once_however_often_it_is_asked),
		TEST(rounds_up_to_what_an_extent_can_have),
		TEST(refuses_a_range_it_cannot_be_in),
		TEST(refuses_what_is_not_there_or_used_so),
		TEST(no_room_changes_nothing_and_says_where_it_is),
		TEST(a_silent_node_is_not_final_and_a_repeat_finishes),
		TEST(no_size_is_infeasible_while_a_node_is_silent),
		TEST(what_has_grown_is_still_the_volume_of_its_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
