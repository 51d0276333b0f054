/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node/node_reclaim.h"

#include <sys/stat.h>

#include "union/branch/dir_fd.h"
#include "union/node/node_copies.h"

bool node_is_unused(const struct node *node)
{
	return !node->lookups && !node->holds && node->id != NODE_ROOT_ID;
}

void node_remember(struct node_table *table, const struct node *node)
{
	table->forgotten_count -= node_is_unused(node);
}

void node_drop_kept(struct node_table *table, struct node *node)
{
	struct copy *copy;

	if (!S_ISDIR(node->type))
		return;
	for (copy = node_copies(node); copy; copy = copy_after(copy))
		dir_fd_drop(copy);
	if (table->forget_names)
		table->forget_names(node->id);
}

/* Make a node a forgotten one: nothing is kept for a use that may come. */
static void lie_down(struct node_table *table, struct node *node)
{
	node_drop_kept(table, node);
	table->forgotten_count++;
}

static void drop_asleep(struct node_table *table, struct node *node)
{
	node_remember(table, node);
	node_free(table, node);
}

/* Keep the forgotten node. True: it is kept; another may have gone for it. */
static bool keep_forgotten(struct node_table *table, struct node *node)
{
	const struct forgotten_node one = {node->id, node->generation};
	struct forgotten_node oldest;
	struct node *other;

	if (!table->forgotten.max || atomic_load(&node->orphan_fd) >= 0 ||
	    !copy_there(node_copies(node)))
		return false;
	if (node->in_ring) {
		lie_down(table, node);
		return true;
	}
	if (!forgotten_ring_add(&table->forgotten, &one, &oldest))
		return false;
	node->in_ring = table->forgotten.max != FORGOTTEN_ALL;
	lie_down(table, node);
	other = oldest.id ? node_get(table, oldest.id) : NULL;
	if (!other || other->generation != oldest.generation)
		return true;
	other->in_ring = false;
	if (node_is_unused(other))
		drop_asleep(table, other);
	return true;
}

void node_reclaim(struct node_table *table, struct node *node)
{
	if (node_is_unused(node) && !keep_forgotten(table, node))
		node_free(table, node);
}

void node_drop_asleep(struct node_table *table, unsigned branch)
{
	struct node *node;
	uint64_t id;

	pthread_mutex_lock(&table->lock);
	for (id = NODE_ROOT_ID; id < node_ids(table); id++) {
		node = node_get(table, id);
		if (node && node_is_unused(node) && node_copy_on(node, branch))
			drop_asleep(table, node);
	}
	pthread_mutex_unlock(&table->lock);
}
