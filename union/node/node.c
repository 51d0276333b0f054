/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node/node.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "union/branch/branch_health.h"
#include "union/branch/dir_fd.h"
#include "union/node/lost_forget.h"
#include "union/node/node_copies.h"
#include "union/node/node_index.h"
#include "union/node/node_reclaim.h"
#include "union/node/orphan_inode.h"
#include "union/state/state.h"

static _Atomic uint64_t copies_changed = 1;

/* Change the number after the copy is there: older readers did not see it. */
static void note_new_copy(void)
{
	atomic_fetch_add(&copies_changed, 1);
}

uint64_t node_copies_changed(void)
{
	return atomic_load(&copies_changed);
}

static int make_state(struct node_table *table)
{
	struct state *state = calloc(1, sizeof(*state));
	int r = state ? state_create(state) : -ENOMEM;

	if (r < 0) {
		free(state);
		return r;
	}
	table->state = state;
	table->owns_state = true;
	return 0;
}

int node_table_init(struct node_table *table, uint64_t generation,
		    struct state *state)
{
	unsigned i;
	int r;

	memset(table, 0, sizeof(*table));
	table->state = state;
	r = state ? 0 : make_state(table);
	if (r < 0)
		return r;
	pthread_mutex_init(&table->lock, NULL);
	for (i = 0; i < NODE_LOCKS; i++)
		pthread_mutex_init(&table->locks[i], NULL);
	if (!node_index_init(table)) {
		node_table_done(table);
		return -ENOMEM;
	}
	if (generation > table->state->header->next_generation)
		table->state->header->next_generation = generation;
	return 0;
}

/* Add a copy, which is there once a node of that @generation is. */
static int add_node_copy(struct node_table *table, struct node *node,
			 uint64_t generation, unsigned branch,
			 const struct handle *handle, unsigned flags)
{
	struct copy *copy = copy_slot_take(table);

	if (!copy)
		return -ENOMEM;
	copy_fill(copy, branch, handle);
	atomic_store(&copy->flags, (unsigned char)flags);
	copy_belong(copy, node);
	atomic_store(&copy->generation, generation);
	copy_link(copy);
	node_index_add(table, copy);
	return 0;
}

void node_free(struct node_table *table, struct node *node)
{
	struct copy *copy = node_copies(node), *next;
	struct orphan_fd orphan = {atomic_load(&node->orphan_fd),
				   atomic_load(&node->orphan_token)};

	/* The generation goes first: then there are no copies either. */
	atomic_store(&node->generation, 0);
	node_drop_kept(table, node);
	for (; copy; copy = next) {
		next = copy_after(copy);
		node_index_remove(table, copy);
		atomic_store(&copy->generation, 0);
		copy_slot_give(table, copy);
	}
	node_slot_give(table, node);
	orphan_inode_done(&orphan);
	table->nodes--;
}

/* Make a node that is not there until it has a generation. */
static struct node *new_node(struct node_table *table, mode_t type,
			     uint64_t ino)
{
	struct node *node = node_slot_take(table);

	if (!node)
		return NULL;
	node->type = (uint16_t)type;
	node->ino = ino;
	if (S_ISDIR(type))
		node_dir(node)->subdirs = -1;
	atomic_store(&node->orphan_fd, -1);
	table->nodes++;
	return node;
}

/*
 * Does a node have the copy, so that there is nothing to add? Where copies are
 * taken over, another node loses it first.
 */
static bool is_had(struct node_table *table, const struct node *node,
		   unsigned branch, const struct handle *handle)
{
	struct copy *copy = node_index_find(table, branch, handle);

	if (copy && copy_node(copy) != node && table->takes_over) {
		copy_lose(copy);
		copy = NULL;
	}
	return copy;
}

