/* SPDX-License-Identifier: Apache-2.0 */
/* A state as records, and counted again. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "blockd/raw/store/raw_state.h"

/* ---- a checkpoint ---- */

/* The visitor of a state's records. */
struct emit {
	const struct raw_bitmaps *bitmaps;
	int (*visit)(void *context, const struct raw_record *record);
	void *context;
	uint32_t number; /* of the last leaf */
	/* WRITTENs of a leaf; owned. */
	struct raw_record *windows;
	uint32_t n, room;
};

/* Of one that is written in part a MAP says that it is not at all. */
static uint32_t as_mapped(const struct raw_leaf *leaf, unsigned at)
{
	uint32_t entry = atomic_load(&leaf->entries[at]);

	if (entry == RAW_HOLE || !(entry & RAW_PARTIAL))
		return entry;
	return RAW_PHYSICAL(entry) | RAW_UNWRITTEN;
}

static int emit_entries(struct emit *emit, const struct raw_leaf *leaf)
{
	unsigned at = 0;
	int r = 0;

	while (r == 0 && at < RAW_LEAF_ENTRIES) {
		struct raw_record record = {.type = RAW_MAP, .logical = at};
		uint32_t first = as_mapped(leaf, at), n = 1;

		if (first == RAW_HOLE) {
			at++;
			continue;
		}
		while (at + n < RAW_LEAF_ENTRIES &&
		       as_mapped(leaf, at + n) == first + n)
			n++;
		record.unwritten = first & RAW_UNWRITTEN;
		record.physical = RAW_PHYSICAL(first);
		record.count = n;
		r = emit->visit(emit->context, &record);
		at += n;
	}
	return r;
}

static int windows_add(struct emit *emit, const struct raw_record *record)
{
	uint32_t room = emit->room ? 2 * emit->room : 64;
	struct raw_record *windows = emit->windows;

	if (emit->n == emit->room) {
		windows = reallocarray(windows, room, sizeof(*windows));
		if (!windows)
			return -ENOMEM;
		emit->windows = windows;
		emit->room = room;
	}
	windows[emit->n++] = *record;
	return 0;
}

/*
 * Find the written blocks of a leaf's clusters. Once only, because more may be
 * written meanwhile. Blocks of that time do no harm: they are written, and a
 * log that is read after this says so, too.
 */
static int find_windows(struct emit *emit, const struct raw_leaf *leaf)
{
	int r = 0;

	emit->n = 0;
	for (unsigned at = 0; leaf->partial && at < RAW_LEAF_ENTRIES; at++) {
		uint32_t entry = atomic_load(&leaf->entries[at]);
		struct raw_record record = {.type = RAW_WRITTEN, .logical = at};
		const struct raw_bitmap *bitmap;

		if (entry == RAW_HOLE || !(entry & RAW_PARTIAL))
			continue;
		record.physical = RAW_PHYSICAL(entry);
		bitmap = raw_bitmaps_frozen(emit->bitmaps, record.physical);
		for (; bitmap && r == 0 &&
		       record.window < raw_bitmaps_windows(emit->bitmaps);
		     record.window++) {
			if (raw_bitmap_window(bitmap, record.window,
					      &record.blocks))
				r = windows_add(emit, &record);
		}
	}
	return r;
}

static int emit_leaf(struct emit *emit, struct raw_leaf *leaf)
{
	struct raw_record record = {.type = RAW_LEAF, .from = ++emit->number};
	int r = find_windows(emit, leaf);

	record.count = leaf->mapped + emit->n;
	if (r == 0)
		r = emit->visit(emit->context, &record);
	if (r == 0)
		r = emit_entries(emit, leaf);
	for (uint32_t i = 0; r == 0 && i < emit->n; i++)
		r = emit->visit(emit->context, &emit->windows[i]);
	leaf->number = record.from;
	return r;
}

static int emit_map(struct emit *emit, struct raw_object *object)
{
	struct raw_root *root = atomic_load(&object->map.root);
	int r = 0;

	for (size_t i = 0; root && r == 0 && i < root->slots; i++) {
		struct raw_leaf *leaf = atomic_load(&root->leaves[i]);
		struct raw_record use = {
			.type = RAW_USE, .object = object->id, .logical = i};

		if (!leaf || !leaf->mapped)
			continue;
		if (!leaf->number)
			r = emit_leaf(emit, leaf);
		use.from = leaf->number;
		if (r == 0)
			r = emit->visit(emit->context, &use);
	}
	return r;
}

