/* SPDX-License-Identifier: Apache-2.0 */
/* The objects of a raw pool by name: made, changed, deleted, asked about. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "blockd/raw/dev/raw_users.h"
#include "blockd/raw/pool_raw_internal.h"

/* ---- objects by name ---- */

/* The record of an object, or NULL with what is wrong. */
int pool_raw_record(const struct raw_object *object, struct extent_record *ret,
		    struct error *err)
{
	return extent_record_decode(object->text, object->text_length, ret,
				    err);
}

/* @line: "name=NAME" and a line's end, which a record of that name has. */
static bool object_is(const struct raw_object *object, const char *name,
		      const char *line)
{
	struct extent_record record;
	bool same;

	if (strncmp(object->text, POOL_RAW_DOOMED, strlen(POOL_RAW_DOOMED)) ==
	    0)
		return strcmp(object->text + strlen(POOL_RAW_DOOMED), name) ==
		       0;
	/* Most are others: not decoded for that. */
	if (!strstr(object->text, line) ||
	    pool_raw_record(object, &record, NULL) < 0)
		return false;
	same = strcmp(record.name, name) == 0;
	extent_record_done(&record);
	return same;
}

/* 0: there is none. */
uint32_t pool_raw_find(struct pool_raw *raw, const char *name,
		       uint64_t *ret_clusters)
{
	char line[EXTENT_NAME_SIZE + 8];
	const struct raw_state *state;
	uint32_t id = 0;

	(void)snprintf(line, sizeof(line), "name=%s\n", name);
	state = raw_store_lock(raw->store);
	for (uint32_t i = 1; !id && i <= state->n_slots; i++) {
		const struct raw_object *object = raw_state_object(state, i);

		if (!object || !object_is(object, name, line))
			continue;
		id = i;
		if (ret_clusters)
			*ret_clusters = raw_map_clusters(&object->map);
	}
	raw_store_unlock(raw->store);
	return id;
}

bool pool_raw_is_damaged(struct pool_raw *raw, uint32_t id)
{
	const struct raw_state *state = raw_store_lock(raw->store);
	const struct raw_object *object = raw_state_object(state, id);
	bool damaged = !object || object->damaged;

	raw_store_unlock(raw->store);
	return damaged;
}

int pool_raw_need(struct pool_raw *raw, const char *name, uint32_t *ret_id,
		  uint64_t *ret_clusters, struct error *err)
{
	*ret_id = pool_raw_find(raw, name, ret_clusters);
	return *ret_id ? 0
		       : error_set(err, ENOENT,
				   "pool '%s' has no extent '%.64s'",
				   raw->pool.record.name, name);
}

uint64_t pool_raw_cluster(const struct pool_raw *raw)
{
	return UINT64_C(1) << raw_store_super(raw->store)->cluster_shift;
}

uint64_t pool_raw_clusters(const struct pool_raw *raw, uint64_t size)
{
	return (size + pool_raw_cluster(raw) - 1) / pool_raw_cluster(raw);
}

/* One change, durably. */
int pool_raw_change(struct pool_raw *raw, const struct raw_record *record,
		    struct error *err)
{
	uint64_t ticket;
	int r = raw_store_change(raw->store, record, 1, &ticket, err);

	if (r == 0)
		r = raw_store_commit(raw->store, ticket, err);
	if (r < 0)
		(void)error_prefix(err, r,
				   "pool '%s': ", raw->pool.record.name);
	return r;
}

int pool_raw_size(struct pool_raw *raw, uint32_t id, uint64_t *ret,
		  bool *ret_thick, struct error *err)
{
	const struct raw_state *state = raw_store_lock(raw->store);
	const struct raw_object *object = raw_state_object(state, id);
	struct extent_record record;
	int r = object ? pool_raw_record(object, &record, err)
		       : error_set(err, ENOENT, "it is gone");

	raw_store_unlock(raw->store);
	if (r == 0) {
		*ret = record.size;
		if (ret_thick)
			*ret_thick = record.thick;
		extent_record_done(&record);
	}
	return r;
}

