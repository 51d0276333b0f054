/* SPDX-License-Identifier: Apache-2.0 */
#include "union/recover/saved_nodes_file.h"

#include <errno.h>
#include <stdlib.h>

#include "base/wire/crc32c.h"
#include "union/branch/branch.h"
#include "union/node/node.h"
#include "union/state/state.h"

#define MAGIC UINT64_C(0x31736e6f69627274)

struct saved_header {
	uint64_t magic;
	uint64_t count;
	uint64_t next_generation;
	uint32_t branches;
	uint32_t crc; /* of all that follows */
};

static size_t saved_size(uint64_t branches, uint64_t count)
{
	return sizeof(struct saved_header) +
	       branches * sizeof(struct branch_identity) +
	       count * sizeof(struct saved_node);
}

static uint32_t sum_of(const struct saved_header *header, size_t size)
{
	return crc32c(0, header + 1, size - sizeof(*header));
}

static void find_parts(struct saved_nodes *saved, void *data, unsigned branches)
{
	struct saved_header *header = data;

	saved->data = data;
	saved->branches = branches;
	saved->identities = (void *)(header + 1);
	saved->nodes = (void *)(saved->identities + branches);
}

int saved_nodes_new(unsigned branches, uint64_t count, struct saved_nodes *ret)
{
	void *data = calloc(1, saved_size(branches, count));

	if (!data)
		return -ENOMEM;
	*ret = (struct saved_nodes){0};
	find_parts(ret, data, branches);
	return 0;
}

void saved_nodes_encode(struct saved_nodes *saved, uint64_t count,
			uint64_t next_generation)
{
	struct saved_header *header = saved->data;

	saved->count = count;
	saved->next_generation = next_generation;
	saved->size = saved_size(saved->branches, count);
	*header = (struct saved_header){
		.magic = MAGIC,
		.count = count,
		.next_generation = next_generation,
		.branches = saved->branches,
		.crc = sum_of(header, saved->size),
	};
}

bool saved_nodes_decode(void *data, size_t size, struct saved_nodes *ret)
{
	const struct saved_header *header = data;

	if (size < sizeof(*header) || header->magic != MAGIC ||
	    header->branches > BRANCH_MAX || header->count > STATE_NODE_MAX ||
	    size != saved_size(header->branches, header->count) ||
	    header->crc != sum_of(header, size))
		return false;
	*ret = (struct saved_nodes){
		.size = size,
		.count = header->count,
		.next_generation = header->next_generation,
	};
	find_parts(ret, data, header->branches);
	return true;
}

bool saved_node_ok(const struct saved_nodes *saved,
		   const struct saved_node *node)
{
	return node->generation && node->id >= NODE_ROOT_ID &&
	       node->id < STATE_NODE_MAX && node->handle_bytes &&
	       node->handle_bytes <= HANDLE_MAX &&
	       node->branch < saved->branches;
}
