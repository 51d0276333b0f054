/* SPDX-License-Identifier: Apache-2.0 */
/* The handlers of the Node service, and their shared functions. */
#ifndef CSI_NODE_SERVICE_H
#define CSI_NODE_SERVICE_H

#include "csi/call/call.h"
#include "csi/node/node_state.h"

/* node_stage.c */
int csi_node_stage_volume(struct csi_call *c, const void *in, void *out);
int csi_node_unstage_volume(struct csi_call *c, const void *in, void *out);
/* node_publish.c */
int csi_node_publish_volume(struct csi_call *c, const void *in, void *out);
int csi_node_unpublish_volume(struct csi_call *c, const void *in, void *out);
/* node_inline.c: the same for the inline volume of a pod. */
int csi_inline_publish(struct csi_call *c, const publish_request *in);
/* @in->volume_id: as csi_inline_id_parse() left it in c->id. */
int csi_inline_unpublish(struct csi_call *c,
			 const Csi__V1__NodeUnpublishVolumeRequest *in);
/* node_expand.c */
int csi_node_expand_volume(struct csi_call *c, const void *in, void *out);
/* node_info.c */
int csi_node_get_volume_stats(struct csi_call *c, const void *in, void *out);
int csi_node_get_capabilities(struct csi_call *c, const void *in, void *out);
int csi_node_get_info(struct csi_call *c, const void *in, void *out);

/* Load the node's state of c->id. node_state_free(). */
int csi_state_load(struct csi_call *c, node_state **ret);
int csi_state_save(struct csi_call *c, const node_state *state);

/* Check that a node can use the volume so. FAILED_PRECONDITION. */
int csi_check_use(struct csi_call *c, const Csi__V1__VolumeCapability *cap,
		  const struct volume_record *record);

/*
 * Check that the volume may be published so, beside the publications there are:
 * the matrix.
 */
int csi_check_second(struct csi_call *c, const node_state *state,
		     const publish_request *in);

/*
 * Repair a staged volume that does not answer (node_ensure_staged.h). Returns 0
 * or the result of a failure.
 */
int csi_stage_revive(struct csi_call *c, const struct volume_record *record,
		     node_state *state);

/*
 * Give the files of the volume staged at @staged to the group that @cap names.
 * Does nothing if @cap names none, or the volume is not here for writing. 0 or
 * the value that a csi_fail function returned.
 */
int csi_give_group(struct csi_call *c, const struct volume_record *record,
		   const Csi__V1__VolumeCapability *cap, const char *staged);

/* Tell whether the volume is staged or published at @path. */
bool csi_state_is_at(const node_state *state, const char *volume_id,
		     const char *path);

/* Forget publications of which nothing is there any more. */
void csi_state_prune(const struct csi *csi, node_state *state);

#endif
