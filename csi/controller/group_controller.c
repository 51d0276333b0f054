/* SPDX-License-Identifier: Apache-2.0 */
/* The GroupController service: snapshots of several volumes at one instant. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "csi/call/reply.h"
#include "csi/controller/controller.h"
#include "csi/controller/snapshot.h"

/* ---- the answer ---- */

static int reply_group(struct csi_call *c, const struct group_record *group,
		       Csi__V1__VolumeGroupSnapshot **ret)
{
	Csi__V1__VolumeGroupSnapshot *out = reply_new(
		c, &csi__v1__volume_group_snapshot__descriptor);
	char id[CSI_ID_SIZE];

	out->group_snapshot_id = rpc_strdup(
		c->rpc, csi_id_format(id, group->name, group->uid));
	out->creation_time = reply_time(c, group->cut_s);
	out->ready_to_use = group->phase == SNAPSHOT_READY;
	out->snapshots = rpc_alloc(c->rpc,
				   (group->n_members + 1) * sizeof(void *));
	for (size_t i = 0; i < group->n_members; i++) {
		struct snapshot_record *record = NULL;
		int r = volume_snapshot_get(c->csi->volumes,
					    group->members[i].snapshot, &record,
					    c->err);

		if (r < 0)
			return csi_fail_errno(c, r == -ENOENT ? -EIO : r);
		out->snapshots[out->n_snapshots++] = reply_snapshot(c, record);
		out->ready_to_use &= record->phase == SNAPSHOT_READY &&
				     snapshot_record_lost(record) == 0;
		snapshot_record_free(record);
	}
	*ret = out;
	return 0;
}

/* ---- CreateVolumeGroupSnapshot ---- */

/* The volumes asked for. */
struct sources {
	struct csi_id *ids; /* owned */
	const char **names; /* owned; of those */
	size_t n;
};

static int sources_read(struct csi_call *c,
			const Csi__V1__CreateVolumeGroupSnapshotRequest *in,
			struct sources *ret)
{
	size_t n = in->n_source_volume_ids;

	if (n > SNAPSHOT_MEMBERS_MAX)
		return csi_fail(
			c, RPC_INVALID_ARGUMENT,
			"source_volume_ids: at most %d volumes in one snapshot",
			SNAPSHOT_MEMBERS_MAX);
	ret->ids = calloc(n + 1, sizeof(*ret->ids));
	ret->names = calloc(n + 1, sizeof(*ret->names));
	if (!ret->ids || !ret->names)
		return csi_fail(c, RPC_INTERNAL, "out of memory");
	for (size_t i = 0; i < n; i++) {
		if (csi_id_parse(in->source_volume_ids[i], &ret->ids[i]) < 0)
			return csi_fail(c, RPC_NOT_FOUND,
					"source_volume_ids: there is no volume "
					"'%.128s'",
					in->source_volume_ids[i]);
		ret->names[i] = ret->ids[i].name;
		for (size_t k = 0; k < i; k++)
			if (strcmp(ret->names[k], ret->names[i]) == 0)
				return csi_fail(c, RPC_INVALID_ARGUMENT,
						"source_volume_ids: '%s' is "
						"there twice",
						ret->names[i]);
		ret->n = i + 1;
	}
	return 0;
}

static bool group_has(const struct group_record *group, const struct csi_id *id)
{
	for (size_t i = 0; i < group->n_members; i++) {
		const struct group_member *m = &group->members[i];

		if (strcmp(m->volume, id->name) == 0)
			return !id->uid[0] ||
			       strcmp(m->volume_uid, id->uid) == 0;
	}
	return false;
}

/* Check that the group snapshot of this name is the one asked for. */
static int group_check_same(struct csi_call *c, const char *csi_name,
			    const struct group_record *group,
			    const struct sources *sources)
{
	const char *name = labels_get(&group->labels, CSI_LABEL_NAME);
	bool equal = group->n_members == sources->n;

	for (size_t i = 0; equal && i < sources->n; i++)
		equal = group_has(group, &sources->ids[i]);
	if (name && strcmp(name, csi_name) == 0 && equal)
		return 0;
	return csi_fail(c, RPC_ALREADY_EXISTS,
			"group snapshot '%s' is there, of other volumes",
			group->name);
}

