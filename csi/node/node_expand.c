/* SPDX-License-Identifier: Apache-2.0 */
/* The Node service: a volume that has grown is as large here, too. */
#include <errno.h>
#include <inttypes.h>

#include "csi/call/capability.h"
#include "csi/call/request.h"
#include "csi/kata/kata_record.h"
#include "csi/kata/kata_shim.h"
#include "csi/node/node_ensure_staged.h"
#include "csi/node/node_service.h"

typedef Csi__V1__NodeExpandVolumeRequest expand_request;

static int node_expand_check(struct csi_call *c, const expand_request *in,
			     const struct volume_record *record,
			     const node_state *state)
{
	int r = 0;

	if (!csi_state_is_at(state, in->volume_id, in->volume_path))
		return csi_fail(c, RPC_NOT_FOUND,
				"the volume is neither staged nor published at "
				"'%s'",
				in->volume_path);
	if (in->volume_capability)
		r = capability_check(in->volume_capability, &record->spec,
				     c->err);
	return r < 0 ? csi_fail_errno(c, r) : 0;
}

/* Make the volume's devices and file systems follow its extents. */
static int node_expand_follow(struct csi_call *c, const char *id,
			      node_state *state, struct volume_record **record)
{
	struct volume_record *grown = NULL;
	int r = csi_stage_revive(c, *record, state);

	if (r < 0)
		return r;
	r = volume_resize(c->csi->volumes, id, 0, &grown, c->err);
	/* A part of it is broken: what repairs it grows it. */
	if (r == -EIO)
		r = node_ensure_staged(c->csi, *record, state, true, c->err);
	/*
	 * A union that takes no branches: all that can be done here is done,
	 * and asking again would change nothing. The volume's condition says
	 * what is missing until it is staged anew.
	 */
	if (r == -EOPNOTSUPP)
		r = 0;
	if (r == 0 && !grown)
		r = volume_get(c->csi->volumes, c->id.name, &grown, c->err);
	if (r < 0)
		return csi_fail_errno(c, r);
	volume_record_free(*record);
	*record = grown;
	return 0;
}

static int node_expand_tell(struct csi_call *c, const expand_request *in,
			    const struct volume_record *record,
			    Csi__V1__NodeExpandVolumeResponse *out)
{
	if (!request_allows(in->capacity_range, record->spec.capacity))
		return csi_fail(c, RPC_OUT_OF_RANGE,
				"the volume has %" PRIu64 " bytes, which is "
				"not in the range asked for; "
				"ControllerExpandVolume makes it larger",
				record->spec.capacity);
	if (volume_record_fs_behind(record))
		return csi_fail(c, RPC_FAILED_PRECONDITION,
				"the volume is staged here for reading only, "
				"or its device takes no further extent: it "
				"grows when it is staged anew for writing");
	out->capacity_bytes = (int64_t)record->spec.capacity;
	return 0;
}

/* Let a file system that a guest has mounted grow in the guest. */
static int follow_guest(struct csi_call *c, const node_state *state,
			const struct volume_record *record)
{
	const char *run_dir = c->csi->kata_run_dir, *path;
	char sandbox[KATA_SANDBOX_SIZE];
	int r;

	if (!volume_spec_direct(&record->spec) || state->n_published == 0)
		return 0;
	path = state->published[0]->target_path;
	/* Without a guest there is nobody to be told. */
	if (kata_record_sandbox(run_dir, path, sandbox, NULL) < 0)
		return 0;
	r = kata_shim_resize(run_dir, sandbox, path, record->spec.capacity,
			     c->err);
	return r < 0 ? csi_fail_errno(c, r) : 0;
}

int csi_node_expand_volume(struct csi_call *c, const void *in_, void *out)
{
	const expand_request *in = in_;
	struct volume_record *record = NULL;
	node_state *state = NULL;
	int r = csi_begin(c, in->volume_id);

	if (r == 0)
		r = csi_record(c, &record);
	if (r == 0)
		r = csi_state_load(c, &state);
	if (r == 0)
		r = node_expand_check(c, in, record, state);
	if (r == 0)
		r = node_expand_follow(c, in->volume_id, state, &record);
	if (r == 0)
		r = follow_guest(c, state, record);
	if (r == 0)
		r = node_expand_tell(c, in, record, out);
	node_state_free(state);
	volume_record_free(record);
	return r;
}
