/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/extent/node_space.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"

/* What the node's policy keeps free of a medium is no thin extent's, either. */
static void keep_floor(const struct node *node, const struct node_pool *pool)
{
	struct pool *open = pool->pool;

	if (open->ops->keep_free)
		open->ops->keep_free(
			open, space_floor(node->floor, pool->medium.size));
}

/*
 * Measure every pool that is served. One that can't be measured has no room.
 * Space is held, here and in all that follows.
 */
static void measure_all(struct node *node)
{
	struct node_pool *pool;

	TAILQ_FOREACH (pool, &node->list, in_node) {
		struct error err = {0};
		int r;

		/* What fails, or does not answer, is as it was. */
		if (!pool->served || pool->state == NODE_POOL_FAILING ||
		    atomic_load(&pool->health.silent))
			continue;
		r = pool->pool->ops->measure(pool->pool, &pool->medium, &err);
		if (r < 0)
			pool->medium = (struct space_medium){0};
		else
			keep_floor(node, pool);
		if (!node_pool_online(pool))
			continue; /* it says why */
		pthread_mutex_lock(&node->tables);
		(void)snprintf(pool->message, sizeof(pool->message), "%s",
			       r != 0 ? error_text(&err) : "");
		pthread_mutex_unlock(&node->tables);
	}
}

/* Promised and not yet used by other pools of the same file system. */
static uint64_t promised_elsewhere(struct node *node,
				   const struct node_pool *pool)
{
	const struct node_pool *other;
	uint64_t bytes = 0;

	TAILQ_FOREACH (other, &node->list, in_node)
		if (other != pool && other->served &&
		    other->medium.device == pool->medium.device &&
		    other->reserved > other->medium.allocated)
			bytes += other->reserved - other->medium.allocated;
	return bytes;
}

/* The pool is served and measured. One that is not well has no room. */
static struct space count(struct node *node, const struct node_pool *pool)
{
	const struct pool_record *record = &pool->pool->record;
	struct space_policy policy = {
		.capacity = record->capacity,
		.overcommit_percent = (unsigned)record->overcommit_percent,
		.floor = node->floor,
	};

	struct space space = space_count(&policy, &pool->medium, pool->reserved,
					 promised_elsewhere(node, pool));

	if (!node_pool_online(pool))
		space.room = space.available = 0;
	return space;
}

void node_measure(struct node *node)
{
	pthread_mutex_lock(&node->space);
	measure_all(node);
	pthread_mutex_unlock(&node->space);
}

/* Return the percentage of the pool's capacity that is not allocated yet. */
static unsigned left_percent(struct node *node, const struct node_pool *pool)
{
	uint64_t capacity = count(node, pool).capacity;
	uint64_t used = pool->medium.allocated;

	if (capacity == 0 || used >= capacity)
		return 0;
	return (unsigned)((double)(capacity - used) / (double)capacity * 100);
}

void node_note_low_space(struct node *node, unsigned percent,
			 void (*tell)(void *context, const char *pool),
			 void *context)
{
	struct node_pool *pool;

	pthread_mutex_lock(&node->space);
	measure_all(node);
	TAILQ_FOREACH (pool, &node->list, in_node) {
		unsigned left;

		if (!node_pool_online(pool))
			continue;
		left = left_percent(node, pool);
		if (left < percent && !pool->low) {
			pool->low = true;
			tell(context, pool->known.name);
		} else if (left > percent) { /* not at once again */
			pool->low = false;
		}
	}
	pthread_mutex_unlock(&node->space);
}

int node_choose_pool(struct node *node, char *ret, struct error *err)
{
	const struct node_pool *pool, *best = NULL;
	uint64_t most = 0;

	node->look_again(node);
	pthread_mutex_lock(&node->space);
	measure_all(node);
	TAILQ_FOREACH (pool, &node->list, in_node) {
		uint64_t room;

		if (!node_pool_online(pool))
			continue;
		room = count(node, pool).room;
		if (!best || room > most) {
			best = pool;
			most = room;
		}
	}
	if (best)
		memcpy(ret, best->known.name, POOL_NAME_SIZE);
	pthread_mutex_unlock(&node->space);
	if (!best)
		return error_set(err, ENOENT, "no pool of this node is online");
	return 0;
}