static int group_check_volumes(struct csi_call *c,
			       const struct sources *sources)
{
	for (size_t i = 0; i < sources->n; i++) {
		struct volume_record *record = NULL;
		int r;

		c->id = sources->ids[i];
		r = csi_record(c, &record);
		volume_record_free(record);
		if (r < 0)
			return r;
	}
	return 0;
}

static int group_cut(struct csi_call *c,
		     const Csi__V1__CreateVolumeGroupSnapshotRequest *in,
		     const char *name, const struct sources *sources,
		     struct group_record **ret)
{
	struct labels labels = {0};
	const struct group_create_request request = {
		.name = name,
		.volumes = sources->names,
		.n_volumes = sources->n,
		.labels = &labels,
	};
	struct group_record *there = NULL;
	int r = volume_group_get(c->csi->volumes, name, &there, c->err);

	if (there)
		r = group_check_same(c, in->name, there, sources);
	else if (r == -ENOENT)
		r = group_check_volumes(c, sources);
	else
		r = csi_fail_errno(c, r);
	group_record_free(there);
	if (r < 0)
		return r;
	r = csi_snapshot_labels((ProtobufCMessage *const *)in->parameters,
				in->n_parameters, in->name, &labels, c->err);
	if (r == 0)
		r = volume_group_create(c->csi->volumes, &request, ret, c->err);
	labels_done(&labels);
	return r < 0 ? csi_fail_errno(c, r) : 0;
}

int csi_create_volume_group_snapshot(struct csi_call *c, const void *in_,
				     void *out_)
{
	const Csi__V1__CreateVolumeGroupSnapshotRequest *in = in_;
	Csi__V1__CreateVolumeGroupSnapshotResponse *out = out_;
	struct group_record *group = NULL;
	struct sources sources = {0};
	char name[RECORD_NAME_SIZE];
	int r = sources_read(c, in, &sources);

	csi_group_name_map(in->name, name);
	if (r == 0)
		r = csi_snapshot_lock(c, "group", name);
	if (r == 0)
		r = group_cut(c, in, name, &sources, &group);
	if (group)
		r = reply_group(c, group, &out->group_snapshot);
	group_record_free(group);
	free(sources.ids);
	free(sources.names);
	return r;
}

/* ---- the group that is meant ---- */

static bool has_member(const struct group_record *group, const char *text)
{
	struct csi_id id;

	if (csi_id_parse(text, &id) < 0)
		return false;
	for (size_t i = 0; i < group->n_members; i++)
		if (strcmp(group->members[i].snapshot, id.name) == 0)
			return !id.uid[0] ||
			       strcmp(group->members[i].snapshot_uid, id.uid) ==
				       0;
	return false;
}

static int check_members(struct csi_call *c, const struct group_record *group,
			 char *const *ids, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!has_member(group, ids[i]))
			return csi_fail(c, RPC_INVALID_ARGUMENT,
					"snapshot_ids: '%.128s' is not of "
					"group snapshot '%s'",
					ids[i], group->name);
	/* Each is there, and none twice in what the group has. */
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < i; k++)
			if (strcmp(ids[i], ids[k]) == 0)
				return csi_fail(c, RPC_INVALID_ARGUMENT,
						"snapshot_ids: '%.128s' is "
						"there twice",
						ids[i]);
	if (n != group->n_members)
		return csi_fail(c, RPC_INVALID_ARGUMENT,
				"snapshot_ids: group snapshot '%s' has %zu "
				"members, and %zu are given",
				group->name, group->n_members, n);
	return 0;
}

