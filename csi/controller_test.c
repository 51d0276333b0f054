/* SPDX-License-Identifier: Apache-2.0 */
/* The Controller service over its socket, on two nodes that are not there. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "csi/csi_check.h"
#include "csi/csi_test_kit.h"
#include "csi/fake_node.h"

#define CREATE   "Controller/CreateVolume"
#define DELETE   "Controller/DeleteVolume"
#define VALIDATE "Controller/ValidateVolumeCapabilities"
#define LIST     "Controller/ListVolumes"
#define GET      "Controller/ControllerGetVolume"
#define CAPACITY "Controller/GetCapacity"

#define MODE(name) CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__##name
#define FAKE_ID    "gone@0c6f9d5e-1111-4222-8333-abcdefabcdef"

struct test {
	struct kit kit;
	struct fake_node nodes[2];
};

static int setup(void **state)
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

static int teardown(void **state)
{
	struct test *t = *state;

	fake_node_stop(&t->nodes[0]);
	fake_node_stop(&t->nodes[1]);
	kit_stop(&t->kit);
	free(t);
	return 0;
}

static size_t extents(struct test *t)
{
	return fake_node_extents(&t->nodes[0]) +
	       fake_node_extents(&t->nodes[1]);
}

/* ---- requests ---- */

typedef Csi__V1__CreateVolumeRequest__ParametersEntry pair;

/* A CreateVolume that is right; tests change it. */
struct create {
	Csi__V1__CreateVolumeRequest in;
	Csi__V1__VolumeCapability cap, *caps[1];
	Csi__V1__VolumeCapability__AccessMode mode;
	Csi__V1__VolumeCapability__MountVolume mount;
	Csi__V1__CapacityRange range;
	Csi__V1__TopologyRequirement places;
	Csi__V1__Topology place, *place_list[1];
	Csi__V1__Topology__SegmentsEntry segment, *segments[1];
	pair pairs[4], *pair_list[4];
};

static void create_init(struct create *c, const char *name, uint64_t bytes)
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

static void create_parameter(struct create *c, const char *key,
			     const char *value)
{
	pair *p = &c->pairs[c->in.n_parameters];

	csi__v1__create_volume_request__parameters_entry__init(p);
	p->key = (char *)key;
	p->value = (char *)value;
	c->pair_list[c->in.n_parameters++] = p;
}

static void create_place(struct create *c, const char *key, const char *value)
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

/* The id of the volume, owned. */
static char *created(struct test *t, const struct create *c, uint64_t bytes)
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

static char *make_volume(struct test *t, const char *name, uint64_t bytes)
{
	struct create c = {0};

	create_init(&c, name, bytes);
	return created(t, &c, bytes);
}

static enum rpc_code delete_volume(struct test *t, const char *id)
{
	Csi__V1__DeleteVolumeRequest in = CSI__V1__DELETE_VOLUME_REQUEST__INIT;

	in.volume_id = (char *)id;
	return kit_call(&t->kit, DELETE, &in, NULL);
}

/* ---- CreateVolume ---- */

static void makes_a_volume_once_however_often_it_is_asked(void **state)
{
	struct test *t = *state;
	auto_free char *a = make_volume(t, "pvc-1", GIB);
	auto_free char *b = make_volume(t, "pvc-1", GIB);

	assert_string_equal(a, b);
	assert_int_equal(extents(t), 1);
	assert_int_equal(strncmp(a, "pvc-1@", 6), 0);
}

static void keeps_names_apart_that_are_no_volume_names(void **state)
{
	struct test *t = *state;
	auto_free char *a = make_volume(t, "Größe 1", 64 * MIB);
	auto_free char *b = make_volume(t, "größe 1", 64 * MIB);
	auto_free char *again = make_volume(t, "Größe 1", 64 * MIB);

	assert_string_not_equal(a, b);
	assert_string_equal(a, again);
}

static void a_volume_larger_than_any_node_is_split(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "big", 4 * GIB);

	assert_int_equal(extents(t), 2);
	assert_int_equal(delete_volume(t, id), RPC_OK);
	assert_int_equal(extents(t), 0);
}

static void a_name_with_another_size_is_refused(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	struct create c = {0};

	create_init(&c, "pvc-1", 2 * GIB);
	kit_refused(&t->kit, CREATE, &c.in, RPC_ALREADY_EXISTS, "1073741824");
	create_init(&c, "pvc-1", 0);
	c.range.limit_bytes = (int64_t)(512 * MIB);
	kit_refused(&t->kit, CREATE, &c.in, RPC_ALREADY_EXISTS, "1073741824");
	/* A range it is within is no other size. */
	create_init(&c, "pvc-1", 512 * MIB);
	c.range.limit_bytes = (int64_t)(2 * GIB);
	free(created(t, &c, GIB));
	c.in.capacity_range = NULL;
	free(created(t, &c, GIB));
	assert_int_equal(extents(t), 1);
}

