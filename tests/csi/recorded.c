/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/csi/recorded.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define TOPOLOGY "segments.topology.union.csi.union.io/node="
#define KEY      "csi.storage.k8s.io/"

/* ReadWriteOnce, as a driver with SINGLE_NODE_MULTI_WRITER is asked for it. */
#define ONCE_MODE "access_mode.mode=7"

/* A claim of a class that waits for its first consumer. */
#define CLAIM                                                               \
	"capacity_range.required_bytes=$size", "secrets.token=s3cr3t",      \
		"accessibility_requirements.requisite.0." TOPOLOGY "host2", \
		"accessibility_requirements.requisite.1." TOPOLOGY "host1", \
		"accessibility_requirements.preferred.0." TOPOLOGY "host2", \
		"accessibility_requirements.preferred.1." TOPOLOGY "host1", \
		"parameters." KEY "pvc/name=data-db-0",                     \
		"parameters." KEY "pvc/namespace=shop",                     \
		"parameters." KEY                                           \
		"pv/name=pvc-7d1d4f0e-58b5-4c1e-9a37-2b6f0c9e4a11"

#define MOUNTED(path)                                                  \
	path ".mount.fs_type=ext4", path ".mount.mount_flags=noatime", \
		path "." ONCE_MODE

/* A PersistentVolume's attributes: the provisioner adds this one. */
#define ATTRIBUTES                                                     \
	"volume_context.storage.kubernetes.io/csiProvisionerIdentity=" \
	"1764150000000-4711-union.csi.union.io"

/* CSIDriver's podInfoOnMount. */
#define POD                                                          \
	"volume_context." KEY "pod.name=db-0",                       \
		"volume_context." KEY "pod.namespace=shop",          \
		"volume_context." KEY                                \
		"pod.uid=1b9f2c1a-7f0e-4f0a-8b7e-3f6f5d0c2e88",      \
		"volume_context." KEY "serviceAccount.name=default", \
		"volume_context." KEY "ephemeral=false"

