/* SPDX-License-Identifier: Apache-2.0 */
/* The Node service: what this node is and can, and how its volumes are. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/kernel/mount_ns.h"
#include "csi/call/reply.h"
#include "csi/kata/kata_record.h"
#include "csi/kata/kata_shim.h"
#include "csi/node/bind_mount.h"
#include "csi/node/node_ensure_staged.h"
#include "csi/node/node_service.h"
#include "csi/node/timeout_call.h"
#include "volume/mount/stale_mounts.h"

#define STATUS_MS 4000 /* for nodes and mounts, together */

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

static void add_usage(struct csi_call *c, const struct statvfs *vfs,
		      Csi__V1__NodeGetVolumeStatsResponse *out)
{
	out->n_usage = 2;
	out->usage = rpc_alloc(c->rpc, 2 * sizeof(void *));
	out->usage[0] = usage(c, CSI__V1__VOLUME_USAGE__UNIT__BYTES,
			      vfs->f_blocks * vfs->f_frsize,
			      (vfs->f_blocks - vfs->f_bfree) * vfs->f_frsize,
			      vfs->f_bavail * vfs->f_frsize);
	out->usage[1] = usage(c, CSI__V1__VOLUME_USAGE__UNIT__INODES,
			      vfs->f_files, vfs->f_files - vfs->f_ffree,
			      vfs->f_favail);
}

/* volume_status_get(), which asks nodes and mounts. */
struct look {
	struct volume_context *volumes;
	char name[RECORD_NAME_SIZE];
	struct volume_status *status;
	struct error err;
	int r;
};

static void look_work(void *look_)
{
	struct look *look = look_;

	look->r = volume_status_get(look->volumes, look->name, &look->status,
				    &look->err);
}

static void look_done(void *look_)
{
	struct look *look = look_;

	volume_status_free(look->status);
	free(look);
}

/*
 * Find a process that was there when the union died and still has the dead
 * mount.
 */
static const char *find_left(struct csi_call *c, const node_state *state)
{
	struct mount_info staged;
	char who[MOUNT_NS_USER_MAX];

	if (!state->revived || !state->stage ||
	    bind_mount_find(state->stage->staging_target_path, &staged, NULL) <
		    0 ||
	    !stale_mounts_find(c->id.name, staged.device, who))
		return "";
	return rpc_printf(c->rpc,
			  "the volume had died here and works again, but %s "
			  "still has the dead mount; restart its container",
			  who);
}

/* The first thing that is wrong with the volume as it is seen from here. */
static const char *find_problem(struct csi_call *c, const node_state *state)
{
	struct look *look = calloc(1, sizeof(*look));
	const char *problem;

	if (!look)
		return "out of memory";
	look->volumes = c->csi->volumes;
	memcpy(look->name, c->id.name, sizeof(look->name));
	if (timeout_call(c->id.name, STATUS_MS, look_work, look, look_done) < 0)
		return "the volume's health is unknown: a node, or the mount "
		       "here, did not answer in time";
	if (look->r < 0)
		problem = rpc_strdup(c->rpc, error_text(&look->err));
	else if (look->status->n_conditions > 0)
		problem = rpc_strdup(c->rpc,
				     look->status->conditions[0].message);
	else
		problem = find_left(c, state);
	look_done(look);
	return problem;
}

/* A device has a size, and no use that can be told. */
static void tell_device(struct csi_call *c, const node_state *state,
			Csi__V1__NodeGetVolumeStatsResponse *out)
{
	char device[INITIATOR_TEXT_MAX];
	uint64_t size = 0;
	int r = volume_device(c->csi->volumes, c->id.name, device, c->err);

	if (r == 0) {
		auto_close int fd = open(device, O_RDONLY | O_CLOEXEC);

		if (fd < 0 || ioctl(fd, BLKGETSIZE64, &size) < 0)
			r = error_set(c->err, errno, "'%s': %s", device,
				      strerror(errno));
	}
	if (r == 0) {
		out->n_usage = 1;
		out->usage = rpc_alloc(c->rpc, sizeof(void *));
		out->usage[0] = usage(c, CSI__V1__VOLUME_USAGE__UNIT__BYTES,
				      size, 0, 0);
	}
	out->volume_condition = reply_condition(
		c, r < 0 ? error_text(c->err) : find_problem(c, state));
}