static void a_name_with_other_parameters_is_refused(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	struct create c = {0};

	create_init(&c, "pvc-1", GIB);
	create_parameter(&c, "createPolicy", "ff");
	kit_refused(&t->kit, CREATE, &c.in, RPC_ALREADY_EXISTS, "properties");
	create_init(&c, "pvc-1", GIB);
	c.mount.fs_type = "xfs";
	kit_refused(&t->kit, CREATE, &c.in, RPC_ALREADY_EXISTS, "properties");
	/* What is the default is not another parameter. */
	create_init(&c, "pvc-1", GIB);
	create_parameter(&c, "createPolicy", "mfs");
	c.mount.fs_type = "ext4";
	free(created(t, &c, GIB));
}

static void a_volume_of_somebody_else_is_not_taken(void **state)
{
	struct test *t = *state;
	const struct volume_spec spec = {.capacity = GIB};
	const struct volume_create_request by_hand = {.name = "data",
						      .spec = &spec};
	struct create c = {0};

	assert_int_equal(
		volume_create(t->kit.csi.volumes, &by_hand, NULL, NULL), 0);
	create_init(&c, "data", GIB);
	kit_refused(&t->kit, CREATE, &c.in, RPC_ALREADY_EXISTS,
		    "not made for this name");
}

static void honours_the_range_of_sizes(void **state)
{
	struct test *t = *state;
	struct create c = {0};
	char *id;

	create_init(&c, "a", 0);
	c.in.capacity_range = NULL;
	free(created(t, &c, GIB)); /* the default */
	create_init(&c, "b", 0);
	c.range.limit_bytes = (int64_t)(100 * MIB + 1);
	free(created(t, &c, 100 * MIB));
	create_init(&c, "c", 1);
	free(created(t, &c, 64 * MIB)); /* the least there is */
	create_init(&c, "d", 100 * MIB + 1);
	id = created(t, &c, 100 * MIB + 4096);
	free(id);
	create_init(&c, "e", 100 * MIB + 1);
	c.range.limit_bytes = (int64_t)(100 * MIB + 2);
	kit_refused(&t->kit, CREATE, &c.in, RPC_OUT_OF_RANGE, "limit");
	create_init(&c, "e", 2 * GIB);
	c.range.limit_bytes = (int64_t)GIB;
	kit_refused(&t->kit, CREATE, &c.in, RPC_OUT_OF_RANGE, "limit");
	create_init(&c, "e", 1);
	c.range.limit_bytes = 4096;
	kit_refused(&t->kit, CREATE, &c.in, RPC_OUT_OF_RANGE, "smallest");
	create_init(&c, "e", INT64_MAX);
	kit_refused(&t->kit, CREATE, &c.in, RPC_OUT_OF_RANGE, "at most");
	create_init(&c, "e", 0);
	c.range.required_bytes = -1;
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT, "negative");
	create_init(&c, "e", 1);
	c.mount.fs_type = "xfs";
	c.range.limit_bytes = (int64_t)(200 * MIB);
	kit_refused(&t->kit, CREATE, &c.in, RPC_OUT_OF_RANGE, "smallest");
}

static void no_room_says_where_there_is_how_much(void **state)
{
	struct test *t = *state;
	struct create c = {0};

	create_init(&c, "huge", 6 * GIB);
	kit_refused(&t->kit, CREATE, &c.in, RPC_RESOURCE_EXHAUSTED,
		    "3.00 GiB in host2/main");
	assert_int_equal(extents(t), 0);
}

