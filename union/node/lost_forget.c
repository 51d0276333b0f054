/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node/lost_forget.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "union/node/node_copies.h"

#define FIRST_SIZE 16

void lost_forget_note(struct node_table *table, const struct node *node)
{
	size_t count = atomic_load(&table->lost_count);
	size_t size = table->lost_size ? table->lost_size * 2 : FIRST_SIZE;
	struct lost_forget *bigger;

	if (!node->known_before || !node->lookups ||
	    atomic_load(&node->orphan_fd) < 0)
		return;
	if (count == table->lost_size) {
		bigger = reallocarray(table->lost, size, sizeof(*bigger));
		if (!bigger)
			return;
		table->lost = bigger;
		table->lost_size = size;
	}
	table->lost[count] = (struct lost_forget){node->id, node->generation,
						  node->lookups};
	atomic_store(&table->lost_count, count + 1);
}

void lost_forget_note_all(struct node_table *table)
{
	const struct node *node;
	uint64_t id;

	pthread_mutex_lock(&table->lock);
	for (id = NODE_ROOT_ID; id < node_ids(table); id++) {
		node = node_get(table, id);
		if (node)
			lost_forget_note(table, node);
	}
	pthread_mutex_unlock(&table->lock);
}

bool lost_forget_any(const struct node_table *table)
{
	return atomic_load(&table->lost_count);
}

size_t lost_forget_take(struct node_table *table, struct lost_forget **ret)
{
	size_t count;

	pthread_mutex_lock(&table->lock);
	count = atomic_exchange(&table->lost_count, 0);
	table->lost_size = 0;
	*ret = take_ptr(table->lost);
	pthread_mutex_unlock(&table->lock);
	return count;
}

/* Is the file open? With the node locked. Unknown for directories. */
static bool is_open(struct node *node)
{
	return !S_ISDIR(node->type) && node_file(node)->opens;
}

struct node *lost_forget_hold(struct node_table *table,
			      const struct lost_forget *lost)
{
	struct node *node = node_hold_id(table, lost->id);
	bool same;

	if (!node)
		return NULL;
	node_lock(table, node);
	same = node->generation == lost->generation && !is_open(node);
	node_unlock(table, node);
	if (same)
		return node;
	node_let_go(table, node);
	return NULL;
}

/* Mark all copies as gone. The table's lock is held. */
static void lose_copies(struct node *node)
{
	struct copy *copy;

	for (copy = node_copies(node); copy; copy = copy_after(copy))
		copy_lose(copy);
}

void lost_forget_end(struct node_table *table, struct node *node,
		     const struct lost_forget *lost)
{
	struct orphan_fd orphan = {.fd = -1};

	pthread_mutex_lock(&table->lock);
	if (node->lookups == lost->lookups && node->holds == 1) {
		lose_copies(node);
		orphan.fd = atomic_exchange(&node->orphan_fd, -1);
		orphan.token = atomic_exchange(&node->orphan_token, 0);
	}
	pthread_mutex_unlock(&table->lock);
	orphan_inode_done(&orphan);
}
