/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes that the kernel has forgotten and may be asked for once more. The
 * holder of a file handle (name_to_handle_at(2), NFS) names a node by its id
 * and generation. The last of them are kept, the oldest go first.
 *
 * They are a ring of ids. A node that is in it, is used and forgotten again
 * keeps its place.
 */
#ifndef UNION_FORGOTTEN_H
#define UNION_FORGOTTEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* About 150 bytes each, and 16 in the ring. */
#define FORGOTTEN_DEFAULT 65536

/* No limit. */
#define FORGOTTEN_ALL SIZE_MAX

struct forgotten_node {
	uint64_t id, generation; /* 0: none */
};

struct forgotten_ring {
	size_t max;                  /* 0: nothing is kept; FORGOTTEN_ALL */
	struct forgotten_node *ring; /* @max of them; NULL: none came yet */
	size_t at;                   /* the oldest */
};

/*
 * Put @one in. False: it is not kept.
 *
 * @ret  the node that fell out; id 0: none
 */
bool forgotten_ring_add(struct forgotten_ring *forgotten,
			const struct forgotten_node *one,
			struct forgotten_node *ret);

void forgotten_ring_done(struct forgotten_ring *forgotten);

#endif
