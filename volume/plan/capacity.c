/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/plan/capacity.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parallel.h"
#include "volume/op/node_states.h"
#include "volume/plan/known_load.h"

#define ROUNDS_MAX    8  /* plans before every node is asked */
#define ASKED_AT_ONCE 32 /* nodes; each has a thread that waits */

/* ---- what is known ---- */

/* Where the pool of that node is, or the place after all pools. */
static size_t pool_place(const struct capacity *capacity, size_t node,
			 const char *pool)
{
	size_t i = 0;

	while (i < capacity->n_pools &&
	       (capacity->rooms[i].node != node ||
		strcmp(capacity->rooms[i].pool, pool) != 0))
		i++;
	return i;
}

static int pools_reserve(struct capacity *capacity, size_t more,
			 struct error *err)
{
	size_t n = capacity->n_pools + more + 1;
	struct capacity_room *rooms = reallocarray(capacity->rooms, n,
						   sizeof(*rooms));
	struct planner_pool *pools;

	if (!rooms)
		return error_set(err, ENOMEM, "out of memory");
	capacity->rooms = rooms;
	pools = reallocarray(capacity->pools, n, sizeof(*pools));
	if (!pools)
		return error_set(err, ENOMEM, "out of memory");
	capacity->pools = pools;
	return 0;
}

/* Let the planner see the rooms as they are. */
static void rooms_offer(struct capacity *capacity)
{
	for (size_t i = 0; i < capacity->n_pools; i++) {
		const struct capacity_room *room = &capacity->rooms[i];
		const struct capacity_node *node = &capacity->nodes[room->node];

		capacity->pools[i] = (struct planner_pool){
			.node = node->name,
			.pool = room->pool,
			.labels = node->labels,
			.available = room->available,
			.online = room->online,
			.cordoned = room->cordoned,
		};
	}
}

/*
 * Leave out a node whose blockd is too new: its answers may mean what this
 * program does not know.
 */
static void node_check_version(struct capacity_node *node, const char *version)
{
	if (!node->reachable ||
	    !node_version_is_newer(version, TRIBUTARY_VERSION))
		return;
	node->reachable = false;
	node->newer = true;
	free(node->problem);
	if (asprintf(&node->problem,
		     "node '%s' runs version %s, more than one minor version "
		     "newer than this program, " TRIBUTARY_VERSION,
		     node->name, version) < 0)
		node->problem = NULL;
}

/* Take over what the record of node @index tells. */
static void node_take_known(struct capacity *capacity, size_t index)
{
	const struct known_node *known = &capacity->known->items[index];
	struct capacity_node *node = &capacity->nodes[index];

	*node = (struct capacity_node){
		.name = known->name,
		.labels = &known->labels,
		.reported = known->reported,
		.reachable = !known->problem && !known->unreported,
		.problem = known->problem ? strdup(known->problem) : NULL,
		.wanted = known->unreported,
	};
	node_check_version(node, known->version);
	for (size_t k = 0; node->reachable && k < known->n_pools; k++) {
		struct known_pool *pool = &known->pools[k];
		struct capacity_room *room =
			&capacity->rooms[capacity->n_pools++];

		*room = (struct capacity_room){
			.node = index,
			.known = pool,
			.available = atomic_load(&pool->available),
			.online = atomic_load(&pool->online),
			.cordoned = pool->cordoned,
		};
		memcpy(room->pool, pool->name, sizeof(room->pool));
	}
}

static int capacity_take_known(struct capacity *capacity, struct error *err)
{
	const struct known_nodes *known = capacity->known;
	size_t n = 0;
	int r;

	for (size_t i = 0; i < known->count; i++)
		n += known->items[i].n_pools;
	capacity->nodes = calloc(known->count + 1, sizeof(*capacity->nodes));
	if (!capacity->nodes)
		return error_set(err, ENOMEM, "out of memory");
	r = pools_reserve(capacity, n, err);
	if (r < 0)
		return r;
	capacity->n_nodes = known->count;
	for (size_t i = 0; i < known->count; i++)
		node_take_known(capacity, i);
	return 0;
}

static int capacity_load_at(struct volume_context *ctx, bool fresh,
			    struct capacity *ret, struct error *err)
{
	struct capacity capacity = {0};
	int64_t start_ms = clock_ms();
	int r = known_load(ctx, fresh, &capacity.known, err);

	if (r == 0) {
		capacity.kept = capacity.known->loaded_ms < start_ms;
		r = capacity_take_known(&capacity, err);
	}
	if (r == 0)
		r = capacity_ask_wanted(ctx, &capacity, err);
	if (r < 0)
		capacity_done(&capacity);
	else
		*ret = capacity;
	return r;
}

int capacity_load(struct volume_context *ctx, struct capacity *ret,
		  struct error *err)
{
	return capacity_load_at(ctx, false, ret, err);
}

