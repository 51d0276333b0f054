/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copies of a node: what node.h says of node_first() and those after it.
 * Walking them takes no lock, and asks a branch nothing.
 */
#ifndef UNION_NODE_COPIES_H
#define UNION_NODE_COPIES_H

#include "union/node/node.h"

/*
 * The first from @copy (may be NULL) on that is not gone, of whatever branch,
 * failed or not; or NULL.
 */
struct copy *copy_there(struct copy *copy);

/* @copy, which is not linked yet, is one of @node. */
void copy_belong(struct copy *copy, const struct node *node);

/* Among the copies of its node; the table's lock is held. */
void copy_link(struct copy *copy);

/* It is gone; the table's lock is held. */
void copy_lose(struct copy *copy);

#endif