/* "; pool b has 1.00 GiB, ..." for the others that are online. */
static void list_others(struct node *node, const struct node_pool *except,
			char *text, size_t size)
{
	const struct node_pool *pool;
	char bytes[SIZE_TEXT_MAX];
	size_t used = 0;

	text[0] = '\0';
	TAILQ_FOREACH (pool, &node->list, in_node) {
		if (pool == except || !node_pool_online(pool) || used >= size)
			continue;
		used += (size_t)snprintf(
			text + used, size - used, "; pool '%s' has %s",
			pool->known.name,
			size_format(bytes, count(node, pool).available));
	}
}

static int no_room(struct node *node, const struct node_pool *pool,
		   const struct space *space, uint64_t bytes, struct error *err)
{
	char asked[SIZE_TEXT_MAX], has[SIZE_TEXT_MAX], promised[SIZE_TEXT_MAX];
	char limit[SIZE_TEXT_MAX], floor[SIZE_TEXT_MAX];
	char others[ERROR_TEXT_MAX / 2];

	list_others(node, pool, others, sizeof(others));
	(void)size_format(asked, bytes);
	if (pool->medium.free <= space->floor)
		return error_set(err, ENOSPC,
				 "pool '%s' at '%s' has no room for %s: its "
				 "file system has %s free and %s are kept "
				 "free%s",
				 pool->known.name, pool->known.path, asked,
				 size_format(has, pool->medium.free),
				 size_format(floor, space->floor), others);
	return error_set(err, ENOSPC,
			 "pool '%s' has room for %s, not %s: %s of %s are "
			 "promised%s",
			 pool->known.name, size_format(has, space->room), asked,
			 size_format(promised, pool->reserved),
			 size_format(limit, space->limit), others);
}

/* Return the error of a pool that fails, can only be read, or is gone. */
static int not_well(struct node *node, const struct node_pool *pool,
		    struct error *err)
{
	char others[ERROR_TEXT_MAX / 2];
	int r;

	list_others(node, pool, others, sizeof(others));
	pthread_mutex_lock(&node->tables);
	r = error_set(err, ENODEV, "pool '%s' is %s: %s%s", pool->known.name,
		      node_pool_state_name(pool->state), pool->message, others);
	pthread_mutex_unlock(&node->tables);
	return r;
}

/* Return the error of a pool that takes nothing; its message says why. */
static int takes_nothing(struct node *node, const struct node_pool *pool,
			 struct error *err)
{
	char others[ERROR_TEXT_MAX / 2];
	int r;

	list_others(node, pool, others, sizeof(others));
	pthread_mutex_lock(&node->tables);
	r = error_set(err, EIO, "pool '%s' at '%s': %s%s", pool->known.name,
		      pool->known.path, pool->message, others);
	pthread_mutex_unlock(&node->tables);
	return r;
}

int node_blame(struct node *node, const char *pool, int r, struct error *err)
{
	const struct node_pool *entry;

	if (!blockdev_is_fault(r))
		return r;
	node->look_again(node);
	pthread_mutex_lock(&node->space);
	TAILQ_FOREACH (entry, &node->list, in_node)
		if (strcmp(entry->known.name, pool) == 0 &&
		    !node_pool_online(entry))
			r = not_well(node, entry, err);
	pthread_mutex_unlock(&node->space);
	return r;
}

int node_reserve(struct node *node, struct node_pool *pool, uint64_t bytes,
		 struct error *err)
{
	struct space space;
	int r = 0;