static void forget_numbers(struct raw_state *state)
{
	for (uint32_t i = 0; i < state->n_slots; i++) {
		struct raw_object *object = state->objects[i];
		struct raw_root *root = object ? atomic_load(&object->map.root)
					       : NULL;

		for (size_t j = 0; root && j < root->slots; j++) {
			struct raw_leaf *leaf = atomic_load(&root->leaves[j]);

			if (leaf)
				leaf->number = 0;
		}
	}
}

static uint32_t count_leaves(const struct raw_object *object)
{
	struct raw_root *root = atomic_load(&object->map.root);
	uint32_t n = 0;

	for (size_t i = 0; root && i < root->slots; i++) {
		const struct raw_leaf *leaf = atomic_load(&root->leaves[i]);

		n += leaf && leaf->mapped;
	}
	return n;
}

/* Without their maps: so that a name is lost only with its own record. */
static int emit_objects(struct emit *emit, const struct raw_state *state)
{
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < state->n_slots; i++) {
		const struct raw_object *object = state->objects[i];
		struct raw_record record = {.type = RAW_OBJECT};

		if (!object)
			continue;
		record.object = object->id;
		record.clusters = raw_map_clusters(&object->map);
		record.leaves = count_leaves(object);
		record.text = object->text;
		record.text_length = object->text_length;
		r = emit->visit(emit->context, &record);
	}
	return r;
}

int raw_state_emit(struct raw_state *state,
		   int (*visit)(void *context, const struct raw_record *record),
		   void *context)
{
	return raw_state_emit_with(state, &state->alloc.bitmaps, visit,
				   context);
}

int raw_state_emit_with(struct raw_state *state,
			const struct raw_bitmaps *bitmaps,
			int (*visit)(void *context,
				     const struct raw_record *record),
			void *context)
{
	struct raw_record pool = {
		.type = RAW_POOL,
		.clusters = state->n_objects,
		.text = state->pool_text ? state->pool_text : "",
		.text_length = state->pool_text_length,
	};
	struct emit emit = {
		.bitmaps = bitmaps, .visit = visit, .context = context};
	int r = visit(context, &pool);

	if (r == 0)
		r = emit_objects(&emit, state);
	for (uint32_t i = 0; r == 0 && i < state->n_slots; i++) {
		if (state->objects[i])
			r = emit_map(&emit, state->objects[i]);
	}
	/* Again: the pool's own record is not lost with the first part. */
	if (r == 0)
		r = visit(context, &pool);
	forget_numbers(state);
	free(emit.windows);
	return r;
}

/* ---- how much that is ---- */

static uint64_t size_of(enum raw_record_type type)
{
	return raw_record_size(&(struct raw_record){.type = type});
}

static uint64_t windows_size(const struct raw_state *state, uint64_t partial)
{
	return partial * raw_bitmaps_windows(&state->alloc.bitmaps) *
	       size_of(RAW_WRITTEN);
}

uint64_t raw_maps_size(uint64_t n)
{
	return n * size_of(RAW_MAP);
}

/* With each entry in a run of its own, and each leaf in one map only. */
uint64_t raw_state_bytes(const struct raw_state *state)
{
	return size_of(RAW_POOL) + state->pool_text_length +
	       state->n_objects * size_of(RAW_OBJECT) + state->text_bytes +
	       state->slots_in_all * (size_of(RAW_LEAF) + size_of(RAW_USE)) +
	       raw_maps_size(state->alloc.references) +
	       windows_size(state, state->alloc.references_partial);
}

/* Leaves that others have, too, get a copy. */
static uint64_t map_growth(const struct raw_state *state,
			   const struct raw_record *record)
{
	const struct raw_object *object = raw_state_object(state,
							   record->object);
	const uint64_t count = record->type == RAW_WRITTEN ? 1 : record->count;
	uint64_t n = record->type == RAW_MAP ? count : 0, partial = 0;
	uint64_t at = record->logical, end = at + count;
	const struct raw_root *root;

	if (!object || end > raw_map_clusters(&object->map))
		return 0; /* raw_state_apply() says so */
	root = atomic_load(&object->map.root);
	while (at < end) {
		const struct raw_leaf *leaf = atomic_load(
			&root->leaves[at / RAW_LEAF_ENTRIES]);

		if (leaf && leaf->maps > 1) {
			n += leaf->mapped;
			partial += leaf->partial;
		}
		at += RAW_LEAF_ENTRIES - at % RAW_LEAF_ENTRIES;
	}
	partial += record->type == RAW_WRITTEN;
	return raw_maps_size(n) + windows_size(state, partial);
}

