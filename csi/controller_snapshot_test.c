/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots, volumes made of them, groups, limits and changed blocks over the
 * socket, on nodes that are not there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "csi/controller_test_kit.h"

#define SNAPSHOT      "Controller/CreateSnapshot"
#define UNSNAPSHOT    "Controller/DeleteSnapshot"
#define SNAPSHOTS     "Controller/ListSnapshots"
#define GET_SNAPSHOT  "Controller/GetSnapshot"
#define MODIFY        "Controller/ControllerModifyVolume"
#define GROUP         "GroupController/CreateVolumeGroupSnapshot"
#define UNGROUP       "GroupController/DeleteVolumeGroupSnapshot"
#define GET_GROUP     "GroupController/GetVolumeGroupSnapshot"
#define ALLOCATED     "SnapshotMetadata/GetMetadataAllocated"
#define DELTA         "SnapshotMetadata/GetMetadataDelta"
#define CALL_LIMIT_MS 20000

/* ---- requests ---- */

static Csi__V1__CreateSnapshotRequest cut_of(const char *volume,
					     const char *name)
{
	Csi__V1__CreateSnapshotRequest in =
		CSI__V1__CREATE_SNAPSHOT_REQUEST__INIT;

	in.source_volume_id = (char *)volume;
	in.name = (char *)name;
	return in;
}

/* Cut it: its id, owned. */
static char *cut(struct test *t, const char *volume, const char *name)
{
	Csi__V1__CreateSnapshotRequest in = cut_of(volume, name);
	Csi__V1__CreateSnapshotResponse *reply = NULL;
	char *id;

	if (kit_call(&t->kit, SNAPSHOT, &in, &reply) != RPC_OK)
		fail_msg("%s", t->kit.err.msg);
	assert_string_equal(reply->snapshot->source_volume_id, volume);
	assert_true(reply->snapshot->creation_time->seconds > 1700000000);
	id = strdup(reply->snapshot->snapshot_id);
	kit_free(reply);
	return id;
}

static enum rpc_code uncut(struct test *t, const char *id)
{
	Csi__V1__DeleteSnapshotRequest in =
		CSI__V1__DELETE_SNAPSHOT_REQUEST__INIT;

	in.snapshot_id = (char *)id;
	return kit_call(&t->kit, UNSNAPSHOT, &in, NULL);
}

static Csi__V1__ListSnapshotsResponse *listed(struct test *t,
					      const char *volume,
					      const char *id, int32_t max,
					      const char *token)
{
	Csi__V1__ListSnapshotsRequest in =
		CSI__V1__LIST_SNAPSHOTS_REQUEST__INIT;
	Csi__V1__ListSnapshotsResponse *reply = NULL;

	in.source_volume_id = (char *)volume;
	in.snapshot_id = (char *)id;
	in.max_entries = max;
	in.starting_token = (char *)token;
	if (kit_call(&t->kit, SNAPSHOTS, &in, &reply) != RPC_OK)
		fail_msg("%s", t->kit.err.msg);
	return reply;
}

static size_t count(struct test *t, const char *volume, const char *id)
{
	Csi__V1__ListSnapshotsResponse *reply = listed(t, volume, id, 0, "");
	size_t n = reply->n_entries;

	kit_free(reply);
	return n;
}

/* A CreateVolume from a source. */
struct from {
	struct create c;
	Csi__V1__VolumeContentSource source;
	Csi__V1__VolumeContentSource__SnapshotSource snapshot;
	Csi__V1__VolumeContentSource__VolumeSource volume;
};

