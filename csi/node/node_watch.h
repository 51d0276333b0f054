/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notices when a staged volume dies and puts it right (node_ensure_staged.h),
 * without being asked: a thread that sleeps until the kernel says that a
 * union has ended (pidfd) or that the mount table has changed (proc(5),
 * mountinfo). A repair that fails is tried again after a while, a few times;
 * after that the next NodeStageVolume or NodePublishVolume does it.
 *
 * It touches only what the volume's record has attached here, and no union
 * that still runs.
 */
#ifndef CSI_NODE_WATCH_H
#define CSI_NODE_WATCH_H

#include "base/error.h"

struct csi;
struct node_watch;

int node_watch_start(struct csi *csi, struct node_watch **ret,
		     struct error *err);
/* What is staged may have changed. NULL is fine. */
void node_watch_look(struct node_watch *watch);
/* NULL is fine. */
void node_watch_stop(struct node_watch *watch);

#endif