static void refuses_what_no_volume_can_be(void **state)
{
	static const int modes[] = {MODE(UNKNOWN), MODE(MULTI_NODE_READER_ONLY),
				    MODE(MULTI_NODE_SINGLE_WRITER),
				    MODE(MULTI_NODE_MULTI_WRITER), 99};
	struct test *t = *state;
	struct create c = {0};
	Csi__V1__VolumeCapability__BlockVolume block =
		CSI__V1__VOLUME_CAPABILITY__BLOCK_VOLUME__INIT;
	Csi__V1__VolumeCapability second = CSI__V1__VOLUME_CAPABILITY__INIT;
	Csi__V1__VolumeCapability *both[2];
	char *flags[] = {"noatime", "context=x"};

	for (size_t i = 0; i < array_size(modes); i++) {
		create_init(&c, "m", GIB);
		c.mode.mode =
			(Csi__V1__VolumeCapability__AccessMode__Mode)modes[i];
		kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT,
			    "mode");
	}
	create_init(&c, "m", GIB);
	c.cap.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;
	c.cap.block = &block;
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT, "block");
	/* All of them have to be possible. */
	create_init(&c, "m", GIB);
	second.access_mode = &c.mode;
	second.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;
	second.block = &block;
	both[0] = &c.cap;
	both[1] = &second;
	c.in.volume_capabilities = both;
	c.in.n_volume_capabilities = 2;
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT, "block");
	create_init(&c, "m", GIB);
	c.mount.fs_type = "btrfs";
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT, "ext4");
	create_init(&c, "m", GIB);
	c.mount.volume_mount_group = "1000";
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT, "group");
	create_init(&c, "m", GIB);
	c.mount.mount_flags = flags;
	c.mount.n_mount_flags = 2;
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT,
		    "mount flag 2");
	assert_null(strstr(t->kit.err.msg, "context"));
	create_init(&c, "", GIB);
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT, "name");
	create_init(&c, "m", GIB);
	c.in.n_volume_capabilities = 0;
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT,
		    "volume_capabilities");
	assert_int_equal(extents(t), 0);
}

static void refuses_parameters_it_does_not_know(void **state)
{
	static const char *const bad[][3] = {
		{"policy", "mfs", "createPolicy"},
		{"LAYOUT", "union", "layout, fsType"},
		{"layout", "stripe", "union"},
		{"fsType", "zfs", "ext4"},
		{"createPolicy", "rand", "mfs"},
		{"transport", "smb", "nbd"},
		{"minExtents", "0", "1 to 256"},
		{"minExtents", "257", "1 to 256"},
		{"maxExtents", "-1", "1 to 256"},
		{"maxExtents", "1x", "1 to 256"},
		{"maxExtentSize", "big", "maxExtentSize"},
		{"maxExtentSize", "1MiB", "extent"},
		{"sharePools", "yes", "true or false"},
		{"nodes", "host1,", "name"},
		{"nodes", "host9", "host9"},
		{"nodeSelector", "zone", "KEY=VALUE"},
	};
	struct test *t = *state;
	struct create c = {0};

	for (size_t i = 0; i < array_size(bad); i++) {
		create_init(&c, "p", GIB);
		create_parameter(&c, bad[i][0], bad[i][1]);
		kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT,
			    bad[i][2]);
	}
	create_init(&c, "p", GIB);
	create_parameter(&c, "minExtents", "3");
	create_parameter(&c, "maxExtents", "2");
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT, "at most 2");
	create_init(&c, "p", GIB);
	create_parameter(&c, "fsType", "xfs");
	c.mount.fs_type = "ext4";
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT, "xfs");
	assert_int_equal(extents(t), 0);
}

static void does_what_the_parameters_say(void **state)
{
	struct test *t = *state;
	struct volume_record *record = NULL;
	struct create c = {0};

	create_init(&c, "p", GIB);
	create_parameter(&c, "minExtents", "2");
	create_parameter(&c, "csi.storage.k8s.io/pvc/name", "data-0");
	free(created(t, &c, GIB));
	assert_int_equal(fake_node_extents(&t->nodes[0]), 1);
	assert_int_equal(fake_node_extents(&t->nodes[1]), 1);
	assert_int_equal(volume_get(t->kit.csi.volumes, "p", &record, NULL), 0);
	assert_string_equal(labels_get(&record->labels, CSI_LABEL_NAME), "p");
	assert_string_equal(
		labels_get(&record->labels, "csi.union.io/pvc-name"), "data-0");
	volume_record_free(record);
	create_init(&c, "q", GIB);
	create_parameter(&c, "nodes", "host1");
	free(created(t, &c, GIB));
	assert_int_equal(fake_node_extents(&t->nodes[0]), 2);
	create_init(&c, "r", GIB);
	create_parameter(&c, "excludeNodes", "host1");
	free(created(t, &c, GIB));
	assert_int_equal(fake_node_extents(&t->nodes[1]), 2);
}