static void from_init(struct from *f, const char *name, const char *snapshot,
		      const char *volume, uint64_t bytes)
{
	*f = (struct from){0};
	create_init(&f->c, name, bytes);
	if (bytes == 0)
		f->c.in.capacity_range = NULL;
	csi__v1__volume_content_source__init(&f->source);
	csi__v1__volume_content_source__snapshot_source__init(&f->snapshot);
	csi__v1__volume_content_source__volume_source__init(&f->volume);
	f->c.in.volume_content_source = &f->source;
	f->snapshot.snapshot_id = (char *)snapshot;
	f->volume.volume_id = (char *)volume;
	f->source.type_case =
		snapshot ? CSI__V1__VOLUME_CONTENT_SOURCE__TYPE_SNAPSHOT
			 : CSI__V1__VOLUME_CONTENT_SOURCE__TYPE_VOLUME;
	if (snapshot)
		f->source.snapshot = &f->snapshot;
	else
		f->source.volume = &f->volume;
}

static uint64_t content_of(struct test *t, const char *extent)
{
	struct fake_extent e = {0};

	if (!fake_node_look(&t->nodes[0], extent, &e))
		assert_true(fake_node_look(&t->nodes[1], extent, &e));
	return e.content;
}

static void write_to(struct test *t, const char *extent, uint64_t content)
{
	struct fake_extent e;

	for (size_t i = 0; i < 2; i++)
		if (fake_node_look(&t->nodes[i], extent, &e))
			fake_node_write(&t->nodes[i], extent, content);
}

/* One of two extents, one on each node. */
static char *make_wide(struct test *t, const char *name)
{
	struct create c = {0};

	create_init(&c, name, GIB);
	create_parameter(&c, "minExtents", "2");
	return created(t, &c, GIB);
}

/* ---- snapshots ---- */

static void a_snapshot_is_cut_once_however_often_it_is_asked(void **state)
{
	struct test *t = *state;
	auto_free char *volume = make_volume(t, "v", GIB);
	auto_free char *a = cut(t, volume, "snap-1");
	auto_free char *b = cut(t, volume, "snap-1");
	Csi__V1__ListSnapshotsResponse *list;

	assert_string_equal(a, b);
	assert_int_equal(extents(t), 2);
	list = listed(t, "", a, 0, "");
	assert_int_equal(list->n_entries, 1);
	assert_int_equal(list->entries[0]->snapshot->size_bytes, GIB);
	assert_true(list->entries[0]->snapshot->ready_to_use);
	assert_string_equal(list->entries[0]->snapshot->group_snapshot_id, "");
	kit_free(list);
}

static void what_cannot_be_cut_is_refused(void **state)
{
	struct test *t = *state;
	auto_free char *v = make_volume(t, "v", GIB);
	auto_free char *w = make_volume(t, "w", GIB);
	auto_free char *id = cut(t, v, "Größe 1");
	Csi__V1__CreateSnapshotRequest in = cut_of(w, "Größe 1");
	Csi__V1__CreateSnapshotRequest__ParametersEntry e =
		CSI__V1__CREATE_SNAPSHOT_REQUEST__PARAMETERS_ENTRY__INIT;
	Csi__V1__CreateSnapshotRequest__ParametersEntry *list[] = {&e};

	kit_refused(&t->kit, SNAPSHOT, &in, RPC_ALREADY_EXISTS, "of volume 'v");
	in = cut_of(FAKE_ID, "s");
	kit_refused(&t->kit, SNAPSHOT, &in, RPC_NOT_FOUND, "");
	in = cut_of("No id of ours", "s");
	kit_refused(&t->kit, SNAPSHOT, &in, RPC_NOT_FOUND, "");
	in = cut_of("", "s");
	kit_refused(&t->kit, SNAPSHOT, &in, RPC_INVALID_ARGUMENT, "source");
	in = cut_of(v, "");
	kit_refused(&t->kit, SNAPSHOT, &in, RPC_INVALID_ARGUMENT, "name");
	in = cut_of(v, "a\nb\x01");
	kit_refused(&t->kit, SNAPSHOT, &in, RPC_INVALID_ARGUMENT, "name");
	in = cut_of(v, "s");
	e.key = "bogus";
	e.value = "1";
	in.parameters = list;
	in.n_parameters = 1;
	kit_refused(&t->kit, SNAPSHOT, &in, RPC_INVALID_ARGUMENT, "bogus");
	e.key = "csi.storage.k8s.io/volumesnapshot/name";
	e.value = "nightly";
	assert_int_equal(kit_call(&t->kit, SNAPSHOT, &in, NULL), RPC_OK);
	assert_int_equal(extents(t), 4);
}

