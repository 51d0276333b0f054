/* SPDX-License-Identifier: Apache-2.0 */
/* Snapshots and volumes made of others over the socket, on nodes that are not
 * there. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "csi/testkit/controller_test_kit.h"

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
	auto_free char *v = make_volume(t, "v", 256 * MIB);
	auto_free char *w = make_volume(t, "w", 256 * MIB);
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
	/* A key of Kubernetes' own is no reason to refuse. */
	in.name = "t";
	e.key = "csi.storage.k8s.io/of-a-later-release";
	assert_int_equal(kit_call(&t->kit, SNAPSHOT, &in, NULL), RPC_OK);
	in.name = "u";
	e.key = "deletionPolicy";
	e.value = "Delete";
	assert_int_equal(kit_call(&t->kit, SNAPSHOT, &in, NULL), RPC_OK);
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

	/* A property that nobody asks for is as the source has it: XFS here. */
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
	/* The snapshot that the clone was made of is gone, and never listed. */
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

/* Which was rounded up, or made as large as the smallest. */
static void what_made_the_source_is_enough_for_a_copy(void **state)
{
	static const struct {
		uint64_t asked, made;
	} sizes[] = {{100000000, 100003840}, {10 * MIB, 64 * MIB}};
	struct test *t = *state;

	for (size_t i = 0; i < array_size(sizes); i++) {
		char name[3][8];
		auto_free char *volume = NULL, *id = NULL;
		struct create c = {0};
		struct from f;

		for (int k = 0; k < 3; k++)
			(void)snprintf(name[k], sizeof(name[k]), "%c%zu",
				       "vrc"[k], i);
		create_init(&c, name[0], sizes[i].asked);
		volume = created(t, &c, sizes[i].made);
		id = cut(t, volume, name[0]);
		from_init(&f, name[1], id, NULL, sizes[i].asked);
		free(created(t, &f.c, sizes[i].made));
		from_init(&f, name[2], NULL, volume, sizes[i].asked);
		free(created(t, &f.c, sizes[i].made));
		free(created(t, &f.c, sizes[i].made));
	}
}

static void a_source_that_does_not_fit_is_refused(void **state)
{
	struct test *t = *state;
	auto_free char *volume = make_volume(t, "v", 512 * MIB);
	auto_free char *id = cut(t, volume, "s");
	Csi__V1__VolumeCapability__BlockVolume block =
		CSI__V1__VOLUME_CAPABILITY__BLOCK_VOLUME__INIT;
	Csi__V1__CreateVolumeRequest plain;
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
	plain = f.c.in;
	plain.volume_content_source = NULL;
	plain.capacity_range = NULL;
	kit_refused(&t->kit, CREATE, &plain, RPC_ALREADY_EXISTS, "");
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
		TEST(what_made_the_source_is_enough_for_a_copy),
		TEST(a_source_that_does_not_fit_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
