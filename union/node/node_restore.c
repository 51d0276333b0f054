/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node/node_restore.h"

#include <errno.h>
#include <string.h>

#include "union/node/node_copies.h"
#include "union/node/node_index.h"
#include "union/node/node_reclaim.h"
#include "union/state/fd_store.h"
#include "union/state/state.h"

static void begin_dir(struct node_dir *dir)
{
	uint32_t doubt = atomic_load(&dir->doubt);

	memset(dir, 0, sizeof(*dir));
	dir->subdirs = -1;
	atomic_store(&dir->doubt, doubt);
}

static void begin_file(struct node *node)
{
	struct node_file *file = node_file(node);

	node->passthrough = atomic_load(&file->backing_id) != 0;
	file->opens = file->rw_opens = file->writers = 0;
	file->told = NODE_TOLD_MANY;
}

/* Begin the members that are "ours"; copies come later. */
static void begin_node(struct node *node)
{
	uint64_t token = atomic_load(&node->orphan_token);

	atomic_store(&node->copies, 0);
	atomic_store(&node->orphan_fd, token ? fd_store_take(token) : -1);
	node->holds = 0;
	node->in_ring = false;
	node->known_before = true;
	node->passthrough = false;
	if (S_ISDIR(node->type))
		begin_dir(node_dir(node));
	else
		begin_file(node);
}

static void restore_node(struct node_table *table, uint64_t id)
{
	struct node *node = &table->state->nodes[id];

	node->id = (uint32_t)id;
	if (!atomic_load(&node->generation)) {
		node_slot_give(table, node);
		return;
	}
	begin_node(node);
	table->nodes++;
}

/* Was the branch noted? A copy on another is not known to anybody. */
static bool branch_is_restored(const struct node_table *table, unsigned branch)
{
	return table->state->branches[branch].used;
}

/* Does the copy name the place of a node that has it? */
static bool has_node(const struct node_table *table, const struct copy *copy)
{
	uintptr_t first = (uintptr_t)table->state->nodes;
	uintptr_t node = (uintptr_t)copy_node(copy);

	return node >= first && (node - first) % sizeof(struct node) == 0 &&
	       (node - first) / sizeof(struct node) < node_ids(table) &&
	       copy_node(copy)->generation == copy->generation;
}

static void restore_copy(struct node_table *table, struct copy *copy)
{
	if (!copy->generation || !has_node(table, copy) ||
	    copy->handle_bytes > HANDLE_MAX ||
	    !branch_is_restored(table, copy->branch)) {
		atomic_store(&copy->generation, 0);
		copy_slot_give(table, copy);
		return;
	}
	if (copy_is(copy, COPY_QUIETENED))
		copy_set(copy, COPY_QUIET, false);
	copy_set(copy, COPY_QUIETENED | COPY_ALIGNED, false);
	copy_link(copy);
	node_index_add(table, copy);
}

static void end_unused(struct node_table *table, uint64_t id)
{
	struct node *node = node_get(table, id);

	if (node)
		node_reclaim(table, node);
}

int node_restore(struct node_table *table)
{
	struct state *state = table->state;
	uint64_t i, nodes = node_ids(table),
		    copies = state->header->copies_used;

	if (!nodes || nodes > STATE_NODE_MAX || copies > STATE_COPY_MAX)
		return -EPROTO;
	state_expect(state);
	node_index_expect(table, copies);
	/* The lowest id is taken first. */
	for (i = nodes - 1; i >= NODE_ROOT_ID; i--)
		restore_node(table, i);
	for (i = copies; i-- > 0;)
		restore_copy(table, &state->copies[i]);
	for (i = NODE_ROOT_ID; i < nodes; i++)
		end_unused(table, i);
	return node_get(table, NODE_ROOT_ID) ? 0 : -EPROTO;
}
