/* SPDX-License-Identifier: Apache-2.0 */
/* The Node service: what this node is and can, and how its volumes are. */
#include <errno.h>
#include <string.h>
#include <sys/statvfs.h>

#include "base/cleanup.h"
#include "csi/bind.h"
#include "csi/node_service.h"
#include "csi/reply.h"

/* ---- NodeGetVolumeStats ---- */

static Csi__V1__VolumeUsage *usage(struct csi_call *c,
				   Csi__V1__VolumeUsage__Unit unit,
				   uint64_t total, uint64_t used,
				   uint64_t available)
{
	Csi__V1__VolumeUsage *u = reply_new(c,
					    &csi__v1__volume_usage__descriptor);

	u->unit = unit;
	u->total = (int64_t)total;
	u->used = (int64_t)used;
	u->available = (int64_t)available;
	return u;
}

/* Negative errno when what is mounted there does not answer. */
static int add_usage(struct csi_call *c, const char *path,
		     Csi__V1__NodeGetVolumeStatsResponse *out)
{
	struct mount_info info;
	struct statvfs vfs;
	int r = bind_find(path, &info, NULL);

	if (r < 0)
		return r;
	if (statvfs(path, &vfs) < 0)
		return -errno;
	out->n_usage = 2;
	out->usage = rpc_alloc(c->rpc, 2 * sizeof(void *));
	out->usage[0] = usage(c, CSI__V1__VOLUME_USAGE__UNIT__BYTES,
			      vfs.f_blocks * vfs.f_frsize,
			      (vfs.f_blocks - vfs.f_bfree) * vfs.f_frsize,
			      vfs.f_bavail * vfs.f_frsize);
	out->usage[1] = usage(c, CSI__V1__VOLUME_USAGE__UNIT__INODES,
			      vfs.f_files, vfs.f_files - vfs.f_ffree,
			      vfs.f_favail);
	return 0;
}

/* The first thing that is wrong with the volume as it is seen from here. */
static int add_condition(struct csi_call *c, int mounted, const char *path,
			 Csi__V1__NodeGetVolumeStatsResponse *out)
{
	struct volume_status *status = NULL;
	const char *problem = "";
	int r = volume_status_get(c->csi->volumes, c->id.name, &status, c->err);

	if (r < 0)
		return csi_fail_errno(c, r);
	if (mounted < 0)
		problem = rpc_printf(
			c->rpc,
			mounted == -ENOENT
				? "nothing is mounted at '%s'; publish the "
				  "volume again"
				: "what is mounted at '%s' does not answer; "
				  "stage and publish the volume again",
			path);
	else if (status->n_conditions > 0)
		problem = status->conditions[0].message;
	out->volume_condition = reply_condition(c, problem);
	volume_status_free(status);
	return 0;
}

int csi_node_get_volume_stats(struct csi_call *c, const void *in_, void *out)
{
	const Csi__V1__NodeGetVolumeStatsRequest *in = in_;
	struct volume_record *record = NULL;
	node_state *state = NULL;
	int r = csi_find(c, in->volume_id, &record);

	if (r == 0)
		r = csi_state_load(c, &state);
	if (r == 0 && !csi_state_is_at(state, in->volume_id, in->volume_path))
		r = csi_fail(c, RPC_NOT_FOUND,
			     "the volume is neither staged nor published at "
			     "'%s'",
			     in->volume_path);
	if (r == 0)
		r = add_condition(c, add_usage(c, in->volume_path, out),
				  in->volume_path, out);
	node_state_free(state);
	volume_record_free(record);
	return r;
}

/* ---- NodeGetCapabilities, NodeGetInfo ---- */

#define RPC(name) CSI__V1__NODE_SERVICE_CAPABILITY__RPC__TYPE__##name

static Csi__V1__NodeServiceCapability *capability(
	struct csi_call *c, Csi__V1__NodeServiceCapability__RPC__Type type)
{
	Csi__V1__NodeServiceCapability *cap = reply_new(
		c, &csi__v1__node_service_capability__descriptor);

	cap->type_case = CSI__V1__NODE_SERVICE_CAPABILITY__TYPE_RPC;
	cap->rpc = reply_new(
		c, &csi__v1__node_service_capability__rpc__descriptor);
	cap->rpc->type = type;
	return cap;
}

int csi_node_get_capabilities(struct csi_call *c, const void *in, void *out_)
{
	static const Csi__V1__NodeServiceCapability__RPC__Type types[] = {
		RPC(STAGE_UNSTAGE_VOLUME),
		RPC(GET_VOLUME_STATS),
		RPC(EXPAND_VOLUME),
		RPC(VOLUME_CONDITION),
		RPC(SINGLE_NODE_MULTI_WRITER),
	};
	Csi__V1__NodeGetCapabilitiesResponse *out = out_;

	(void)in;
	out->n_capabilities = array_size(types);
	out->capabilities = rpc_alloc(c->rpc,
				      array_size(types) * sizeof(void *));
	for (size_t i = 0; i < array_size(types); i++)
		out->capabilities[i] = capability(c, types[i]);
	return 0;
}

int csi_node_get_info(struct csi_call *c, const void *in, void *out_)
{
	Csi__V1__NodeGetInfoResponse *out = out_;
	const char *node = volume_context_node(c->csi->volumes);

	(void)in;
	out->node_id = rpc_strdup(c->rpc, node);
	out->accessible_topology = reply_topology(c, node);
	return 0;
}
