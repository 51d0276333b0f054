/* SPDX-License-Identifier: Apache-2.0 */
/* Operations on a pool as a whole while it serves. */
#include <errno.h>

#include "blockd/node/node.h"

/* node.pools is held, and keeps it. */
static int find_served(struct node *node, const char *name, struct pool **ret,
		       struct error *err)
{
	struct node_pool *entry;
	int r = name_check("pool", name, err);

	if (r < 0)
		return r;
	pthread_mutex_lock(&node->tables);
	entry = node_find_pool(node, name);
	if (!entry)
		r = error_set(err, ENOENT,
			      "there is no pool '%.64s' on this node", name);
	else if (!entry->served)
		r = error_set(err, ENODEV, "pool '%s' is %s: %s", name,
			      node_pool_state_name(entry->state),
			      entry->message);
	else
		*ret = entry->pool;
	pthread_mutex_unlock(&node->tables);
	return r;
}

int node_check_pool(struct node *node, const char *name, bool repair,
		    void (*finding)(void *context, const char *text,
				    bool repaired),
		    void *context, struct error *err)
{
	struct pool *pool;
	int r;

	pthread_mutex_lock(&node->pools);
	r = find_served(node, name, &pool, err);
	if (r == 0 && !pool->ops->check)
		r = error_set(err, EOPNOTSUPP,
			      "pool '%s' is of kind '%s' and has nothing to "
			      "check: its file system has a tool of its own",
			      name, pool->ops->kind);
	if (r == 0)
		r = pool->ops->check(pool, repair, finding, context, err);
	pthread_mutex_unlock(&node->pools);
	return r;
}

int node_grow_pool(struct node *node, const char *name, struct error *err)
{
	struct pool *pool;
	int r;

	pthread_mutex_lock(&node->pools);
	r = find_served(node, name, &pool, err);
	if (r == 0 && !pool->ops->extend)
		r = error_set(err, EOPNOTSUPP,
			      "pool '%s' is of kind '%s': it has all that its "
			      "file system has; grow that",
			      name, pool->ops->kind);
	if (r == 0)
		r = pool->ops->extend(pool, err);
	pthread_mutex_unlock(&node->pools);
	return r;
}
