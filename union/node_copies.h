/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walking the copies of a node: what node.h says of node_first() and those
 * after it. It takes no lock, and asks a branch nothing.
 */
#ifndef UNION_NODE_COPIES_H
#define UNION_NODE_COPIES_H

#include "union/node.h"

/*
 * The first from @copy (may be NULL) on that is not gone, of whatever branch,
 * failed or not; or NULL.
 */
struct copy *copy_there(struct copy *copy);

#endif
