/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that serve users of removed files and directories: struct
 * orphan_fd.
 */
#ifndef UNION_ORPHAN_INODE_H
#define UNION_ORPHAN_INODE_H

#include "union/node/node.h"

/* Give @orphan to @node, unless it has one. The table's lock is held. */
void orphan_inode_take(struct node *node, struct orphan_fd *orphan);

#endif
