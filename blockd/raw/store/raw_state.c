/* SPDX-License-Identifier: Apache-2.0 */
/* A state as it is changed; from its medium: blockd/raw/store/raw_state_load.c.
 */
#include "blockd/raw/store/raw_state.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

int raw_state_init(struct raw_state *state, uint32_t clusters,
		   uint8_t cluster_shift)
{
	*state = (struct raw_state){0};
	return raw_alloc_init(&state->alloc, clusters, cluster_shift);
}

static void raw_object_free(struct raw_object *object)
{
	if (object)
		free(object->text);
	free(object);
}

/* Free a map, and each leaf that no other map has. */
static void map_free(struct raw_map *map)
{
	struct raw_root *root = atomic_load(&map->root);

	for (size_t i = 0; root && i < root->slots; i++) {
		struct raw_leaf *leaf = atomic_load(&root->leaves[i]);

		if (leaf && --leaf->maps == 0)
			free(leaf);
	}
	free(root);
}

void raw_state_done(struct raw_state *state)
{
	raw_state_leaves_done(state);
	for (uint32_t i = 0; i < state->n_slots; i++) {
		if (state->objects[i])
			map_free(&state->objects[i]->map);
		raw_object_free(state->objects[i]);
	}
	free(state->objects);
	free(state->pool_text);
	raw_trash_empty(&state->trash);
	raw_alloc_done(&state->alloc);
	*state = (struct raw_state){0};
}

/* ---- objects ---- */

struct raw_object *raw_state_object(const struct raw_state *state, uint32_t id)
{
	return id && id <= state->n_slots ? state->objects[id - 1] : NULL;
}

uint32_t raw_state_new_id(const struct raw_state *state, uint32_t after)
{
	uint32_t id = after + 1;

	while (raw_state_object(state, id))
		id++;
	return id <= RAW_OBJECTS_MAX ? id : 0;
}

static int slots_reserve(struct raw_state *state, uint32_t id)
{
	uint32_t n = state->n_slots ? state->n_slots : 16;
	struct raw_object **objects;

	if (id <= state->n_slots)
		return 0;
	while (n < id)
		n *= 2;
	objects = reallocarray(state->objects, n, sizeof(struct raw_object *));
	if (!objects)
		return -ENOMEM;
	memset(objects + state->n_slots, 0,
	       (n - state->n_slots) * sizeof(struct raw_object *));
	state->objects = objects;
	state->n_slots = n;
	return 0;
}

static char *text_copy(const struct raw_record *record)
{
	char *text = malloc((size_t)record->text_length + 1);

	if (!text)
		return NULL;
	if (record->text_length)
		memcpy(text, record->text, record->text_length);
	text[record->text_length] = '\0';
	return text;
}

/* ---- one function a record ---- */

static int apply_pool(struct raw_state *state, const struct raw_record *record)
{
	char *text = text_copy(record);

	if (!text)
		return -ENOMEM;
	free(state->pool_text);
	state->pool_text = text;
	state->pool_text_length = record->text_length;
	state->objects_said = record->clusters;
	return 0;
}

static int object_update(struct raw_state *state, struct raw_object *object,
			 const struct raw_record *record)
{
	char *text = text_copy(record);
	int r = text ? raw_map_extend(&object->map, record->clusters,
				      &state->trash)
		     : -ENOMEM;

	if (r < 0) {
		free(text);
		return r;
	}
	state->text_bytes += record->text_length;
	state->text_bytes -= object->text_length;
	free(object->text);
	object->text = text;
	object->text_length = record->text_length;
	return 0;
}

static uint64_t slots_of(uint64_t clusters)
{
	return (clusters + RAW_LEAF_ENTRIES - 1) / RAW_LEAF_ENTRIES;
}

/* @before: clusters it has now. */
static int raw_state_check_object(const struct raw_state *state,
				  const struct raw_record *record,
				  uint64_t before, struct error *err)
{
	if (record->object > RAW_OBJECTS_MAX ||
	    record->clusters > RAW_CLUSTERS_MAX)
		return error_set(err, EBADMSG,
				 "object %" PRIu32
				 ": its number or size is out of range",
				 record->object);
	if (record->clusters < before)
		return error_set(err, EBADMSG,
				 "object %" PRIu32 " becomes shorter",
				 record->object);
	if (slots_of(record->clusters) - slots_of(before) >
	    RAW_SLOTS_MAX - state->slots_in_all)
		return error_set(err, EBADMSG,
				 "object %" PRIu32
				 ": the pool's objects are too large in all",
				 record->object);
	return 0;
}

