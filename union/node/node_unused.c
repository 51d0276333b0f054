/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node/node_unused.h"

#include <sys/stat.h>

#include "union/branch/dir_fd.h"
#include "union/node/node_copies.h"

bool node_is_unused(const struct node *node)
{
	return !node->lookups && !node->holds && node->id != NODE_ROOT_ID;
}

void node_wake(struct node_table *table, const struct node *node)
{
	table->asleep -= node_is_unused(node);
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

/* Put a node to sleep: nothing is kept for a use that may come. */
static void lie_down(struct node_table *table, struct node *node)
{
	node_drop_kept(table, node);
	table->asleep++;
}

static void drop_asleep(struct node_table *table, struct node *node)
{
	node_wake(table, node);
	node_free(table, node);
}

/* Let the node sleep. True: it is kept; another may have gone for it. */
static bool sleeps(struct node_table *table, struct node *node)
{
	const struct node_sleeper one = {node->id, node->generation};
	struct node_sleeper oldest;
	struct node *other;

	if (!table->sleepers.max || atomic_load(&node->buried_fd) >= 0 ||
	    !copy_there(node_copies(node)))
		return false;
	if (node->sleeper) {
		lie_down(table, node);
		return true;
	}
	if (!node_sleepers_add(&table->sleepers, &one, &oldest))
		return false;
	node->sleeper = table->sleepers.max != NODE_SLEEP_ALL;
	lie_down(table, node);
	other = oldest.id ? node_get(table, oldest.id) : NULL;
	if (!other || other->generation != oldest.generation)
		return true;
	other->sleeper = false;
	if (node_is_unused(other))
		drop_asleep(table, other);
	return true;
}

void node_end_unused(struct node_table *table, struct node *node)
{
	if (node_is_unused(node) && !sleeps(table, node))
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
