/* SPDX-License-Identifier: Apache-2.0 */
/* CreateVolume and DeleteVolume over the socket, on nodes that are not there.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "csi/testkit/controller_test_kit.h"
#include "volume/op/split.h"

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
	/* A default value is not another parameter. */
	create_init(&c, "pvc-1", GIB);
	create_parameter(&c, "createPolicy", "pfrd");
	c.mount.fs_type = "ext4";
	free(created(t, &c, GIB));
}

static void what_a_request_leaves_open_is_as_it_was_made(void **state)
{
	static const char *const said[][2] = {
		{"createPolicy", "mfs"},
		{"transport", "nbd"},
		{"placement", "packed"},
	};
	struct test *t = *state;
	struct create c = {0};
	size_t i;

	create_init(&c, "pvc-1", GIB);
	for (i = 0; i < array_size(said); i++)
		create_parameter(&c, said[i][0], said[i][1]);
	free(created(t, &c, GIB));
	/* As if the defaults had been those, and are others now. */
	create_init(&c, "pvc-1", GIB);
	free(created(t, &c, GIB));
	create_parameter(&c, "transport", "nbd");
	free(created(t, &c, GIB));
	create_parameter(&c, "createPolicy", "pfrd");
	kit_refused(&t->kit, CREATE, &c.in, RPC_ALREADY_EXISTS, "properties");
	assert_int_equal(extents(t), 1);
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
	static const int modes[] = {MODE(UNKNOWN),
				    MODE(MULTI_NODE_SINGLE_WRITER),
				    MODE(MULTI_NODE_MULTI_WRITER), 99};
	struct test *t = *state;
	struct create c = {0};
	Csi__V1__VolumeCapability__BlockVolume block =
		CSI__V1__VOLUME_CAPABILITY__BLOCK_VOLUME__INIT;
	Csi__V1__VolumeCapability second = CSI__V1__VOLUME_CAPABILITY__INIT;
	Csi__V1__VolumeCapability *both[2];
	char *flags[] = {"noatime", "data=journal"};

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
	create_parameter(&c, "layout", "union");
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT, "'linear'");
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
	c.mount.volume_mount_group = "no number";
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT, "group");
	create_init(&c, "m", GIB);
	c.mount.mount_flags = flags;
	c.mount.n_mount_flags = 2;
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT,
		    "mount flag 2");
	assert_null(strstr(t->kit.err.msg, "journal"));
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
		{"LAYOUT", "union", "layout, stripeWidth"},
		{"layout", "raid", "union, linear"},
		{"stripeWidth", "0", "1 to 256"},
		{"stripeWidth", "2", "not 'stripe'"},
		{"stripeUnit", "64KiB", "not 'stripe'"},
		{"stripeUnit", "much", "much"},
		{"fsType", "zfs", "ext4"},
		{"createPolicy", "best", "mfs"},
		{"transport", "smb", "nbd"},
		{"minExtents", "0", "1 to 256"},
		{"minExtents", "257", "1 to 256"},
		{"maxExtents", "-1", "1 to 256"},
		{"maxExtents", "1x", "1 to 256"},
		{"maxExtentSize", "big", "maxExtentSize"},
		{"maxExtentSize", "1MiB", "extent"},
		{"sharePools", "yes", "true or false"},
		{"placement", "far", "balanced, packed, local"},
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
	create_parameter(&c, "poolSelector", "main,other");
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

/* "host1" has 2 GiB and "host2" 3 GiB. */
static void a_placement_says_which_pools_come_first(void **state)
{
	struct test *t = *state;
	struct create c = {0};
	char *id;

	create_init(&c, "p", GIB);
	create_parameter(&c, "placement", "packed");
	free(created(t, &c, GIB));
	assert_int_equal(fake_node_extents(&t->nodes[0]), 1);
	create_init(&c, "q", GIB);
	create_parameter(&c, "placement", "local");
	create_place(&c, CSI_TOPOLOGY_NODE, "host1");
	c.places.preferred = c.place_list;
	c.places.n_preferred = 1;
	id = created(t, &c, GIB);
	assert_int_equal(fake_node_extents(&t->nodes[0]), 2);
	/* A pod that has moved asks for the same volume. */
	create_place(&c, CSI_TOPOLOGY_NODE, "host2");
	c.places.preferred = c.place_list;
	c.places.n_preferred = 1;
	free(created(t, &c, GIB));
	assert_int_equal(fake_node_extents(&t->nodes[1]), 0);
	/* Full: it is a wish. */
	create_init(&c, "r", GIB);
	create_parameter(&c, "placement", "local");
	create_place(&c, CSI_TOPOLOGY_NODE, "host1");
	free(created(t, &c, GIB));
	assert_int_equal(fake_node_extents(&t->nodes[1]), 1);
	/* Nobody says where to begin. */
	create_init(&c, "s", GIB);
	create_parameter(&c, "placement", "local");
	free(created(t, &c, GIB));
	assert_int_equal(fake_node_extents(&t->nodes[1]), 2);
	free(id);
}

