/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/raw_state.h"

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

static void leaves_done(struct raw_state *state)
{
	for (uint32_t i = 0; i < state->n_leaves; i++) {
		if (state->leaves[i] && !state->leaves[i]->maps)
			free(state->leaves[i]);
	}
	free(state->leaves);
	state->leaves = NULL;
	state->n_leaves = state->leaves_room = 0;
}

static void object_free(struct raw_object *object)
{
	if (object)
		free(object->text);
	free(object);
}

/* Each leaf once, whoever shares it. */
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
	leaves_done(state);
	for (uint32_t i = 0; i < state->n_slots; i++) {
		if (state->objects[i])
			map_free(&state->objects[i]->map);
		object_free(state->objects[i]);
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
static int check_object(const struct raw_state *state,
			const struct raw_record *record, uint64_t before,
			struct error *err)
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
		object_free(object);
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
	int r = check_object(state, record, before, err);

	if (r == 0)
		r = object ? object_update(state, object, record)
			   : object_add(state, record);
	if (r == 0)
		state->slots_in_all += slots_of(record->clusters) -
				       slots_of(before);
	return r;
}

static int find(const struct raw_state *state, uint32_t id,
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
	int r = find(state, record->object, &object, err);

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

/* Clusters that are not taken cannot be mapped, nor out of range. */
static int check_physical(const struct raw_state *state,
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
 * Of this cluster the map says what is written; another map that says so, too,
 * would go on saying it.
 */
static bool is_another_ones(const struct raw_state *state,
			    const struct raw_object *object, uint64_t logical,
			    uint32_t entry)
{
	return raw_map_leaf_shared(&object->map, logical) ||
	       raw_alloc_count(&state->alloc, RAW_PHYSICAL(entry)) > 1;
}

/* A MAP of clusters that it has already: they are written, or not, whole. */
static int check_partly(const struct raw_state *state,
			const struct raw_object *object,
			const struct raw_record *record, struct error *err)
{
	for (uint32_t i = 0; i < record->count; i++) {
		uint64_t logical = record->logical + i;
		uint32_t now = raw_map_get(&object->map, logical);

		if (now != RAW_HOLE && now & RAW_PARTLY &&
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

/* Those that nobody else has: of the others no entry has changed. */
static void drop_partly(struct raw_state *state,
			const struct raw_record *record)
{
	struct raw_alloc *alloc = &state->alloc;

	for (uint32_t i = 0; alloc->partly.n && i < record->count; i++) {
		if (raw_alloc_count(alloc, record->physical + i) == 1)
			raw_partly_drop(&alloc->partly, record->physical + i);
	}
}

static int apply_map(struct raw_state *state, const struct raw_record *record,
		     struct error *err)
{
	const bool map = record->type == RAW_MAP;
	struct raw_object *object;
	int r = find(state, record->object, &object, err);

	if (r < 0)
		return r;
	if (record->logical + record->count > raw_map_clusters(&object->map))
		return error_set(err, EBADMSG,
				 "object %" PRIu32 ": a range past its end",
				 record->object);
	r = map ? check_physical(state, record, err) : 0;
	if (r == 0 && map)
		r = check_sole(state, object, record, err);
	if (r == 0 && map)
		r = check_partly(state, object, record, err);
	if (r < 0)
		return r;
	r = raw_map_set(&object->map, record->logical, record->count,
			!map ? RAW_HOLE
			     : record->physical |
					(record->unwritten ? RAW_UNWRITTEN : 0),
			&state->alloc.refs, &state->trash);
	/* After the entries: who finds none looks at those again. */
	if (r == 0 && map)
		drop_partly(state, record);
	return r;
}

/* Of one entry: does it say that @record's cluster lacks some blocks? */
static int check_written(const struct raw_state *state, uint32_t entry,
			 const struct raw_record *record, struct error *err)
{
	if (entry == RAW_HOLE || RAW_PHYSICAL(entry) != record->physical)
		return error_set(err, EBADMSG,
				 "object %" PRIu32 " has no cluster %" PRIu32
				 " where that is written",
				 record->object, record->physical);
	if (!raw_partly_fits(&state->alloc.partly, record->window,
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
	struct raw_partly *partly = &state->alloc.partly;
	const uint32_t physical = record->physical;
	struct raw_object *object;
	uint32_t entry = RAW_HOLE, then;
	bool whole;
	int r = find(state, record->object, &object, err);

	if (r == 0)
		entry = raw_map_get(&object->map, record->logical);
	if (r == 0)
		r = check_written(state, entry, record, err);
	/* All of it is written: so it may be, when it was not for the log. */
	if (r < 0 || entry == physical)
		return r;
	if (is_another_ones(state, object, record->logical, entry))
		return error_set(err, EBADMSG,
				 "object %" PRIu32 " writes to cluster %" PRIu32
				 ", which others have, too",
				 record->object, physical);
	r = raw_partly_add(partly, physical, record->window, &record->blocks,
			   &whole);
	then = r == 0 && whole ? physical : physical | RAW_PARTLY;
	if (r == 0 && entry != then)
		r = raw_map_set(&object->map, record->logical, 1, then,
				&state->alloc.refs, &state->trash);
	/* After the entry: who finds none looks at that again. */
	if (r == 0 && whole)
		raw_partly_drop(partly, physical);
	return r;
}

static int apply_share(struct raw_state *state, const struct raw_record *record,
		       struct error *err)
{
	struct raw_object *object, *from;
	int r = find(state, record->object, &object, err);

	if (r == 0)
		r = find(state, record->from, &from, err);
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

/* ---- records of a checkpoint ---- */

int raw_state_leaves_reserve(struct raw_state *state, uint32_t n)
{
	uint32_t room = state->leaves_room ? state->leaves_room : 64;
	struct raw_leaf **leaves;

	if (n <= state->leaves_room)
		return 0;
	while (room < n)
		room *= 2;
	leaves = reallocarray(state->leaves, room, sizeof(struct raw_leaf *));
	if (!leaves)
		return -ENOMEM;
	state->leaves = leaves;
	state->leaves_room = room;
	return 0;
}

static int apply_leaf(struct raw_state *state, const struct raw_record *record,
		      struct error *err)
{
	if (record->from != state->n_leaves + 1)
		return error_set(err, EBADMSG,
				 "leaf %" PRIu32 " is out of order",
				 record->from);
	if (raw_state_leaves_reserve(state, record->from) < 0)
		return -ENOMEM;
	state->leaves[state->n_leaves] = raw_leaf_new();
	if (!state->leaves[state->n_leaves])
		return -ENOMEM;
	/* Until all is read: how many entries it is to have. */
	state->leaves[state->n_leaves++]->number = record->count;
	return 0;
}

static int apply_fill(struct raw_state *state, const struct raw_record *record,
		      struct error *err)
{
	struct raw_leaf *leaf;
	int r;

	if (!state->n_leaves ||
	    record->logical + record->count > RAW_LEAF_ENTRIES)
		return error_set(err, EBADMSG, "a leaf is filled past its end");
	leaf = state->leaves[state->n_leaves - 1];
	if (!leaf)
		return error_set(err, EBADMSG, "a lost leaf is filled");
	if (leaf->maps)
		return error_set(err, EBADMSG, "a leaf in use is filled");
	r = check_physical(state, record, err);
	if (r < 0)
		return r;
	for (uint32_t i = 0; i < record->count; i++) {
		unsigned at = (unsigned)record->logical + i;

		if (atomic_load(&leaf->entries[at]) != RAW_HOLE)
			return error_set(err, EBADMSG,
					 "a leaf is filled twice");
		raw_leaf_fill(leaf, at,
			      (record->physical + i) |
				      (record->unwritten ? RAW_UNWRITTEN : 0),
			      &state->alloc.refs);
	}
	return 0;
}

/* Of the leaf that was begun last: as many as it has were counted, too. */
static int apply_fill_written(struct raw_state *state,
			      const struct raw_record *record,
			      struct error *err)
{
	struct raw_leaf *leaf = state->n_leaves
					? state->leaves[state->n_leaves - 1]
					: NULL;
	const unsigned at = (unsigned)record->logical;
	uint32_t entry;
	bool whole;
	int r;

	if (!leaf || leaf->maps || record->logical >= RAW_LEAF_ENTRIES)
		return error_set(err, EBADMSG, "blocks are written in no leaf");
	entry = atomic_load(&leaf->entries[at]);
	r = check_written(state, entry, record, err);
	if (r == 0 && entry == record->physical)
		r = error_set(err, EBADMSG, "blocks are written twice");
	if (r == 0)
		r = raw_partly_add(&state->alloc.partly, record->physical,
				   record->window, &record->blocks, &whole);
	if (r < 0)
		return r;
	/* Also when it is whole now: other leaves may say that, too. */
	raw_leaf_refill(leaf, at, record->physical | RAW_PARTLY,
			&state->alloc.refs);
	leaf->windows++;
	return 0;
}

static int apply_use(struct raw_state *state, const struct raw_record *record,
		     struct error *err)
{
	struct raw_object *object;
	struct raw_root *root;
	int r = find(state, record->object, &object, err);

	if (r < 0)
		return r;
	root = atomic_load(&object->map.root);
	if (record->from > state->n_leaves ||
	    !state->leaves[record->from - 1] || !root ||
	    record->logical >= root->slots ||
	    atomic_load(&root->leaves[record->logical]))
		return error_set(err, EBADMSG,
				 "object %" PRIu32 " uses leaf %" PRIu32
				 " in a wrong place",
				 record->object, record->from);
	raw_map_use(&object->map, record->logical,
		    state->leaves[record->from - 1]);
	object->uses++;
	return 0;
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
			return apply_fill(state, record, err);
		return apply_map(state, record, err);
	case RAW_UNMAP: return apply_map(state, record, err);
	case RAW_SHARE: return apply_share(state, record, err);
	case RAW_LEAF: return apply_leaf(state, record, err);
	case RAW_USE: return apply_use(state, record, err);
	case RAW_WRITTEN:
		if (!record->object)
			return apply_fill_written(state, record, err);
		return apply_written(state, record, err);
	}
	return error_set(err, EBADMSG, "a record of an unknown type");
}

/* ---- from the medium ---- */

void raw_state_settle(struct raw_state *state)
{
	struct raw_alloc *alloc = &state->alloc;

	raw_alloc_sure(alloc, alloc->round);
	for (uint32_t i = 0; i < alloc->n_freed; i++) {
		if (!raw_alloc_count(alloc, alloc->freed[i]))
			raw_alloc_give(alloc, alloc->freed[i]);
	}
	alloc->n_freed = 0;
	raw_trash_empty(&state->trash);
	raw_parts_free(raw_partly_dead(&alloc->partly));
}

/* One that is taken and mapped by nobody holds the checkpoint. */
static int take_mapped(struct raw_state *state, const struct raw_record *record,
		       struct error *err)
{
	struct raw_alloc *alloc = &state->alloc;

	if ((uint64_t)record->physical + record->count > alloc->clusters)
		return 0; /* raw_state_apply() says so */
	for (uint32_t i = 0; i < record->count; i++) {
		uint32_t physical = record->physical + i;

		if (!raw_alloc_take_at(alloc, physical) &&
		    !raw_alloc_count(alloc, physical))
			return error_set(err, EBADMSG,
					 "object %" PRIu32
					 " maps cluster %" PRIu32
					 ", which holds the checkpoint",
					 record->object, physical);
	}
	return 0;
}

int raw_state_replay(struct raw_state *state, const struct raw_record *record,
		     struct error *err)
{
	int r = record->type == RAW_MAP ? take_mapped(state, record, err) : 0;

	if (r == 0)
		r = raw_state_apply(state, record, err);
	raw_state_settle(state);
	return r;
}

static int check_leaves(const struct raw_state *state, struct error *err)
{
	for (uint32_t i = 0; i < state->n_leaves; i++) {
		const struct raw_leaf *leaf = state->leaves[i];

		if (!leaf->maps)
			return error_set(err, EBADMSG,
					 "leaf %" PRIu32 " is used by no "
					 "object",
					 i + 1);
		if (leaf->mapped + leaf->windows != leaf->number)
			return error_set(err, EBADMSG,
					 "leaf %" PRIu32 " has %" PRIu32
					 " entries, not %" PRIu32,
					 i + 1, leaf->mapped + leaf->windows,
					 leaf->number);
	}
	return 0;
}

static int check_objects(const struct raw_state *state, struct error *err)
{
	for (uint32_t i = 0; i < state->n_slots; i++) {
		const struct raw_object *object = state->objects[i];

		if (object && object->uses != object->leaves)
			return error_set(err, EBADMSG,
					 "object %" PRIu32 " has %" PRIu32
					 " leaves, not %" PRIu32,
					 i + 1, object->uses, object->leaves);
	}
	if (state->objects_said && state->objects_said != state->n_objects)
		return error_set(err, EBADMSG,
				 "%" PRIu32 " objects are there, not %" PRIu64,
				 state->n_objects, state->objects_said);
	return 0;
}

static void leaves_end(struct raw_state *state)
{
	for (uint32_t i = 0; i < state->n_leaves; i++) {
		if (state->leaves[i])
			state->leaves[i]->number = 0;
	}
	leaves_done(state);
}

int raw_state_replayed(struct raw_state *state, struct error *err)
{
	int r = check_leaves(state, err);

	if (r == 0)
		r = check_objects(state, err);
	leaves_end(state);
	return r;
}
