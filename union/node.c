/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "union/branch_health.h"
#include "union/dir_fd.h"
#include "union/names.h"
#include "union/node_build.h"
#include "union/node_bury.h"
#include "union/node_copies.h"
#include "union/node_index.h"
#include "union/node_lost.h"
#include "union/node_record.h"
#include "union/node_slots.h"
#include "union/node_unused.h"

static _Atomic uint64_t copies_changed = 1;

/* After the copy is there: who read it before has not seen that. */
static void note_new_copy(void)
{
	atomic_fetch_add(&copies_changed, 1);
}

uint64_t node_copies_changed(void)
{
	return atomic_load(&copies_changed);
}

int node_table_init(struct node_table *table, uint64_t generation,
		    struct state *state)
{
	unsigned i;

	memset(table, 0, sizeof(*table));
	if (!node_index_init(table))
		return -ENOMEM;
	table->next_generation = generation;
	table->state = state;
	table->slots_used = NODE_ROOT_ID;
	pthread_mutex_init(&table->lock, NULL);
	for (i = 0; i < NODE_LOCKS; i++)
		pthread_mutex_init(&table->locks[i], NULL);
	return 0;
}

static struct copy *new_copy(struct node *node, unsigned branch,
			     const struct handle *handle)
{
	struct copy *copy = calloc(1, offsetof(struct copy, handle.data) +
					      handle->length);

	if (!copy)
		return NULL;
	copy->node = node;
	copy->branch = branch;
	copy->handle.length = handle->length;
	copy->handle.type = handle->type;
	memcpy(copy->handle.data, handle->data, handle->length);
	return copy;
}

static void link_copy(struct node_table *table, struct copy *copy)
{
	struct copy *_Atomic *at = &copy->node->copies;
	unsigned branch = copy->branch;

	while (atomic_load(at) && atomic_load(at)->branch <= branch)
		at = &atomic_load(at)->next;
	atomic_store(&copy->next, atomic_load(at));
	atomic_store(at, copy);
	node_index_add(table, copy);
}

static int add_copy(struct node_table *table, struct node *node,
		    unsigned branch, const struct handle *handle)
{
	struct copy *copy = new_copy(node, branch, handle);
	int r = copy ? node_record_copy(table, copy) : -ENOMEM;

	if (r < 0)
		free(copy);
	else
		link_copy(table, copy);
	return r;
}

int node_build_copy(struct node_table *table, struct node *node,
		    unsigned branch, const struct handle *handle,
		    uint32_t record, struct copy **ret)
{
	struct copy *copy = new_copy(node, branch, handle);

	if (!copy)
		return -ENOMEM;
	copy->record = record;
	link_copy(table, copy);
	*ret = copy;
	return 0;
}

void node_free(struct node_table *table, struct node *node)
{
	struct copy *copy = atomic_load(&node->copies), *next;
	struct buried buried = {atomic_load(&node->buried_fd),
				node->buried_token};

	node_record_end(table, node);
	for (; copy; copy = next) {
		next = atomic_load(&copy->next);
		node_index_remove(table, copy);
		dir_fd_drop(copy);
		node_record_copy_end(table, copy);
		free(atomic_load(&copy->quiet));
		free(copy);
	}
	if (S_ISDIR(node->type))
		names_forget(node->id);
	node_slot_give(table, node->id);
	node_buried_done(&buried);
	table->nodes--;
	free(node);
}

static struct node *new_node(struct node_table *table, mode_t type,
			     uint64_t ino)
{
	struct node *node = calloc(1, sizeof(*node));

	if (!node)
		return NULL;
	node->id = node_slot_take(table);
	if (!node->id) {
		free(node);
		return NULL;
	}
	node->generation = table->next_generation++;
	node->type = type;
	node->ino = ino;
	node->subdirs = -1;
	atomic_init(&node->buried_fd, -1);
	*node_slot(table, node->id) = node;
	table->nodes++;
	return node;
}

int node_build(struct node_table *table, uint64_t id, struct node *node)
{
	if (node_slot_take(table) != id) {
		free(node);
		return -ENOMEM;
	}
	*node_slot(table, id) = node;
	table->nodes += node != NULL;
	return 0;
}

void node_build_end(struct node_table *table)
{
	uint64_t id;

	for (id = table->slots_used - 1; id >= NODE_ROOT_ID; id--)
		if (!node_get(table, id))
			node_slot_give(table, id);
}

static int add_found(struct node_table *table, struct node *node,
		     const struct node_found *found, unsigned count)
{
	unsigned i;
	int r;

	for (i = 0; i < count; i++) {
		if (node_index_find(table, found[i].branch, &found[i].handle))
			continue;
		r = add_copy(table, node, found[i].branch, &found[i].handle);
		if (r < 0)
			return r;
	}
	return 0;
}

int node_intern_doubted(struct node_table *table, mode_t type, uint64_t ino,
			const struct node_found *found, unsigned count,
			bool doubted, struct node **ret)
{
	struct copy *copy = NULL;
	struct node *node;
	uint64_t copies;
	unsigned i;
	int r;

	pthread_mutex_lock(&table->lock);
	for (i = 0; i < count && !copy; i++)
		copy = node_index_find(table, found[i].branch,
				       &found[i].handle);
	node = copy ? copy->node : new_node(table, type, ino);
	r = node ? 0 : -ENOMEM;
	copies = table->copies;
	if (node && (!copy || S_ISDIR(type)))
		r = add_found(table, node, found, count);
	if (copy && table->copies != copies)
		note_new_copy();
	if (r < 0 && node && !copy)
		node_free(table, node);
	if (r == 0) {
		if (doubted && !copy)
			atomic_store(&node->doubt, branch_doubt_mark());
		if (copy)
			node_wake(table, node);
		node->lookups++;
		if (copy)
			node_record_lookups(table, node);
		else
			node_record_new(table, node);
		*ret = node;
	}
	pthread_mutex_unlock(&table->lock);
	return r;
}

