/* SPDX-License-Identifier: Apache-2.0 */
/* The Node service: a staged volume shown at a path, and taken away there. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "csi/call/capability.h"
#include "csi/node/inline.h"
#include "csi/node/node_service.h"
#include "csi/node/publish_mount.h"

#define MULTI_WRITER \
	CSI__V1__VOLUME_CAPABILITY__ACCESS_MODE__MODE__SINGLE_NODE_MULTI_WRITER

/* ---- may it be published there? ---- */

/* Options of the file systems are chosen when these are mounted. */
static int check_options(struct csi_call *c,
			 const Csi__V1__VolumeCapability *staged,
			 const Csi__V1__VolumeCapability *cap)
{
	auto_free char *now = capability_mount_options(staged, true);
	auto_free char *asked = capability_mount_options(cap, true);

	if (now && asked && (!asked[0] || strcmp(now, asked) == 0))
		return 0;
	return csi_fail(c, RPC_FAILED_PRECONDITION,
			"the volume is staged with other mount flags for its "
			"file systems");
}

static int publish_check_staged(struct csi_call *c, const node_state *state,
				const publish_request *in)
{
	const stage_request *stage = state->stage;

	if (!stage || strcmp(stage->volume_id, in->volume_id) != 0 ||
	    strcmp(stage->staging_target_path, in->staging_target_path) != 0)
		return csi_fail(c, RPC_FAILED_PRECONDITION,
				"the volume is not staged at '%s'",
				in->staging_target_path);
	if (capability_mode(stage->volume_capability) !=
	    capability_mode(in->volume_capability))
		return csi_fail(c, RPC_FAILED_PRECONDITION,
				"the volume is staged for access mode %d, "
				"not %d",
				capability_mode(stage->volume_capability),
				capability_mode(in->volume_capability));
	return check_options(c, stage->volume_capability,
			     in->volume_capability);
}

/* A device is read-only for all who have it, or for none. */
static int check_beside(struct csi_call *c, const node_state *state,
			const publish_request *in)
{
	if (!capability_is_block(in->volume_capability) ||
	    capability_reads_only(in->volume_capability))
		return 0;
	for (size_t i = 0; i < state->n_published; i++)
		if (state->published[i]->readonly != in->readonly)
			return csi_fail(c, RPC_FAILED_PRECONDITION,
					"the device is published at '%s' for "
					"%s, and is one device for all",
					state->published[i]->target_path,
					in->readonly ? "writing"
						     : "reading only");
	return 0;
}

/* The matrix of the specification, "Second NodePublishVolume". */
int csi_check_second(struct csi_call *c, const node_state *state,
		     const publish_request *in)
{
	const publish_request *there = node_state_find(state, in->target_path);

	if (there && publish_request_equal(there, in))
		return 0;
	if (there &&
	    !capability_equal(there->volume_capability, in->volume_capability))
		return csi_fail(c, RPC_FAILED_PRECONDITION,
				"the volume is published there with another "
				"capability");
	if (there)
		return csi_fail(c, RPC_ALREADY_EXISTS,
				"the volume is published there in another way "
				"(%s)",
				there->readonly ? "reading only" : "writable");
	if (state->n_published == 0)
		return 0;
	if (capability_mode(in->volume_capability) == MULTI_WRITER ||
	    capability_is_shared(in->volume_capability))
		return check_beside(c, state, in);
	return csi_fail(c, RPC_FAILED_PRECONDITION,
			"the volume is published at '%s', and its access mode "
			"allows one publication; SINGLE_NODE_MULTI_WRITER "
			"allows more",
			state->published[0]->target_path);
}

/* ---- NodePublishVolume ---- */

static int node_publish(struct csi_call *c, const publish_request *in,
			const struct volume_record *record, node_state *state)
{
	bool fresh;
	int r = publish_check_staged(c, state, in);

	csi_state_prune(c->csi, state);
	if (r == 0)
		r = csi_check_second(c, state, in);
	if (r == 0)
		r = csi_stage_revive(c, record, state);
	if (r == 0 && !in->readonly)
		r = csi_give_group(c, record, in->volume_capability,
				   in->staging_target_path);
	if (r < 0)
		return r;
	fresh = !node_state_find(state, in->target_path);
	r = fresh ? node_state_add(state, in, c->err) : 0;
	if (r < 0)
		return csi_fail_errno(c, r);
	r = csi_state_save(c, state);
	if (r < 0)
		return r;
	r = publish_mount(c->csi, record, in, c->err);
	if (r < 0)
		r = csi_fail_errno(c, r);
	if (r < 0 && fresh) {
		node_state_remove(state, in->target_path);
		/* If it stays, it is pruned: nothing is mounted there. */
		(void)node_state_save(c->csi->state_dir, c->id.name, state,
				      NULL);
	}
	return r;
}

/* Check the request, before anything is looked at. */
static int check_persistent(struct csi_call *c, const publish_request *in)
{
	const char *attribute = inline_attribute(in->volume_context,
						 in->n_volume_context);

	if (!in->staging_target_path[0])
		return csi_fail(c, RPC_FAILED_PRECONDITION,
				"staging_target_path is missing: the volume is "
				"staged first");
	if (attribute)
		return csi_fail(
			c, RPC_INVALID_ARGUMENT,
			"volume_context: '%.64s' is for inline volumes; the "
			"parameters of this volume were set when it was made",
			attribute);
	return 0;
}

int csi_node_publish_volume(struct csi_call *c, const void *in_, void *out)
{
	const publish_request *in = in_;
	struct volume_record *record = NULL;
	node_state *state = NULL;
	int r = inline_is_asked(in, c->err);

	(void)out;
	if (r != 0)
		return r < 0 ? csi_fail_errno(c, r) : csi_inline_publish(c, in);
	r = check_persistent(c, in);
	if (r == 0)
		r = csi_begin(c, in->volume_id);
	if (r == 0)
		r = csi_record(c, &record);
	if (r == 0)
		r = csi_check_use(c, in->volume_capability, record);
	if (r == 0)
		r = csi_state_load(c, &state);
	if (r == 0)
		r = node_publish(c, in, record, state);
	node_state_free(state);
	volume_record_free(record);
	return r;
}

/* ---- NodeUnpublishVolume ---- */

static int publication_hide(struct csi_call *c, const char *target)
{
	int r = publish_unmount(c->csi, c->id.name, target, c->err);

	return r < 0 ? csi_fail_errno(c, r) : 0;
}

/*
 * Unpublish a volume. That needs nothing but this node: neither the record nor
 * any other node has to be there. A publication that the state has forgotten is
 * known by its mount.
 */
int csi_node_unpublish_volume(struct csi_call *c, const void *in_, void *out)
{
	const Csi__V1__NodeUnpublishVolumeRequest *in = in_;
	node_state *state = NULL;
	int r;

	(void)out;
	if (csi_inline_id_parse(in->volume_id, &c->id) == 0)
		return csi_inline_unpublish(c, in);
	/* A volume that cannot be ours is not published. */
	if (csi_id_parse(in->volume_id, &c->id) < 0)
		return 0;
	r = csi_lock(c, c->id.name);
	if (r == 0)
		r = csi_state_load(c, &state);
	if (r == 0)
		r = publication_hide(c, in->target_path);
	if (r == 0 && node_state_find(state, in->target_path)) {
		node_state_remove(state, in->target_path);
		r = csi_state_save(c, state);
	}
	node_state_free(state);
	return r;
}
