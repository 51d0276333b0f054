/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/space/room.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "volume/op/node_states.h"

static int pools_collect(struct room *room, struct error *err)
{
	size_t n = 0;

	for (size_t i = 0; i < room->n_states; i++)
		n += room->states[i].n_pools;
	room->pools = calloc(n + 1, sizeof(*room->pools));
	if (!room->pools)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < room->n_states; i++) {
		const struct node_state *state = &room->states[i];

		for (size_t k = 0; state->pools && k < state->n_pools; k++) {
			const struct node_pool *pool = &state->pools[k];

			room->pools[room->n_pools++] = (struct planner_pool){
				.node = state->record.name,
				.pool = pool->name,
				.labels = &state->record.labels,
				.available = pool->available,
				.online = node_pool_is_online(pool),
			};
		}
	}
	return 0;
}

int room_ask(struct volume_context *ctx, struct room *ret, struct error *err)
{
	struct room room = {0};
	int r = node_states_ask(ctx, &room.states, &room.n_states, err);

	if (r == 0)
		r = pools_collect(&room, err);
	if (r < 0)
		room_done(&room);
	else
		*ret = room;
	return r;
}

void room_done(struct room *room)
{
	node_states_free(room->states, room->n_states);
	free(room->pools);
	*room = (struct room){0};
}

const struct node_state *room_node(const struct room *room, const char *name)
{
	for (size_t i = 0; i < room->n_states; i++) {
		if (strcmp(room->states[i].record.name, name) == 0)
			return &room->states[i];
	}
	return NULL;
}

void room_tell_silent(const struct room *room, struct error *err)
{
	size_t silent = 0;
	const char *first = "";

	for (size_t i = 0; i < room->n_states; i++) {
		if (room->states[i].reachable)
			continue;
		if (silent++ == 0)
			first = room->states[i].record.name;
	}
	if (silent > 0)
		(void)error_prefix(err,
				   "%zu of %zu nodes did not answer (first "
				   "'%s'); of the others: ",
				   silent, room->n_states, first);
}

int room_split(const struct volume_record *record, size_t index,
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
