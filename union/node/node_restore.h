/* SPDX-License-Identifier: Apache-2.0 */
/* Going on with the nodes of an earlier server. */
#ifndef UNION_NODE_RESTORE_H
#define UNION_NODE_RESTORE_H

#include "union/node/node.h"

/*
 * Fill the new @table with the nodes that an earlier server left in its state
 * memory. Nodes that the kernel does not know are forgotten or freed. Ids and
 * generations are not used again. Descriptors of orphan nodes are those kept
 * (fd_store.h). 0; -EPROTO: the nodes make no sense.
 */
int node_restore(struct node_table *table);

#endif
