/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node_index.h"

#include <stdlib.h>

#include "union/node_build.h"

#define FIRST_BUCKET_BITS 10

/* FNV-1a over the branch and the handle. */
static uint64_t hash(unsigned branch, const struct handle *handle)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325) ^ branch;
	unsigned i;

	for (i = 0; i < handle->length; i++)
		h = (h ^ handle->data[i]) * UINT64_C(0x100000001b3);
	return h ^ h >> 32;
}

static struct copy **bucket(const struct node_table *table, unsigned branch,
			    const struct handle *handle)
{
	uint64_t mask = (UINT64_C(1) << table->bucket_bits) - 1;

	return &table->buckets[hash(branch, handle) & mask];
}

bool node_index_init(struct node_table *table)
{
	table->bucket_bits = FIRST_BUCKET_BITS;
	table->buckets = calloc(1u << FIRST_BUCKET_BITS, sizeof(struct copy *));
	return table->buckets != NULL;
}

void node_build_expect(struct node_table *table, uint64_t copies)
{
	unsigned bits = table->bucket_bits;
	struct copy **buckets;

	while (copies >> bits)
		bits++;
	buckets = calloc(UINT64_C(1) << bits, sizeof(struct copy *));
	if (!buckets)
		return;
	free(table->buckets);
	table->buckets = buckets;
	table->bucket_bits = bits;
}

static void grow_buckets(struct node_table *table)
{
	unsigned bits = table->bucket_bits + 1;
	struct copy **old = table->buckets, **into, *copy, *next;
	uint64_t i, n = UINT64_C(1) << table->bucket_bits;
	struct copy **bigger = calloc(n * 2, sizeof(*bigger));

	if (!bigger)
		return; /* slower, not wrong */
	table->buckets = bigger;
	table->bucket_bits = bits;
	for (i = 0; i < n; i++) {
		for (copy = old[i]; copy; copy = next) {
			next = copy->hash_next;
			into = bucket(table, copy->branch, &copy->handle);
			copy->hash_next = *into;
			*into = copy;
		}
	}
	free(old);
}

struct copy *node_index_find(const struct node_table *table, unsigned branch,
			     const struct handle *handle)
{
	struct copy *copy = *bucket(table, branch, handle);

	while (copy && !(copy->branch == branch && !atomic_load(&copy->gone) &&
			 handle_equal(&copy->handle, handle)))
		copy = copy->hash_next;
	return copy;
}

void node_index_add(struct node_table *table, struct copy *copy)
{
	struct copy **into;

	if (table->copies >> table->bucket_bits)
		grow_buckets(table);
	into = bucket(table, copy->branch, &copy->handle);
	copy->hash_next = *into;
	*into = copy;
	table->copies++;
}

void node_index_remove(struct node_table *table, struct copy *copy)
{
	struct copy **at = bucket(table, copy->branch, &copy->handle);

	while (*at != copy)
		at = &(*at)->hash_next;
	*at = copy->hash_next;
	table->copies--;
}