static int object_add(struct raw_state *state, const struct raw_record *record)
{
	struct raw_object *object;
	int r = slots_reserve(state, record->object);

	if (r < 0)
		return r;
	object = calloc(1, sizeof(*object));
	if (!object)
		return -ENOMEM;
	object->id = record->object;
	object->leaves = record->leaves;
	r = object_update(state, object, record);
	if (r < 0) {
		raw_object_free(object);
		return r;
	}
	state->objects[record->object - 1] = object;
	state->n_objects++;
	return 0;
}

static int apply_object(struct raw_state *state,
			const struct raw_record *record, struct error *err)
{
	struct raw_object *object = raw_state_object(state, record->object);
	uint64_t before = object ? raw_map_clusters(&object->map) : 0;
	int r = raw_state_check_object(state, record, before, err);

	if (r == 0)
		r = object ? object_update(state, object, record)
			   : object_add(state, record);
	if (r == 0)
		state->slots_in_all += slots_of(record->clusters) -
				       slots_of(before);
	return r;
}

int raw_state_find(const struct raw_state *state, uint32_t id,
		   struct raw_object **ret, struct error *err)
{
	*ret = raw_state_object(state, id);
	return *ret ? 0
		    : error_set(err, EBADMSG, "there is no object %" PRIu32,
				id);
}

static int apply_drop(struct raw_state *state, const struct raw_record *record,
		      struct error *err)
{
	struct raw_object *object;
	uint64_t slots = 0;
	int r = raw_state_find(state, record->object, &object, err);

	if (r == 0)
		slots = slots_of(raw_map_clusters(&object->map));
	if (r == 0)
		r = raw_trash_reserve(&state->trash, slots + 3);
	if (r == 0)
		r = raw_map_drop(&object->map, &state->alloc.refs,
				 &state->trash);
	if (r < 0)
		return r;
	/* A device may still be looking the map up. */
	state->trash.items[state->trash.n++] = object->text;
	state->trash.items[state->trash.n++] = object;
	state->objects[record->object - 1] = NULL;
	state->n_objects--;
	state->slots_in_all -= slots;
	state->text_bytes -= object->text_length;
	return 0;
}

/*
 * A cluster is mapped by one entry; more than one comes of sharing only.
 */
static int check_sole(const struct raw_state *state,
		      const struct raw_object *object,
		      const struct raw_record *record, struct error *err)
{
	for (uint32_t i = 0; i < record->count; i++) {
		uint32_t physical = record->physical + i;
		uint32_t now = raw_map_get(&object->map, record->logical + i);

		if (raw_alloc_count(&state->alloc, physical) &&
		    (now == RAW_HOLE || RAW_PHYSICAL(now) != physical))
			return error_set(err, EBADMSG,
					 "object %" PRIu32
					 " maps cluster %" PRIu32
					 ", which is in use",
					 record->object, physical);
	}
	return 0;
}

int raw_state_check_physical(const struct raw_state *state,
			     const struct raw_record *record, struct error *err)
{
	const struct raw_alloc *alloc = &state->alloc;

	if ((uint64_t)record->physical + record->count > alloc->clusters)
		return error_set(err, EBADMSG,
				 "object %" PRIu32
				 " maps a cluster past the end",
				 record->object);
	for (uint32_t i = 0; i < record->count; i++) {
		if (!raw_alloc_is_taken(alloc, record->physical + i))
			return error_set(err, EBADMSG,
					 "object %" PRIu32
					 " maps cluster %" PRIu32
					 ", which is free",
					 record->object, record->physical + i);
	}
	return 0;
}

/*
 * Tell whether another map has the cluster of @entry, too. That map would go on
 * saying that the cluster is written in part.
 */
static bool is_another_ones(const struct raw_state *state,
			    const struct raw_object *object, uint64_t logical,
			    uint32_t entry)
{
	return raw_map_leaf_shared(&object->map, logical) ||
	       raw_alloc_count(&state->alloc, RAW_PHYSICAL(entry)) > 1;
}

/* A MAP of clusters that it has already: they are written, or not, whole. */
static int check_partial(const struct raw_state *state,
			 const struct raw_object *object,
			 const struct raw_record *record, struct error *err)
{
	for (uint32_t i = 0; i < record->count; i++) {
		uint64_t logical = record->logical + i;
		uint32_t now = raw_map_get(&object->map, logical);

		if (now != RAW_HOLE && now & RAW_PARTIAL &&
		    RAW_PHYSICAL(now) == record->physical + i &&
		    is_another_ones(state, object, logical, now))
			return error_set(err, EBADMSG,
					 "object %" PRIu32
					 " changes cluster %" PRIu32
					 ", which others have, too",
					 record->object, RAW_PHYSICAL(now));
	}
	return 0;
}

/*
 * Drop the bitmaps of clusters that no other map has. Of the others no entry
 * has changed.
 */
