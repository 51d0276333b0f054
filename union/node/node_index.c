/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node/node_index.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_BUCKET_BITS 10

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

/* By FNV-1a over the branch and the handle. */
static uint32_t *bucket(const struct node_table *table, unsigned branch,
			const uint8_t *handle, unsigned bytes)
{
	uint64_t mask = (UINT64_C(1) << table->bucket_bits) - 1;
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ branch;
	unsigned i;

	for (i = 0; i < bytes; i++)
		h = (h ^ handle[i]) * UINT64_C(0x100000001b3);
	return &table->buckets[(h ^ h >> 32) & mask];
}

static uint32_t *index_bucket(const struct node_table *table,
			      const struct copy *copy)
{
	return bucket(table, copy->branch, copy->handle, copy->handle_bytes);
}

bool node_index_init(struct node_table *table)
{
	table->bucket_bits = FIRST_BUCKET_BITS;
	table->buckets = calloc(1u << FIRST_BUCKET_BITS,
				sizeof(*table->buckets));
	return table->buckets != NULL;
}

void node_index_expect(struct node_table *table, uint64_t copies)
{
	unsigned bits = table->bucket_bits;
	uint32_t *buckets;

	while (copies >> bits)
		bits++;
	buckets = calloc(UINT64_C(1) << bits, sizeof(*buckets));
	if (!buckets)
		return;
	free(table->buckets);
	table->buckets = buckets;
	table->bucket_bits = bits;
}

static void put_copy(struct node_table *table, struct copy *copy)
{
	uint32_t *into = index_bucket(table, copy);

	copy->hash_next = *into;
	*into = copy_place(table, copy);
}

static void grow_buckets(struct node_table *table)
{
	uint64_t i, n = UINT64_C(1) << table->bucket_bits;
	uint32_t next, *old = table->buckets;
	uint32_t *bigger = calloc(n * 2, sizeof(*bigger));
	struct copy *copy;

	if (!bigger)
		return; /* slower, not wrong */
	table->buckets = bigger;
	table->bucket_bits++;
	for (i = 0; i < n; i++) {
		for (copy = copy_at(table, old[i]); copy;
		     copy = copy_at(table, next)) {
			next = copy->hash_next;
			put_copy(table, copy);
		}
	}
	free(old);
}

static bool is(const struct copy *copy, unsigned branch,
	       const struct handle *handle)
{
	return copy->branch == branch && !copy_is(copy, COPY_GONE) &&
	       copy_has(copy, handle);
}

struct copy *node_index_find(const struct node_table *table, unsigned branch,
			     const struct handle *handle)
{
	struct copy *copy = copy_at(
		table, *bucket(table, branch, handle->data, handle->length));

	while (copy && !is(copy, branch, handle))
		copy = copy_at(table, copy->hash_next);
	return copy;
}

void node_index_add(struct node_table *table, struct copy *copy)
{
	if (table->copies >> table->bucket_bits)
		grow_buckets(table);
	put_copy(table, copy);
	table->copies++;
}

void node_index_remove(struct node_table *table, struct copy *copy)
{
	uint32_t place = copy_place(table, copy),
		 *at = index_bucket(table, copy);

	while (*at != place)
		at = &copy_at(table, *at)->hash_next;
	*at = copy->hash_next;
	table->copies--;
}
