/* SPDX-License-Identifier: Apache-2.0 */
/* GetCapacity. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/size.h"
#include "csi/testkit/controller_test_kit.h"
#include "volume/plan/volume_room.h"

/* ---- GetCapacity ---- */

static void what_it_reports_can_be_made_and_no_more(void **state)
{
	struct test *t = *state;
	Csi__V1__GetCapacityRequest in = CSI__V1__GET_CAPACITY_REQUEST__INIT;
	Csi__V1__GetCapacityResponse *reply;
	struct create c = {0};
	uint64_t maximum;

	free(make_volume(t, "some", 100 * MIB + 4096));
	assert_int_equal(kit_call(&t->kit, CAPACITY, &in, &reply), RPC_OK);
	assert_int_equal(reply->available_capacity, 5 * GIB - 100 * MIB - 4096);
	assert_int_equal(reply->minimum_volume_size->value, 64 * MIB);
	maximum = (uint64_t)reply->maximum_volume_size->value;
	kit_free(reply);
	create_init(&c, "more", maximum + 4096);
	kit_refused(&t->kit, CREATE, &c.in, RPC_RESOURCE_EXHAUSTED, "free");
	free(make_volume(t, "exactly", maximum));
	assert_int_equal(kit_call(&t->kit, CAPACITY, &in, &reply), RPC_OK);
	assert_int_equal(reply->maximum_volume_size->value, 0);
	kit_free(reply);
}

static int64_t capacity_of(struct test *t,
			   const Csi__V1__GetCapacityRequest *in)
{
	Csi__V1__GetCapacityResponse *reply;
	int64_t bytes;

	if (kit_call(&t->kit, CAPACITY, in, &reply) != RPC_OK)
		fail_msg("%s", t->kit.err.msg);
	bytes = reply->available_capacity;
	kit_free(reply);
	return bytes;
}

static int64_t maximum_of(struct test *t, const Csi__V1__GetCapacityRequest *in)
{
	Csi__V1__GetCapacityResponse *reply;
	int64_t bytes;

	if (kit_call(&t->kit, CAPACITY, in, &reply) != RPC_OK)
		fail_msg("%s", t->kit.err.msg);
	bytes = reply->maximum_volume_size->value;
	kit_free(reply);
	return bytes;
}

/* The provisioner passes all that the class has, and no capability. */
static void capacity_takes_a_class_as_it_is(void **state)
{
	struct test *t = *state;
	Csi__V1__GetCapacityRequest in = CSI__V1__GET_CAPACITY_REQUEST__INIT;
	Csi__V1__GetCapacityRequest__ParametersEntry p[4], *ps[4];
	static char *const keys[] = {
		"csi.storage.k8s.io/fstype",
		"csi.storage.k8s.io/provisioner-secret-name",
		"csi.storage.k8s.io/of-a-later-release", "createPolicy"};
	static char *const values[] = {"xfs", "secret", "any", "mfs"};
	Csi__V1__GetCapacityResponse *reply;

	for (size_t i = 0; i < array_size(p); i++) {
		csi__v1__get_capacity_request__parameters_entry__init(&p[i]);
		p[i].key = keys[i];
		p[i].value = values[i];
		ps[i] = &p[i];
	}
	in.parameters = ps;
	in.n_parameters = array_size(p);
	assert_int_equal(capacity_of(t, &in), 5 * GIB);
	/* The minimum is that of the file system: xfs needs 300 MiB. */
	assert_int_equal(kit_call(&t->kit, CAPACITY, &in, &reply), RPC_OK);
	assert_int_equal(reply->minimum_volume_size->value, 300 * MIB);
	kit_free(reply);
	p[0].value = "zfs";
	kit_refused(&t->kit, CAPACITY, &in, RPC_INVALID_ARGUMENT, "ext4");
}

static void capacity_honours_all_that_is_asked(void **state)
{
	struct test *t = *state;
	Csi__V1__GetCapacityRequest in = CSI__V1__GET_CAPACITY_REQUEST__INIT;
	Csi__V1__GetCapacityRequest__ParametersEntry p, *ps[1] = {&p};
	Csi__V1__VolumeCapability__BlockVolume block =
		CSI__V1__VOLUME_CAPABILITY__BLOCK_VOLUME__INIT;
	struct create c = {0};

	create_init(&c, "unused", GIB);
	create_place(&c, CSI_TOPOLOGY_NODE, "host1");
	assert_int_equal(capacity_of(t, &in), 5 * GIB);
	/* Every node reaches every volume. */
	in.accessible_topology = &c.place;
	assert_int_equal(capacity_of(t, &in), 5 * GIB);
	c.segment.value = "host9";
	assert_int_equal(capacity_of(t, &in), 0);
	in.accessible_topology = NULL;

	csi__v1__get_capacity_request__parameters_entry__init(&p);
	p.key = "nodes";
	p.value = "host1";
	in.parameters = ps;
	in.n_parameters = 1;
	assert_int_equal(capacity_of(t, &in), 2 * GIB);
	p.key = "wrong";
	kit_refused(&t->kit, CAPACITY, &in, RPC_INVALID_ARGUMENT, "wrong");
	in.n_parameters = 0;

	in.volume_capabilities = c.caps;
	in.n_volume_capabilities = 1;
	assert_int_equal(capacity_of(t, &in), 5 * GIB);
	c.mode.mode = MODE(MULTI_NODE_MULTI_WRITER);
	assert_int_equal(capacity_of(t, &in), 0);
	c.mode.mode = MODE(SINGLE_NODE_WRITER);
	c.cap.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;
	c.cap.block = &block;
	assert_int_equal(capacity_of(t, &in), 5 * GIB);
	assert_int_equal(maximum_of(t, &in), 5 * GIB);
	/* Two equal pieces, in pools of 2 and 3 GiB. */
	p.key = "layout";
	p.value = "stripe";
	in.n_parameters = 1;
	assert_int_equal(maximum_of(t, &in), 4 * GIB);
	in.n_parameters = 0;
	in.n_volume_capabilities = 0;
	assert_int_equal(maximum_of(t, &in), 5 * GIB);
	fake_node_down(&t->nodes[1]);
	assert_int_equal(capacity_of(t, &in), 2 * GIB);
	fake_node_up(&t->nodes[1]);
	/* A pool that is not well has no room, whatever it says. */
	t->nodes[1].pool_state = "failing";
	assert_int_equal(capacity_of(t, &in), 2 * GIB);
	t->nodes[1].pool_state = "read-only";
	assert_int_equal(capacity_of(t, &in), 2 * GIB);
	t->nodes[1].pool_state = NULL;
	assert_int_equal(capacity_of(t, &in), 5 * GIB);
}