static int add_found(struct node_table *table, struct node *node,
		     const struct node_found *found, unsigned count)
{
	unsigned i;
	int r;

	for (i = 0; i < count; i++) {
		if (is_had(table, node, found[i].branch, &found[i].handle))
			continue;
		r = add_node_copy(table, node, node->generation,
				  found[i].branch, &found[i].handle, 0);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Make the node of copies that no node has. */
static int intern_new(struct node_table *table, mode_t type, uint64_t ino,
		      const struct node_found *found, unsigned count,
		      bool doubted, struct node **ret)
{
	uint64_t generation = table->state->header->next_generation;
	struct node *node = new_node(table, type, ino);
	int r = node ? 0 : -ENOMEM;
	unsigned i;

	for (i = 0; r == 0 && i < count; i++)
		r = add_node_copy(table, node, generation, found[i].branch,
				  &found[i].handle, 0);
	if (r < 0) {
		if (node)
			node_free(table, node);
		return r;
	}
	if (doubted)
		atomic_store(&node_dir(node)->doubt, branch_doubt_mark());
	node->lookups = 1;
	/* All its members are set: now it is there. */
	atomic_store(&table->state->header->next_generation, generation + 1);
	atomic_store(&node->generation, generation);
	*ret = node;
	return 0;
}

static int intern_known(struct node_table *table, struct node *node,
			const struct node_found *found, unsigned count)
{
	uint64_t copies = table->copies;
	int r = S_ISDIR(node->type) ? add_found(table, node, found, count) : 0;

	if (table->copies != copies)
		note_new_copy();
	if (r < 0)
		return r;
	node_remember(table, node);
	node->lookups++;
	return 0;
}

int node_intern_doubted(struct node_table *table, mode_t type, uint64_t ino,
			const struct node_found *found, unsigned count,
			bool doubted, struct node **ret)
{
	struct copy *copy = NULL;
	unsigned i;
	int r;

	pthread_mutex_lock(&table->lock);
	for (i = 0; i < count && !copy; i++)
		copy = node_index_find(table, found[i].branch,
				       &found[i].handle);
	if (copy) {
		r = intern_known(table, copy_node(copy), found, count);
		if (r == 0)
			*ret = copy_node(copy);
	} else {
		r = intern_new(table, type, ino, found, count, doubted, ret);
	}
	pthread_mutex_unlock(&table->lock);
	return r;
}

uint64_t node_ids(const struct node_table *table)
{
	return atomic_load(&table->state->header->nodes_used);
}

struct node *node_get(const struct node_table *table, uint64_t id)
{
	struct node *node;

	if (id >= node_ids(table))
		return NULL;
	node = &table->state->nodes[id];
	return atomic_load(&node->generation) ? node : NULL;
}

/* Add a copy; @making: it is not in its place yet; else it is now. */
static int add_known(struct node_table *table, unsigned known_branch,
		     const struct handle *known, unsigned branch,
		     const struct handle *handle, bool making)
{
	struct copy *of, *copy;
	int r = 0;

	pthread_mutex_lock(&table->lock);
	of = node_index_find(table, known_branch, known);
	if (of && !is_had(table, copy_node(of), branch, handle))
		r = add_node_copy(table, copy_node(of),
				  copy_node(of)->generation, branch, handle,
				  making ? COPY_MAKING : 0);
	copy = making ? NULL : node_index_find(table, branch, handle);
	if (copy)
		copy_set(copy, COPY_MAKING, false);
	note_new_copy();
	pthread_mutex_unlock(&table->lock);
	return r;
}

int node_add_copy(struct node_table *table, unsigned known_branch,
		  const struct handle *known, unsigned branch,
		  const struct handle *handle)
{
	return add_known(table, known_branch, known, branch, handle, false);
}

int node_begin_copy(struct node_table *table, unsigned known_branch,
		    const struct handle *known, unsigned branch,
		    const struct handle *handle)
{
	return add_known(table, known_branch, known, branch, handle, true);
}

struct node *node_hold(struct node_table *table, unsigned branch,
		       const struct handle *handle)
{
	struct node *node = NULL;
	struct copy *copy;

	pthread_mutex_lock(&table->lock);
	copy = node_index_find(table, branch, handle);
	if (copy) {
		node = copy_node(copy);
		node_remember(table, node);
		node->holds++;
	}
	pthread_mutex_unlock(&table->lock);
	return node;
}

static bool is_last(struct copy *copy)
{
	return copy_there(node_copies(copy_node(copy))) == copy &&
	       !copy_there(copy_after(copy));
}

void node_copy_gone(struct node_table *table, unsigned branch,
		    const struct handle *handle, struct orphan_fd *orphan)
{
	struct copy *copy;

	pthread_mutex_lock(&table->lock);
	copy = node_index_find(table, branch, handle);
	if (copy) {
		/* This comes first, so that a node has a copy or @orphan. */
		if (orphan && is_last(copy))
			orphan_inode_take(copy_node(copy), orphan);
		copy_lose(copy);
	}
	pthread_mutex_unlock(&table->lock);
	if (orphan)
		orphan_inode_done(orphan);
}

int node_move(struct node_table *table, struct node *node, unsigned from_branch,
	      const struct handle *from, unsigned to_branch,
	      const struct handle *to)
{
	struct copy *copy;
	int r = -ESTALE;

	pthread_mutex_lock(&table->lock);
	copy = node_index_find(table, from_branch, from);
	if (copy && copy_node(copy) == node)
		r = add_node_copy(table, node, node->generation, to_branch, to,
				  0);
	if (r == 0)
		copy_lose(copy);
	pthread_mutex_unlock(&table->lock);
	if (r == 0) {
		node_lock(table, node);
		node_file(node)->moves++;
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
	for (id = NODE_ROOT_ID; id < node_ids(table); id++) {
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
		node_remember(table, node);
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
		lost_forget_note(table, node);
		node_reclaim(table, node);
	}
	pthread_mutex_unlock(&table->lock);
}

void node_let_go(struct node_table *table, struct node *node)
{
	pthread_mutex_lock(&table->lock);
	assert(node->holds);
	node->holds--;
	node_reclaim(table, node);
	pthread_mutex_unlock(&table->lock);
}

uint64_t node_count(struct node_table *table)
{
	uint64_t n;

	pthread_mutex_lock(&table->lock);
	n = table->nodes - table->forgotten_count;
	pthread_mutex_unlock(&table->lock);
	return n;
}

/* Let go of a removed file; the rest is the next server's. */
static void drop_hold(struct node_table *table, struct node *node)
{
	struct orphan_fd orphan = {atomic_exchange(&node->orphan_fd, -1),
				   atomic_load(&node->orphan_token)};

	node_drop_kept(table, node);
	orphan_inode_done(&orphan);
}

void node_table_done(struct node_table *table)
{
	uint64_t id;
	unsigned i;

	if (!table->state)
		return;
	for (id = NODE_ROOT_ID; id < node_ids(table); id++)
		if (node_get(table, id))
			drop_hold(table, node_get(table, id));
	for (i = 0; i < NODE_LOCKS; i++)
		pthread_mutex_destroy(&table->locks[i]);
	pthread_mutex_destroy(&table->lock);
	forgotten_ring_done(&table->forgotten);
	free(table->lost);
	free(take_ptr(table->buckets));
	if (table->owns_state) {
		state_done(table->state);
		free(table->state);
	}
	table->state = NULL;
}
