/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "cli/text/json.h"

struct json_object *json_snapshot(const struct snapshot_record *record)
{
	auto_free char *text = NULL;

	if (snapshot_record_encode(record, &text, NULL) < 0)
		return NULL;
	return json_tokener_parse(text);
}

struct json_object *json_group(const struct group_record *record)
{
	auto_free char *text = NULL;

	if (group_record_encode(record, &text, NULL) < 0)
		return NULL;
	return json_tokener_parse(text);
}

static struct json_object *json_split(const struct snapshot_split *split,
				      const struct snapshot_split_status *s)
{
	struct json_object *object = json_object_new_object();

	json_put_number(object, "index", split->index);
	json_put_text(object, "node", split->node);
	json_put_text(object, "pool", split->pool);
	json_put_text(object, "extent", split->extent);
	json_put_number(object, "size", split->size);
	json_put_number(object, "allocated", s->allocated);
	json_put_number(object, "shared", s->shared);
	json_put_number(object, "reclaimable", s->reclaimable);
	json_put_text(object, "method", s->method);
	json_put_text(object, "state", s->state);
	json_put_text(object, "problem", s->problem);
	return object;
}

struct json_object *json_snapshot_status(const struct snapshot_status *status)
{
	struct json_object *object = json_object_new_object();
	struct json_object *splits = json_object_new_array();

	json_object_object_add(object, "record", json_snapshot(status->record));
	for (size_t i = 0; i < status->record->n_splits; i++)
		json_object_array_add(splits,
				      json_split(&status->record->splits[i],
						 &status->splits[i]));
	json_object_object_add(object, "splits", splits);
	return object;
}
