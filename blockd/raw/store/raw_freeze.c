/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A state as it was at one instant: its objects and the roots of their maps,
 * copied. The leaves are the same, and stay as they are: a change of an entry
 * replaces the leaf (raw_map.h).
 */
#include <stdlib.h>
#include <string.h>

#include "blockd/raw/store/raw_state.h"

struct raw_frozen {
	struct raw_state then;             /* objects and texts only; owned */
	const struct raw_bitmaps *bitmaps; /* of the state, which goes on */
};

static void *copy_of(const void *from, size_t size)
{
	void *copy = malloc(size + 1);

	if (copy && size)
		memcpy(copy, from, size);
	return copy;
}

static struct raw_root *root_copy(const struct raw_root *root)
{
	const size_t leaves = root->slots * sizeof(root->leaves[0]);
	struct raw_root *copy = malloc(sizeof(*copy) + leaves);

	if (!copy)
		return NULL;
	copy->clusters = root->clusters;
	copy->slots = root->slots;
	for (size_t i = 0; i < root->slots; i++)
		atomic_init(&copy->leaves[i],
			    atomic_load_explicit(&root->leaves[i],
						 memory_order_relaxed));
	return copy;
}

static void frozen_object_free(struct raw_object *object)
{
	if (object) {
		free(atomic_load(&object->map.root));
		free(object->text);
	}
	free(object);
}

static struct raw_object *object_copy(const struct raw_object *object)
{
	const struct raw_root *root = atomic_load(&object->map.root);
	struct raw_object *copy = calloc(1, sizeof(*copy));
	struct raw_root *its = NULL;

	if (!copy)
		return NULL;
	copy->id = object->id;
	copy->text = copy_of(object->text, object->text_length);
	copy->text_length = object->text_length;
	if (root)
		its = root_copy(root);
	atomic_init(&copy->map.root, its);
	if (copy->text && (!root || its))
		return copy;
	frozen_object_free(copy);
	return NULL;
}

void raw_frozen_free(struct raw_frozen *frozen)
{
	struct raw_state *then;

	if (!frozen)
		return;
	then = &frozen->then;
	for (uint32_t i = 0; then->objects && i < then->n_slots; i++)
		frozen_object_free(then->objects[i]);
	free(then->objects);
	free(then->pool_text);
	free(frozen);
}

static bool copy_objects(struct raw_state *then, const struct raw_state *state)
{
	then->n_objects = state->n_objects;
	then->n_slots = state->n_slots;
	then->objects = calloc((size_t)state->n_slots + 1,
			       sizeof(struct raw_object *));
	if (!then->objects)
		return false;
	for (uint32_t i = 0; i < state->n_slots; i++) {
		if (!state->objects[i])
			continue;
		then->objects[i] = object_copy(state->objects[i]);
		if (!then->objects[i])
			return false;
	}
	return true;
}

struct raw_frozen *raw_state_freeze(struct raw_state *state)
{
	struct raw_frozen *frozen = calloc(1, sizeof(*frozen));

	if (!frozen)
		return NULL;
	frozen->bitmaps = &state->alloc.bitmaps;
	frozen->then.pool_text = copy_of(state->pool_text,
					 state->pool_text_length);
	frozen->then.pool_text_length = state->pool_text_length;
	if (!frozen->then.pool_text || !copy_objects(&frozen->then, state)) {
		raw_frozen_free(frozen);
		return NULL;
	}
	state->alloc.refs.frozen = true;
	state->alloc.refs.freezes++;
	raw_bitmaps_freeze(&state->alloc.bitmaps);
	return frozen;
}

int raw_frozen_emit(struct raw_frozen *frozen,
		    int (*visit)(void *context,
				 const struct raw_record *record),
		    void *context)
{
	return raw_state_emit_with(&frozen->then, frozen->bitmaps, visit,
				   context);
}

void raw_state_thaw(struct raw_state *state)
{
	state->alloc.refs.frozen = false;
	raw_bitmaps_thaw(&state->alloc.bitmaps);
}
