/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pools whose medium goes and comes back while blockd runs. One that is gone
 * is taken offline: its extents and their connections go, its state is
 * "missing". When its medium is back it is opened as at a start, and its
 * exports are served again; another pool in its place is "foreign".
 *
 * It is looked at when an operation on a medium has failed, when the kernel
 * says that a block device came, went or changed, and whenever somebody asks
 * for the pools; between these nothing happens.
 */
#ifndef BLOCKD_NODE_WATCH_H
#define BLOCKD_NODE_WATCH_H

#include "blockd/node.h"

/*
 * From here on, in a thread of its own. Without the kernel's messages (in a
 * container, say) only what fails and who asks are reasons.
 */
int node_watch_start(struct node *node, struct error *err);
/* Before what node->users need is freed. Not started is fine. */
void node_watch_stop(struct node *node);

/* It is stopped. NULL is fine. */
void node_watch_free(struct node_watch *watch);

/* Look now, but not while pools are made, deleted or checked. */
void node_look_again(struct node *node);

#endif
