/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/call/reply.h"

#include "base/cleanup.h"
#include "csi/call/csi_check.h"

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

static char *id_of(struct csi_call *c, const char *name, const char *uid)
{
	char id[CSI_ID_SIZE];

	return rpc_strdup(c->rpc, csi_id_format(id, name, uid));
}

static Csi__V1__VolumeContentSource *content_source(
	struct csi_call *c, const struct volume_source *from)
{
	Csi__V1__VolumeContentSource *source;
	char *id;

	if (from->kind == VOLUME_SOURCE_NONE)
		return NULL;
	source = reply_new(c, &csi__v1__volume_content_source__descriptor);
	id = id_of(c, from->name, from->uid);
	if (from->kind == VOLUME_SOURCE_SNAPSHOT) {
		source->type_case =
			CSI__V1__VOLUME_CONTENT_SOURCE__TYPE_SNAPSHOT;
		source->snapshot = reply_new(
			c,
			&csi__v1__volume_content_source__snapshot_source__descriptor);
		source->snapshot->snapshot_id = id;
	} else {
		source->type_case = CSI__V1__VOLUME_CONTENT_SOURCE__TYPE_VOLUME;
		source->volume = reply_new(
			c,
			&csi__v1__volume_content_source__volume_source__descriptor);
		source->volume->volume_id = id;
	}
	return source;
}

/*
 * Reply with a volume. It has no topology, as every node reaches it. The
 * context is for people: the record is found by the volume's id.
 */
Csi__V1__Volume *reply_volume(struct csi_call *c,
			      const struct volume_record *record)
{
	Csi__V1__Volume *volume = reply_new(c, &csi__v1__volume__descriptor);

	volume->volume_id = id_of(c, record->name, record->uid);
	volume->content_source = content_source(c, &record->spec.source);
	volume->capacity_bytes = (int64_t)record->spec.capacity;
	if (volume_spec_direct(&record->spec))
		add_context(c, volume, "kataDirect", "true");
	return volume;
}

Google__Protobuf__Timestamp *reply_time(struct csi_call *c, int64_t seconds)
{
	Google__Protobuf__Timestamp *time = reply_new(
		c, &google__protobuf__timestamp__descriptor);

	time->seconds = seconds;
	return time;
}

Csi__V1__Snapshot *reply_snapshot(struct csi_call *c,
				  const struct snapshot_record *record)
{
	Csi__V1__Snapshot *snapshot = reply_new(c,
						&csi__v1__snapshot__descriptor);

	snapshot->snapshot_id = id_of(c, record->name, record->uid);
	snapshot->source_volume_id = id_of(c, record->volume,
					   record->volume_uid);
	snapshot->size_bytes = (int64_t)record->spec.capacity;
	snapshot->creation_time = reply_time(c, record->cut_s);
	snapshot->ready_to_use = record->phase == SNAPSHOT_READY &&
				 snapshot_record_lost(record) == 0;
	if (record->group[0])
		snapshot->group_snapshot_id = id_of(c, record->group,
						    record->group_uid);
	return snapshot;
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

char *reply_token(struct csi_call *c, const struct record_place *place)
{
	char token[CSI_TOKEN_SIZE];

	return rpc_strdup(c->rpc, csi_token_format(token, place));
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
