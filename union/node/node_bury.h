/* SPDX-License-Identifier: Apache-2.0 */
/* What serves who still uses what was removed: struct buried. */
#ifndef UNION_NODE_BURY_H
#define UNION_NODE_BURY_H

#include "union/node/node.h"

/* @node takes @buried, unless it has one. The table's lock is held. */
void node_take_buried(struct node *node, struct buried *buried);

#endif