static void wants_a_place_it_knows(void **state)
{
	struct test *t = *state;
	struct create c = {0};

	create_init(&c, "z", GIB);
	create_place(&c, CSI_TOPOLOGY_NODE, "host2");
	free(created(t, &c, GIB));
	create_init(&c, "y", GIB);
	create_place(&c, CSI_TOPOLOGY_NODE, "host9");
	kit_refused(&t->kit, CREATE, &c.in, RPC_RESOURCE_EXHAUSTED, "places");
	create_place(&c, "other.io/zone", "z1");
	kit_refused(&t->kit, CREATE, &c.in, RPC_RESOURCE_EXHAUSTED, "places");
	create_place(&c, "a/b/c", "z1");
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT, "segments");
}

static void a_source_is_refused(void **state)
{
	Csi__V1__VolumeContentSource source =
		CSI__V1__VOLUME_CONTENT_SOURCE__INIT;
	Csi__V1__VolumeContentSource__VolumeSource volume =
		CSI__V1__VOLUME_CONTENT_SOURCE__VOLUME_SOURCE__INIT;
	struct test *t = *state;
	struct create c = {0};

	create_init(&c, "s", GIB);
	c.in.volume_content_source = &source;
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT, "missing");
	source.type_case = CSI__V1__VOLUME_CONTENT_SOURCE__TYPE_VOLUME;
	source.volume = &volume;
	volume.volume_id = "x";
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT, "another");
}

static void a_final_error_leaves_nothing_on_any_node(void **state)
{
	struct test *t = *state;
	struct create c = {0};

	atomic_store(&t->nodes[1].fails, EIO);
	create_init(&c, "half", 4 * GIB);
	kit_refused(&t->kit, CREATE, &c.in, RPC_INTERNAL, "told to fail");
	assert_int_equal(extents(t), 0);
	free(created(t, &c, 4 * GIB));
}

static void a_silent_node_is_not_final_and_a_repeat_finishes(void **state)
{
	struct test *t = *state;
	struct create c = {0};
	char *id;

	/* It answers who it is, and goes before the extent is made. */
	atomic_store(&t->nodes[1].fails, EHOSTUNREACH);
	create_init(&c, "later", 4 * GIB);
	kit_refused(&t->kit, CREATE, &c.in, RPC_UNAVAILABLE, "not finished");
	id = created(t, &c, 4 * GIB);
	assert_int_equal(extents(t), 2);
	fake_node_down(&t->nodes[1]);
	assert_int_equal(delete_volume(t, id), RPC_UNAVAILABLE);
	kit_refused(&t->kit, CREATE, &c.in, RPC_ABORTED, "being deleted");
	fake_node_up(&t->nodes[1]);
	assert_int_equal(delete_volume(t, id), RPC_OK);
	assert_int_equal(extents(t), 0);
	free(id);
}

/* ---- two at once ---- */

struct background {
	struct kit kit; /* what a call needs, with an err of its own */
	pthread_t thread;
	struct create create;
	enum rpc_code code;
};

static void *background_create(void *b_)
{
	struct background *b = b_;

	b->code = kit_call(&b->kit, CREATE, &b->create.in, NULL);
	return NULL;
}

static void background_start(struct background *b, struct test *t,
			     const char *name)
{
	b->kit.client = t->kit.client;
	b->kit.csi.mode = t->kit.csi.mode;
	create_init(&b->create, name, 64 * MIB);
	assert_int_equal(pthread_create(&b->thread, NULL, background_create, b),
			 0);
}

static void the_second_call_for_a_volume_is_aborted(void **state)
{
	const struct timespec pause = {.tv_nsec = 300000000};
	struct test *t = *state;
	struct background b = {0};
	struct create c = {0};

	atomic_store(&t->nodes[0].pause_ms, 1200);
	atomic_store(&t->nodes[1].pause_ms, 1200);
	background_start(&b, t, "slow");
	(void)nanosleep(&pause, NULL);
	create_init(&c, "slow", 64 * MIB);
	kit_refused(&t->kit, CREATE, &c.in, RPC_ABORTED, "CreateVolume");
	assert_int_equal(delete_volume(t, "slow"), RPC_ABORTED);
	assert_int_equal(pthread_join(b.thread, NULL), 0);
	assert_int_equal(b.code, RPC_OK);
	atomic_store(&t->nodes[0].pause_ms, 0);
	atomic_store(&t->nodes[1].pause_ms, 0);
	free(created(t, &c, 64 * MIB));
	assert_int_equal(extents(t), 1);
}