static void drop_partial(struct raw_state *state,
			 const struct raw_record *record)
{
	struct raw_alloc *alloc = &state->alloc;

	for (uint32_t i = 0; alloc->bitmaps.n && i < record->count; i++) {
		if (raw_alloc_count(alloc, record->physical + i) == 1)
			raw_bitmaps_drop(&alloc->bitmaps, record->physical + i);
	}
}

static int apply_map(struct raw_state *state, const struct raw_record *record,
		     struct error *err)
{
	const bool map = record->type == RAW_MAP;
	struct raw_object *object;
	int r = raw_state_find(state, record->object, &object, err);

	if (r < 0)
		return r;
	if (record->logical + record->count > raw_map_clusters(&object->map))
		return error_set(err, EBADMSG,
				 "object %" PRIu32 ": a range past its end",
				 record->object);
	r = map ? raw_state_check_physical(state, record, err) : 0;
	if (r == 0 && map)
		r = check_sole(state, object, record, err);
	if (r == 0 && map)
		r = check_partial(state, object, record, err);
	if (r < 0)
		return r;
	r = raw_map_set(&object->map, record->logical, record->count,
			!map ? RAW_HOLE
			     : record->physical |
					(record->unwritten ? RAW_UNWRITTEN : 0),
			&state->alloc.refs, &state->trash);
	/* After the entries: a lookup that finds none looks at those again. */
	if (r == 0 && map)
		drop_partial(state, record);
	return r;
}

int raw_state_check_written(const struct raw_state *state, uint32_t entry,
			    const struct raw_record *record, struct error *err)
{
	if (entry == RAW_HOLE || RAW_PHYSICAL(entry) != record->physical)
		return error_set(err, EBADMSG,
				 "object %" PRIu32 " has no cluster %" PRIu32
				 " where that is written",
				 record->object, record->physical);
	if (!raw_bitmaps_fits(&state->alloc.bitmaps, record->window,
			      &record->blocks))
		return error_set(err, EBADMSG,
				 "object %" PRIu32
				 ": blocks past the end of a cluster",
				 record->object);
	return 0;
}

static int apply_written(struct raw_state *state,
			 const struct raw_record *record, struct error *err)
{
	struct raw_bitmaps *bitmaps = &state->alloc.bitmaps;
	const uint32_t physical = record->physical;
	struct raw_object *object;
	uint32_t entry = RAW_HOLE, then;
	bool whole;
	int r = raw_state_find(state, record->object, &object, err);

	if (r == 0)
		entry = raw_map_get(&object->map, record->logical);
	if (r == 0)
		r = raw_state_check_written(state, entry, record, err);
	/* All of it is written: so it may be, when it was not for the log. */
	if (r < 0 || entry == physical)
		return r;
	if (is_another_ones(state, object, record->logical, entry))
		return error_set(err, EBADMSG,
				 "object %" PRIu32 " writes to cluster %" PRIu32
				 ", which others have, too",
				 record->object, physical);
	r = raw_bitmaps_add(bitmaps, physical, record->window, &record->blocks,
			    &whole);
	then = r == 0 && whole ? physical : physical | RAW_PARTIAL;
	if (r == 0 && entry != then)
		r = raw_map_set(&object->map, record->logical, 1, then,
				&state->alloc.refs, &state->trash);
	/* After the entry: a lookup that finds none looks at that again. */
	if (r == 0 && whole)
		raw_bitmaps_drop(bitmaps, physical);
	return r;
}

static int apply_share(struct raw_state *state, const struct raw_record *record,
		       struct error *err)
{
	struct raw_object *object, *from;
	int r = raw_state_find(state, record->object, &object, err);

	if (r == 0)
		r = raw_state_find(state, record->from, &from, err);
	if (r < 0)
		return r;
	if (raw_map_clusters(&object->map) < raw_map_clusters(&from->map))
		return error_set(err, EBADMSG,
				 "object %" PRIu32 " is shorter than %" PRIu32
				 ", which it is to share",
				 record->object, record->from);
	return raw_map_share(&object->map, &from->map, &state->alloc.refs,
			     &state->trash);
}

int raw_state_apply(struct raw_state *state, const struct raw_record *record,
		    struct error *err)
{
	switch (record->type) {
	case RAW_POOL: return apply_pool(state, record);
	case RAW_OBJECT: return apply_object(state, record, err);
	case RAW_DROP: return apply_drop(state, record, err);
	case RAW_MAP:
		if (!record->object)
			return raw_state_load(state, record, err);
		return apply_map(state, record, err);
	case RAW_UNMAP: return apply_map(state, record, err);
	case RAW_SHARE: return apply_share(state, record, err);
	case RAW_LEAF:
	case RAW_USE: return raw_state_load(state, record, err);
	case RAW_WRITTEN:
		if (!record->object)
			return raw_state_load(state, record, err);
		return apply_written(state, record, err);
	}
	return error_set(err, EBADMSG, "a record of an unknown type");
}
