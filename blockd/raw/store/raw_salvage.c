/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A state from a medium of which parts are lost. An object is whole when all
 * records about it are there; of every other one it is said that it is damaged,
 * and its map is forgotten, so that nothing wrong is ever read through it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "blockd/raw/store/raw_state.h"

/* Only holes from here on; it stays as long as it was. */
static int forget_map(struct raw_state *state, struct raw_object *object)
{
	static const struct raw_map none;
	int r = raw_map_share(&object->map, &none, &state->alloc.refs,
			      &state->trash);

	if (r == 0)
		raw_state_settle(state);
	return r;
}

/* While a checkpoint is read the map's leaves are needed: then later. */
static int object_mark_damaged(struct raw_state *state, uint32_t id)
{
	struct raw_object *object = raw_state_object(state, id);
	struct raw_record unknown = {
		.type = RAW_OBJECT, .object = id, .text = ""};

	if (!object) {
		int r = raw_state_replay(state, &unknown, NULL);

		if (r < 0) /* a number that none can have: nothing of it */
			return r == -EBADMSG ? 0 : r;
		object = raw_state_object(state, id);
	}
	if (object->damaged)
		return 0;
	object->damaged = true;
	return state->leaves ? 0 : forget_map(state, object);
}

static bool is_damaged(const struct raw_state *state, uint32_t id)
{
	const struct raw_object *object = raw_state_object(state, id);

	return object && object->damaged;
}

int raw_state_mark_damaged(struct raw_state *state, const struct raw_mask *mask)
{
	int r = 0;

	raw_mask_join(&state->lost, mask);
	for (uint32_t id = 1; r == 0 && id <= state->n_slots; id++) {
		if (raw_state_object(state, id) && raw_mask_has(mask, id))
			r = object_mark_damaged(state, id);
	}
	return r;
}

/* ---- leaves ---- */

int raw_state_lost(struct raw_state *state)
{
	int r = raw_state_leaves_reserve(state, state->n_leaves + 1);

	/* What follows fills another leaf than the last one that is there. */
	if (r == 0)
		state->leaves[state->n_leaves++] = NULL;
	return r;
}

/* Leaves before @record's were lost: it is the next one. */
static int skip_leaves(struct raw_state *state, const struct raw_record *record)
{
	int r = 0;

	if (record->from == state->n_leaves &&
	    !state->leaves[state->n_leaves - 1])
		state->n_leaves--;
	if (record->from > RAW_SLOTS_MAX)
		return 0; /* nothing has so many */
	while (r == 0 && state->n_leaves + 1 < record->from)
		r = raw_state_lost(state);
	return r;
}

static bool has_incomplete(const struct raw_object *object)
{
	const struct raw_root *root = atomic_load(&object->map.root);

	for (size_t i = 0; root && i < root->slots; i++) {
		const struct raw_leaf *leaf = atomic_load(&root->leaves[i]);

		if (leaf && leaf->mapped + leaf->windows != leaf->number)
			return true;
	}
	return false;
}

static void free_unused(struct raw_state *state, struct raw_leaf *leaf)
{
	struct raw_refs *refs = &state->alloc.refs;

	for (unsigned i = 0; i < RAW_LEAF_ENTRIES; i++) {
		uint32_t entry = atomic_load(&leaf->entries[i]);

		if (entry != RAW_HOLE)
			refs->put(refs, entry);
	}
	free(leaf);
}

static void salvage_leaves_end(struct raw_state *state)
{
	for (uint32_t i = 0; i < state->n_leaves; i++) {
		struct raw_leaf *leaf = state->leaves[i];

		if (leaf && leaf->maps)
			leaf->number = 0;
		else if (leaf)
			free_unused(state, leaf);
	}
	free(state->leaves);
	state->leaves = NULL;
	state->n_leaves = state->leaves_room = 0;
	raw_state_settle(state);
}

int raw_state_salvaged(struct raw_state *state)
{
	int r = 0;

	for (uint32_t i = 0; i < state->n_slots; i++) {
		struct raw_object *object = state->objects[i];

		if (object &&
		    (object->uses != object->leaves || has_incomplete(object)))
			object->damaged = true;
	}
	salvage_leaves_end(state);
	for (uint32_t i = 0; r == 0 && i < state->n_slots; i++) {
		if (is_damaged(state, i + 1))
			r = forget_map(state, state->objects[i]);
	}
	if (state->objects_said > state->n_objects)
		state->objects_lost = state->objects_said - state->n_objects;
	return r;
}

/* ---- records ---- */

int raw_state_salvage(struct raw_state *state, const struct raw_record *record)
{
	const uint32_t id = record->object;
	const bool text = record->type == RAW_OBJECT;
	const bool fresh = text && !raw_state_object(state, id);
	int r = 0;

	if (is_damaged(state, id) && !text && record->type != RAW_DROP)
		return 0;
	if (record->type == RAW_SHARE && is_damaged(state, record->from))
		return object_mark_damaged(state, id);
	if (record->type == RAW_LEAF)
		r = skip_leaves(state, record);
	if (r == 0)
		r = raw_state_replay(state, record, NULL);
	/* The object may have been made, and filled, in lost records. */
	if (r == 0 && fresh && raw_mask_has(&state->lost, id))
		return object_mark_damaged(state, id);
	if (r == -EBADMSG)
		return id ? object_mark_damaged(state, id) : 0;
	return r;
}