static void many_at_once_get_what_there_is_and_no_more(void **state)
{
	enum { MANY = 64 };
	struct test *t = *state;
	struct background *all = calloc(MANY, sizeof(*all));
	char(*names)[16] = calloc(MANY, sizeof(*names));
	size_t ok = 0, full = 0, busy = 0;

	for (size_t i = 0; i < MANY; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "many-%zu", i);
		background_start(&all[i], t, names[i]);
	}
	for (size_t i = 0; i < MANY; i++) {
		assert_int_equal(pthread_join(all[i].thread, NULL), 0);
		ok += all[i].code == RPC_OK;
		full += all[i].code == RPC_RESOURCE_EXHAUSTED;
		busy += all[i].code == RPC_ABORTED ||
			all[i].code == RPC_UNAVAILABLE;
	}
	/* 5 GiB hold 80 of 64 MiB. */
	assert_int_equal(ok + full + busy, MANY);
	assert_int_equal(full, 0);
	assert_int_equal(ok, MANY);
	assert_int_equal(extents(t), MANY);
	assert_int_equal(fake_node_free(&t->nodes[0]) +
				 fake_node_free(&t->nodes[1]),
			 GIB);
	free(all);
	free(names);
}

/* ---- DeleteVolume ---- */

static void deletes_what_is_not_there_too(void **state)
{
	static const char *const ids[] = {"never", FAKE_ID, "No id of ours",
					  "../../etc/passwd"};
	struct test *t = *state;
	Csi__V1__DeleteVolumeRequest in = CSI__V1__DELETE_VOLUME_REQUEST__INIT;
	char *id = make_volume(t, "pvc-1", GIB);

	for (size_t i = 0; i < array_size(ids); i++)
		assert_int_equal(delete_volume(t, ids[i]), RPC_OK);
	assert_int_equal(extents(t), 1);
	assert_int_equal(delete_volume(t, id), RPC_OK);
	assert_int_equal(delete_volume(t, id), RPC_OK);
	assert_int_equal(extents(t), 0);
	kit_refused(&t->kit, DELETE, &in, RPC_INVALID_ARGUMENT, "volume_id");
	free(id);
}

static void an_old_id_does_not_delete_the_new_volume_of_its_name(void **state)
{
	struct test *t = *state;
	auto_free char *old = make_volume(t, "pvc-1", GIB);
	auto_free char *new = NULL;

	assert_int_equal(delete_volume(t, old), RPC_OK);
	new = make_volume(t, "pvc-1", GIB);
	assert_string_not_equal(old, new);
	assert_int_equal(delete_volume(t, old), RPC_OK);
	assert_int_equal(extents(t), 1);
	/* The name alone is whichever has it. */
	assert_int_equal(delete_volume(t, "pvc-1"), RPC_OK);
	assert_int_equal(extents(t), 0);
}

/* ---- ValidateVolumeCapabilities ---- */

struct validate {
	Csi__V1__ValidateVolumeCapabilitiesRequest in;
	struct create c;
};

static void validate_init(struct validate *v, char *id)
{
	create_init(&v->c, "unused", GIB);
	csi__v1__validate_volume_capabilities_request__init(&v->in);
	v->in.volume_id = id;
	v->in.n_volume_capabilities = 1;
	v->in.volume_capabilities = v->c.caps;
}

/* NULL: confirmed; else the message that has to have the text. */
static void validated(struct test *t, const struct validate *v,
		      const char *text)
{
	Csi__V1__ValidateVolumeCapabilitiesResponse *reply;

	assert_int_equal(kit_call(&t->kit, VALIDATE, &v->in, &reply), RPC_OK);
	if (text) {
		assert_null(reply->confirmed);
		assert_non_null(strstr(reply->message, text));
	} else {
		assert_non_null(reply->confirmed);
		assert_int_equal(reply->confirmed->n_volume_capabilities,
				 v->in.n_volume_capabilities);
		assert_int_equal(reply->confirmed->n_parameters,
				 v->in.n_parameters);
		assert_int_equal(reply->confirmed->volume_capabilities[0]
					 ->access_mode->mode,
				 v->c.mode.mode);
	}
	kit_free(reply);
}

static void confirms_what_can_be_done(void **state)
{
	static const int modes[] = {MODE(SINGLE_NODE_WRITER),
				    MODE(SINGLE_NODE_READER_ONLY),
				    MODE(SINGLE_NODE_SINGLE_WRITER),
				    MODE(SINGLE_NODE_MULTI_WRITER)};
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	struct validate v = {0};
	Csi__V1__ValidateVolumeCapabilitiesRequest__ParametersEntry p, *ps[1];

	for (size_t i = 0; i < array_size(modes); i++) {
		validate_init(&v, id);
		v.c.mode.mode =
			(Csi__V1__VolumeCapability__AccessMode__Mode)modes[i];
		validated(t, &v, NULL);
	}
	csi__v1__validate_volume_capabilities_request__parameters_entry__init(
		&p);
	p.key = "createPolicy";
	p.value = "mfs";
	ps[0] = &p;
	v.in.parameters = ps;
	v.in.n_parameters = 1;
	validated(t, &v, NULL);
	p.value = "ff";
	validated(t, &v, "other parameters");
	p.key = "unknown";
	validated(t, &v, "not known");
}

