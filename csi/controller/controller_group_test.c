/* SPDX-License-Identifier: Apache-2.0 */
/* Groups of snapshots, limits and changed blocks over the socket, on nodes
 * that are not there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "csi/testkit/controller_test_kit.h"

#define CALL_LIMIT_MS 20000

/* ---- groups ---- */

static Csi__V1__CreateVolumeGroupSnapshotRequest group_of(char **volumes,
							  size_t n)
{
	Csi__V1__CreateVolumeGroupSnapshotRequest in =
		CSI__V1__CREATE_VOLUME_GROUP_SNAPSHOT_REQUEST__INIT;

	in.name = "groupsnapshot-1";
	in.source_volume_ids = volumes;
	in.n_source_volume_ids = n;
	return in;
}

static void a_group_is_cut_together_and_goes_together(void **state)
{
	struct test *t = *state;
	char *volumes[2] = {make_volume(t, "v", GIB), make_volume(t, "w", GIB)};
	char *turned[2] = {volumes[1], volumes[0]};
	Csi__V1__CreateVolumeGroupSnapshotRequest in = group_of(volumes, 2);
	Csi__V1__CreateVolumeGroupSnapshotResponse *made, *again;
	Csi__V1__GetVolumeGroupSnapshotRequest get =
		CSI__V1__GET_VOLUME_GROUP_SNAPSHOT_REQUEST__INIT;
	Csi__V1__DeleteVolumeGroupSnapshotRequest gone =
		CSI__V1__DELETE_VOLUME_GROUP_SNAPSHOT_REQUEST__INIT;
	Csi__V1__DeleteSnapshotRequest one =
		CSI__V1__DELETE_SNAPSHOT_REQUEST__INIT;
	Csi__V1__CreateVolumeGroupSnapshotRequest__ParametersEntry e =
		CSI__V1__CREATE_VOLUME_GROUP_SNAPSHOT_REQUEST__PARAMETERS_ENTRY__INIT;
	Csi__V1__CreateVolumeGroupSnapshotRequest__ParametersEntry *list[] = {
		&e};
	char *ids[2];

	e.key = "deletionPolicy";
	e.value = "Retain";
	in.parameters = list;
	in.n_parameters = 1;
	assert_int_equal(kit_call(&t->kit, GROUP, &in, &made), RPC_OK);
	assert_int_equal(made->group_snapshot->n_snapshots, 2);
	assert_true(made->group_snapshot->ready_to_use);
	for (size_t i = 0; i < 2; i++) {
		Csi__V1__Snapshot *s = made->group_snapshot->snapshots[i];

		ids[i] = s->snapshot_id;
		assert_string_equal(s->group_snapshot_id,
				    made->group_snapshot->group_snapshot_id);
		assert_int_equal(s->creation_time->seconds,
				 made->group_snapshot->creation_time->seconds);
	}
	in.source_volume_ids = turned;
	assert_int_equal(kit_call(&t->kit, GROUP, &in, &again), RPC_OK);
	assert_string_equal(again->group_snapshot->group_snapshot_id,
			    made->group_snapshot->group_snapshot_id);
	kit_free(again);
	assert_int_equal(extents(t), 4);
	assert_int_equal(count(t, "", ids[1]), 1);
	/* Not alone. */
	one.snapshot_id = ids[0];
	kit_refused(&t->kit, UNSNAPSHOT, &one, RPC_INVALID_ARGUMENT, "group");
	/* Other volumes. */
	in.n_source_volume_ids = 1;
	kit_refused(&t->kit, GROUP, &in, RPC_ALREADY_EXISTS, "other volumes");
	/* The ids have to be those. */
	get.group_snapshot_id = made->group_snapshot->group_snapshot_id;
	get.snapshot_ids = ids;
	get.n_snapshot_ids = 1;
	kit_refused(&t->kit, GET_GROUP, &get, RPC_INVALID_ARGUMENT, "members");
	get.n_snapshot_ids = 0;
	kit_refused(&t->kit, GET_GROUP, &get, RPC_INVALID_ARGUMENT, "members");
	get.n_snapshot_ids = 2;
	assert_int_equal(kit_call(&t->kit, GET_GROUP, &get, NULL), RPC_OK);
	get.snapshot_ids = turned;
	kit_refused(&t->kit, GET_GROUP, &get, RPC_INVALID_ARGUMENT, "not of");
	gone.group_snapshot_id = get.group_snapshot_id;
	gone.snapshot_ids = turned;
	gone.n_snapshot_ids = 2;
	kit_refused(&t->kit, UNGROUP, &gone, RPC_INVALID_ARGUMENT, "not of");
	assert_int_equal(extents(t), 4);
	gone.snapshot_ids = ids;
	assert_int_equal(kit_call(&t->kit, UNGROUP, &gone, NULL), RPC_OK);
	assert_int_equal(kit_call(&t->kit, UNGROUP, &gone, NULL), RPC_OK);
	assert_int_equal(extents(t), 2);
	get.snapshot_ids = ids;
	kit_refused(&t->kit, GET_GROUP, &get, RPC_NOT_FOUND, "");
	/* A caller that knows of no group knows of no members. */
	get.n_snapshot_ids = 0;
	kit_refused(&t->kit, GET_GROUP, &get, RPC_NOT_FOUND, "");
	gone.n_snapshot_ids = 0;
	assert_int_equal(kit_call(&t->kit, UNGROUP, &gone, NULL), RPC_OK);
	get.group_snapshot_id = gone.group_snapshot_id = "No id of ours";
	kit_refused(&t->kit, GET_GROUP, &get, RPC_NOT_FOUND, "");
	assert_int_equal(kit_call(&t->kit, UNGROUP, &gone, NULL), RPC_OK);
	kit_free(made);
	free(volumes[0]);
	free(volumes[1]);
}

