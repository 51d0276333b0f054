/* SPDX-License-Identifier: Apache-2.0 */
/* The objects of a raw pool by name: made, changed, deleted, asked about. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "blockd/pool_raw_internal.h"

/* ---- objects by name ---- */

/* The record of an object, or NULL with what is wrong. */
int pool_raw_record(const struct raw_object *object, struct extent_record *ret,
		    struct error *err)
{
	return extent_record_decode(object->text, object->text_length, ret,
				    err);
}

static bool object_is(const struct raw_object *object, const char *name)
{
	struct extent_record record;
	bool same;

	if (strncmp(object->text, POOL_RAW_DOOMED, strlen(POOL_RAW_DOOMED)) ==
	    0)
		return strcmp(object->text + strlen(POOL_RAW_DOOMED), name) ==
		       0;
	if (pool_raw_record(object, &record, NULL) < 0)
		return false;
	same = strcmp(record.name, name) == 0;
	extent_record_done(&record);
	return same;
}

/* 0: there is none. */
uint32_t pool_raw_find(struct pool_raw *raw, const char *name,
		       uint64_t *ret_clusters)
{
	const struct raw_state *state = raw_store_lock(raw->store);
	uint32_t id = 0;

	for (uint32_t i = 1; !id && i <= state->n_slots; i++) {
		const struct raw_object *object = raw_state_object(state, i);

		if (!object || !object_is(object, name))
			continue;
		id = i;
		if (ret_clusters)
			*ret_clusters = raw_map_clusters(&object->map);
	}
	raw_store_unlock(raw->store);
	return id;
}

bool pool_raw_hurt(struct pool_raw *raw, uint32_t id)
{
	const struct raw_state *state = raw_store_lock(raw->store);
	const struct raw_object *object = raw_state_object(state, id);
	bool hurt = !object || object->hurt;

	raw_store_unlock(raw->store);
	return hurt;
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
		(void)error_prefix(err, "pool '%s': ", raw->pool.record.name);
	return r;
}

/* ---- operations ---- */

int pool_raw_create(struct pool *pool, const struct extent_record *record,
		    struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	struct raw_record object = {
		.type = RAW_OBJECT,
		.clusters = pool_raw_clusters(raw, record->size),
	};
	auto_free char *text = NULL;
	size_t length;
	int r = extent_record_encode(record, &text, &length, err);

	if (r < 0)
		return r;
	object.text = text;
	object.text_length = (uint32_t)length;
	(void)pthread_mutex_lock(&raw->ids);
	object.object = raw_state_new_id(raw_store_lock(raw->store));
	raw_store_unlock(raw->store);
	r = object.object
		    ? pool_raw_change(raw, &object, err)
		    : error_set(err, ENOSPC, "pool '%s' has %u extents already",
				pool->record.name, RAW_OBJECTS_MAX);
	(void)pthread_mutex_unlock(&raw->ids);
	return r;
}

/* Text, and perhaps a greater length. */
int pool_raw_save(struct pool *pool, const struct extent_record *record,
		  struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	struct raw_record object = {.type = RAW_OBJECT};
	auto_free char *text = NULL;
	size_t length;
	int r = pool_raw_need(raw, record->name, &object.object,
			      &object.clusters, err);

	if (r == 0)
		r = extent_record_encode(record, &text, &length, err);
	if (r < 0)
		return r;
	object.text = text;
	object.text_length = (uint32_t)length;
	if (object.clusters < pool_raw_clusters(raw, record->size))
		object.clusters = pool_raw_clusters(raw, record->size);
	return pool_raw_change(raw, &object, err);
}

int pool_raw_doom(struct pool *pool, const char *name, struct error *err)
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
	int r = pool_raw_change(raw, &record, err);

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
	const struct raw_state *state;
	uint32_t id;
	int r = pool_raw_need(raw, name, &id, NULL, err);

	if (r < 0)
		return r;
	*ret = (struct extent_usage){0};
	state = raw_store_lock(raw->store);
	if (raw_state_object(state, id))
		ret->allocated = raw_map_mapped(
					 &raw_state_object(state, id)->map) *
				 pool_raw_cluster(raw);
	raw_store_unlock(raw->store);
	return 0;
}
