/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/reply.h"

#include "base/cleanup.h"
#include "csi/csi_check.h"

void *reply_new(struct csi_call *c, const ProtobufCMessageDescriptor *type)
{
	ProtobufCMessage *m = rpc_alloc(c->rpc, type->sizeof_message);

	protobuf_c_message_init(type, m);
	return m;
}

void reply_map(struct csi_call *c, const ProtobufCMessageDescriptor *type,
	       ProtobufCMessage *const *entries, size_t n, size_t *ret_n,
	       void *ret_entries)
{
	ProtobufCMessage **copies;

	if (n == 0)
		return;
	copies = rpc_alloc(c->rpc, n * sizeof(void *));
	for (size_t i = 0; i < n; i++) {
		const struct csi_entry *from =
			(const struct csi_entry *)entries[i];
		struct csi_entry *to = reply_new(c, type);

		to->key = from->key;
		to->value = from->value;
		copies[i] = &to->base;
	}
	*ret_n = n;
	*(ProtobufCMessage ***)ret_entries = copies;
}

static Csi__V1__VolumeCapability__MountVolume *copy_mount(
	struct csi_call *c, const Csi__V1__VolumeCapability__MountVolume *from)
{
	Csi__V1__VolumeCapability__MountVolume *to = reply_new(
		c, &csi__v1__volume_capability__mount_volume__descriptor);

	to->fs_type = from->fs_type;
	to->n_mount_flags = from->n_mount_flags;
	to->mount_flags = from->mount_flags;
	to->volume_mount_group = from->volume_mount_group;
	return to;
}

Csi__V1__VolumeCapability *reply_capability(
	struct csi_call *c, const Csi__V1__VolumeCapability *from)
{
	Csi__V1__VolumeCapability *to = reply_new(
		c, &csi__v1__volume_capability__descriptor);

	to->access_mode = reply_new(
		c, &csi__v1__volume_capability__access_mode__descriptor);
	to->access_mode->mode = from->access_mode->mode;
	to->access_type_case = from->access_type_case;
	if (from->access_type_case ==
	    CSI__V1__VOLUME_CAPABILITY__ACCESS_TYPE_MOUNT)
		to->mount = copy_mount(c, from->mount);
	else
		to->block = reply_new(
			c,
			&csi__v1__volume_capability__block_volume__descriptor);
	return to;
}

static void add_context(struct csi_call *c, Csi__V1__Volume *volume,
			const char *key, const char *value)
{
	Csi__V1__Volume__VolumeContextEntry *entry = reply_new(
		c, &csi__v1__volume__volume_context_entry__descriptor);

	entry->key = rpc_strdup(c->rpc, key);
	entry->value = rpc_strdup(c->rpc, value);
	volume->n_volume_context = 1;
	volume->volume_context = rpc_alloc(c->rpc, sizeof(void *));
	volume->volume_context[0] = entry;
}

/*
 * Without a topology, as every node reaches it. What is in the context is for
 * people: the record is found by the volume's id.
 */
Csi__V1__Volume *reply_volume(struct csi_call *c,
			      const struct volume_record *record)
{
	Csi__V1__Volume *volume = reply_new(c, &csi__v1__volume__descriptor);
	char id[CSI_ID_SIZE];

	volume->volume_id = rpc_strdup(
		c->rpc, csi_id_format(id, record->name, record->uid));
	volume->capacity_bytes = (int64_t)record->spec.capacity;
	if (volume_spec_direct(&record->spec))
		add_context(c, volume, "kataDirect", "true");
	return volume;
}

Csi__V1__VolumeCondition *reply_condition(struct csi_call *c,
					  const char *problem)
{
	Csi__V1__VolumeCondition *condition = reply_new(
		c, &csi__v1__volume_condition__descriptor);

	condition->abnormal = problem[0] != '\0';
	condition->message = rpc_strdup(
		c->rpc, problem[0] ? problem : "the volume is well");
	return condition;
}

Csi__V1__Topology *reply_topology(struct csi_call *c, const char *node)
{
	Csi__V1__Topology *topology = reply_new(c,
						&csi__v1__topology__descriptor);
	Csi__V1__Topology__SegmentsEntry *entry = reply_new(
		c, &csi__v1__topology__segments_entry__descriptor);

	entry->key = rpc_strdup(c->rpc, CSI_TOPOLOGY_NODE);
	entry->value = rpc_strdup(c->rpc, node);
	topology->n_segments = 1;
	topology->segments = rpc_alloc(c->rpc, sizeof(void *));
	topology->segments[0] = entry;
	return topology;
}
