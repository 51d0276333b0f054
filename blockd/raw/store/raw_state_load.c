/* SPDX-License-Identifier: Apache-2.0 */
/* A state from its medium: the records of a checkpoint, and those after it. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "blockd/raw/store/raw_state.h"

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
	r = raw_state_check_physical(state, record, err);
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
	r = raw_state_check_written(state, entry, record, err);
	if (r == 0 && entry == record->physical)
		r = error_set(err, EBADMSG, "blocks are written twice");
	if (r == 0)
		r = raw_bitmaps_add(&state->alloc.bitmaps, record->physical,
				    record->window, &record->blocks, &whole);
	if (r < 0)
		return r;
	/* Also when it is whole now: other leaves may say that, too. */
	raw_leaf_refill(leaf, at, record->physical | RAW_PARTIAL,
			&state->alloc.refs);
	leaf->windows++;
	return 0;
}

static int apply_use(struct raw_state *state, const struct raw_record *record,
		     struct error *err)
{
	struct raw_object *object;
	struct raw_root *root;
	int r = raw_state_find(state, record->object, &object, err);

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

void raw_state_leaves_done(struct raw_state *state)
{
	for (uint32_t i = 0; i < state->n_leaves; i++) {
		if (state->leaves[i] && !state->leaves[i]->maps)
			free(state->leaves[i]);
	}
	free(state->leaves);
	state->leaves = NULL;
	state->n_leaves = state->leaves_room = 0;
}

int raw_state_load(struct raw_state *state, const struct raw_record *record,
		   struct error *err)
{
	switch (record->type) {
	case RAW_LEAF: return apply_leaf(state, record, err);
	case RAW_USE: return apply_use(state, record, err);
	case RAW_MAP: return apply_fill(state, record, err);
	case RAW_WRITTEN: return apply_fill_written(state, record, err);
	default: return error_set(err, EBADMSG, "a record of no object");
	}
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
	raw_bitmaps_free(raw_bitmaps_dead(&alloc->bitmaps));
}

/*
 * Take the clusters of @record. A cluster that is taken and mapped by nobody
 * holds the checkpoint.
 */
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

static void load_leaves_end(struct raw_state *state)
{
	for (uint32_t i = 0; i < state->n_leaves; i++) {
		if (state->leaves[i])
			state->leaves[i]->number = 0;
	}
	raw_state_leaves_done(state);
}

int raw_state_replayed(struct raw_state *state, struct error *err)
{
	int r = check_leaves(state, err);

	if (r == 0)
		r = check_objects(state, err);
	load_leaves_end(state);
	return r;
}