/* -ENOENT, or another errno. */
static int group_find(struct csi_call *c, const struct csi_id *id,
		      struct group_record **ret)
{
	struct group_record *group = NULL;
	int r = volume_group_get(c->csi->volumes, id->name, &group, c->err);

	if (r < 0)
		return r;
	if (id->uid[0] && strcmp(id->uid, group->uid) != 0) {
		group_record_free(group);
		return -ENOENT;
	}
	*ret = group;
	return 0;
}

/* ---- DeleteVolumeGroupSnapshot ---- */

int csi_delete_volume_group_snapshot(struct csi_call *c, const void *in_,
				     void *out)
{
	const Csi__V1__DeleteVolumeGroupSnapshotRequest *in = in_;
	struct group_record *group = NULL;
	struct csi_id id;
	int r;

	(void)out;
	/* An id that cannot be ours is of no group here: it is deleted. */
	if (csi_id_parse(in->group_snapshot_id, &id) < 0)
		return 0;
	r = csi_snapshot_lock(c, "group", id.name);
	if (r < 0)
		return r;
	r = group_find(c, &id, &group);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return csi_fail_errno(c, r);
	assert(group);
	r = check_members(c, group, in->snapshot_ids, in->n_snapshot_ids);
	group_record_free(group);
	if (r < 0)
		return r;
	r = volume_group_delete(c->csi->volumes, id.name, c->err);
	return r < 0 ? csi_fail_errno(c, r) : 0;
}

/* ---- GetVolumeGroupSnapshot ---- */

static bool is_there(const struct group_record *group)
{
	return group->phase == SNAPSHOT_COPYING ||
	       group->phase == SNAPSHOT_READY;
}

static void group_refresh(struct csi_call *c, struct group_record **group)
{
	struct group_record *now = NULL;
	struct error unused = {0};

	if ((*group)->phase != SNAPSHOT_COPYING ||
	    volume_group_refresh(c->csi->volumes, (*group)->name, &now,
				 &unused) < 0)
		return;
	group_record_free(*group);
	*group = now;
}

int csi_get_volume_group_snapshot(struct csi_call *c, const void *in_,
				  void *out_)
{
	const Csi__V1__GetVolumeGroupSnapshotRequest *in = in_;
	Csi__V1__GetVolumeGroupSnapshotResponse *out = out_;
	struct group_record *group = NULL;
	struct csi_id id;
	int r = -ENOENT;

	if (csi_id_parse(in->group_snapshot_id, &id) == 0)
		r = group_find(c, &id, &group);
	if (r == -ENOENT || (group && !is_there(group)))
		r = csi_fail(c, RPC_NOT_FOUND,
			     "there is no such group snapshot");
	else if (r < 0 || !group)
		r = csi_fail_errno(c, r);
	else
		r = check_members(c, group, in->snapshot_ids,
				  in->n_snapshot_ids);
	if (r == 0 && group) {
		group_refresh(c, &group);
		r = reply_group(c, group, &out->group_snapshot);
	}
	group_record_free(group);
	return r;
}

/* ---- GroupControllerGetCapabilities ---- */

int csi_group_controller_get_capabilities(struct csi_call *c, const void *in,
					  void *out_)
{
	Csi__V1__GroupControllerGetCapabilitiesResponse *out = out_;
	Csi__V1__GroupControllerServiceCapability *cap = reply_new(
		c, &csi__v1__group_controller_service_capability__descriptor);

	(void)in;
	cap->type_case = CSI__V1__GROUP_CONTROLLER_SERVICE_CAPABILITY__TYPE_RPC;
	cap->rpc = reply_new(
		c,
		&csi__v1__group_controller_service_capability__rpc__descriptor);
	cap->rpc->type =
		CSI__V1__GROUP_CONTROLLER_SERVICE_CAPABILITY__RPC__TYPE__CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT;
	out->n_capabilities = 1;
	out->capabilities = rpc_alloc(c->rpc, sizeof(void *));
	out->capabilities[0] = cap;
	return 0;
}