static void a_pool_that_is_not_selected_is_not_used(void **state)
{
	struct test *t = *state;
	struct create c = {0};

	create_init(&c, "p", GIB);
	create_parameter(&c, "poolSelector", "other");
	kit_refused(&t->kit, CREATE, &c.in, RPC_RESOURCE_EXHAUSTED, "");
	assert_int_equal(extents(t), 0);
}

static void a_block_device_is_one_extent(void **state)
{
	struct test *t = *state;
	Csi__V1__VolumeCapability__BlockVolume block =
		CSI__V1__VOLUME_CAPABILITY__BLOCK_VOLUME__INIT;
	struct volume_record *record = NULL;
	struct create c = {0};

	create_init(&c, "disk", 3 * GIB);
	c.cap.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;
	c.cap.block = &block;
	free(created(t, &c, 3 * GIB));
	assert_int_equal(fake_node_extents(&t->nodes[1]), 1);
	assert_int_equal(volume_get(t->kit.csi.volumes, "disk", &record, NULL),
			 0);
	assert_string_equal(record->spec.layout, "linear");
	volume_record_free(record);
	/* 2 GiB are left, on the other node. */
	c.in.name = "disk2";
	c.range.required_bytes = (int64_t)(2 * GIB + 4096);
	kit_refused(&t->kit, CREATE, &c.in, RPC_RESOURCE_EXHAUSTED, "free");
	/* A file system of that name is another volume. */
	create_init(&c, "disk", 3 * GIB);
	kit_refused(&t->kit, CREATE, &c.in, RPC_ALREADY_EXISTS, "properties");
	/* One class serves both: of a file system a device has nothing. */
	create_init(&c, "disk3", GIB);
	c.cap.access_type_case = CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;
	c.cap.block = &block;
	create_parameter(&c, "fsType", "xfs");
	free(created(t, &c, GIB));
	assert_int_equal(volume_get(t->kit.csi.volumes, "disk3", &record, NULL),
			 0);
	assert_string_equal(record->spec.fs_type, "");
	volume_record_free(record);
}

static void a_file_system_may_lie_on_one_device(void **state)
{
	static const char *const layouts[] = {"linear", "stripe"};
	struct test *t = *state;
	Csi__V1__VolumeCapability__BlockVolume block =
		CSI__V1__VOLUME_CAPABILITY__BLOCK_VOLUME__INIT;

	for (size_t i = 0; i < array_size(layouts); i++) {
		struct volume_record *record = NULL;
		struct create c = {0};

		create_init(&c, layouts[i], GIB);
		c.mount.fs_type = "";
		create_parameter(&c, "layout", layouts[i]);
		free(created(t, &c, GIB));
		assert_int_equal(volume_get(t->kit.csi.volumes, layouts[i],
					    &record, NULL),
				 0);
		assert_string_equal(record->spec.layout, layouts[i]);
		assert_string_equal(record->spec.fs_type, "ext4");
		volume_record_free(record);
		/* The block device of that name is another volume. */
		c.cap.access_type_case =
			CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_BLOCK;
		c.cap.block = &block;
		kit_refused(&t->kit, CREATE, &c.in, RPC_ALREADY_EXISTS,
			    "properties");
	}
}

