/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of blockd/node/node.h. node.pools is held throughout. */
#ifndef BLOCKD_NODE_INTERNAL_H
#define BLOCKD_NODE_INTERNAL_H

#include "blockd/node/node.h"

/* Durably. */
int node_pool_remember(struct node *node, const struct known_pool *known,
		       struct error *err);
int node_pool_forget(struct node *node, const char *name, struct error *err);

/* Into the list, not open. */
int node_pool_new(struct node *node, const struct known_pool *known,
		  struct node_pool **ret, struct error *err);
/*
 * Out of the list, closed, freed. No extent of it is in the table. False: a
 * disk hangs; pool and node have to stay.
 */
bool node_pool_drop(struct node *node, struct node_pool *pool);

/*
 * Open it and show its extents, or say in its state why it is not online:
 * the errors of pool_dir_open().
 */
int node_pool_open(struct node *node, struct node_pool *pool,
		   struct error *err);

/* struct pool's fault(), of a struct node_pool: it is tried. */
void node_medium_failed(void *pool);

/* Something is to be looked at; any thread. */
void node_watch_wake(const struct node *node);

/* Identity off the medium, then forgotten. It is remembered as deleting. */
int node_pool_finish_delete(struct node *node, struct node_pool *pool,
			    struct error *err);

#endif
