/* SPDX-License-Identifier: Apache-2.0 */
/* What serves who still uses what was removed: struct orphan_fd. */
#ifndef UNION_ORPHAN_INODE_H
#define UNION_ORPHAN_INODE_H

#include "union/node/node.h"

/* @node takes @buried, unless it has one. The table's lock is held. */
void orphan_inode_take(struct node *node, struct orphan_fd *buried);

#endif
