/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node_slots.h"

#include <stdlib.h>

struct node **node_slot(struct node_table *table, uint64_t id)
{
	struct node **chunk;

	if (id / NODE_CHUNK >= NODE_CHUNK_MAX)
		return NULL;
	chunk = atomic_load(&table->chunks[id / NODE_CHUNK]);
	return chunk ? &chunk[id % NODE_CHUNK] : NULL;
}

uint64_t node_slot_take(struct node_table *table)
{
	uint64_t id;
	struct node **chunk;

	if (table->free_count)
		return table->free_slots[--table->free_count];
	id = table->slots_used;
	if (id / NODE_CHUNK >= NODE_CHUNK_MAX)
		return 0;
	if (!node_slot(table, id)) {
		chunk = calloc(NODE_CHUNK, sizeof(*chunk));
		if (!chunk)
			return 0;
		atomic_store(&table->chunks[id / NODE_CHUNK], chunk);
	}
	table->slots_used++;
	return id;
}

void node_slot_give(struct node_table *table, uint64_t id)
{
	uint64_t size = table->free_size ? table->free_size * 2 : 256;
	uint64_t *bigger;

	*node_slot(table, id) = NULL;
	if (table->free_count == table->free_size) {
		bigger = reallocarray(table->free_slots, size, sizeof(*bigger));
		if (!bigger)
			return; /* the slot is lost, nothing else */
		table->free_slots = bigger;
		table->free_size = size;
	}
	table->free_slots[table->free_count++] = id;
}
