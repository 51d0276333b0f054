/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Staged and published volumes of this node, kept across restarts of the plugin
 * in "STATE_DIR/NAME.volume": a packed NodeVolume of proto/csi_state.proto,
 * mode 0600. Written before the mount is made and after it is gone. The kernel
 * knows the real mounts.
 */
#ifndef CSI_NODE_STATE_H
#define CSI_NODE_STATE_H

#include <stdbool.h>

#include "base/error.h"
#include "proto/csi_state.pb-c.h"

#define NODE_STATE_MAX     (1u << 20) /* bytes of a file */
#define NODE_PUBLISHED_MAX 256        /* publications of a volume here */

typedef Csi__V1__NodeStageVolumeRequest stage_request;
typedef Csi__V1__NodePublishVolumeRequest publish_request;
typedef Tributary__Csi__V1__NodeVolume node_state;

/* Nothing known of it: empty. node_state_free(). */
int node_state_load(const char *dir, const char *volume, node_state **ret,
		    struct error *err);
/* An empty one is removed. */
int node_state_save(const char *dir, const char *volume,
		    const node_state *state, struct error *err);
void node_state_free(node_state *state); /* NULL is fine */

/* Remember the request, without secrets. -ENOMEM. */
int node_state_set_stage(node_state *state, const stage_request *request,
			 struct error *err);
void node_state_clear_stage(node_state *state);
/* Replaces one of the same target path. -ENOMEM, -E2BIG. */
int node_state_add(node_state *state, const publish_request *request,
		   struct error *err);
void node_state_remove(node_state *state, const char *target_path);

/* By its target path, or NULL. Borrowed. */
const publish_request *node_state_find(const node_state *state,
				       const char *target_path);

/* The same call but for the secrets. */
bool stage_request_equal(const stage_request *a, const stage_request *b);
/* The same call but for the secrets and the target path. */
bool publish_request_equal(const publish_request *a, const publish_request *b);

#endif
