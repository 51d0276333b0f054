/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes that the kernel has forgotten and may be asked for once more. The
 * holder of a file handle (name_to_handle_at(2), NFS) names a node by its id
 * and generation. The last of them are kept, the oldest go first.
 *
 * They are a ring of ids. A node that is in it, is used and forgotten again
 * keeps its place.
 */
#ifndef UNION_NODE_SLEEP_H
#define UNION_NODE_SLEEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* About 150 bytes each, and 16 in the ring. */
#define NODE_SLEEP_DEFAULT 65536

/* No limit. */
#define NODE_SLEEP_ALL SIZE_MAX

struct node_sleeper {
	uint64_t id, generation; /* 0: none */
};

struct node_sleepers {
	size_t max;                /* 0: nothing is kept; NODE_SLEEP_ALL */
	struct node_sleeper *ring; /* @max of them; NULL: none came yet */
	size_t at;                 /* the oldest */
};

/*
 * Put @one in. False: it is not kept.
 *
 * @ret  the node that fell out; id 0: none
 */
bool node_sleepers_add(struct node_sleepers *sleepers,
		       const struct node_sleeper *one,
		       struct node_sleeper *ret);

void node_sleepers_done(struct node_sleepers *sleepers);

#endif
