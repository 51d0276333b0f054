/* SPDX-License-Identifier: Apache-2.0 */
/* A state as records, and counted again. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "blockd/raw_state.h"

/* ---- a checkpoint ---- */

typedef int (*visitor)(void *context, const struct raw_record *record);

static int emit_leaf(struct raw_leaf *leaf, uint32_t number, visitor visit,
		     void *context)
{
	struct raw_record record = {
		.type = RAW_LEAF, .from = number, .count = leaf->mapped};
	int r = visit(context, &record);
	unsigned at = 0;

	while (r == 0 && at < RAW_LEAF_ENTRIES) {
		uint32_t first = atomic_load(&leaf->entries[at]), n = 1;

		if (first == RAW_HOLE) {
			at++;
			continue;
		}
		while (at + n < RAW_LEAF_ENTRIES &&
		       atomic_load(&leaf->entries[at + n]) == first + n)
			n++;
		record = (struct raw_record){
			.type = RAW_MAP,
			.unwritten = first & RAW_UNWRITTEN,
			.logical = at,
			.physical = RAW_PHYSICAL(first),
			.count = n,
		};
		r = visit(context, &record);
		at += n;
	}
	leaf->number = number;
	return r;
}

static int emit_map(struct raw_object *object, uint32_t *number, visitor visit,
		    void *context)
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
			r = emit_leaf(leaf, ++*number, visit, context);
		use.from = leaf->number;
		if (r == 0)
			r = visit(context, &use);
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
static int emit_objects(struct raw_state *state, visitor visit, void *context)
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
		r = visit(context, &record);
	}
	return r;
}

int raw_state_emit(struct raw_state *state,
		   int (*visit)(void *context, const struct raw_record *record),
		   void *context)
{
	struct raw_record pool = {
		.type = RAW_POOL,
		.clusters = state->n_objects,
		.text = state->pool_text ? state->pool_text : "",
		.text_length = state->pool_text_length,
	};
	uint32_t number = 0;
	int r = visit(context, &pool);

	if (r == 0)
		r = emit_objects(state, visit, context);
	for (uint32_t i = 0; r == 0 && i < state->n_slots; i++) {
		if (state->objects[i])
			r = emit_map(state->objects[i], &number, visit,
				     context);
	}
	/* Again: whose pool it is is not lost with the first part. */
	if (r == 0)
		r = visit(context, &pool);
	forget_numbers(state);
	return r;
}

/* ---- how much that is ---- */

static uint64_t size_of(enum raw_record_type type)
{
	return raw_record_size(&(struct raw_record){.type = type});
}

/* With each entry in a run of its own, and each leaf in one map only. */
uint64_t raw_state_bytes(const struct raw_state *state)
{
	return size_of(RAW_POOL) + state->pool_text_length +
	       state->n_objects * size_of(RAW_OBJECT) + state->text_bytes +
	       state->slots_in_all * (size_of(RAW_LEAF) + size_of(RAW_USE)) +
	       state->alloc.references * size_of(RAW_MAP);
}

/* Leaves that others have, too, get a copy. */
static uint64_t map_growth(const struct raw_state *state,
			   const struct raw_record *record)
{
	const struct raw_object *object = raw_state_object(state,
							   record->object);
	uint64_t n = record->type == RAW_MAP ? record->count : 0;
	uint64_t at = record->logical, end = at + record->count;
	const struct raw_root *root;

	if (!object || end > raw_map_clusters(&object->map))
		return 0; /* raw_state_apply() says so */
	root = atomic_load(&object->map.root);
	while (at < end) {
		const struct raw_leaf *leaf = atomic_load(
			&root->leaves[at / RAW_LEAF_ENTRIES]);

		if (leaf && leaf->maps > 1)
			n += leaf->mapped;
		at += RAW_LEAF_ENTRIES - at % RAW_LEAF_ENTRIES;
	}
	return n * size_of(RAW_MAP);
}

static uint64_t share_growth(const struct raw_state *state,
			     const struct raw_record *record)
{
	const struct raw_object *from = raw_state_object(state, record->from);
	const struct raw_root *root = from ? atomic_load(&from->map.root)
					   : NULL;
	uint64_t n = 0;

	for (size_t i = 0; root && i < root->slots; i++) {
		const struct raw_leaf *leaf = atomic_load(&root->leaves[i]);

		if (leaf && leaf->unwritten)
			n += leaf->mapped - leaf->unwritten;
	}
	return n * size_of(RAW_MAP);
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
	case RAW_UNMAP: return map_growth(state, record);
	case RAW_SHARE: return share_growth(state, record);
	default: return 0;
	}
}

/* ---- all of it counted again ---- */

static void count_leaf(const struct raw_leaf *leaf, uint32_t *counts)
{
	for (unsigned i = 0; i < RAW_LEAF_ENTRIES; i++) {
		uint32_t entry = atomic_load(&leaf->entries[i]);

		if (entry != RAW_HOLE)
			counts[RAW_PHYSICAL(entry)]++;
	}
}

/* A leaf is counted in the map that comes first of those that have it. */
static void count_all(const struct raw_state *state, uint32_t *counts)
{
	for (uint32_t i = 0; i < state->n_slots; i++) {
		struct raw_object *object = state->objects[i];
		struct raw_root *root = object ? atomic_load(&object->map.root)
					       : NULL;

		for (size_t j = 0; root && j < root->slots; j++) {
			struct raw_leaf *leaf = atomic_load(&root->leaves[j]);

			if (leaf && !leaf->number++)
				count_leaf(leaf, counts);
		}
	}
}

int raw_state_verify(const struct raw_state *state, struct error *err)
{
	const struct raw_alloc *alloc = &state->alloc;
	uint32_t *counts = calloc(alloc->clusters, sizeof(*counts));
	int r = 0;

	if (!counts)
		return error_set(err, ENOMEM, "out of memory");
	count_all(state, counts);
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