/* What there is; of @tries, one took @most_ms at most. */
static uint64_t room_within(struct volume_context *volumes, int64_t most_ms,
			    int tries, size_t silent)
{
	const struct volume_spec spec = {0}, *specs[] = {&spec};
	struct volume_room room = {0};
	struct error err = {0};
	int64_t took_ms = most_ms + 1;

	for (; tries > 0 && took_ms > most_ms; tries--) {
		int64_t start_ms = clock_ms();

		if (volume_rooms_get(volumes, specs, 1, &room, &err) < 0)
			fail_msg("%s", err.msg);
		took_ms = clock_ms() - start_ms;
	}
	assert_in_range(took_ms, 0, most_ms);
	assert_int_equal(room.silent, silent);
	return room.available;
}

static void a_node_that_is_silent_is_not_waited_for_long(void **state)
{
	struct test *t = *state;
	/* That waits as long as it does when nothing else is said: 10 s. */
	const struct volume_config config = {
		.store = t->kit.store, .node = "host1", .run_dir = t->kit.dir};
	struct volume_context *volumes;

	assert_int_equal(volume_context_open(&config, &volumes, NULL), 0);
	t->nodes[1].silent = true;
	assert_int_equal(room_within(volumes, 9000, 1, 1), 2 * GIB);
	assert_int_equal(room_within(volumes, 2500, 5, 1), 2 * GIB);
	t->nodes[1].silent = false;
	assert_int_equal(room_within(volumes, 2500, 5, 0), 5 * GIB);
	volume_context_close(volumes);
}

static uint64_t seed = 0x9e3779b97f4a7c15;

static uint64_t random_below(uint64_t n)
{
	seed ^= seed << 13; /* xorshift64, Marsaglia 2003 */
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

/* Mount or block, spread or not, on pools of any size. */
static void what_it_reports_can_be_made_whatever_the_pools(void **state)
{
	struct test *t = *state;
	Csi__V1__GetCapacityRequest in = CSI__V1__GET_CAPACITY_REQUEST__INIT;
	Csi__V1__GetCapacityRequest__ParametersEntry p, *ps[1] = {&p};
	Csi__V1__VolumeCapability__BlockVolume block =
		CSI__V1__VOLUME_CAPABILITY__BLOCK_VOLUME__INIT;

	csi__v1__get_capacity_request__parameters_entry__init(&p);
	p.key = "minExtents";
	p.value = "2";
	in.parameters = ps;
	for (int round = 0; round < 16; round++) {
		bool spread = random_below(3) == 0;
		struct create c = {0};
		uint64_t maximum;
		char *id;

		for (int i = 0; i < 2; i++)
			t->nodes[i].capacity = 4096 * random_below(GIB / 4096);
		create_init(&c, "v", 0);
		if (!spread && random_below(2) == 0) {
			c.cap.access_type_case =
				CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;
			c.cap.block = &block;
		}
		in.volume_capabilities = c.caps;
		in.n_volume_capabilities = 1;
		in.n_parameters = spread;
		if (spread)
			create_parameter(&c, "minExtents", "2");
		maximum = (uint64_t)maximum_of(t, &in);
		c.range.required_bytes = (int64_t)(maximum + 4096);
		c.range.limit_bytes = 0;
		kit_refused(&t->kit, CREATE, &c.in, RPC_RESOURCE_EXHAUSTED, "");
		if (maximum == 0)
			continue;
		c.range.required_bytes = (int64_t)maximum;
		id = created(t, &c, maximum);
		assert_int_equal(delete_volume(t, id), RPC_OK);
		free(id);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(what_it_reports_can_be_made_and_no_more),
		TEST(what_it_reports_can_be_made_whatever_the_pools),
		TEST(capacity_takes_a_class_as_it_is),
		TEST(capacity_honours_all_that_is_asked),
		TEST(a_node_that_is_silent_is_not_waited_for_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