int pool_raw_lengthen(struct pool_raw *raw, uint32_t id, uint64_t clusters,
		      struct error *err)
{
	const struct raw_state *state = raw_store_lock(raw->store);
	const struct raw_object *object = raw_state_object(state, id);
	struct raw_record record = {
		.type = RAW_OBJECT,
		.object = id,
		.clusters = raw_map_clusters(&object->map),
		.text_length = object->text_length,
	};
	auto_free char *text = strndup(object->text, object->text_length);

	raw_store_unlock(raw->store);
	if (!text)
		return error_set(err, ENOMEM, "out of memory");
	record.text = text;
	if (record.clusters < clusters)
		record.clusters = clusters;
	return raw_store_change(raw->store, &record, 1, NULL, err);
}

/* Lock @ids held, so that nobody else takes them meanwhile. */
int pool_raw_new_ids(struct pool_raw *raw, uint32_t *ids, size_t n,
		     uint64_t clusters, struct error *err)
{
	const struct raw_state *state = raw_store_lock(raw->store);
	/* One leaf more for each that begins in the middle of one. */
	uint64_t slots = clusters / RAW_LEAF_ENTRIES + n + 1;
	bool room = slots <= RAW_SLOTS_MAX - state->slots_in_all;
	uint32_t id = 0;

	for (size_t i = 0; room && i < n; i++) {
		id = raw_state_new_id(state, id);
		room = id;
		ids[i] = id;
	}
	raw_store_unlock(raw->store);
	return room ? 0
		    : error_set(err, ENOSPC,
				"pool '%s' has no room for more extents: %u, "
				"or %" PRIu64 " TiB of them, are the most",
				raw->pool.record.name, RAW_OBJECTS_MAX,
				RAW_SLOTS_MAX * RAW_LEAF_ENTRIES *
						pool_raw_cluster(raw) >>
					40);
}

/* ---- operations ---- */

/* Lock @ids held. A record that makes an object; its text is @text. */
static int new_object(struct pool_raw *raw, uint64_t clusters, const char *text,
		      size_t length, struct raw_record *ret, struct error *err)
{
	*ret = (struct raw_record){
		.type = RAW_OBJECT,
		.clusters = clusters,
		.text = text,
		.text_length = (uint32_t)length,
	};
	return pool_raw_new_ids(raw, &ret->object, 1, clusters, err);
}

int pool_raw_create(struct pool *pool, const struct extent_record *record,
		    struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	const uint64_t clusters = pool_raw_clusters(raw, record->size);
	struct raw_record object, making;
	auto_free char *text = NULL;
	struct error other;
	size_t length;
	int r = extent_record_encode(record, &text, &length, err);

	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&raw->ids);
	r = new_object(raw, clusters, text, length, &object, err);
	if (r == 0 && record->thick) {
		making = object;
		making.text = POOL_RAW_MAKING;
		making.text_length = strlen(POOL_RAW_MAKING);
		r = raw_store_change(raw->store, &making, 1, NULL, err);
		if (r == 0)
			r = pool_raw_fill(raw, object.object, 0, clusters, err);
		if (r < 0) /* else the next load does it */
			(void)pool_raw_drop(raw, object.object, &other);
	}
	if (r == 0)
		r = pool_raw_change(raw, &object, err);
	(void)pthread_mutex_unlock(&raw->ids);
	return r;
}

/* An object's new text; it becomes no shorter. */
static int resize(struct pool_raw *raw, uint32_t id, uint64_t clusters,
		  const struct extent_record *record, struct error *err)
{
	struct raw_record object = {
		.type = RAW_OBJECT, .object = id, .clusters = clusters};
	auto_free char *text = NULL;
	size_t length;
	int r = extent_record_encode(record, &text, &length, err);

	if (r < 0)
		return r;
	object.text = text;
	object.text_length = (uint32_t)length;
	return pool_raw_change(raw, &object, err);
}

int pool_raw_save(struct pool *pool, const struct extent_record *record,
		  struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	uint64_t clusters;
	uint32_t id;
	int r = pool_raw_need(raw, record->name, &id, &clusters, err);

	return r < 0 ? r : resize(raw, id, clusters, record, err);
}