void capacity_done(struct capacity *capacity)
{
	for (size_t i = 0; i < capacity->n_nodes; i++)
		free(capacity->nodes[i].problem);
	free(capacity->nodes);
	free(capacity->pools);
	free(capacity->rooms);
	known_nodes_unref(capacity->known);
	*capacity = (struct capacity){0};
}

/* ---- asking ---- */

void capacity_want(struct capacity *capacity, const char *node)
{
	for (size_t i = 0; i < capacity->n_nodes; i++) {
		if (strcmp(capacity->nodes[i].name, node) == 0)
			capacity->nodes[i].wanted = capacity->nodes[i].reported;
	}
}

/* Take over a pool of an answer. A plan of now may take room of it. */
static void room_answered(struct capacity *capacity, size_t node,
			  const struct node_pool *pool)
{
	size_t at = pool_place(capacity, node, pool->name);
	struct capacity_room *room = &capacity->rooms[at];

	if (at == capacity->n_pools) {
		*room = (struct capacity_room){.node = node};
		memcpy(room->pool, pool->name, sizeof(room->pool));
		room->cordoned = pool->cordoned;
		capacity->n_pools++;
	}
	room->changed = room->changed || pool->cordoned != room->cordoned;
	room->cordoned = pool->cordoned;
	room->available = pool->available;
	room->reserved = pool->reserved;
	room->online = node_pool_is_online(pool);
}

static int node_answered(struct capacity *capacity, size_t index,
			 const struct node_state *state, struct error *err)
{
	struct capacity_node *node = &capacity->nodes[index];
	int r = pools_reserve(capacity, state->n_pools, err);

	if (r < 0)
		return r;
	node->wanted = node->reported = false;
	node->reachable = state->reachable;
	free(node->problem);
	node->problem = state->reachable ? NULL : strdup(state->problem);
	node_check_version(node, state->version);
	for (size_t i = 0; i < capacity->n_pools; i++) {
		if (capacity->rooms[i].node == index)
			capacity->rooms[i].online = false;
	}
	for (size_t k = 0; node->reachable && k < state->n_pools; k++)
		room_answered(capacity, index, &state->pools[k]);
	return 0;
}

struct asking {
	struct volume_context *ctx;
	const struct capacity *capacity;
	size_t nodes[ASKED_AT_ONCE]; /* indexes */
	struct node_state states[ASKED_AT_ONCE];
	size_t count;
};

static void asking_ask(void *asking_, size_t index)
{
	struct asking *asking = asking_;
	const struct capacity_node *node =
		&asking->capacity->nodes[asking->nodes[index]];

	node_state_ask(asking->ctx, node->name, &asking->states[index]);
}

/* Ask the nodes that were collected, and take over their answers. */
static int asking_run(struct asking *asking, struct capacity *capacity,
		      struct error *err)
{
	int r = 0;

	parallel_run(asking->count, ASKED_AT_ONCE, asking_ask, asking);
	for (size_t i = 0; i < asking->count; i++) {
		struct node_state *state = &asking->states[i];

		if (r == 0)
			r = node_answered(capacity, asking->nodes[i], state,
					  err);
		node_record_done(&state->record);
		free(state->pools);
	}
	asking->count = 0;
	return r;
}

int capacity_ask_wanted(struct volume_context *ctx, struct capacity *capacity,
			struct error *err)
{
	auto_free struct asking *asking = calloc(1, sizeof(*asking));
	int r = 0;

	if (!asking)
		return error_set(err, ENOMEM, "out of memory");
	asking->ctx = ctx;
	asking->capacity = capacity;
	for (size_t i = 0; r == 0 && i < capacity->n_nodes; i++) {
		if (capacity->nodes[i].wanted)
			asking->nodes[asking->count++] = i;
		if (asking->count == ASKED_AT_ONCE)
			r = asking_run(asking, capacity, err);
	}
	if (r == 0)
		r = asking_run(asking, capacity, err);
	rooms_offer(capacity);
	return r;
}

int capacity_ask_rest(struct volume_context *ctx, struct capacity *capacity,
		      struct error *err)
{
	int n = 0, r;

	for (size_t i = 0; i < capacity->n_nodes; i++) {
		capacity->nodes[i].wanted = capacity->nodes[i].reported;
		n += capacity->nodes[i].wanted;
	}
	r = capacity_ask_wanted(ctx, capacity, err);
	return r < 0 ? r : n;
}

/* ---- plans ---- */

void capacity_take(struct capacity *capacity, size_t pool, uint64_t bytes)
{
	capacity->rooms[pool].taken += bytes;
}

/* Forget the plan before. */
static void rooms_reset(struct capacity *capacity)
{
	for (size_t i = 0; i < capacity->n_pools; i++) {
		capacity->rooms[i].taken = 0;
		capacity->rooms[i].changed = false;
	}
	rooms_offer(capacity);
}

static bool rooms_suffice(const struct capacity *capacity)
{
	for (size_t i = 0; i < capacity->n_pools; i++) {
		const struct capacity_room *room = &capacity->rooms[i];

		if (room->taken && (!room->online || room->changed ||
				    room->available < room->taken))
			return false;
	}
	return true;
}

