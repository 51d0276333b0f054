/* SPDX-License-Identifier: Apache-2.0 */
/* What a raw pool holds when it is opened; what a crash cut short. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "blockd/pool_raw_internal.h"

static int check_object(const struct pool_raw *raw,
			const struct raw_object *object,
			const struct extent_record *record, struct error *err)
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
		r = check_object(raw, object, &record, &err);
		if (object->hurt)
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

/* Deletes that a crash cut short. */
static int finish_deletes(struct pool_raw *raw,
			  const struct pool_visitor *visitor, struct error *err)
{
	struct raw_state *state = raw_store_lock(raw->store);
	uint32_t n = state->n_slots;
	int r = 0;

	raw_store_unlock(raw->store);
	if (raw_store_broken(raw->store, NULL))
		return 0; /* it takes no changes; then another time */
	for (uint32_t id = 1; r == 0 && id <= n; id++) {
		const struct raw_object *object = raw_state_object(state, id);
		char text[EXTENT_NAME_SIZE + 64];

		if (!object || strncmp(object->text, POOL_RAW_DOOMED,
				       strlen(POOL_RAW_DOOMED)) != 0)
			continue;
		(void)snprintf(text, sizeof(text),
			       "the delete of extent '%.64s' is finished",
			       object->text + strlen(POOL_RAW_DOOMED));
		r = pool_raw_drop(raw, id, err);
		if (r == 0)
			visitor->note(visitor->context, text);
	}
	return r;
}

int pool_raw_load(struct pool *pool, const struct pool_visitor *visitor,
		  struct error *err)
{
	struct pool_raw *raw = pool_raw_of(pool);
	const struct raw_state *state;
	int r = finish_deletes(raw, visitor, err);

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
