/* SPDX-License-Identifier: Apache-2.0 */
/* What a raw pool holds when it is opened; what a crash cut short. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "blockd/raw/pool_raw_internal.h"

static int pool_raw_check_object(const struct pool_raw *raw,
				 const struct raw_object *object,
				 const struct extent_record *record,
				 struct error *err)
{
	if (strcmp(record->pool_id, raw->pool.record.id) != 0)
		return error_set(err, EBADMSG,
				 "its record is of another pool (%s)",
				 record->pool_id);
	if (pool_raw_clusters(raw, record->size) >
	    raw_map_clusters(&object->map))
		return error_set(err, EBADMSG,
				 "it is shorter than its record says");
	return 0;
}

static void visit_object(struct pool_raw *raw, const struct raw_object *object,
			 const struct pool_visitor *visitor)
{
	struct extent_record record = {0};
	struct pool_found found = {.name = "?"};
	struct error err = {0};
	char name[32];
	int r = pool_raw_record(object, &record, &err);

	if (r == 0) {
		found.name = record.name;
		found.record = &record;
		r = pool_raw_check_object(raw, object, &record, &err);
		if (object->damaged)
			r = error_set(&err, EIO,
				      "part of its map on '%s' is "
				      "damaged, in both copies",
				      raw->pool.path);
	} else {
		(void)snprintf(name, sizeof(name), "object-%u", object->id);
		found.name = name;
		found.bytes = raw_map_clusters(&object->map) *
			      pool_raw_cluster(raw);
	}
	if (r < 0)
		found.damage = error_text(&err);
	visitor->extent(visitor->context, &found);
	extent_record_done(&record);
}

/* ---- what a crash cut short ---- */

/* The text of an object after @mark; NULL: it has another one. */
static const char *after(const struct raw_object *object, const char *mark)
{
	size_t n = strlen(mark);

	return object && strncmp(object->text, mark, n) == 0 ? object->text + n
							     : NULL;
}

/*
 * Return the id of the object that @object was made with; 0: not with others.
 * @ret: the record of @object.
 */
static uint32_t anchor_of(const struct raw_object *object, const char **ret)
{
	const char *text = after(object, POOL_RAW_MADE_WITH);
	char *end;
	unsigned long id = text ? strtoul(text, &end, 10) : 0;

	if (!text || end == text || *end != '\n' || id > RAW_OBJECTS_MAX)
		return 0;
	*ret = end + 1;
	return (uint32_t)id;
}

static uint32_t slots(struct pool_raw *raw)
{
	uint32_t n = raw_store_lock(raw->store)->n_slots;

	raw_store_unlock(raw->store);
	return n;
}

/* Borrowed until it is changed: at load by us only. */
static const struct raw_object *object_of(struct pool_raw *raw, uint32_t id)
{
	const struct raw_object *object = raw_state_object(
		raw_store_lock(raw->store), id);

	raw_store_unlock(raw->store);
	return object;
}

int pool_raw_undo(struct pool_raw *raw, uint32_t anchor, struct error *err)
{
	struct raw_record drop = {.type = RAW_DROP};
	const char *record;
	int r = 0;

	for (uint32_t id = 1; r == 0 && id <= slots(raw); id++) {
		if (anchor_of(object_of(raw, id), &record) != anchor)
			continue;
		drop.object = id;
		r = raw_store_change(raw->store, &drop, 1, NULL, err);
	}
	/* Last: as long as it is there, they are not. */
	return r < 0 ? r : pool_raw_drop(raw, anchor, err);
}

/* All it was made with is there: its record is its own. */
static int adopt(struct pool_raw *raw, const struct raw_object *object,
		 const char *text, struct error *err)
{
	auto_free char *copy = strdup(text);
	struct raw_record record = {
		.type = RAW_OBJECT,
		.object = object->id,
		.clusters = raw_map_clusters(&object->map),
		.text = copy,
	};

	if (!copy)
		return error_set(err, ENOMEM, "out of memory");
	record.text_length = (uint32_t)strlen(copy);
	return pool_raw_change(raw, &record, err);
}

/* Clusters past its end: it was to become longer, and did not. */
static int trim(struct pool_raw *raw, const struct raw_object *object,
		struct error *err)
{
	struct raw_record back = {.type = RAW_UNMAP, .object = object->id};
	uint64_t size, end = raw_map_clusters(&object->map), n;
	uint32_t entry;
	int r = 0;

	if (pool_raw_size(raw, object->id, &size, NULL, NULL) < 0)
		return 0; /* damaged: as it is */
	for (uint64_t at = pool_raw_clusters(raw, size); r == 0 && at < end;
	     at += n) {
		n = raw_map_run(&object->map, at, end - at, &entry);
		back.logical = at;
		back.count = (uint32_t)n;
		if (entry != RAW_HOLE)
			r = pool_raw_change(raw, &back, err);
	}
	return r;
}

static int finish_object(struct pool_raw *raw, const struct raw_object *object,
			 const struct pool_visitor *visitor, struct error *err)
{
	const char *name = after(object, POOL_RAW_DOOMED), *record;
	char text[EXTENT_NAME_SIZE + 64];
	int r;

	if (name) {
		(void)snprintf(text, sizeof(text),
			       "the delete of extent '%.64s' is finished",
			       name);
		r = pool_raw_drop(raw, object->id, err);
	} else if (strcmp(object->text, POOL_RAW_MAKING) == 0) {
		(void)snprintf(text, sizeof(text),
			       "an interrupted create is undone");
		r = pool_raw_undo(raw, object->id, err);
	} else if (anchor_of(object, &record)) {
		return adopt(raw, object, record, err);
	} else {
		return object->damaged ? 0 : trim(raw, object, err);
	}
	if (r == 0)
		visitor->note(visitor->context, text);
	return r;
}

/* First the objects that undo others. */
static int finish_all(struct pool_raw *raw, const struct pool_visitor *visitor,
		      struct error *err)
{
	const uint32_t n = slots(raw);
	int r = 0;

	if (raw_store_broken(raw->store, NULL))
		return 0; /* it takes no changes; then another time */
	for (uint32_t id = 1; r == 0 && id <= n; id++) {
		const struct raw_object *object = object_of(raw, id);

		if (object && strcmp(object->text, POOL_RAW_MAKING) == 0)
			r = finish_object(raw, object, visitor, err);
	}
	for (uint32_t id = 1; r == 0 && id <= n; id++) {
		const struct raw_object *object = object_of(raw, id);

		if (object)
			r = finish_object(raw, object, visitor, err);
	}
	return r;
}

/* ---- load ---- */

int pool_raw_load(struct pool *pool, const struct pool_visitor *visitor,
		  struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	const struct raw_state *state;
	int r = finish_all(raw, visitor, err);

	if (r < 0)
		return r;
	state = raw_store_lock(raw->store);
	for (uint32_t id = 1; id <= state->n_slots; id++) {
		const struct raw_object *object = raw_state_object(state, id);

		if (object)
			visit_object(raw, object, visitor);
	}
	raw_store_unlock(raw->store);
	return 0;
}
