/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node/orphan_inode.h"

#include "base/cleanup.h"
#include "union/node/node_index.h"
#include "union/state/fd_store.h"
#include "union/state/state.h"

struct orphan_fd orphan_inode_open(struct node_table *table, int fd)
{
	struct orphan_fd orphan = {.fd = fd};

	if (fd >= 0 && fd_store_is_on()) {
		orphan.token = state_new_token(table->state);
		fd_store_fd(orphan.token, fd);
	}
	return orphan;
}

void orphan_inode_done(struct orphan_fd *orphan)
{
	if (orphan->token)
		fd_store_drop(orphan->token);
	fd_close(orphan->fd);
	*orphan = (struct orphan_fd){.fd = -1};
}

void orphan_inode_take(struct node *node, struct orphan_fd *orphan)
{
	if (orphan->fd < 0 || atomic_load(&node->orphan_fd) >= 0)
		return;
	atomic_store(&node->orphan_token, orphan->token);
	atomic_store(&node->orphan_fd, orphan->fd);
	*orphan = (struct orphan_fd){.fd = -1};
}

void orphan_inode_add(struct node_table *table, unsigned branch,
		      const struct handle *handle, struct orphan_fd *orphan)
{
	struct copy *copy;

	pthread_mutex_lock(&table->lock);
	copy = node_index_find(table, branch, handle);
	if (copy)
		orphan_inode_take(copy_node(copy), orphan);
	pthread_mutex_unlock(&table->lock);
	orphan_inode_done(orphan);
}
