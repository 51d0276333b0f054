/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/testkit/controller_test_kit.h"

#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "csi/call/csi_check.h"

int controller_setup(void **state)
{
	struct test *t = calloc(1, sizeof(*t));

	kit_start(&t->kit, CSI_MODE_ALL);
	fake_node_start(&t->nodes[0], t->kit.dir, "host1", 2 * GIB,
			t->kit.csi.volumes);
	fake_node_start(&t->nodes[1], t->kit.dir, "host2", 3 * GIB,
			t->kit.csi.volumes);
	*state = t;
	return 0;
}

int controller_teardown(void **state)
{
	struct test *t = *state;

	fake_node_stop(&t->nodes[0]);
	fake_node_stop(&t->nodes[1]);
	kit_stop(&t->kit);
	free(t);
	return 0;
}

size_t extents(struct test *t)
{
	return fake_node_extents(&t->nodes[0]) +
	       fake_node_extents(&t->nodes[1]);
}

/* ---- requests ---- */

void create_init(struct create *c, const char *name, uint64_t bytes)
{
	csi__v1__create_volume_request__init(&c->in);
	csi__v1__volume_capability__init(&c->cap);
	csi__v1__volume_capability__access_mode__init(&c->mode);
	csi__v1__volume_capability__mount_volume__init(&c->mount);
	csi__v1__capacity_range__init(&c->range);
	c->in.name = (char *)name;
	c->in.n_volume_capabilities = 1;
	c->in.volume_capabilities = c->caps;
	c->caps[0] = &c->cap;
	c->cap.access_mode = &c->mode;
	c->cap.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT;
	c->cap.mount = &c->mount;
	c->mode.mode = MODE(SINGLE_NODE_WRITER);
	c->in.capacity_range = &c->range;
	c->range.required_bytes = (int64_t)bytes;
	c->in.parameters = c->pair_list;
}

void create_parameter(struct create *c, const char *key, const char *value)
{
	pair *p = &c->pairs[c->in.n_parameters];

	csi__v1__create_volume_request__parameters_entry__init(p);
	p->key = (char *)key;
	p->value = (char *)value;
	c->pair_list[c->in.n_parameters++] = p;
}

void create_place(struct create *c, const char *key, const char *value)
{
	csi__v1__topology_requirement__init(&c->places);
	csi__v1__topology__init(&c->place);
	csi__v1__topology__segments_entry__init(&c->segment);
	c->segment.key = (char *)key;
	c->segment.value = (char *)value;
	c->segments[0] = &c->segment;
	c->place.segments = c->segments;
	c->place.n_segments = 1;
	c->place_list[0] = &c->place;
	c->places.requisite = c->place_list;
	c->places.n_requisite = 1;
	c->in.accessibility_requirements = &c->places;
}

char *created(struct test *t, const struct create *c, uint64_t bytes)
{
	Csi__V1__CreateVolumeResponse *reply = NULL;
	char *id;

	if (kit_call(&t->kit, CREATE, &c->in, &reply) != RPC_OK)
		fail_msg("%s", t->kit.err.msg);
	assert_non_null(reply->volume);
	assert_int_equal(reply->volume->capacity_bytes, bytes);
	assert_int_equal(reply->volume->n_volume_context, 0);
	assert_true(strlen(reply->volume->volume_id) <= CSI_STRING_MAX);
	id = strdup(reply->volume->volume_id);
	kit_free(reply);
	return id;
}

char *make_volume(struct test *t, const char *name, uint64_t bytes)
{
	struct create c = {0};

	create_init(&c, name, bytes);
	return created(t, &c, bytes);
}

enum rpc_code delete_volume(struct test *t, const char *id)
{
	Csi__V1__DeleteVolumeRequest in = CSI__V1__DELETE_VOLUME_REQUEST__INIT;

	in.volume_id = (char *)id;
	return kit_call(&t->kit, DELETE, &in, NULL);
}

void validate_init(struct validate *v, char *id)
{
	create_init(&v->c, "unused", GIB);
	csi__v1__validate_volume_capabilities_request__init(&v->in);
	v->in.volume_id = id;
	v->in.n_volume_capabilities = 1;
	v->in.volume_capabilities = v->c.caps;
}

/* ---- snapshots ---- */

Csi__V1__CreateSnapshotRequest cut_of(const char *volume, const char *name)
{
	Csi__V1__CreateSnapshotRequest in =
		CSI__V1__CREATE_SNAPSHOT_REQUEST__INIT;

	in.source_volume_id = (char *)volume;
	in.name = (char *)name;
	return in;
}

/* Cut it: its id, owned. */
char *cut(struct test *t, const char *volume, const char *name)
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

enum rpc_code uncut(struct test *t, const char *id)
{
	Csi__V1__DeleteSnapshotRequest in =
		CSI__V1__DELETE_SNAPSHOT_REQUEST__INIT;

	in.snapshot_id = (char *)id;
	return kit_call(&t->kit, UNSNAPSHOT, &in, NULL);
}

Csi__V1__ListSnapshotsResponse *listed(struct test *t, const char *volume,
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

size_t count(struct test *t, const char *volume, const char *id)
{
	Csi__V1__ListSnapshotsResponse *reply = listed(t, volume, id, 0, "");
	size_t n = reply->n_entries;

	kit_free(reply);
	return n;
}

void write_to(struct test *t, const char *extent, uint64_t content)
{
	struct fake_extent e;

	for (size_t i = 0; i < 2; i++)
		if (fake_node_look(&t->nodes[i], extent, &e))
			fake_node_write(&t->nodes[i], extent, content);
}

/* One of two extents, one on each node. */
char *make_wide(struct test *t, const char *name)
{
	struct create c = {0};

	create_init(&c, name, GIB);
	create_parameter(&c, "minExtents", "2");
	return created(t, &c, GIB);
}