	pthread_mutex_lock(&node->space);
	measure_all(node);
	space = count(node, pool);
	if (!node_pool_online(pool))
		r = not_well(node, pool, err);
	else if (bytes > space.room)
		r = pool->message[0] ? takes_nothing(node, pool, err)
				     : no_room(node, pool, &space, bytes, err);
	else
		pool->reserved += bytes;
	pthread_mutex_unlock(&node->space);
	return r;
}

void node_release(struct node *node, struct node_pool *pool, uint64_t bytes)
{
	pthread_mutex_lock(&node->space);
	pool->reserved -= bytes;
	pthread_mutex_unlock(&node->space);
}

/* How large all of a list are; the names of its snapshots, borrowed. */
static uint64_t sum_up(struct node *node, struct extent *const *list, size_t n,
		       const char **names, size_t *ret_names)
{
	uint64_t bytes = 0;

	*ret_names = 0;
	pthread_mutex_lock(&node->tables);
	for (size_t i = 0; i < n; i++) {
		const struct extent_record *record = &list[i]->record;

		bytes += record->size;
		if (record->kind == EXTENT_KIND_SNAPSHOT)
			names[(*ret_names)++] = record->name;
	}
	pthread_mutex_unlock(&node->tables);
	return bytes;
}

static int fill_sharing(struct node *node, const struct node_pool *pool,
			struct node_pool_info *info, struct error *err)
{
	auto_free const char **names = NULL;
	struct extent **list = NULL;
	size_t n = 0, n_names = 0;
	int r = node_list_extents(node, pool->known.name, &list, &n, err);

	if (r < 0)
		return r;
	names = calloc(n + 1, sizeof(*names));
	if (!names) {
		r = error_set(err, ENOMEM, "out of memory");
	} else {
		info->nominal = sum_up(node, list, n, names, &n_names);
		if (pool->pool->ops->sharing &&
		    pool->state != NODE_POOL_FAILING)
			info->sharing_known = pool->pool->ops->sharing(
						      pool->pool, names,
						      n_names, &info->sharing,
						      NULL) == 0;
	}
	node_put_list(list, n);
	return r;
}

static int fill_info(struct node *node, const struct node_pool *pool,
		     struct node_pool_info *info, struct error *err)
{
	pthread_mutex_lock(&node->tables);
	info->known = pool->known;
	info->state = pool->state;
	memcpy(info->message, pool->message, sizeof(info->message));
	info->served = pool->served;
	info->extents = pool->extents;
	pthread_mutex_unlock(&node->tables);
	if (!pool->served)
		return 0;
	info->record = pool->pool->record;
	info->cluster_size = pool->pool->cluster_size;
	info->space = count(node, pool);
	info->reserved = pool->reserved;
	info->allocated = pool->medium.allocated;
	return fill_sharing(node, pool, info, err);
}

static int compare_infos(const void *a, const void *b)
{
	return strcmp(((const struct node_pool_info *)a)->known.name,
		      ((const struct node_pool_info *)b)->known.name);
}

int node_list_pools(struct node *node, const char *name,
		    struct node_pool_info **ret, size_t *ret_count,
		    struct error *err)
{
	struct node_pool_info *infos;
	const struct node_pool *pool;
	size_t n = 0;
	int r = 0;

	node->look_again(node);
	pthread_mutex_lock(&node->space);
	measure_all(node);
	TAILQ_FOREACH (pool, &node->list, in_node)
		n++;
	infos = calloc(n + 1, sizeof(*infos));
	n = 0;
	if (!infos)
		r = error_set(err, ENOMEM, "out of memory");
	TAILQ_FOREACH (pool, &node->list, in_node)
		if (r == 0 && (!name || strcmp(name, pool->known.name) == 0))
			r = fill_info(node, pool, &infos[n++], err);
	pthread_mutex_unlock(&node->space);
	if (r < 0) {
		free(infos);
		return r;
	}
	qsort(infos, n, sizeof(*infos), compare_infos);
	*ret = infos;
	*ret_count = n;
	return 0;
}
