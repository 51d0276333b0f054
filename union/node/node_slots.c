/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node/node_slots.h"

#include <string.h>

static struct node *next_node(struct node_table *table)
{
	_Atomic uint64_t *used = &table->state->header->nodes_used;
	uint64_t id = atomic_load(used);

	if (id == STATE_NODE_MAX)
		return NULL;
	table->state->nodes[id].id = (uint32_t)id;
	atomic_store(used, id + 1);
	return &table->state->nodes[id];
}

struct node *node_slot_take(struct node_table *table)
{
	struct node *node = &table->state->nodes[table->free_node];
	uint32_t id = table->free_node;

	if (!id)
		return next_node(table);
	table->free_node = atomic_load(&node->copies);
	memset(node, 0, sizeof(*node));
	node->id = id;
	return node;
}

void node_slot_give(struct node_table *table, struct node *node)
{
	atomic_store(&node->copies, table->free_node);
	table->free_node = node->id;
}

static struct copy *next_copy(struct node_table *table)
{
	_Atomic uint64_t *used = &table->state->header->copies_used;
	uint64_t place = atomic_load(used);

	if (place == STATE_COPY_MAX)
		return NULL;
	atomic_store(used, place + 1);
	return &table->state->copies[place];
}

struct copy *copy_slot_take(struct node_table *table)
{
	struct copy *copy = copy_at(table, table->free_copy);

	if (!copy)
		return next_copy(table);
	table->free_copy = copy->hash_next;
	return copy;
}

void copy_slot_give(struct node_table *table, struct copy *copy)
{
	copy->hash_next = table->free_copy;
	table->free_copy = copy_place(table, copy);
}
