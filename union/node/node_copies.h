/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copies of a node: see node_first() and the next functions of node.h.
 * Walking them takes no lock, and asks a branch nothing.
 */
#ifndef UNION_NODE_COPIES_H
#define UNION_NODE_COPIES_H

#include "union/node/node.h"

/*
 * Get the first copy from @copy (may be NULL) on that is not gone, on any
 * branch, failed or not; or NULL.
 */
static inline struct copy *copy_there(struct copy *copy)
{
	while (copy && copy_is(copy, COPY_GONE | COPY_MAKING))
		copy = copy_after(copy);
	return copy;
}

/* Get the distance of @copy from @node, as copy->node_back has it. */
static inline uint32_t copy_how_far(const struct copy *copy,
				    const struct node *node)
{
	return (uint32_t)(((uintptr_t)copy - (uintptr_t)node) / RECORD_UNIT);
}

/* Make @copy, which is not linked yet, one of @node. */
static inline void copy_belong(struct copy *copy, const struct node *node)
{
	copy->node_back = copy_how_far(copy, node);
}

/* Link @copy among the copies of its node; the table's lock is held. */
void copy_link(struct copy *copy);

/* Mark @copy as gone; the table's lock is held. */
void copy_lose(struct copy *copy);

#endif