static void says_no_without_an_error(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	struct validate v = {0};
	Csi__V1__ValidateVolumeCapabilitiesRequest__VolumeContextEntry e,
		*es[1];

	validate_init(&v, id);
	v.c.mode.mode = MODE(MULTI_NODE_MULTI_WRITER);
	validated(t, &v, "one node");
	validate_init(&v, id);
	v.c.mount.fs_type = "xfs";
	validated(t, &v, "ext4");
	validate_init(&v, id);
	csi__v1__validate_volume_capabilities_request__volume_context_entry__init(
		&e);
	e.key = "k";
	es[0] = &e;
	v.in.volume_context = es;
	v.in.n_volume_context = 1;
	validated(t, &v, "context");
	validate_init(&v, FAKE_ID);
	kit_refused(&t->kit, VALIDATE, &v.in, RPC_NOT_FOUND, "gone");
	validate_init(&v, "what is that");
	kit_refused(&t->kit, VALIDATE, &v.in, RPC_NOT_FOUND, "NAME@UID");
	validate_init(&v, "");
	kit_refused(&t->kit, VALIDATE, &v.in, RPC_INVALID_ARGUMENT,
		    "volume_id");
	validate_init(&v, id);
	v.in.n_volume_capabilities = 0;
	kit_refused(&t->kit, VALIDATE, &v.in, RPC_INVALID_ARGUMENT,
		    "volume_capabilities");
}

/* ---- ListVolumes, ControllerGetVolume ---- */

/* One page; the token for the next is owned. */
static char *list_page(struct test *t, const char *token, int max,
		       size_t *ret_n, char seen[][CSI_ID_SIZE])
{
	Csi__V1__ListVolumesRequest in = CSI__V1__LIST_VOLUMES_REQUEST__INIT;
	Csi__V1__ListVolumesResponse *reply;
	char *next;

	in.max_entries = max;
	in.starting_token = (char *)token;
	if (kit_call(&t->kit, LIST, &in, &reply) != RPC_OK)
		fail_msg("%s", t->kit.err.msg);
	*ret_n = reply->n_entries;
	for (size_t i = 0; i < reply->n_entries; i++) {
		assert_non_null(reply->entries[i]->status->volume_condition);
		(void)snprintf(seen[i], CSI_ID_SIZE, "%s",
			       reply->entries[i]->volume->volume_id);
	}
	next = strdup(reply->next_token);
	kit_free(reply);
	return next;
}

static void lists_every_volume_once_page_by_page(void **state)
{
	struct test *t = *state;
	char seen[16][CSI_ID_SIZE], *token = strdup(""), *next;
	size_t n, all = 0;

	token[0] = '\0';
	next = list_page(t, "", 0, &n, seen);
	assert_int_equal(n, 0);
	assert_string_equal(next, "");
	free(next);
	for (int i = 0; i < 7; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "v-%d", i);
		free(make_volume(t, name, 64 * MIB));
	}
	do {
		next = list_page(t, token, 3, &n, seen + all);
		assert_true(n <= 3);
		all += n;
		free(token);
		token = next;
	} while (token[0]);
	free(token);
	assert_int_equal(all, 7);
	for (size_t i = 1; i < all; i++)
		assert_true(strcmp(seen[i - 1], seen[i]) < 0);
	free(list_page(t, "", 7, &n, seen));
	assert_int_equal(n, 7);
}

static void paging_holds_while_volumes_come_and_go(void **state)
{
	struct test *t = *state;
	char seen[16][CSI_ID_SIZE], *token;
	size_t n;

	for (int i = 1; i < 7; i++) {
		char name[16];

		(void)snprintf(name, sizeof(name), "v-%d", i);
		free(make_volume(t, name, 64 * MIB));
	}
	token = list_page(t, "", 3, &n, seen);
	assert_int_equal(n, 3);
	/* The one the token stands for, one before it, one after. */
	assert_int_equal(delete_volume(t, "v-3"), RPC_OK);
	assert_int_equal(delete_volume(t, "v-1"), RPC_OK);
	assert_int_equal(delete_volume(t, "v-5"), RPC_OK);
	free(make_volume(t, "a-new", 64 * MIB));
	free(make_volume(t, "w-new", 64 * MIB));
	free(list_page(t, token, 0, &n, seen));
	assert_int_equal(n, 3);
	assert_int_equal(strncmp(seen[0], "v-4@", 4), 0);
	assert_int_equal(strncmp(seen[1], "v-6@", 4), 0);
	assert_int_equal(strncmp(seen[2], "w-new@", 6), 0);
	free(token);
}