static void a_failed_cut_leaves_nothing(void **state)
{
	struct test *t = *state;
	auto_free char *volume = make_wide(t, "v");
	Csi__V1__CreateSnapshotRequest in = cut_of(volume, "s");
	char *id;

	assert_int_equal(extents(t), 2);
	atomic_store(&t->nodes[1].cut_fails, ENOSPC);
	kit_refused(&t->kit, SNAPSHOT, &in, RPC_RESOURCE_EXHAUSTED, "");
	assert_int_equal(extents(t), 2);
	assert_int_equal(count(t, "", ""), 0);
	/* A node that is gone is not final, and nothing is listed. */
	fake_node_down(&t->nodes[1]);
	kit_refused(&t->kit, SNAPSHOT, &in, RPC_UNAVAILABLE, "");
	assert_int_equal(count(t, "", ""), 0);
	fake_node_up(&t->nodes[1]);
	id = cut(t, volume, "s");
	assert_int_equal(extents(t), 4);
	assert_int_equal(uncut(t, id), RPC_OK);
	assert_int_equal(extents(t), 2);
	free(id);
}

static void a_snapshot_outlives_its_volume(void **state)
{
	struct test *t = *state;
	char *volume = make_volume(t, "v", GIB), *id = cut(t, volume, "s");
	Csi__V1__CreateSnapshotRequest in = cut_of(volume, "s");
	struct from f;

	assert_int_equal(delete_volume(t, volume), RPC_OK);
	assert_int_equal(count(t, volume, ""), 1);
	assert_int_equal(count(t, "", id), 1);
	/* The same call, repeated. */
	assert_int_equal(kit_call(&t->kit, SNAPSHOT, &in, NULL), RPC_OK);
	from_init(&f, "restored", id, NULL, 0);
	free(created(t, &f.c, GIB));
	/* Another volume under its name has no snapshots. */
	free(make_volume(t, "v", GIB));
	assert_int_equal(count(t, "v", ""), 1);
	assert_int_equal(uncut(t, id), RPC_OK);
	assert_int_equal(extents(t), 2);
	free(volume);
	free(id);
}

static void deletes_what_is_not_there_too(void **state)
{
	static const char *const ids[] = {"never", FAKE_ID, "No id of ours"};
	struct test *t = *state;
	auto_free char *volume = make_volume(t, "v", GIB);
	auto_free char *id = cut(t, volume, "s");
	auto_free char *other = strdup(id);

	for (size_t i = 0; i < array_size(ids); i++)
		assert_int_equal(uncut(t, ids[i]), RPC_OK);
	other[strlen(other) - 1] ^= 1; /* one that had its name */
	assert_int_equal(uncut(t, other), RPC_OK);
	assert_int_equal(count(t, "", ""), 1);
	assert_int_equal(uncut(t, id), RPC_OK);
	assert_int_equal(uncut(t, id), RPC_OK);
	assert_int_equal(count(t, "", ""), 0);
}

