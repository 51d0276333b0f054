/* SPDX-License-Identifier: Apache-2.0 */
/* For the tests of the Controller service: two nodes, and requests. */
#ifndef CSI_CONTROLLER_TEST_KIT_H
#define CSI_CONTROLLER_TEST_KIT_H

#include "csi/csi_test_kit.h"
#include "csi/fake_node.h"

#define CREATE    "Controller/CreateVolume"
#define DELETE    "Controller/DeleteVolume"
#define VALIDATE  "Controller/ValidateVolumeCapabilities"
#define LIST      "Controller/ListVolumes"
#define GET       "Controller/ControllerGetVolume"
#define CAPACITY  "Controller/GetCapacity"
#define EXPAND    "Controller/ControllerExpandVolume"
#define PUBLISH   "Controller/ControllerPublishVolume"
#define UNPUBLISH "Controller/ControllerUnpublishVolume"

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

#endif