static void refuses_tokens_that_are_not_its_own(void **state)
{
	static const char *const bad[] = {"x", "v-1", "after:../x", "\n"};
	struct test *t = *state;
	Csi__V1__ListVolumesRequest in = CSI__V1__LIST_VOLUMES_REQUEST__INIT;

	for (size_t i = 0; i < array_size(bad); i++) {
		in.starting_token = (char *)bad[i];
		kit_refused(&t->kit, LIST, &in, RPC_ABORTED, "starting_token");
	}
	in.starting_token = "";
	in.max_entries = -1;
	kit_refused(&t->kit, LIST, &in, RPC_INVALID_ARGUMENT, "max_entries");
}

static bool is_abnormal(struct test *t, char *id, const char *text)
{
	Csi__V1__ControllerGetVolumeRequest in =
		CSI__V1__CONTROLLER_GET_VOLUME_REQUEST__INIT;
	Csi__V1__ControllerGetVolumeResponse *reply;
	Csi__V1__ListVolumesRequest list = CSI__V1__LIST_VOLUMES_REQUEST__INIT;
	Csi__V1__ListVolumesResponse *listed;
	bool abnormal;

	in.volume_id = id;
	assert_int_equal(kit_call(&t->kit, GET, &in, &reply), RPC_OK);
	assert_string_equal(reply->volume->volume_id, id);
	abnormal = reply->status->volume_condition->abnormal;
	assert_non_null(strstr(reply->status->volume_condition->message, text));
	kit_free(reply);
	assert_int_equal(kit_call(&t->kit, LIST, &list, &listed), RPC_OK);
	assert_int_equal(listed->n_entries, 1);
	assert_int_equal(listed->entries[0]->status->volume_condition->abnormal,
			 abnormal);
	assert_true(listed->entries[0]->status->volume_condition->message[0]);
	kit_free(listed);
	return abnormal;
}

static void tells_the_condition_of_a_volume(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", 4 * GIB);
	Csi__V1__ControllerGetVolumeRequest in =
		CSI__V1__CONTROLLER_GET_VOLUME_REQUEST__INIT;

	assert_false(is_abnormal(t, id, "well"));
	fake_node_down(&t->nodes[1]);
	assert_true(is_abnormal(t, id, "host2"));
	fake_node_up(&t->nodes[1]);
	assert_false(is_abnormal(t, id, "well"));
	in.volume_id = FAKE_ID;
	kit_refused(&t->kit, GET, &in, RPC_NOT_FOUND, "gone");
	in.volume_id = "";
	kit_refused(&t->kit, GET, &in, RPC_INVALID_ARGUMENT, "volume_id");
}

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

static void capacity_honours_all_that_is_asked(void **state)
{
	struct test *t = *state;
	Csi__V1__GetCapacityRequest in = CSI__V1__GET_CAPACITY_REQUEST__INIT;
	Csi__V1__GetCapacityRequest__ParametersEntry p, *ps[1] = {&p};
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
	in.n_volume_capabilities = 0;
	fake_node_down(&t->nodes[1]);
	assert_int_equal(capacity_of(t, &in), 2 * GIB);
	fake_node_up(&t->nodes[1]);
}

/* ---- what no container orchestrator sends ---- */

static void does_not_send_back_what_it_does_not_know(void **state)
{
	/* Field 99, a string. */
	static const char bytes[] = "hello";
	ProtobufCMessageUnknownField unknown = {
		.tag = 99,
		.wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
		.len = 6,
		.data = (uint8_t[]){5, 'h', 'e', 'l', 'l', 'o'},
	};
	struct test *t = *state;
	auto_free char *id = make_volume(t, "pvc-1", GIB);
	struct validate v = {0};
	Csi__V1__ValidateVolumeCapabilitiesResponse *reply;
	uint8_t packed[512];
	size_t n;

	validate_init(&v, id);
	v.in.base.unknown_fields = &unknown;
	v.in.base.n_unknown_fields = 1;
	v.c.cap.base.unknown_fields = &unknown;
	v.c.cap.base.n_unknown_fields = 1;
	v.c.mount.base.unknown_fields = &unknown;
	v.c.mount.base.n_unknown_fields = 1;
	assert_int_equal(kit_call(&t->kit, VALIDATE, &v.in, &reply), RPC_OK);
	assert_non_null(reply->confirmed);
	n = protobuf_c_message_pack(&reply->base, packed);
	assert_null(memmem(packed, n, bytes, 5));
	kit_free(reply);
}