/* Ask the nodes that the plan takes room of. 1: all have it; 0: not so. */
static int plan_confirm(struct volume_context *ctx, struct capacity *capacity,
			struct error *err)
{
	bool any = false;
	int r = 0;

	for (size_t i = 0; i < capacity->n_pools; i++) {
		const struct capacity_room *room = &capacity->rooms[i];

		if (room->taken && capacity->nodes[room->node].reported)
			any = capacity->nodes[room->node].wanted = true;
	}
	if (any)
		r = capacity_ask_wanted(ctx, capacity, err);
	return r < 0 ? r : !any || rooms_suffice(capacity);
}

/* Let the next plans know what was learned, and what this one takes. */
static void plan_remember(const struct capacity *capacity)
{
	for (size_t i = 0; i < capacity->n_pools; i++) {
		const struct capacity_room *room = &capacity->rooms[i];

		if (!room->known || capacity->nodes[room->node].reported)
			continue;
		atomic_store(&room->known->available,
			     room->available > room->taken
				     ? room->available - room->taken
				     : 0);
		atomic_store(&room->known->online, room->online);
	}
}

/* Know more: the records of now, or all nodes' answers. 0: all is known. */
static int capacity_know_more(struct volume_context *ctx,
			      struct capacity *capacity)
{
	struct capacity now, before = *capacity;

	if (!capacity->kept)
		return capacity_ask_rest(ctx, capacity, NULL);
	if (capacity_load_at(ctx, true, &now, NULL) < 0)
		return 0;
	*capacity = now;
	capacity_done(&before);
	return 1;
}

int capacity_settle(struct volume_context *ctx, struct capacity *capacity,
		    capacity_plan plan, void *context, struct error *err)
{
	struct error why = {0};
	int r = 0;

	for (unsigned round = 1; r == 0; round++) {
		why = (struct error){0};
		rooms_reset(capacity);
		r = plan(context, capacity, &why);
		if (r == 0)
			r = plan_confirm(ctx, capacity, &why);
		if (r > 0 || (r == 0 && round < ROUNDS_MAX))
			continue;
		if (capacity_know_more(ctx, capacity) > 0)
			r = 0;
	}
	plan_remember(capacity);
	if (r < 0 && err)
		*err = why;
	return r < 0 ? r : 0;
}

/* ---- looking things up ---- */

const struct capacity_node *capacity_node(const struct capacity *capacity,
					  const char *name)
{
	for (size_t i = 0; i < capacity->n_nodes; i++) {
		if (strcmp(capacity->nodes[i].name, name) == 0)
			return &capacity->nodes[i];
	}
	return NULL;
}

struct planner_pool *capacity_pool(const struct capacity *capacity,
				   const char *node, const char *pool)
{
	for (size_t i = 0; i < capacity->n_pools; i++) {
		struct planner_pool *p = &capacity->pools[i];

		if (strcmp(p->node, node) == 0 && strcmp(p->pool, pool) == 0)
			return p;
	}
	return NULL;
}

size_t capacity_name_silent(const struct capacity *capacity, struct error *err)
{
	const struct capacity_node *silent = NULL, *newer = NULL;
	size_t n_silent = 0, n_newer = 0;

	for (size_t i = capacity->n_nodes; i-- > 0;) {
		const struct capacity_node *node = &capacity->nodes[i];

		if (node->newer) {
			newer = node;
			n_newer++;
		} else if (!node->reachable) {
			silent = node;
			n_silent++;
		}
	}
	if (newer)
		(void)error_prefix(err, -ENOSPC,
				   "%zu of %zu nodes cannot be used (first: "
				   "%.160s); of the others: ",
				   n_newer, capacity->n_nodes,
				   newer->problem ?: newer->name);
	if (silent)
		(void)error_prefix(err, -ENOSPC,
				   "%zu of %zu nodes did not answer (first "
				   "'%s'); of the others: ",
				   n_silent, capacity->n_nodes, silent->name);
	return n_silent + n_newer;
}

int capacity_split(const struct volume_record *record, size_t index,
		   const struct planner_pool *pool, uint64_t size,
		   struct volume_split *ret, struct error *err)
{
	if (index >= VOLUME_SPLITS_MAX)
		return error_set(err, E2BIG, "a volume has at most %d splits",
				 VOLUME_SPLITS_MAX);
	*ret = (struct volume_split){
		.index = (unsigned)index,
		.size = size,
		.state = SPLIT_PLANNED,
	};
	(void)snprintf(ret->node, sizeof(ret->node), "%s", pool->node);
	(void)snprintf(ret->pool, sizeof(ret->pool), "%s", pool->pool);
	(void)snprintf(ret->extent, sizeof(ret->extent), "%.59s-%hhu",
		       record->name, (unsigned char)index);
	(void)uuid_make(ret->fs_uuid);
	return 0;
}
