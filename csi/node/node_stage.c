/* SPDX-License-Identifier: Apache-2.0 */
/* The Node service: a volume made ready on this node, and undone. */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/log.h"
#include "csi/call/capability.h"
#include "csi/call/csi_error.h"
#include "csi/node/node_ensure_staged.h"
#include "csi/node/node_group.h"
#include "csi/node/node_service.h"
#include "csi/node/publish_mount.h"

/* ---- shared ---- */

int csi_state_load(struct csi_call *c, node_state **ret)
{
	int r = node_state_load(c->csi->state_dir, c->id.name, ret, c->err);

	return r < 0 ? csi_fail_errno(c, r) : 0;
}

int csi_state_save(struct csi_call *c, const node_state *state)
{
	int r = node_state_save(c->csi->state_dir, c->id.name, state, c->err);

	return r < 0 ? csi_fail_errno(c, r) : 0;
}

int csi_check_use(struct csi_call *c, const Csi__V1__VolumeCapability *cap,
		  const struct volume_record *record)
{
	struct error why = {0};

	if (capability_check(cap, &record->spec, &why) == 0)
		return 0;
	return csi_fail(c, RPC_FAILED_PRECONDITION, "%s", error_text(&why));
}

bool csi_state_is_at(const node_state *state, const char *volume_id,
		     const char *path)
{
	const publish_request *p = node_state_find(state, path);

	if (state->stage && strcmp(state->stage->volume_id, volume_id) == 0 &&
	    strcmp(state->stage->staging_target_path, path) == 0)
		return true;
	return p && strcmp(p->volume_id, volume_id) == 0;
}

void csi_state_prune(const struct csi *csi, node_state *state)
{
	for (size_t i = state->n_published; i-- > 0;) {
		const char *target = state->published[i]->target_path;

		if (!publish_mount_exists(csi, target))
			node_state_remove(state, target);
	}
}

/* 0 or a negative errno. */
static int stage_give_group(struct csi_call *c,
			    const struct volume_record *record,
			    const Csi__V1__VolumeCapability *cap,
			    const char *staged)
{
	const struct volume_attachment *a = volume_record_attachment(
		record, volume_context_node(c->csi->volumes));
	gid_t group;

	/* The runtime takes care of a guest's file system. */
	if ((a && a->read_only) || volume_spec_direct(&record->spec) ||
	    !capability_group(cap, &group))
		return 0;
	return node_group_apply(staged, group, c->csi->cancel_fd, c->err);
}

int csi_give_group(struct csi_call *c, const struct volume_record *record,
		   const Csi__V1__VolumeCapability *cap, const char *staged)
{
	int r = stage_give_group(c, record, cap, staged);

	return r < 0 ? csi_fail_errno(c, r) : 0;
}

int csi_stage_revive(struct csi_call *c, const struct volume_record *record,
		     node_state *state)
{
	int r;

	if (!state->stage)
		return csi_fail(c, RPC_FAILED_PRECONDITION,
				"the volume is not staged here");
	/* Of a block volume nothing is mounted there to be asked. */
	if (!capability_is_block(state->stage->volume_capability) &&
	    node_health(state->stage->staging_target_path, NULL) == NODE_WELL)
		return 0;
	r = node_ensure_staged(c->csi, record, state, true, c->err);
	return r < 0 ? csi_fail_errno(c, r) : 0;
}

/* ---- NodeStageVolume ---- */

static int stage_check_path(struct csi_call *c, const char *path)
{
	struct stat st;

	/* A dead mount is put right; a link is the caller's. */
	if (stat(path, &st) < 0 && (errno == ENOENT || errno == ENOTDIR))
		return csi_fail(c, RPC_FAILED_PRECONDITION,
				"staging_target_path '%s' is no directory; "
				"the caller makes it",
				path);
	return 0;
}

static int stage_check_staged(struct csi_call *c, const node_state *state,
			      const stage_request *in)
{
	const stage_request *stage = state->stage;

	if (!stage || stage_request_equal(stage, in))
		return 0;
	if (strcmp(stage->volume_id, in->volume_id) != 0)
		return csi_fail(c, RPC_FAILED_PRECONDITION,
				"another volume of its name is staged at '%s'; "
				"unstage it first",
				stage->staging_target_path);
	if (strcmp(stage->staging_target_path, in->staging_target_path) != 0)
		return csi_fail(c, RPC_FAILED_PRECONDITION,
				"the volume is staged at '%s'; unstage it "
				"there first",
				stage->staging_target_path);
	return csi_fail(c, RPC_ALREADY_EXISTS,
			"the volume is staged there in another way "
			"(capability or context)");
}

/* ControllerPublishVolume comes before. */
static int check_published(struct csi_call *c,
			   const struct volume_record *record)
{
	const char *node = volume_context_node(c->csi->volumes);
	const struct volume_attachment *a = volume_record_attachment(record,
								     node);

	if (a && a->published)
		return 0;
	return csi_fail(c, RPC_FAILED_PRECONDITION,
			"the volume is not published to node '%s'; "
			"ControllerPublishVolume does that",
			node);
}

/* Not final: the same call goes on, or NodeUnstageVolume undoes it. */
static bool is_final(const char *method, int error)
{
	enum rpc_code code = csi_code(method, error);

	return code != RPC_ABORTED && code != RPC_UNAVAILABLE;
}