static void a_flood_of_map_entries_is_refused(void **state)
{
	enum { MANY = 200000 };
	struct test *t = *state;
	struct create c = {0};
	pair **many = calloc(MANY, sizeof(*many));

	create_init(&c, "flood", GIB);
	create_parameter(&c, "", "");
	for (size_t i = 0; i < MANY; i++)
		many[i] = c.pair_list[0];
	c.in.parameters = many;
	c.in.n_parameters = MANY;
	/* More than a call may use, before it is looked at. */
	assert_int_equal(kit_call(&t->kit, CREATE, &c.in, NULL), RPC_INTERNAL);
	assert_int_equal(t->kit.err.code, EMSGSIZE);
	c.in.n_parameters = MANY / 10;
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT, "key");
	free(many);
	assert_int_equal(extents(t), 0);
}

static void a_message_that_is_too_large_is_refused(void **state)
{
	struct test *t = *state;
	struct create c = {0};
	char *large = malloc(2 << 20);

	memset(large, 'x', 2 << 20);
	large[(2 << 20) - 1] = '\0';
	create_init(&c, large, GIB);
	assert_int_equal(kit_call(&t->kit, CREATE, &c.in, NULL), RPC_INTERNAL);
	assert_int_equal(t->kit.err.code, EMSGSIZE);
	large[1 << 19] = '\0';
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT,
		    "longer than 128 bytes");
	free(large);
	free(make_volume(t, "pvc-1", GIB));
}

/* ---- what it says it can, it can ---- */

static void says_what_it_can(void **state)
{
	static const int types[] = {1, 3, 4, 11, 12, 13};
	Csi__V1__ControllerGetCapabilitiesRequest in =
		CSI__V1__CONTROLLER_GET_CAPABILITIES_REQUEST__INIT;
	Csi__V1__ControllerGetCapabilitiesResponse *reply;
	struct test *t = *state;

	assert_int_equal(kit_call(&t->kit,
				  "Controller/ControllerGetCapabilities", &in,
				  &reply),
			 RPC_OK);
	assert_int_equal(reply->n_capabilities, array_size(types));
	for (size_t i = 0; i < array_size(types); i++)
		assert_int_equal(reply->capabilities[i]->rpc->type, types[i]);
	kit_free(reply);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(makes_a_volume_once_however_often_it_is_asked),
		TEST(keeps_names_apart_that_are_no_volume_names),
		TEST(a_volume_larger_than_any_node_is_split),
		TEST(a_name_with_another_size_is_refused),
		TEST(a_name_with_other_parameters_is_refused),
		TEST(a_volume_of_somebody_else_is_not_taken),
		TEST(honours_the_range_of_sizes),
		TEST(no_room_says_where_there_is_how_much),
		TEST(refuses_what_no_volume_can_be),
		TEST(refuses_parameters_it_does_not_know),
		TEST(does_what_the_parameters_say),
		TEST(wants_a_place_it_knows),
		TEST(a_source_is_refused),
		TEST(a_final_error_leaves_nothing_on_any_node),
		TEST(a_silent_node_is_not_final_and_a_repeat_finishes),
		TEST(the_second_call_for_a_volume_is_aborted),
		TEST(many_at_once_get_what_there_is_and_no_more),
		TEST(deletes_what_is_not_there_too),
		TEST(an_old_id_does_not_delete_the_new_volume_of_its_name),
		TEST(confirms_what_can_be_done),
		TEST(says_no_without_an_error),
		TEST(lists_every_volume_once_page_by_page),
		TEST(paging_holds_while_volumes_come_and_go),
		TEST(refuses_tokens_that_are_not_its_own),
		TEST(tells_the_condition_of_a_volume),
		TEST(what_it_reports_can_be_made_and_no_more),
		TEST(capacity_honours_all_that_is_asked),
		TEST(does_not_send_back_what_it_does_not_know),
		TEST(a_flood_of_map_entries_is_refused),
		TEST(a_message_that_is_too_large_is_refused),
		TEST(says_what_it_can),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