static void a_failed_group_leaves_nothing(void **state)
{
	struct test *t = *state;
	char *volumes[3] = {make_volume(t, "v", GIB), make_volume(t, "w", GIB),
			    FAKE_ID};
	Csi__V1__CreateVolumeGroupSnapshotRequest in = group_of(volumes, 3);

	kit_refused(&t->kit, GROUP, &in, RPC_NOT_FOUND, "gone");
	in.n_source_volume_ids = 0;
	kit_refused(&t->kit, GROUP, &in, RPC_INVALID_ARGUMENT, "source_vol");
	in.n_source_volume_ids = 2;
	volumes[2] = volumes[0];
	in.n_source_volume_ids = 3;
	kit_refused(&t->kit, GROUP, &in, RPC_INVALID_ARGUMENT, "twice");
	in.n_source_volume_ids = 2;
	atomic_store(&t->nodes[1].cut_fails, ENOSPC);
	kit_refused(&t->kit, GROUP, &in, RPC_RESOURCE_EXHAUSTED, "");
	assert_int_equal(extents(t), 2);
	assert_int_equal(count(t, "", ""), 0);
	assert_int_equal(kit_call(&t->kit, GROUP, &in, NULL), RPC_OK);
	assert_int_equal(count(t, "", ""), 2);
	free(volumes[0]);
	free(volumes[1]);
}

/* The members' names have to fit, whatever the group is called. */
static void a_group_may_have_a_long_name(void **state)
{
	struct test *t = *state;
	char *volumes[1] = {make_volume(t, "v", 64 * MIB)};
	Csi__V1__CreateVolumeGroupSnapshotRequest in = group_of(volumes, 1);
	Csi__V1__CreateVolumeGroupSnapshotResponse *made;

	in.name = "groupsnapshot-0c6f9d5e-1111-4222-8333-abcdefabcdef-long-57";
	assert_int_equal(kit_call(&t->kit, GROUP, &in, &made), RPC_OK);
	assert_int_equal(
		count(t, "", made->group_snapshot->snapshots[0]->snapshot_id),
		1);
	kit_free(made);
	free(volumes[0]);
}

/* ---- limits ---- */

typedef Csi__V1__ControllerModifyVolumeRequest__MutableParametersEntry change;

static void limits_are_changed_all_or_none(void **state)
{
	struct test *t = *state;
	struct create c = {0};
	Csi__V1__CreateVolumeRequest__MutableParametersEntry limit =
		CSI__V1__CREATE_VOLUME_REQUEST__MUTABLE_PARAMETERS_ENTRY__INIT;
	Csi__V1__CreateVolumeRequest__MutableParametersEntry *limit_list[] = {
		&limit};
	Csi__V1__ControllerModifyVolumeRequest in =
		CSI__V1__CONTROLLER_MODIFY_VOLUME_REQUEST__INIT;
	change e[2], *list[2] = {&e[0], &e[1]};
	struct fake_extent extent;
	char *id;

	/* What may be changed goes before what is in the class. */
	create_init(&c, "v", GIB);
	create_parameter(&c, "iops", "100");
	limit.key = "iops";
	limit.value = "500";
	c.in.mutable_parameters = limit_list;
	c.in.n_mutable_parameters = 1;
	id = created(t, &c, GIB);
	assert_true(fake_node_look(&t->nodes[1], "v-0", &extent));
	assert_int_equal(extent.iops, 500);
	limit.key = "fsType";
	c.in.name = "w";
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT, "changed");
	in.volume_id = id;
	kit_refused(&t->kit, MODIFY, &in, RPC_INVALID_ARGUMENT, "mutable");
	for (size_t i = 0; i < 2; i++)
		csi__v1__controller_modify_volume_request__mutable_parameters_entry__init(
			&e[i]);
	in.mutable_parameters = list;
	in.n_mutable_parameters = 2;
	e[0].key = "bytesPerSecond";
	e[0].value = "1MiB";
	e[1].key = "iops";
	e[1].value = "many";
	kit_refused(&t->kit, MODIFY, &in, RPC_INVALID_ARGUMENT, "iops");
	e[1].key = "placement";
	e[1].value = "local";
	kit_refused(&t->kit, MODIFY, &in, RPC_INVALID_ARGUMENT, "placement");
	assert_true(fake_node_look(&t->nodes[1], "v-0", &extent));
	assert_int_equal(extent.bytes_per_second, 0);
	in.n_mutable_parameters = 1;
	assert_int_equal(kit_call(&t->kit, MODIFY, &in, NULL), RPC_OK);
	assert_true(fake_node_look(&t->nodes[1], "v-0", &extent));
	assert_int_equal(extent.bytes_per_second, MIB);
	assert_int_equal(extent.iops, 500); /* was not sent */
	in.volume_id = FAKE_ID;
	kit_refused(&t->kit, MODIFY, &in, RPC_NOT_FOUND, "");
	free(id);
}

