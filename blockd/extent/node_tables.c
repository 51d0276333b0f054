/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/extent/node_tables.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *node_pool_state_name(enum node_pool_state state)
{
	static const char *const names[] = {
		[NODE_POOL_ONLINE] = "online",
		[NODE_POOL_FAILING] = "failing",
		[NODE_POOL_READ_ONLY] = "read-only",
		[NODE_POOL_MISSING] = "missing",
		[NODE_POOL_FOREIGN] = "foreign",
		[NODE_POOL_LOCKED] = "locked",
		[NODE_POOL_DAMAGED] = "damaged",
	};

	return names[state];
}

/* ---- the tables ---- */

static struct extent_list *extent_bucket_of(struct node *node, const char *name)
{
	uint32_t hash = 2166136261u; /* FNV-1a */

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return &node->buckets[hash % NODE_BUCKETS];
}

struct node_pool *node_find_pool(struct node *node, const char *name)
{
	struct node_pool *pool;

	TAILQ_FOREACH (pool, &node->list, in_node)
		if (strcmp(pool->known.name, name) == 0)
			return pool;
	return NULL;
}

struct extent *node_find_extent(struct node *node, const char *name)
{
	struct extent *extent, *found = NULL;

	/* A name may be there twice, all but one of them damaged. */
	LIST_FOREACH (extent, extent_bucket_of(node, name), in_bucket)
		if (strcmp(extent->record.name, name) == 0 &&
		    (!found || found->damage))
			found = extent;
	return found;
}

void node_insert_extent(struct node *node, struct extent *extent)
{
	struct extent_list *bucket = extent_bucket_of(node,
						      extent->record.name);

	(void)extent_ref(extent); /* the table's */
	LIST_INSERT_HEAD(bucket, extent, in_bucket);
	extent->pool->extents++;
}

void node_remove_extent(struct node *node, struct extent *extent)
{
	(void)node;
	LIST_REMOVE(extent, in_bucket);
	extent->pool->extents--;
	extent_unref(extent);
}

static int compare_extents(const void *a, const void *b)
{
	const struct extent *x = *(struct extent *const *)a;
	const struct extent *y = *(struct extent *const *)b;
	int order = strcmp(x->record.name, y->record.name);

	return order ? order : strcmp(x->pool->known.name, y->pool->known.name);
}

/* Tables are held. */
static size_t extents_collect(struct node *node, const char *pool,
			      struct extent **into)
{
	struct extent *extent;
	size_t n = 0;

	for (size_t i = 0; i < NODE_BUCKETS; i++) {
		LIST_FOREACH (extent, &node->buckets[i], in_bucket) {
			if (extent->record.state == EXTENT_CREATING ||
			    (pool && strcmp(extent->pool->known.name, pool)))
				continue;
			if (into)
				into[n] = extent_ref(extent);
			n++;
		}
	}
	return n;
}

int node_list_extents(struct node *node, const char *pool, struct extent ***ret,
		      size_t *ret_count, struct error *err)
{
	struct extent **list = NULL;
	size_t n = 0;
	int r = 0;

	if (pool && !pool[0])
		pool = NULL;
	pthread_mutex_lock(&node->tables);
	if (pool && !node_find_pool(node, pool)) {
		r = error_set(err, ENOENT,
			      "there is no pool '%.64s' on this node", pool);
	} else {
		list = calloc(extents_collect(node, pool, NULL) + 1,
			      sizeof(*list));
		if (list)
			n = extents_collect(node, pool, list);
		else
			r = error_set(err, ENOMEM, "out of memory");
	}
	pthread_mutex_unlock(&node->tables);
	if (r < 0)
		return r;
	qsort(list, n, sizeof(*list), compare_extents);
	*ret = list;
	*ret_count = n;
	return 0;
}

void node_put_list(struct extent **extents, size_t count)
{
	for (size_t i = 0; i < count; i++)
		extent_unref(extents[i]);
	free(extents);
}

enum node_pool_state node_pool_of(struct node *node,
				  const struct node_pool *pool, char *ret_why)
{
	enum node_pool_state state;

	pthread_mutex_lock(&node->tables);
	state = pool->state;
	(void)snprintf(ret_why, ERROR_TEXT_MAX, "%s",
		       node_pool_online(pool) ? "" : pool->message);
	pthread_mutex_unlock(&node->tables);
	return state;
}
