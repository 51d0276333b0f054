/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node/orphan_inode.h"

#include "base/cleanup.h"
#include "union/node/node_index.h"
#include "union/state/fd_store.h"
#include "union/state/state.h"

struct orphan_fd orphan_inode_open(struct node_table *table, int fd)
{
	struct orphan_fd buried = {.fd = fd};

	if (fd >= 0 && fd_store_is_on()) {
		buried.token = state_new_token(table->state);
		fd_store_fd(buried.token, fd);
	}
	return buried;
}

void orphan_inode_done(struct orphan_fd *buried)
{
	if (buried->token)
		fd_store_drop(buried->token);
	fd_close(buried->fd);
	*buried = (struct orphan_fd){.fd = -1};
}

void orphan_inode_take(struct node *node, struct orphan_fd *buried)
{
	if (buried->fd < 0 || atomic_load(&node->buried_fd) >= 0)
		return;
	atomic_store(&node->buried_token, buried->token);
	atomic_store(&node->buried_fd, buried->fd);
	*buried = (struct orphan_fd){.fd = -1};
}

void orphan_inode_add(struct node_table *table, unsigned branch,
		      const struct handle *handle, struct orphan_fd *buried)
{
	struct copy *copy;

	pthread_mutex_lock(&table->lock);
	copy = node_index_find(table, branch, handle);
	if (copy)
		orphan_inode_take(copy_node(copy), buried);
	pthread_mutex_unlock(&table->lock);
	orphan_inode_done(buried);
}
