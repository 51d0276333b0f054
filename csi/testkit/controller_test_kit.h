/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of the Controller service: two nodes, and requests. */
#ifndef CSI_CONTROLLER_TEST_KIT_H
#define CSI_CONTROLLER_TEST_KIT_H

#include "csi/testkit/csi_test_kit.h"
#include "csi/testkit/fake_node.h"

#define CREATE    "Controller/CreateVolume"
#define DELETE    "Controller/DeleteVolume"
#define VALIDATE  "Controller/ValidateVolumeCapabilities"
#define LIST      "Controller/ListVolumes"
#define GET       "Controller/ControllerGetVolume"
#define CAPACITY  "Controller/GetCapacity"
#define EXPAND    "Controller/ControllerExpandVolume"
#define PUBLISH   "Controller/ControllerPublishVolume"
#define UNPUBLISH "Controller/ControllerUnpublishVolume"

#define SNAPSHOT     "Controller/CreateSnapshot"
#define UNSNAPSHOT   "Controller/DeleteSnapshot"
#define SNAPSHOTS    "Controller/ListSnapshots"
#define GET_SNAPSHOT "Controller/GetSnapshot"
#define MODIFY       "Controller/ControllerModifyVolume"
#define GROUP        "GroupController/CreateVolumeGroupSnapshot"
#define UNGROUP      "GroupController/DeleteVolumeGroupSnapshot"
#define GET_GROUP    "GroupController/GetVolumeGroupSnapshot"
#define ALLOCATED    "SnapshotMetadata/GetMetadataAllocated"
#define DELTA        "SnapshotMetadata/GetMetadataDelta"

#define MODE(name) CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__##name
#define FAKE_ID    "gone@0c6f9d5e-1111-4222-8333-abcdefabcdef"

struct test {
	struct kit kit;
	struct fake_node nodes[2]; /* "host1" has 2 GiB, "host2" 3 GiB */
};

/* Of cmocka. */
int controller_setup(void **state);
int controller_teardown(void **state);

#define TEST(name)                                              \
	cmocka_unit_test_setup_teardown(name, controller_setup, \
					controller_teardown)

/* On all nodes together. */
size_t extents(struct test *t);

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

void create_init(struct create *c, const char *name, uint64_t bytes);
void create_parameter(struct create *c, const char *key, const char *value);
void create_place(struct create *c, const char *key, const char *value);

/* Made, with so many bytes: the id of the volume, owned. */
char *created(struct test *t, const struct create *c, uint64_t bytes);
char *make_volume(struct test *t, const char *name, uint64_t bytes);
enum rpc_code delete_volume(struct test *t, const char *id);

struct validate {
	Csi__V1__ValidateVolumeCapabilitiesRequest in;
	struct create c;
};

void validate_init(struct validate *v, char *id);

/* ---- snapshots ---- */

Csi__V1__CreateSnapshotRequest cut_of(const char *volume, const char *name);
/* Cut it: its id, owned. */
char *cut(struct test *t, const char *volume, const char *name);
enum rpc_code uncut(struct test *t, const char *id);
/* "", 0: any. kit_free(). */
Csi__V1__ListSnapshotsResponse *listed(struct test *t, const char *volume,
				       const char *id, int32_t max,
				       const char *token);
size_t count(struct test *t, const char *volume, const char *id);
/* To an extent, on whichever node (fake_node.h). */
void write_to(struct test *t, const char *extent, uint64_t content);
/* A volume of two extents, one on each node. */
char *make_wide(struct test *t, const char *name);

#endif