/* Tell the guest's figures, as long as there is a guest. */
static void tell_guest(struct csi_call *c, const char *path,
		       const node_state *state,
		       Csi__V1__NodeGetVolumeStatsResponse *out)
{
	char sandbox[KATA_SANDBOX_SIZE];
	struct kata_stats stats = {0};
	const char *problem;

	if (kata_record_sandbox(c->csi->kata_run_dir, path, sandbox, NULL) <
	    0) {
		tell_device(c, state, out);
		return;
	}
	if (kata_shim_stats(c->csi->kata_run_dir, sandbox, path, &stats,
			    c->err) < 0)
		problem = error_text(c->err);
	else
		problem = stats.abnormal ? stats.message
					 : find_problem(c, state);
	out->usage = rpc_alloc(c->rpc, 2 * sizeof(void *));
	if (stats.has_bytes)
		out->usage[out->n_usage++] = usage(
			c, CSI__V1__VOLUME_USAGE__UNIT__BYTES,
			stats.bytes.total, stats.bytes.used,
			stats.bytes.available);
	if (stats.has_inodes)
		out->usage[out->n_usage++] = usage(
			c, CSI__V1__VOLUME_USAGE__UNIT__INODES,
			stats.inodes.total, stats.inodes.used,
			stats.inodes.available);
	out->volume_condition = reply_condition(c, problem);
}

/* Tell the state of the mount at @path, and of the volume. */
static void node_info_tell(struct csi_call *c, const char *path,
			   const struct volume_record *record,
			   const node_state *state,
			   Csi__V1__NodeGetVolumeStatsResponse *out)
{
	struct statvfs vfs;
	enum node_health health;
	char text[ERROR_TEXT_MAX];
	const char *problem;

	if (volume_spec_direct(&record->spec)) {
		tell_guest(c, path, state, out);
		return;
	}
	if (!volume_spec_is_tree(&record->spec)) {
		tell_device(c, state, out);
		return;
	}
	health = node_health(path, &vfs);
	problem = node_health_text(health, path, text, sizeof(text));
	if (health == NODE_WELL) {
		add_usage(c, &vfs, out);
		problem = find_problem(c, state);
	}
	out->volume_condition = reply_condition(c, problem);
}

int csi_node_get_volume_stats(struct csi_call *c, const void *in_, void *out)
{
	const Csi__V1__NodeGetVolumeStatsRequest *in = in_;
	struct volume_record *record = NULL;
	node_state *state = NULL;
	int r;

	c->takes_inline = true;
	r = csi_find(c, in->volume_id, &record);
	if (r == 0)
		r = csi_state_load(c, &state);
	if (r == 0 && !csi_state_is_at(state, in->volume_id, in->volume_path))
		r = csi_fail(c, RPC_NOT_FOUND,
			     "the volume is neither staged nor published at "
			     "'%s'",
			     in->volume_path);
	if (r == 0)
		node_info_tell(c, in->volume_path, record, state, out);
	node_state_free(state);
	volume_record_free(record);
	return r;
}

/* ---- NodeGetCapabilities, NodeGetInfo ---- */

#define RPC(name) CSI__V1__NODE_SERVICE_CAPABILITY__RPC__TYPE__##name

static Csi__V1__NodeServiceCapability *node_capability(
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
		RPC(VOLUME_MOUNT_GROUP),
	};
	Csi__V1__NodeGetCapabilitiesResponse *out = out_;

	(void)in;
	out->n_capabilities = array_size(types);
	out->capabilities = rpc_alloc(c->rpc,
				      array_size(types) * sizeof(void *));
	for (size_t i = 0; i < array_size(types); i++)
		out->capabilities[i] = node_capability(c, types[i]);
	return 0;
}

/*
 * A volume is published to known nodes only, and to this one no more than it
 * takes: a node that only uses volumes has nobody else who would say so.
 */
static int make_known(struct csi_call *c, const char *node)
{
	int r = volume_node_limit(c->csi->volumes, node,
				  (unsigned)c->csi->max_volumes, c->err);

	return r < 0 ? csi_fail_errno(c, r) : 0;
}

int csi_node_get_info(struct csi_call *c, const void *in, void *out_)
{
	Csi__V1__NodeGetInfoResponse *out = out_;
	const char *node = volume_context_node(c->csi->volumes);
	int r = make_known(c, node);

	(void)in;
	if (r < 0)
		return r;
	out->max_volumes_per_node = (int64_t)c->csi->max_volumes;
	out->node_id = rpc_strdup(c->rpc, node);
	out->accessible_topology = reply_topology(c, node);
	return 0;
}
