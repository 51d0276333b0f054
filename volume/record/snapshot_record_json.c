/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/record/record_json.h"
#include "volume/record/snapshot_record.h"

static const char *const phase_names[] = {
	[SNAPSHOT_CREATING] = "Creating",
	[SNAPSHOT_COPYING] = "Copying",
	[SNAPSHOT_READY] = "Ready",
	[SNAPSHOT_DELETING] = "Deleting",
};

static const char *const state_names[] = {
	[SNAPSHOT_SPLIT_PLANNED] = "Planned",
	[SNAPSHOT_SPLIT_COPYING] = "Copying",
	[SNAPSHOT_SPLIT_READY] = "Ready",
	[SNAPSHOT_SPLIT_DELETED] = "Deleted",
};

const char *snapshot_phase_name(enum snapshot_phase phase)
{
	return phase_names[phase];
}

enum snapshot_phase snapshot_phase_scan(struct json_scan *scan,
					struct json_object *in, const char *key)
{
	return (enum snapshot_phase)json_scan_enum(scan, in, key, phase_names,
						   array_size(phase_names));
}

/* ---- encode ---- */

static struct json_object *snapshot_encode_spec(
	const struct snapshot_record *record)
{
	struct json_object *object = json_object_new_object();

	json_add_text(object, "volume", record->volume);
	json_add_text(object, "volumeUID", record->volume_uid);
	json_add_text(object, "group", record->group);
	json_add_text(object, "groupUID", record->group_uid);
	json_add_text(object, "temporaryFor", record->temporary_for);
	return object;
}

static struct json_object *encode_split(const struct snapshot_split *s)
{
	struct json_object *object = json_object_new_object();

	json_add_number(object, "index", s->index);
	json_add_text(object, "node", s->node);
	json_add_text(object, "pool", s->pool);
	json_add_text(object, "extent", s->extent);
	json_add_text(object, "extentID", s->extent_id);
	json_add_text(object, "origin", s->origin);
	json_add_text(object, "originID", s->origin_id);
	json_add_number(object, "size", s->size);
	if (s->state == SNAPSHOT_SPLIT_COPYING)
		json_add_number(object, "copied", s->copied);
	json_add_text(object, "state", state_names[s->state]);
	json_add_text(object, "content", split_state_name(s->content));
	if (s->fs_behind)
		json_add(object, "fsBehind", json_object_new_boolean(true));
	if (s->lost)
		json_add(object, "lost", json_object_new_boolean(true));
	json_add_text(object, "fsUUID", s->fs_uuid);
	return object;
}

static struct json_object *encode_status(const struct snapshot_record *record)
{
	struct json_object *status = json_object_new_object();
	struct json_object *splits = json_object_new_array();

	json_add_text(status, "phase", phase_names[record->phase]);
	json_add_text(status, "cut", record->cut);
	if (record->cut_s)
		json_add(status, "cutTime", json_from_time(record->cut_s));
	json_add(status, "volumeSpec", record_json_spec(&record->spec));
	for (size_t i = 0; i < record->n_splits; i++)
		(void)json_object_array_add(splits,
					    encode_split(&record->splits[i]));
	json_add(status, "splits", splits);
	json_add(status, "conditions",
		 record_json_conditions(record->conditions,
					record->n_conditions));
	return status;
}

int snapshot_record_encode(const struct snapshot_record *record,
			   char **ret_json, struct error *err)
{
	struct json_object *object = json_object_new_object();

	json_add_text(object, "apiVersion", RECORD_API_VERSION);
	json_add_text(object, "kind", RECORD_KIND_SNAPSHOT);
	json_add(object, "metadata",
		 record_json_metadata(record->name, record->uid,
				      record->resource_version,
				      record->created_s, &record->labels));
	json_add(object, "spec", snapshot_encode_spec(record));
	json_add(object, "status", encode_status(record));
	return json_finish(object, RECORD_TEXT_MAX, ret_json, err);
}

/* ---- decode ---- */

static void snapshot_scan_spec(struct json_scan *scan,
			       struct json_object *object,
			       struct snapshot_record *record)
{
	json_scan_at(scan, "spec");
	record_scan_name(scan, object, "volume", record->volume);
	record_scan_uuid(scan, object, "volumeUID", record->volume_uid, true);
	if (json_object_object_get_ex(object, "group", NULL))
		record_scan_name(scan, object, "group", record->group);
	record_scan_uuid(scan, object, "groupUID", record->group_uid, false);
	record_scan_uuid(scan, object, "temporaryFor", record->temporary_for,
			 false);
	if (!record->group[0] != !record->group_uid[0])
		json_scan_fail(scan, "groupUID", "without group, or none");
}

