/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of saved nodes: a header, the identity of each branch, the nodes.
 * The file is read on the machine that wrote it, or one of its kind. Its
 * content is believed only as far as it makes sense.
 */
#ifndef UNION_SAVED_NODES_FILE_H
#define UNION_SAVED_NODES_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "union/state/branch_identity.h"
#include "union/sys/handle.h"

#define SAVED_NODES_SIZE_MAX (UINT64_C(1) << 34) /* bytes of a file; ours */

struct saved_node {
	uint64_t generation, ino;
	uint32_t id;
	uint16_t type;
	uint8_t branch;
	uint8_t handle_type, handle_bytes;
	uint8_t handle[HANDLE_MAX];
};

/* All parts of a file; they point into @data. */
struct saved_nodes {
	void *data; /* owned */
	size_t size;
	uint64_t count, next_generation;
	unsigned branches;
	struct branch_identity *identities;
	struct saved_node *nodes;
};

/* Make room for @count nodes, all zero. -ENOMEM. free() the data. */
int saved_nodes_new(unsigned branches, uint64_t count, struct saved_nodes *ret);

/* Make it a file, when the first @count nodes are filled in. */
void saved_nodes_encode(struct saved_nodes *saved, uint64_t count,
			uint64_t next_generation);

/*
 * Find the parts of the file @data, which is aligned as malloc(3) does. False:
 * it is damaged, or no file of saved nodes.
 */
bool saved_nodes_decode(void *data, size_t size, struct saved_nodes *ret);

/* Is @node possible, on one of the branches that the file knows? */
bool saved_node_ok(const struct saved_nodes *saved,
		   const struct saved_node *node);

#endif