static uint64_t share_growth(const struct raw_state *state,
			     const struct raw_record *record)
{
	const struct raw_object *from = raw_state_object(state, record->from);
	const struct raw_root *root = from ? atomic_load(&from->map.root)
					   : NULL;
	uint64_t n = 0, partial = 0;

	for (size_t i = 0; root && i < root->slots; i++) {
		const struct raw_leaf *leaf = atomic_load(&root->leaves[i]);

		if (leaf && leaf->unwritten) {
			n += leaf->mapped - leaf->unwritten;
			partial += leaf->partial;
		}
	}
	return raw_maps_size(n) + windows_size(state, partial);
}

static uint64_t object_growth(const struct raw_state *state,
			      const struct raw_record *record)
{
	const struct raw_object *object = raw_state_object(state,
							   record->object);
	uint64_t had = object ? raw_map_clusters(&object->map) : 0;
	uint64_t text = object ? object->text_length : 0, n = 0;

	if (!object)
		n = size_of(RAW_OBJECT);
	if (record->text_length > text)
		n += record->text_length - text;
	if (record->clusters > had)
		n += (1 + (record->clusters - had) / RAW_LEAF_ENTRIES) *
		     (size_of(RAW_LEAF) + size_of(RAW_USE));
	return n;
}

uint64_t raw_state_growth(const struct raw_state *state,
			  const struct raw_record *record)
{
	switch (record->type) {
	case RAW_OBJECT: return object_growth(state, record);
	case RAW_MAP:
	case RAW_WRITTEN:
	case RAW_UNMAP: return map_growth(state, record);
	case RAW_SHARE: return share_growth(state, record);
	default: return 0;
	}
}

/* ---- all of it counted again ---- */

/* Also how many say that they are written in part, and nobody knows which. */
static uint32_t raw_state_count_leaf(const struct raw_state *state,
				     const struct raw_leaf *leaf,
				     uint32_t *counts)
{
	uint32_t lost = 0;

	for (unsigned i = 0; i < RAW_LEAF_ENTRIES; i++) {
		uint32_t entry = atomic_load(&leaf->entries[i]);

		if (entry == RAW_HOLE)
			continue;
		counts[RAW_PHYSICAL(entry)]++;
		lost += entry & RAW_PARTIAL &&
			!raw_bitmaps_find(&state->alloc.bitmaps,
					  RAW_PHYSICAL(entry));
	}
	return lost;
}

/* A leaf is counted in the map that comes first of those that have it. */
static uint32_t raw_state_count_all(const struct raw_state *state,
				    uint32_t *counts)
{
	uint32_t lost = 0;

	for (uint32_t i = 0; i < state->n_slots; i++) {
		struct raw_object *object = state->objects[i];
		struct raw_root *root = object ? atomic_load(&object->map.root)
					       : NULL;

		for (size_t j = 0; root && j < root->slots; j++) {
			struct raw_leaf *leaf = atomic_load(&root->leaves[j]);

			if (leaf && !leaf->number++)
				lost += raw_state_count_leaf(state, leaf,
							     counts);
		}
	}
	return lost;
}

int raw_state_verify(const struct raw_state *state, struct error *err)
{
	const struct raw_alloc *alloc = &state->alloc;
	uint32_t *counts = calloc(alloc->clusters, sizeof(*counts));
	uint32_t lost;
	int r = 0;

	if (!counts)
		return error_set(err, ENOMEM, "out of memory");
	lost = raw_state_count_all(state, counts);
	if (lost)
		r = error_set(err, EBADMSG,
			      "the written blocks of %" PRIu32
			      " clusters are unknown",
			      lost);
	forget_numbers((struct raw_state *)state);
	for (uint32_t i = 0; r == 0 && i < alloc->clusters; i++) {
		if (counts[i] != raw_alloc_count(alloc, i))
			r = error_set(err, EBADMSG,
				      "cluster %" PRIu32 " has %" PRIu32
				      " references and counts %" PRIu32,
				      i, counts[i], raw_alloc_count(alloc, i));
		else if (counts[i] && !raw_alloc_is_taken(alloc, i))
			r = error_set(err, EBADMSG,
				      "cluster %" PRIu32
				      " is referenced and free",
				      i);
	}
	free(counts);
	return r;
}