/*
 * A thick one gets all its new clusters at once, past the end that it has
 * for everybody until its record says more; or none of them.
 */
static int thicken(struct pool_raw *raw, uint32_t id, uint64_t from,
		   uint64_t end, struct error *err)
{
	struct raw_record back = {.type = RAW_UNMAP,
				  .object = id,
				  .logical = from,
				  .count = (uint32_t)(end - from)};
	struct error other;
	int r = end > from ? pool_raw_lengthen(raw, id, end, err) : 0;

	if (r == 0)
		r = pool_raw_fill(raw, id, from, end, err);
	/* What stays behind when this fails, the next load gives back. */
	if (r < 0 && end > from &&
	    raw_store_change(raw->store, &back, 1, NULL, &other) == 0)
		(void)raw_users_clean_now(raw->users, &other);
	return r;
}

int pool_raw_grow(struct pool *pool, const struct extent_record *record,
		  struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	uint64_t had = 0, size = 0,
		 clusters = pool_raw_clusters(raw, record->size);
	uint32_t id;
	int r = pool_raw_need(raw, record->name, &id, &had, err);

	if (r == 0)
		r = pool_raw_size(raw, id, &size, NULL, err);
	if (r < 0)
		return r;
	if (clusters < had)
		clusters = had;
	(void)pthread_mutex_lock(&raw->ids);
	r = pool_raw_new_ids(raw, NULL, 0, clusters - had, err);
	if (r == 0 && record->thick)
		r = thicken(raw, id, pool_raw_clusters(raw, size),
			    pool_raw_clusters(raw, record->size), err);
	if (r == 0)
		r = resize(raw, id, clusters, record, err);
	(void)pthread_mutex_unlock(&raw->ids);
	return r;
}

int pool_raw_begin_delete(struct pool *pool, const char *name,
			  struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	struct raw_record object = {.type = RAW_OBJECT};
	char text[sizeof(POOL_RAW_DOOMED) + EXTENT_NAME_SIZE];
	int r = pool_raw_need(raw, name, &object.object, &object.clusters, err);

	if (r < 0)
		return r;
	object.text = text;
	object.text_length = (uint32_t)snprintf(text, sizeof(text),
						POOL_RAW_DOOMED "%s", name);
	return pool_raw_change(raw, &object, err);
}

int pool_raw_drop(struct pool_raw *raw, uint32_t id, struct error *err)
{
	struct raw_record record = {.type = RAW_DROP, .object = id};
	/* A hold keeps the content of an object, and this one goes. */
	int r = raw->direct ? direct_detach(raw->direct, id, true, err) : 0;

	if (r == 0)
		r = pool_raw_change(raw, &record, err);

	/* Its clusters are free for the next extent when this returns. */
	return r < 0 ? r : raw_users_clean_now(raw->users, err);
}

int pool_raw_erase(struct pool *pool, const char *name, struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	uint32_t id = pool_raw_find(raw, name, NULL);

	return id ? pool_raw_drop(raw, id, err) : 0;
}

int pool_raw_usage(struct pool *pool, const char *name,
		   struct extent_usage *ret, struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	const uint64_t size = pool_raw_cluster(raw);
	const struct raw_object *object;
	const struct raw_state *state;
	struct raw_usage usage = {0};
	unsigned phase;
	uint32_t id;
	int r = pool_raw_need(raw, name, &id, NULL, err);

	if (r < 0)
		return r;
	phase = raw_users_enter(raw->users);
	state = raw_store_lock(raw->store);
	object = raw_state_object(state, id);
	raw_store_unlock(raw->store);
	if (object)
		usage = raw_alloc_usage(&state->alloc, &object->map);
	raw_users_leave(raw->users, phase);
	*ret = (struct extent_usage){
		.allocated = usage.mapped * size,
		.shared = (usage.mapped - usage.alone) * size,
		.reclaimable = usage.alone * size,
	};
	return 0;
}