/*
 * Undo a staging: after a final error the volume is staged no more than before.
 * Parts that can't be taken down are left to NodeUnstageVolume, which finds
 * them by the state.
 */
static void undo_stage(struct csi_call *c, bool attached, node_state *state)
{
	const struct volume_detach_request request = {.name = c->id.name};
	struct error why = {0};

	if (!attached && volume_detach(c->csi->volumes, &request, &why) < 0) {
		log_warning("volume=%s is still attached after it could not be "
			    "staged: %s",
			    c->id.name, error_text(&why));
		return;
	}
	node_state_clear_stage(state);
	/* The state may stay: unstaging finds nothing then. */
	(void)node_state_save(c->csi->state_dir, c->id.name, state, NULL);
}

static int stage_volume(struct csi_call *c, const stage_request *in,
			const struct volume_record *record, node_state *state)
{
	const struct volume_attachment *a = volume_record_attachment(
		record, volume_context_node(c->csi->volumes));
	bool attached = a && a->state != ATTACHMENT_PUBLISHED;
	bool fresh = !state->stage;
	int r = stage_check_staged(c, state, in);

	if (r < 0)
		return r;
	if (fresh) {
		r = node_state_set_stage(state, in, c->err);
		if (r < 0)
			return csi_fail_errno(c, r);
		r = csi_state_save(c, state);
		if (r < 0)
			return r;
	}
	r = node_ensure_staged(c->csi, record, state, true, c->err);
	if (r == 0)
		r = stage_give_group(c, record, in->volume_capability,
				     in->staging_target_path);
	if (r < 0 && fresh && is_final(c->method, r))
		undo_stage(c, attached, state);
	return r < 0 ? csi_fail_errno(c, r) : 0;
}

int csi_node_stage_volume(struct csi_call *c, const void *in_, void *out)
{
	const stage_request *in = in_;
	struct volume_record *record = NULL;
	node_state *state = NULL;
	int r = csi_begin(c, in->volume_id);

	(void)out;
	if (r == 0)
		r = csi_record(c, &record);
	if (r == 0)
		r = csi_check_use(c, in->volume_capability, record);
	if (r == 0)
		r = stage_check_path(c, in->staging_target_path);
	if (r == 0)
		r = check_published(c, record);
	if (r == 0)
		r = csi_state_load(c, &state);
	if (r == 0)
		r = stage_volume(c, in, record, state);
	node_state_free(state);
	volume_record_free(record);
	return r;
}

/* ---- NodeUnstageVolume ---- */

/*
 * Tell whether we attached the volume there, although the state does not say
 * so. A block volume is attached nowhere in particular.
 */
static int attached_there(struct csi_call *c, const char *path)
{
	struct volume_record *record = NULL;
	const struct volume_attachment *a;
	char real[PATH_MAX];
	int r = volume_get(c->csi->volumes, c->id.name, &record, c->err);

	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return csi_fail_errno(c, r);
	a = volume_record_attachment(record,
				     volume_context_node(c->csi->volumes));
	r = a && a->state != ATTACHMENT_PUBLISHED &&
	    csi_id_matches(&c->id, record) &&
	    (!volume_spec_is_tree(&record->spec) ||
	     (mounts_canonical(path, real, NULL) == 0 &&
	      strcmp(real, a->mount_point) == 0));
	volume_record_free(record);
	return r;
}

/* The id of the call and another of that name: a name alone is any. */
static bool is_same_volume(const struct csi_call *c, const char *volume_id)
{
	struct csi_id other;

	return csi_id_parse(volume_id, &other) == 0 &&
	       (!other.uid[0] || !c->id.uid[0] ||
		strcmp(other.uid, c->id.uid) == 0);
}

static int unstage_volume(struct csi_call *c, node_state *state)
{
	const struct volume_detach_request request = {.name = c->id.name};
	int r;

	csi_state_prune(c->csi, state);
	if (state->n_published > 0)
		return csi_fail(c, RPC_FAILED_PRECONDITION,
				"the volume is published at '%s'; unpublish "
				"it first",
				state->published[0]->target_path);
	r = volume_detach(c->csi->volumes, &request, c->err);
	if (r < 0)
		return csi_fail_errno(c, r);
	node_state_clear_stage(state);
	return csi_state_save(c, state);
}

int csi_node_unstage_volume(struct csi_call *c, const void *in_, void *out)
{
	const Csi__V1__NodeUnstageVolumeRequest *in = in_;
	node_state *state = NULL;
	bool staged;
	int r;

	(void)out;
	/* A volume that cannot be ours is not staged. */
	if (csi_id_parse(in->volume_id, &c->id) < 0)
		return 0;
	r = csi_lock(c, c->id.name);
	if (r == 0)
		r = csi_state_load(c, &state);
	if (r < 0)
		return r;
	assert(state);
	staged = state->stage && is_same_volume(c, state->stage->volume_id) &&
		 strcmp(state->stage->staging_target_path,
			in->staging_target_path) == 0;
	if (!state->stage)
		r = attached_there(c, in->staging_target_path);
	if (r >= 0)
		r = staged || r > 0 ? unstage_volume(c, state) : 0;
	node_state_free(state);
	return r;
}
