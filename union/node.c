/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "union/dir_fd.h"

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

int node_table_init(struct node_table *table, uint64_t generation)
{
	unsigned i;

	memset(table, 0, sizeof(*table));
	table->bucket_bits = FIRST_BUCKET_BITS;
	table->buckets = calloc(1u << FIRST_BUCKET_BITS, sizeof(struct copy *));
	if (!table->buckets)
		return -ENOMEM;
	table->next_generation = generation;
	table->slots_used = NODE_ROOT_ID;
	pthread_mutex_init(&table->lock, NULL);
	for (i = 0; i < NODE_LOCKS; i++)
		pthread_mutex_init(&table->locks[i], NULL);
	return 0;
}

static struct node **slot(struct node_table *table, uint64_t id)
{
	struct node **chunk;

	if (id / NODE_CHUNK >= NODE_CHUNK_MAX)
		return NULL;
	chunk = atomic_load(&table->chunks[id / NODE_CHUNK]);
	return chunk ? &chunk[id % NODE_CHUNK] : NULL;
}

/* An id with a slot for it; 0 when there is no memory. */
static uint64_t take_slot(struct node_table *table)
{
	uint64_t id;
	struct node **chunk;

	if (table->free_count)
		return table->free_slots[--table->free_count];
	id = table->slots_used;
	if (id / NODE_CHUNK >= NODE_CHUNK_MAX)
		return 0;
	if (!slot(table, id)) {
		chunk = calloc(NODE_CHUNK, sizeof(*chunk));
		if (!chunk)
			return 0;
		atomic_store(&table->chunks[id / NODE_CHUNK], chunk);
	}
	table->slots_used++;
	return id;
}

