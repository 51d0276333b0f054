/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repair staged volumes that die (node_ensure_staged.h), without a call. A
 * thread sleeps until a union has ended (pidfd) or the mount table has changed
 * (proc(5), mountinfo). A failed repair is tried again a few times, with
 * pauses. After that the next NodeStageVolume or NodePublishVolume does it.
 *
 * Only attachments in the volume's record are repaired, and no running union.
 */
#ifndef CSI_NODE_WATCH_H
#define CSI_NODE_WATCH_H

#include "base/error.h"

struct csi;
struct node_watch;

int node_watch_start(struct csi *csi, struct node_watch **ret,
		     struct error *err);
/* Look at the staged volumes again. NULL is fine. */
void node_watch_look(struct node_watch *watch);
/* NULL is fine. */
void node_watch_stop(struct node_watch *watch);

#endif