static void snapshot_check_split(struct json_scan *scan,
				 const struct snapshot_split *s)
{
	if (s->state != SNAPSHOT_SPLIT_PLANNED &&
	    s->state != SNAPSHOT_SPLIT_DELETED && !s->extent_id[0])
		json_scan_fail(scan, "extentID", "is missing");
	if (s->copied > s->size)
		json_scan_fail(scan, "copied", "is more than size");
	if (s->content == SPLIT_PLANNED || s->content == SPLIT_DELETED)
		json_scan_fail(scan, "content", "is of no extent");
	if (s->fs_behind && s->content != SPLIT_READY)
		json_scan_fail(scan, "fsBehind", "without a file system");
}

static void snapshot_scan_split(struct json_scan *scan,
				struct json_object *object, unsigned index,
				struct snapshot_split *s)
{
	json_scan_at(scan, "status.splits[%u]", index);
	s->index = (unsigned)json_scan_number(scan, object, "index", index,
					      index, true);
	record_scan_name(scan, object, "node", s->node);
	record_scan_name(scan, object, "pool", s->pool);
	record_scan_name(scan, object, "extent", s->extent);
	record_scan_uuid(scan, object, "extentID", s->extent_id, false);
	record_scan_name(scan, object, "origin", s->origin);
	record_scan_uuid(scan, object, "originID", s->origin_id, true);
	s->size = json_scan_number(scan, object, "size", 1, VOLUME_CAPACITY_MAX,
				   true);
	s->copied = json_scan_number(scan, object, "copied", 0,
				     VOLUME_CAPACITY_MAX, false);
	s->state = (enum snapshot_split_state)json_scan_enum(
		scan, object, "state", state_names, array_size(state_names));
	s->content = split_state_scan(scan, object, "content");
	s->fs_behind = json_scan_flag(scan, object, "fsBehind");
	s->lost = json_scan_flag(scan, object, "lost");
	record_scan_uuid(scan, object, "fsUUID", s->fs_uuid, true);
	snapshot_check_split(scan, s);
}

static void snapshot_scan_status(struct json_scan *scan,
				 struct json_object *status,
				 struct snapshot_record *record)
{
	struct json_object *splits, *spec;

	json_scan_at(scan, "status");
	record->phase = snapshot_phase_scan(scan, status, "phase");
	record_scan_uuid(scan, status, "cut", record->cut, false);
	record->cut_s = json_scan_time(scan, status, "cutTime");
	splits = json_scan_array(scan, status, "splits", VOLUME_SPLITS_MAX,
				 true);
	record_scan_conditions(scan, status, &record->conditions,
			       &record->n_conditions);
	spec = json_scan_object(scan, status, "volumeSpec", true);
	record_scan_spec(scan, spec, &record->spec);
	record->splits = record_scan_room(scan, splits, sizeof(*record->splits),
					  &record->n_splits);
	for (size_t i = 0; i < record->n_splits; i++)
		snapshot_scan_split(scan, json_object_array_get_idx(splits, i),
				    (unsigned)i, &record->splits[i]);
}

/* Check that all members of the record agree. */
static void snapshot_scan_whole(struct json_scan *scan,
				const struct snapshot_record *record)
{
	uint64_t sum = 0;

	json_scan_at(scan, "status");
	for (size_t i = 0; i < record->n_splits && scan->r == 0; i++) {
		const struct snapshot_split *s = &record->splits[i];

		sum += s->size; /* 256 times 2^60 would not fit: */
		if (sum > record->spec.capacity)
			json_scan_fail(scan, "splits", "hold too much");
		if (record->phase == SNAPSHOT_READY &&
		    s->state != SNAPSHOT_SPLIT_READY)
			json_scan_fail(scan, "phase",
				       "is Ready, splits are not");
	}
	if (scan->r == 0 && sum != record->spec.capacity)
		json_scan_fail(scan, "splits",
			       "hold %" PRIu64 " bytes, not the capacity", sum);
	if (scan->r == 0 && snapshot_record_is_cut(record) &&
	    (!record->cut_s || !record->cut[0]))
		json_scan_fail(scan, "cutTime", "is missing");
}

int snapshot_record_decode(const char *json, size_t length,
			   struct snapshot_record **ret, struct error *err)
{
	struct json_scan scan = {.err = err};
	struct snapshot_record *record = NULL;
	struct json_object *object;
	int r = json_scan_document(json, length, RECORD_TEXT_MAX,
				   RECORD_API_VERSION, RECORD_KIND_SNAPSHOT,
				   &object, err);

	if (r < 0)
		return r;
	record = snapshot_record_new();
	if (!record)
		r = error_set(err, ENOMEM, "out of memory");
	if (record) {
		record_scan_metadata(&scan, object, &RECORD_METADATA(record));
		snapshot_scan_spec(
			&scan, json_scan_object(&scan, object, "spec", true),
			record);
		scan.path[0] = '\0';
		snapshot_scan_status(
			&scan, json_scan_object(&scan, object, "status", true),
			record);
		snapshot_scan_whole(&scan, record);
		r = scan.r;
	}
	json_object_put(object);
	if (r < 0) {
		snapshot_record_free(record);
		return r;
	}
	*ret = record;
	return 0;
}