static void lists_by_pages_and_by_filters(void **state)
{
	struct test *t = *state;
	auto_free char *v = make_volume(t, "v", 64 * MIB);
	auto_free char *w = make_volume(t, "w", 64 * MIB);
	char name[16], token[80] = "";
	Csi__V1__ListSnapshotsRequest in =
		CSI__V1__LIST_SNAPSHOTS_REQUEST__INIT;
	size_t seen = 0;
	char *id = NULL;

	for (int i = 0; i < 5; i++) {
		(void)snprintf(name, sizeof(name), "s%d", i);
		free(id);
		id = cut(t, i % 2 ? w : v, name);
	}
	do {
		Csi__V1__ListSnapshotsResponse *page = listed(t, "", "", 2,
							      token);

		assert_true(page->n_entries <= 2);
		seen += page->n_entries;
		(void)snprintf(token, sizeof(token), "%s", page->next_token);
		kit_free(page);
	} while (token[0]);
	assert_int_equal(seen, 5);
	assert_int_equal(count(t, v, ""), 3);
	assert_int_equal(count(t, w, ""), 2);
	assert_int_equal(count(t, v, id), 1);
	assert_int_equal(count(t, w, id), 0);
	assert_int_equal(count(t, FAKE_ID, ""), 0);
	assert_int_equal(count(t, "", FAKE_ID), 0);
	assert_int_equal(count(t, "No id of ours", ""), 0);
	in.starting_token = "bogus";
	kit_refused(&t->kit, SNAPSHOTS, &in, RPC_ABORTED, "starting_token");
	in.starting_token = "";
	in.max_entries = -1;
	kit_refused(&t->kit, SNAPSHOTS, &in, RPC_INVALID_ARGUMENT, "negative");
	free(id);
}

static void one_that_is_being_copied_is_not_ready(void **state)
{
	struct test *t = *state;
	auto_free char *volume = make_volume(t, "v", GIB);
	Csi__V1__CreateSnapshotRequest in = cut_of(volume, "s");
	Csi__V1__CreateSnapshotResponse *made;
	Csi__V1__GetSnapshotRequest get = CSI__V1__GET_SNAPSHOT_REQUEST__INIT;
	Csi__V1__GetSnapshotResponse *got;
	bool ready = false;

	t->nodes[0].copies = t->nodes[1].copies = 4;
	assert_int_equal(kit_call(&t->kit, SNAPSHOT, &in, &made), RPC_OK);
	assert_false(made->snapshot->ready_to_use);
	get.snapshot_id = made->snapshot->snapshot_id;
	for (int i = 0; i < 10 && !ready; i++) {
		assert_int_equal(kit_call(&t->kit, GET_SNAPSHOT, &get, &got),
				 RPC_OK);
		ready = got->snapshot->ready_to_use;
		kit_free(got);
	}
	assert_true(ready);
	kit_free(made);
	get.snapshot_id = FAKE_ID;
	kit_refused(&t->kit, GET_SNAPSHOT, &get, RPC_NOT_FOUND, "");
	get.snapshot_id = "No id of ours";
	kit_refused(&t->kit, GET_SNAPSHOT, &get, RPC_NOT_FOUND, "");
	get.snapshot_id = "";
	kit_refused(&t->kit, GET_SNAPSHOT, &get, RPC_INVALID_ARGUMENT, "");
}

/* ---- volumes made of others ---- */

static void a_volume_has_the_content_of_its_source(void **state)
{
	struct test *t = *state;
	struct create c = {0};
	Csi__V1__CreateVolumeResponse *reply;
	char *volume, *id, *clone;
	struct from f;

	/* What nobody says is as the source has it: XFS here. */
	create_init(&c, "v", 512 * MIB);
	create_parameter(&c, "fsType", "xfs");
	volume = created(t, &c, 512 * MIB);
	write_to(t, "v-0", 7);
	id = cut(t, volume, "s");
	write_to(t, "v-0", 8);
	from_init(&f, "restored", id, NULL, 0);
	assert_int_equal(kit_call(&t->kit, CREATE, &f.c.in, &reply), RPC_OK);
	assert_string_equal(
		reply->volume->content_source->snapshot->snapshot_id, id);
	assert_int_equal(reply->volume->capacity_bytes, 512 * MIB);
	kit_free(reply);
	assert_int_equal(content_of(t, "restored-0"), 7);
	from_init(&f, "cloned", NULL, volume, GIB); /* larger */
	clone = created(t, &f.c, GIB);
	assert_int_equal(content_of(t, "cloned-0"), 8);
	/* What it was made of for a moment is gone, and never listed. */
	assert_int_equal(count(t, "", ""), 1);
	/* Again, when the sources are gone. */
	assert_int_equal(uncut(t, id), RPC_OK);
	assert_int_equal(delete_volume(t, volume), RPC_OK);
	free(created(t, &f.c, GIB));
	from_init(&f, "restored", id, NULL, 512 * MIB);
	free(created(t, &f.c, 512 * MIB));
	free(volume);
	free(id);
	free(clone);
}