const struct recorded recorded[] = {
	/* external-provisioner: prepareProvision(), Delete(), syncCapacity() */
	{"provisioner: create",
	 "Controller/CreateVolume",
	 {"name=pvc-7d1d4f0e-58b5-4c1e-9a37-2b6f0c9e4a11", CLAIM,
	  "volume_capabilities.mount.fs_type=",
	  "volume_capabilities." ONCE_MODE, "parameters.placement=local"}},
	{"provisioner: create, the class has a file system",
	 "Controller/CreateVolume",
	 {"name=pvc-7d1d4f0e-58b5-4c1e-9a37-2b6f0c9e4a11", CLAIM,
	  MOUNTED("volume_capabilities"), "parameters.fsType=ext4"}},
	/* Each mode of a claim is a capability. */
	{"provisioner: create, written at one node and read at many",
	 "Controller/CreateVolume",
	 {"name=pvc-7d1d4f0e-58b5-4c1e-9a37-2b6f0c9e4a11", CLAIM,
	  MOUNTED("volume_capabilities.0"),
	  "volume_capabilities.1.mount.fs_type=ext4",
	  "volume_capabilities.1.mount.mount_flags=noatime",
	  "volume_capabilities.1.access_mode.mode=3"}},
	{"provisioner: create, ReadWriteOncePod",
	 "Controller/CreateVolume",
	 {"name=pvc-7d1d4f0e-58b5-4c1e-9a37-2b6f0c9e4a11", CLAIM,
	  "volume_capabilities.mount.fs_type=ext4",
	  "volume_capabilities.access_mode.mode=6"}},
	{"provisioner: create, a device",
	 "Controller/CreateVolume",
	 {"name=pvc-7d1d4f0e-58b5-4c1e-9a37-2b6f0c9e4a11", CLAIM,
	  "volume_capabilities.block=", "volume_capabilities." ONCE_MODE}},
	{"provisioner: create, with a VolumeAttributesClass",
	 "Controller/CreateVolume",
	 {"name=pvc-7d1d4f0e-58b5-4c1e-9a37-2b6f0c9e4a11", CLAIM,
	  MOUNTED("volume_capabilities"), "mutable_parameters.iops=500"}},
	{"provisioner: create, of a VolumeSnapshot",
	 "Controller/CreateVolume",
	 {"name=pvc-7d1d4f0e-58b5-4c1e-9a37-2b6f0c9e4a11", CLAIM,
	  MOUNTED("volume_capabilities"),
	  "volume_content_source.snapshot.snapshot_id=$snapshot"}},
	{"provisioner: create, of a claim",
	 "Controller/CreateVolume",
	 {"name=pvc-7d1d4f0e-58b5-4c1e-9a37-2b6f0c9e4a11", CLAIM,
	  MOUNTED("volume_capabilities"),
	  "volume_content_source.volume.volume_id=$id"}},
	{"provisioner: delete",
	 "Controller/DeleteVolume",
	 {"volume_id=$id", "secrets.token=s3cr3t"}},
	/* A class as people write it, and no capability. */
	{"provisioner: capacity",
	 "Controller/GetCapacity",
	 {"accessible_topology." TOPOLOGY "host1", "parameters.placement=local",
	  "parameters." KEY "fstype=ext4",
	  "parameters." KEY "provisioner-secret-name=token",
	  "parameters." KEY "provisioner-secret-namespace=storage"}},

	/* external-attacher: csiAttach(), csiDetach(), ListVolumes() */
	{"attacher: attach",
	 "Controller/ControllerPublishVolume",
	 {"volume_id=$id", "node_id=$node", MOUNTED("volume_capability"),
	  ATTRIBUTES, "secrets.token=s3cr3t"}},
	{"attacher: detach",
	 "Controller/ControllerUnpublishVolume",
	 {"volume_id=$id", "node_id=$node", "secrets.token=s3cr3t"}},
	/* external-health-monitor sends the same. */
	{"attacher: list", "Controller/ListVolumes", {"starting_token="}},

	/* external-resizer: Expand(), Modify() */
	{"resizer: grow",
	 "Controller/ControllerExpandVolume",
	 {"volume_id=$id", "capacity_range.required_bytes=$larger",
	  MOUNTED("volume_capability"), "secrets.token=s3cr3t"}},
	{"resizer: modify",
	 "Controller/ControllerModifyVolume",
	 {"volume_id=$id", "mutable_parameters.iops=1000",
	  "mutable_parameters." KEY "pvc/name=data-db-0",
	  "mutable_parameters." KEY "pvc/namespace=shop",
	  "mutable_parameters." KEY
	  "pv/name=pvc-7d1d4f0e-58b5-4c1e-9a37-2b6f0c9e4a11"}},

	/* external-snapshotter: snapshotter.go, group_snapshotter.go */
	{"snapshotter: cut",
	 "Controller/CreateSnapshot",
	 {"source_volume_id=$id",
	  "name=snapshot-0c4d2a9e-1f3b-4b7c-8c55-9a0d7e6f1b22",
	  "secrets.token=s3cr3t", "parameters." KEY "volumesnapshot/name=night",
	  "parameters." KEY "volumesnapshot/namespace=shop",
	  "parameters." KEY "volumesnapshotcontent/name="
	  "snapcontent-0c4d2a9e-1f3b-4b7c-8c55-9a0d7e6f1b22"}},
	{"snapshotter: delete",
	 "Controller/DeleteSnapshot",
	 {"snapshot_id=$snapshot", "secrets.token=s3cr3t"}},
	{"snapshotter: is it ready",
	 "Controller/ListSnapshots",
	 {"snapshot_id=$snapshot"}},
	{"snapshotter: cut a group",
	 "GroupController/CreateVolumeGroupSnapshot",
	 {"name=groupsnapshot-5e8b7c1d-2a6f-4d3e-b1c0-6f7a8b9c0d33",
	  "source_volume_ids=$id", "source_volume_ids=$second",
	  "secrets.token=s3cr3t",
	  "parameters." KEY "volumegroupsnapshot/name=night",
	  "parameters." KEY "volumegroupsnapshot/namespace=shop",
	  "parameters." KEY "volumegroupsnapshotcontent/name="
	  "groupsnapcontent-5e8b7c1d-2a6f-4d3e-b1c0-6f7a8b9c0d33"}},
	{"snapshotter: delete a group",
	 "GroupController/DeleteVolumeGroupSnapshot",
	 {"group_snapshot_id=$group", "snapshot_ids=$member",
	  "snapshot_ids=$omember", "secrets.token=s3cr3t"}},
	{"snapshotter: is a group ready",
	 "GroupController/GetVolumeGroupSnapshot",
	 {"group_snapshot_id=$group", "snapshot_ids=$member",
	  "snapshot_ids=$omember"}},

	/* external-health-monitor: ControllerGetVolumeCondition() */
	{"health monitor: condition",
	 "Controller/ControllerGetVolume",
	 {"volume_id=$id"}},

	/* csi-lib-utils: rpc/common.go; livenessprobe and registrar */
	{"all: who is it", "Identity/GetPluginInfo", {NULL}},
	{"all: what can it", "Identity/GetPluginCapabilities", {NULL}},
	{"all: is it ready", "Identity/Probe", {NULL}},
	{"all: what can its controller",
	 "Controller/ControllerGetCapabilities",
	 {NULL}},
	{"snapshotter: what can it do with groups",
	 "GroupController/GroupControllerGetCapabilities",
	 {NULL}},

	/* kubelet: pkg/volume/csi */
	{"kubelet: stage",
	 "Node/NodeStageVolume",
	 {"volume_id=$id", "staging_target_path=$staging",
	  MOUNTED("volume_capability"), "secrets.token=s3cr3t", ATTRIBUTES}},
	{"kubelet: publish",
	 "Node/NodePublishVolume",
	 {"volume_id=$id", "staging_target_path=$staging",
	  "target_path=$target", MOUNTED("volume_capability"),
	  "secrets.token=s3cr3t", ATTRIBUTES, POD}},
	/* After NodeStageVolume, before a pod has it: both paths are one. */
	{"kubelet: grow what is staged",
	 "Node/NodeExpandVolume",
	 {"volume_id=$id", "volume_path=$staging",
	  "staging_target_path=$staging", "capacity_range.required_bytes=$size",
	  MOUNTED("volume_capability"), "secrets.token=s3cr3t"}},
	{"kubelet: grow what a pod has",
	 "Node/NodeExpandVolume",
	 {"volume_id=$id", "volume_path=$target",
	  "staging_target_path=$staging", "capacity_range.required_bytes=$size",
	  MOUNTED("volume_capability"), "secrets.token=s3cr3t"}},
	{"kubelet: stats",
	 "Node/NodeGetVolumeStats",
	 {"volume_id=$id", "volume_path=$target"}},
	{"kubelet: unpublish",
	 "Node/NodeUnpublishVolume",
	 {"volume_id=$id", "target_path=$target"}},
	{"kubelet: unstage",
	 "Node/NodeUnstageVolume",
	 {"volume_id=$id", "staging_target_path=$staging"}},
	{"kubelet: which node", "Node/NodeGetInfo", {NULL}},
	{"kubelet: what can the node", "Node/NodeGetCapabilities", {NULL}},
};
const size_t n_recorded = array_size(recorded);

const struct recorded *recorded_find(const char *name)
{
	for (size_t i = 0; i < n_recorded; i++)
		if (strcmp(recorded[i].name, name) == 0)
			return &recorded[i];
	(void)fprintf(stderr, "no recorded request '%s'\n", name);
	abort();
}
