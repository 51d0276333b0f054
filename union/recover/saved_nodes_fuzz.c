/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is taken has all its parts in itself. A node of it that is
 * possible is of a branch of the file and has a handle that fits. The sum is
 * mended first, so that what it covers is reached.
 */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/wire/crc32c.h"
#include "union/branch/branch.h"
#include "union/recover/saved_nodes_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEADER_SIZE 32 /* bytes; the sum is in the last four of it */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct saved_nodes saved;
	uint8_t *copy = malloc(size + 1), *end = copy + size;
	uint64_t i, ok = 0;
	uint32_t sum;

	if (size)
		memcpy(copy, data, size);
	if (size >= HEADER_SIZE) {
		sum = crc32c(0, copy + HEADER_SIZE, size - HEADER_SIZE);
		memcpy(copy + HEADER_SIZE - sizeof(sum), &sum, sizeof(sum));
	}
	if (saved_nodes_decode(copy, size, &saved)) {
		assert(saved.branches <= BRANCH_MAX);
		assert((uint8_t *)(saved.identities + saved.branches) ==
		       (uint8_t *)saved.nodes);
		assert((uint8_t *)(saved.nodes + saved.count) == end);
		for (i = 0; i < saved.count; i++) {
			if (!saved_node_ok(&saved, &saved.nodes[i]))
				continue;
			assert(saved.nodes[i].branch < saved.branches);
			assert(saved.nodes[i].handle_bytes <= HANDLE_MAX);
			ok++;
		}
		saved_nodes_encode(&saved, saved.count, saved.next_generation);
		assert(saved.size == size && ok <= saved.count);
		assert(saved_nodes_decode(copy, size, &saved));
	}
	free(copy);
	return 0;
}