static void a_source_that_does_not_fit_is_refused(void **state)
{
	struct test *t = *state;
	auto_free char *volume = make_volume(t, "v", 512 * MIB);
	auto_free char *id = cut(t, volume, "s");
	Csi__V1__VolumeCapability__BlockVolume block =
		CSI__V1__VOLUME_CAPABILITY__BLOCK_VOLUME__INIT;
	struct from f;
	size_t n = extents(t);

	from_init(&f, "r", id, NULL, 256 * MIB);
	kit_refused(&t->kit, CREATE, &f.c.in, RPC_OUT_OF_RANGE, "source");
	from_init(&f, "r", NULL, volume, 0);
	f.c.range.limit_bytes = (int64_t)(256 * MIB);
	f.c.in.capacity_range = &f.c.range;
	kit_refused(&t->kit, CREATE, &f.c.in, RPC_OUT_OF_RANGE, "limit");
	from_init(&f, "r", id, NULL, 0);
	create_parameter(&f.c, "fsType", "xfs");
	kit_refused(&t->kit, CREATE, &f.c.in, RPC_INVALID_ARGUMENT, "ext4");
	from_init(&f, "r", id, NULL, 0);
	f.c.cap.access_type_case =
		CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;
	f.c.cap.block = &block;
	kit_refused(&t->kit, CREATE, &f.c.in, RPC_INVALID_ARGUMENT, "");
	from_init(&f, "r", FAKE_ID, NULL, 0);
	kit_refused(&t->kit, CREATE, &f.c.in, RPC_NOT_FOUND, "snapshot");
	from_init(&f, "r", NULL, FAKE_ID, 0);
	kit_refused(&t->kit, CREATE, &f.c.in, RPC_NOT_FOUND, "volume");
	assert_int_equal(extents(t), n);
	from_init(&f, "r", id, NULL, 0);
	free(created(t, &f.c, 512 * MIB));
	from_init(&f, "r", NULL, volume, 512 * MIB);
	kit_refused(&t->kit, CREATE, &f.c.in, RPC_ALREADY_EXISTS, "");
	kit_refused(&t->kit, CREATE,
		    &(Csi__V1__CreateVolumeRequest){
			    .base = f.c.in.base,
			    .name = "r",
			    .n_volume_capabilities = 1,
			    .volume_capabilities = f.c.caps,
		    },
		    RPC_ALREADY_EXISTS, "");
}

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
	char *ids[2];

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
		TEST(a_snapshot_is_cut_once_however_often_it_is_asked),
		TEST(what_cannot_be_cut_is_refused),
		TEST(a_failed_cut_leaves_nothing),
		TEST(a_snapshot_outlives_its_volume),
		TEST(deletes_what_is_not_there_too),
		TEST(lists_by_pages_and_by_filters),
		TEST(one_that_is_being_copied_is_not_ready),
		TEST(a_volume_has_the_content_of_its_source),
		TEST(a_source_that_does_not_fit_is_refused),
		TEST(a_group_is_cut_together_and_goes_together),
		TEST(a_failed_group_leaves_nothing),
		TEST(a_group_may_have_a_long_name),
		TEST(limits_are_changed_all_or_none),
		TEST(blocks_that_are_used_or_changed_are_streamed),
		TEST(blocks_of_several_extents_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
