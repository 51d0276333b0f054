/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools whose medium goes and comes back while blockd runs. A pool that is gone
 * is taken offline: its extents and their connections go, its state is
 * "missing". When its medium is back the pool is opened as at a start, and its
 * exports are served again. Another pool in its place is "foreign".
 *
 * A pool whose medium fails (node_health.h) is served as it is, so that
 * readable data is read. A raw pool whose metadata could not be written has to
 * be opened anew when it is well. Such a pool is taken offline and back in the
 * same way. Writes that were not acknowledged as durable may be lost, and their
 * clients have to be told.
 *
 * Pools are looked at when an operation on a medium has failed, and whenever a
 * request asks for them. The kernel is listened to as well: for a block device
 * that came, went or changed, and for mounts. A pool that is not well is tried
 * after 1 s, 2 s, 4 s, and so on, up to one minute. While all are well nothing
 * happens between these.
 */
#ifndef BLOCKD_NODE_WATCH_H
#define BLOCKD_NODE_WATCH_H

#include "blockd/node/node.h"

/*
 * Start to watch, in a thread of its own. Without the kernel's messages (in a
 * container, say) only failures and requests make it look.
 */
int node_watch_start(struct node *node, struct error *err);
/*
 * Stop it, before anything that node->users need is freed. Not started is fine.
 */
void node_watch_stop(struct node *node);

/* Free a watch that is stopped. NULL is fine. */
void node_watch_free(struct node_watch *watch);

/* Look now, but not while pools are made, deleted or checked. */
void node_look_again(struct node *node);

#endif