static void give_slot(struct node_table *table, uint64_t id)
{
	uint64_t size = table->free_size ? table->free_size * 2 : 256;
	uint64_t *bigger;

	*slot(table, id) = NULL;
	if (table->free_count == table->free_size) {
		bigger = reallocarray(table->free_slots, size, sizeof(*bigger));
		if (!bigger)
			return; /* the slot is lost, nothing else */
		table->free_slots = bigger;
		table->free_size = size;
	}
	table->free_slots[table->free_count++] = id;
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

static struct copy *find_copy(const struct node_table *table, unsigned branch,
			      const struct handle *handle)
{
	struct copy *copy = *bucket(table, branch, handle);

	while (copy && !(copy->branch == branch && !atomic_load(&copy->gone) &&
			 handle_equal(&copy->handle, handle)))
		copy = copy->hash_next;
	return copy;
}

static int add_copy(struct node_table *table, struct node *node,
		    unsigned branch, const struct handle *handle)
{
	struct copy *_Atomic *at = &node->copies;
	struct copy *copy, **into;

	copy = calloc(1, offsetof(struct copy, handle.data) + handle->length);
	if (!copy)
		return -ENOMEM;
	copy->node = node;
	copy->branch = branch;
	copy->handle.length = handle->length;
	copy->handle.type = handle->type;
	memcpy(copy->handle.data, handle->data, handle->length);
	while (atomic_load(at) && atomic_load(at)->branch <= branch)
		at = &atomic_load(at)->next;
	atomic_store(&copy->next, atomic_load(at));
	atomic_store(at, copy);
	if (table->copies >> table->bucket_bits)
		grow_buckets(table);
	into = bucket(table, branch, handle);
	copy->hash_next = *into;
	*into = copy;
	table->copies++;
	return 0;
}

static void free_node(struct node_table *table, struct node *node)
{
	struct copy *copy = atomic_load(&node->copies), *next, **at;

	for (; copy; copy = next) {
		next = atomic_load(&copy->next);
		at = bucket(table, copy->branch, &copy->handle);
		while (*at != copy)
			at = &(*at)->hash_next;
		*at = copy->hash_next;
		table->copies--;
		dir_fd_drop(copy);
		free(copy->quiet);
		free(copy);
	}
	give_slot(table, node->id);
	fd_close(atomic_load(&node->buried_fd));
	table->nodes--;
	free(node);
}

static struct node *new_node(struct node_table *table, mode_t type,
			     uint64_t ino)
{
	struct node *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	node->id = take_slot(table);
	if (!node->id) {
		free(node);
		return NULL;
	}
	node->generation = table->next_generation++;
	node->type = type;
	node->ino = ino;
	node->subdirs = -1;
	atomic_init(&node->buried_fd, -1);
	*slot(table, node->id) = node;
	table->nodes++;
	return node;
}

static int add_found(struct node_table *table, struct node *node,
		     const struct node_found *found, unsigned count)
{
	unsigned i;
	int r;

	for (i = 0; i < count; i++) {
		if (find_copy(table, found[i].branch, &found[i].handle))
			continue;
		r = add_copy(table, node, found[i].branch, &found[i].handle);
		if (r < 0)
			return r;
	}
	return 0;
}

int node_intern(struct node_table *table, mode_t type, uint64_t ino,
		const struct node_found *found, unsigned count,
		struct node **ret)
{
	struct copy *copy = NULL;
	struct node *node;
	unsigned i;
	int r;

	pthread_mutex_lock(&table->lock);
	for (i = 0; i < count && !copy; i++)
		copy = find_copy(table, found[i].branch, &found[i].handle);
	node = copy ? copy->node : new_node(table, type, ino);
	r = node ? 0 : -ENOMEM;
	if (node && (!copy || S_ISDIR(type)))
		r = add_found(table, node, found, count);
	if (r < 0 && node && !copy)
		free_node(table, node);
	if (r == 0) {
		node->lookups++;
		*ret = node;
	}
	pthread_mutex_unlock(&table->lock);
	return r;
}

struct node *node_get(struct node_table *table, uint64_t id)
{
	struct node **at = slot(table, id);

	return at ? *at : NULL;
}

int node_add_copy(struct node_table *table, unsigned known_branch,
		  const struct handle *known, unsigned branch,
		  const struct handle *handle)
{
	struct copy *copy;
	int r = 0;

	pthread_mutex_lock(&table->lock);
	copy = find_copy(table, known_branch, known);
	if (copy && !find_copy(table, branch, handle))
		r = add_copy(table, copy->node, branch, handle);
	pthread_mutex_unlock(&table->lock);
	return r;
}

struct node *node_hold(struct node_table *table, unsigned branch,
		       const struct handle *handle)
{
	struct copy *copy;

	pthread_mutex_lock(&table->lock);
	copy = find_copy(table, branch, handle);
	if (copy)
		copy->node->lookups++;
	pthread_mutex_unlock(&table->lock);
	return copy ? copy->node : NULL;
}

void node_copy_gone(struct node_table *table, unsigned branch,
		    const struct handle *handle, int fd)
{
	struct copy *copy;

	pthread_mutex_lock(&table->lock);
	copy = find_copy(table, branch, handle);
	if (copy) {
		/* First, so that a node has a copy or this. */
		if (atomic_load(&copy->node->buried_fd) < 0 &&
		    node_first(copy->node) == copy && !copy_next(copy))
			atomic_store(&copy->node->buried_fd, take_fd(&fd));
		atomic_store(&copy->gone, true);
		dir_fd_drop(copy);
	}
	pthread_mutex_unlock(&table->lock);
	fd_close(fd);
}

void node_bury(struct node_table *table, unsigned branch,
	       const struct handle *handle, int fd)
{
	struct copy *copy;

	pthread_mutex_lock(&table->lock);
	copy = find_copy(table, branch, handle);
	if (copy && atomic_load(&copy->node->buried_fd) < 0)
		atomic_store(&copy->node->buried_fd, take_fd(&fd));
	pthread_mutex_unlock(&table->lock);
	fd_close(fd);
}

void node_change_quietly(struct node_table *table, unsigned branch,
			 const struct handle *handle,
			 const struct quiet_change *change)
{
	struct node *node = node_hold(table, branch, handle);
	struct copy *copy = node ? node_copy_on(node, branch) : NULL;

	if (copy) {
		node_lock(table, node);
		if (!copy->quiet)
			copy->quiet = malloc(sizeof(*copy->quiet));
		if (copy->quiet)
			*copy->quiet = *change;
		node_unlock(table, node);
	}
	if (node)
		node_forget(table, node->id, 1);
}

struct timespec node_shown_ctime(struct node_table *table,
				 const struct copy *copy,
				 const struct timespec *ctime)
{
	struct timespec shown = *ctime;
	const struct quiet_change *quiet;

	node_lock(table, copy->node);
	quiet = copy->quiet;
	if (quiet && quiet->after.tv_sec == ctime->tv_sec &&
	    quiet->after.tv_nsec == ctime->tv_nsec)
		shown = quiet->shown;
	node_unlock(table, copy->node);
	return shown;
}

void node_forget(struct node_table *table, uint64_t id, uint64_t count)
{
	struct node *node;

	if (id == NODE_ROOT_ID)
		return; /* is never forgotten */
	pthread_mutex_lock(&table->lock);
	node = node_get(table, id);
	if (node) {
		node->lookups -= count < node->lookups ? count : node->lookups;
		if (!node->lookups)
			free_node(table, node);
	}
	pthread_mutex_unlock(&table->lock);
}

uint64_t node_count(struct node_table *table)
{
	uint64_t n;

	pthread_mutex_lock(&table->lock);
	n = table->nodes;
	pthread_mutex_unlock(&table->lock);
	return n;
}

static struct copy *live(struct copy *copy)
{
	while (copy && atomic_load(&copy->gone))
		copy = atomic_load(&copy->next);
	return copy;
}

struct copy *node_first(const struct node *node)
{
	return live(atomic_load(&node->copies));
}

struct copy *copy_next(const struct copy *copy)
{
	return live(atomic_load(&copy->next));
}

struct copy *node_copy_on(const struct node *node, unsigned branch)
{
	struct copy *copy = node_first(node);

	while (copy && copy->branch != branch)
		copy = copy_next(copy);
	return copy;
}

void node_lock(struct node_table *table, const struct node *node)
{
	pthread_mutex_lock(&table->locks[node->id % NODE_LOCKS]);
}

void node_unlock(struct node_table *table, const struct node *node)
{
	pthread_mutex_unlock(&table->locks[node->id % NODE_LOCKS]);
}

void node_table_done(struct node_table *table)
{
	uint64_t id;
	unsigned i;

	if (!table->buckets)
		return;
	for (id = NODE_ROOT_ID; id < table->slots_used; id++)
		if (node_get(table, id))
			free_node(table, node_get(table, id));
	for (i = 0; i < NODE_CHUNK_MAX; i++)
		free(atomic_load(&table->chunks[i]));
	for (i = 0; i < NODE_LOCKS; i++)
		pthread_mutex_destroy(&table->locks[i]);
	pthread_mutex_destroy(&table->lock);
	free(table->free_slots);
	free(table->buckets);
	table->buckets = NULL;
}
