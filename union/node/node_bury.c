/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node/node_bury.h"

#include "base/cleanup.h"
#include "union/node/node_index.h"
#include "union/state/fd_store.h"
#include "union/state/state.h"

struct buried node_buried(struct node_table *table, int fd)
{
	struct buried buried = {.fd = fd};

	if (fd >= 0 && fd_store_is_on()) {
		buried.token = state_new_token(table->state);
		fd_store_fd(buried.token, fd);
	}
	return buried;
}

void node_buried_done(struct buried *buried)
{
	if (buried->token)
		fd_store_drop(buried->token);
	fd_close(buried->fd);
	*buried = (struct buried){.fd = -1};
}

void node_take_buried(struct node *node, struct buried *buried)
{
	if (buried->fd < 0 || atomic_load(&node->buried_fd) >= 0)
		return;
	atomic_store(&node->buried_token, buried->token);
	atomic_store(&node->buried_fd, buried->fd);
	*buried = (struct buried){.fd = -1};
}

void node_bury(struct node_table *table, unsigned branch,
	       const struct handle *handle, struct buried *buried)
{
	struct copy *copy;

	pthread_mutex_lock(&table->lock);
	copy = node_index_find(table, branch, handle);
	if (copy)
		node_take_buried(copy_node(copy), buried);
	pthread_mutex_unlock(&table->lock);
	node_buried_done(buried);
}