/* ---- changed blocks ---- */

struct seen {
	size_t messages, ranges;
	int64_t first, end, capacity;
};

static int see(void *context, const ProtobufCMessage *m_)
{
	const Csi__V1__GetMetadataAllocatedResponse *m = (const void *)m_;
	struct seen *seen = context;

	assert_int_equal(m->block_metadata_type,
			 CSI__V1__BLOCK_METADATA_TYPE__VARIABLE_LENGTH);
	seen->capacity = m->volume_capacity_bytes;
	seen->messages++;
	for (size_t i = 0; i < m->n_block_metadata; i++) {
		const Csi__V1__BlockMetadata *b = m->block_metadata[i];

		assert_true(b->size_bytes > 0 && b->byte_offset >= seen->end);
		if (seen->ranges++ == 0)
			seen->first = b->byte_offset;
		seen->end = b->byte_offset + b->size_bytes;
	}
	return 0;
}

static int stream(struct test *t, const char *method, const void *in,
		  struct seen *seen)
{
	char path[96];

	*seen = (struct seen){0};
	t->kit.err = (struct error){0};
	(void)snprintf(path, sizeof(path), "/csi.v1.%s", method);
	return rpc_client_stream(
		t->kit.client, path, in,
		strcmp(method, DELTA) == 0
			? &csi__v1__get_metadata_delta_response__descriptor
			: &csi__v1__get_metadata_allocated_response__descriptor,
		CALL_LIMIT_MS, see, seen, &t->kit.err);
}

static void blocks_that_are_used_or_changed_are_streamed(void **state)
{
	struct test *t = *state;
	auto_free char *volume = make_volume(t, "v", GIB);
	auto_free char *old = NULL, *new = NULL;
	Csi__V1__GetMetadataAllocatedRequest all =
		CSI__V1__GET_METADATA_ALLOCATED_REQUEST__INIT;
	Csi__V1__GetMetadataDeltaRequest delta =
		CSI__V1__GET_METADATA_DELTA_REQUEST__INIT;
	struct seen seen;

	write_to(t, "v-0", 4096);
	old = cut(t, volume, "old");
	write_to(t, "v-0", 12288);
	new = cut(t, volume, "new");
	all.snapshot_id = new;
	assert_int_equal(stream(t, ALLOCATED, &all, &seen), 0);
	assert_int_equal(seen.ranges, 1);
	assert_int_equal(seen.end, 12288);
	assert_int_equal(seen.capacity, GIB);
	delta.base_snapshot_id = old;
	delta.target_snapshot_id = new;
	delta.max_results = 1;
	assert_int_equal(stream(t, DELTA, &delta, &seen), 0);
	assert_int_equal(seen.first, 4096);
	assert_int_equal(seen.end, 12288);
	all.starting_offset = -1;
	assert_int_equal(stream(t, ALLOCATED, &all, &seen), -ERANGE);
	all.starting_offset = (int64_t)(2 * GIB);
	assert_int_equal(stream(t, ALLOCATED, &all, &seen), -ERANGE);
	all.starting_offset = 0;
	all.max_results = -1;
	assert_int_equal(stream(t, ALLOCATED, &all, &seen), -EINVAL);
	all.max_results = 0;
	all.snapshot_id = FAKE_ID;
	assert_int_equal(stream(t, ALLOCATED, &all, &seen), -ENOENT);
	all.snapshot_id = "";
	assert_int_equal(stream(t, ALLOCATED, &all, &seen), -EINVAL);
	delta.base_snapshot_id = FAKE_ID;
	assert_int_equal(stream(t, DELTA, &delta, &seen), -ENOENT);
}

static void blocks_of_several_extents_are_refused(void **state)
{
	struct test *t = *state;
	auto_free char *volume = make_wide(t, "v");
	auto_free char *id = cut(t, volume, "s");
	Csi__V1__GetMetadataAllocatedRequest all =
		CSI__V1__GET_METADATA_ALLOCATED_REQUEST__INIT;
	struct seen seen;

	all.snapshot_id = id;
	assert_int_equal(stream(t, ALLOCATED, &all, &seen), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_group_is_cut_together_and_goes_together),
		TEST(a_failed_group_leaves_nothing),
		TEST(a_group_may_have_a_long_name),
		TEST(limits_are_changed_all_or_none),
		TEST(blocks_that_are_used_or_changed_are_streamed),
		TEST(blocks_of_several_extents_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