int node_intern(struct node_table *table, mode_t type, uint64_t ino,
		const struct node_found *found, unsigned count,
		struct node **ret)
{
	return node_intern_doubted(table, type, ino, found, count, false, ret);
}

struct node *node_get(struct node_table *table, uint64_t id)
{
	struct node **at = node_slot(table, id);

	return at ? *at : NULL;
}

int node_add_copy(struct node_table *table, unsigned known_branch,
		  const struct handle *known, unsigned branch,
		  const struct handle *handle)
{
	struct copy *copy;
	int r = 0;

	pthread_mutex_lock(&table->lock);
	copy = node_index_find(table, known_branch, known);
	if (copy && !node_index_find(table, branch, handle))
		r = add_copy(table, copy->node, branch, handle);
	note_new_copy();
	pthread_mutex_unlock(&table->lock);
	return r;
}

struct node *node_hold(struct node_table *table, unsigned branch,
		       const struct handle *handle)
{
	struct copy *copy;

	pthread_mutex_lock(&table->lock);
	copy = node_index_find(table, branch, handle);
	if (copy) {
		node_wake(table, copy->node);
		copy->node->holds++;
	}
	pthread_mutex_unlock(&table->lock);
	return copy ? copy->node : NULL;
}

void node_copy_gone(struct node_table *table, unsigned branch,
		    const struct handle *handle, struct buried *buried)
{
	struct copy *copy;

	pthread_mutex_lock(&table->lock);
	copy = node_index_find(table, branch, handle);
	if (copy) {
		/* First, so that a node has a copy or this. */
		if (buried &&
		    copy_there(atomic_load(&copy->node->copies)) == copy &&
		    !copy_there(atomic_load(&copy->next)))
			node_take_buried(table, copy->node, buried);
		atomic_store(&copy->gone, true);
		node_record_gone(table, copy);
		dir_fd_drop(copy);
	}
	pthread_mutex_unlock(&table->lock);
	if (buried)
		node_buried_done(buried);
}

int node_move(struct node_table *table, struct node *node, unsigned from_branch,
	      const struct handle *from, unsigned to_branch,
	      const struct handle *to)
{
	struct copy *copy;
	int r;

	pthread_mutex_lock(&table->lock);
	copy = node_index_find(table, from_branch, from);
	r = copy && copy->node == node ? add_copy(table, node, to_branch, to)
				       : -ESTALE;
	if (r == 0) {
		atomic_store(&copy->gone, true);
		node_record_gone(table, copy);
		dir_fd_drop(copy);
	}
	pthread_mutex_unlock(&table->lock);
	if (r == 0) {
		node_lock(table, node);
		node->moves++;
		node_record_use(table, node);
		node_unlock(table, node);
	}
	return r;
}

bool node_has(struct node_table *table, unsigned branch,
	      const struct handle *handle)
{
	bool has;

	pthread_mutex_lock(&table->lock);
	has = node_index_find(table, branch, handle) != NULL;
	pthread_mutex_unlock(&table->lock);
	return has;
}

void node_each_on(struct node_table *table, unsigned branch,
		  void (*visit)(void *context, const struct node *node),
		  void *context)
{
	const struct node *node;
	uint64_t id;

	pthread_mutex_lock(&table->lock);
	for (id = NODE_ROOT_ID; id < table->slots_used; id++) {
		node = node_get(table, id);
		if (node && node_copy_on(node, branch))
			visit(context, node);
	}
	pthread_mutex_unlock(&table->lock);
}

struct node *node_hold_id(struct node_table *table, uint64_t id)
{
	struct node *node;

	pthread_mutex_lock(&table->lock);
	node = node_get(table, id);
	if (node) {
		node_wake(table, node);
		node->holds++;
	}
	pthread_mutex_unlock(&table->lock);
	return node;
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
		node_record_lookups(table, node);
		node_lost_note(table, node);
		node_end_unused(table, node);
	}
	pthread_mutex_unlock(&table->lock);
}

void node_let_go(struct node_table *table, struct node *node)
{
	pthread_mutex_lock(&table->lock);
	assert(node->holds);
	node->holds--;
	node_end_unused(table, node);
	pthread_mutex_unlock(&table->lock);
}

uint64_t node_count(struct node_table *table)
{
	uint64_t n;

	pthread_mutex_lock(&table->lock);
	n = table->nodes - table->asleep;
	pthread_mutex_unlock(&table->lock);
	return n;
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
	table->state = NULL; /* it is the next one's */
	for (id = NODE_ROOT_ID; id < table->slots_used; id++)
		if (node_get(table, id))
			node_free(table, node_get(table, id));
	for (i = 0; i < NODE_CHUNK_MAX; i++)
		free(atomic_load(&table->chunks[i]));
	for (i = 0; i < NODE_LOCKS; i++)
		pthread_mutex_destroy(&table->locks[i]);
	pthread_mutex_destroy(&table->lock);
	node_sleepers_done(&table->sleepers);
	free(table->free_slots);
	free(table->free_records);
	free(table->lost);
	free(table->buckets);
	table->buckets = NULL;
}