static void takes_the_file_system_in_every_spelling(void **state)
{
	static const char *const keys[] = {"fsType", "fstype", "FSType",
					   "csi.storage.k8s.io/fstype"};
	struct test *t = *state;
	struct create c = {0};

	for (size_t i = 0; i < array_size(keys); i++) {
		struct volume_record *record = NULL;
		char name[8];

		(void)snprintf(name, sizeof(name), "x%zu", i);
		create_init(&c, name, 512 * MIB);
		c.mount.fs_type = "";
		create_parameter(&c, keys[i], "xfs");
		free(created(t, &c, 512 * MIB));
		assert_int_equal(
			volume_get(t->kit.csi.volumes, name, &record, NULL), 0);
		assert_string_equal(record->spec.fs_type, "xfs");
		volume_record_free(record);
	}
	create_init(&c, "y", GIB);
	create_parameter(&c, "fstype", "xfs");
	create_parameter(&c, "csi.storage.k8s.io/fstype", "ext4");
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT,
		    "another parameter");
	create_init(&c, "y", GIB);
	create_parameter(&c, "csi.storage.k8s.io/fstype", "zfs");
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT, "ext4");
}

static void takes_every_key_of_kubernetes_own(void **state)
{
	static const char *const keys[] = {
		"csi.storage.k8s.io/pv/name",
		"csi.storage.k8s.io/provisioner-secret-name",
		"csi.storage.k8s.io/node-stage-secret-namespace",
		"csi.storage.k8s.io/of-a-later-release",
	};
	struct test *t = *state;
	struct create c = {0};

	create_init(&c, "k", GIB);
	for (size_t i = 0; i < array_size(keys); i++)
		create_parameter(&c, keys[i], "any");
	free(created(t, &c, GIB));
	create_init(&c, "l", GIB);
	create_parameter(&c, "csi.storage.k8s.example/fstype", "xfs");
	kit_refused(&t->kit, CREATE, &c.in, RPC_INVALID_ARGUMENT, "not known");
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

static void a_source_has_to_be_there(void **state)
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
	kit_refused(&t->kit, CREATE, &c.in, RPC_NOT_FOUND, "no such volume");
	assert_int_equal(extents(t), 0);
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

	/* The node answers who it is, and goes before the extent is made. */
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

/* The record as it is left when undoing a volume was cut short. */
static void half_undone(struct test *t, const char *name)
{
	struct operation op;

	assert_int_equal(
		operation_begin(&op, t->kit.csi.volumes, name, "test", NULL),
		0);
	op.record->phase = VOLUME_CREATING;
	assert_int_equal(split_delete(&op, &op.record->splits[0], NULL), 0);
	assert_int_equal(operation_save(&op, NULL), 0);
	operation_end(&op);
}

static void a_repeat_makes_what_was_undone_again(void **state)
{
	struct test *t = *state;
	auto_free char *id = make_volume(t, "again", 4 * GIB);
	auto_free char *name = strndup(id, strcspn(id, "@"));
	struct volume_record *record;
	struct create c = {0};

	half_undone(t, name);
	assert_int_equal(extents(t), 1);
	create_init(&c, "again", 4 * GIB);
	free(created(t, &c, 4 * GIB));
	assert_int_equal(extents(t), 2);
	assert_int_equal(volume_get(t->kit.csi.volumes, name, &record, NULL),
			 0);
	for (size_t i = 0; i < record->n_splits; i++)
		assert_int_equal(record->splits[i].state, SPLIT_CREATED);
	volume_record_free(record);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(makes_a_volume_once_however_often_it_is_asked),
		TEST(keeps_names_apart_that_are_no_volume_names),
		TEST(a_volume_larger_than_any_node_is_split),
		TEST(a_name_with_another_size_is_refused),
		TEST(a_name_with_other_parameters_is_refused),
		TEST(what_a_request_leaves_open_is_as_it_was_made),
		TEST(a_volume_of_somebody_else_is_not_taken),
		TEST(honours_the_range_of_sizes),
		TEST(no_room_says_where_there_is_how_much),
		TEST(refuses_what_no_volume_can_be),
		TEST(refuses_parameters_it_does_not_know),
		TEST(does_what_the_parameters_say),
		TEST(a_placement_says_which_pools_come_first),
		TEST(a_pool_that_is_not_selected_is_not_used),
		TEST(a_block_device_is_one_extent),
		TEST(a_file_system_may_lie_on_one_device),
		TEST(takes_the_file_system_in_every_spelling),
		TEST(takes_every_key_of_kubernetes_own),
		TEST(wants_a_place_it_knows),
		TEST(a_source_has_to_be_there),
		TEST(a_final_error_leaves_nothing_on_any_node),
		TEST(a_silent_node_is_not_final_and_a_repeat_finishes),
		TEST(a_repeat_makes_what_was_undone_again),
		TEST(deletes_what_is_not_there_too),
		TEST(an_old_id_does_not_delete_the_new_volume_of_its_name),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
