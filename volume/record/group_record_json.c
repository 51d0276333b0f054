/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/record/record_json.h"
#include "volume/record/snapshot_record.h"

#define PARAMETER_MAX LABELS_MAX

/* ---- encode ---- */

/* A list, as keys may be anything. */
static struct json_object *encode_parameters(const struct labels *parameters)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < parameters->count; i++) {
		struct json_object *object = json_object_new_object();

		json_add_text(object, "key", parameters->items[i].key);
		json_add_text(object, "value", parameters->items[i].value);
		(void)json_object_array_add(array, object);
	}
	return array;
}

static struct json_object *group_encode_spec(const struct group_record *record)
{
	struct json_object *object = json_object_new_object();
	struct json_object *members = json_object_new_array();

	for (size_t i = 0; i < record->n_members; i++) {
		const struct group_member *m = &record->members[i];
		struct json_object *member = json_object_new_object();

		json_add_text(member, "volume", m->volume);
		json_add_text(member, "volumeUID", m->volume_uid);
		json_add_text(member, "snapshot", m->snapshot);
		json_add_text(member, "snapshotUID", m->snapshot_uid);
		(void)json_object_array_add(members, member);
	}
	json_add(object, "members", members);
	if (record->parameters.count > 0)
		json_add(object, "parameters",
			 encode_parameters(&record->parameters));
	return object;
}

int group_record_encode(const struct group_record *record, char **ret_json,
			struct error *err)
{
	struct json_object *object = json_object_new_object();
	struct json_object *status = json_object_new_object();

	json_add_text(object, "apiVersion", RECORD_API_VERSION);
	json_add_text(object, "kind", RECORD_KIND_GROUP);
	json_add(object, "metadata",
		 record_json_metadata(record->name, record->uid,
				      record->resource_version,
				      record->created_s, &record->labels));
	json_add(object, "spec", group_encode_spec(record));
	json_add_text(status, "phase", snapshot_phase_name(record->phase));
	json_add_text(status, "cut", record->cut);
	if (record->cut_s)
		json_add(status, "cutTime", json_from_time(record->cut_s));
	json_add(status, "conditions",
		 record_json_conditions(record->conditions,
					record->n_conditions));
	json_add(object, "status", status);
	return json_finish(object, RECORD_TEXT_MAX, ret_json, err);
}

/* ---- decode ---- */

static void scan_parameters(struct json_scan *scan, struct json_object *spec,
			    struct labels *ret)
{
	struct json_object *array = json_scan_array(scan, spec, "parameters",
						    PARAMETER_MAX, false);
	size_t n = array ? json_object_array_length(array) : 0;

	for (size_t i = 0; i < n && scan->r == 0; i++) {
		struct json_object *object = json_object_array_get_idx(array,
								       i);
		struct label label = {0};
		struct error err = {0};

		json_scan_at(scan, "spec.parameters[%zu]", i);
		json_scan_text(scan, object, "key", label.key,
			       sizeof(label.key), true);
		json_scan_text(scan, object, "value", label.value,
			       sizeof(label.value), false);
		if (scan->r == 0 && labels_get(ret, label.key))
			json_scan_fail(scan, "key", "is there twice");
		if (scan->r == 0 &&
		    labels_set(ret, label.key, label.value, &err) < 0)
			json_scan_fail(scan, "key", "is bad: %s", err.msg);
	}
}

static void scan_member(struct json_scan *scan, struct json_object *object,
			size_t index, struct group_record *record)
{
	struct group_member *m = &record->members[index];

	json_scan_at(scan, "spec.members[%zu]", index);
	record_scan_name(scan, object, "volume", m->volume);
	record_scan_uuid(scan, object, "volumeUID", m->volume_uid, true);
	record_scan_name(scan, object, "snapshot", m->snapshot);
	record_scan_uuid(scan, object, "snapshotUID", m->snapshot_uid, true);
	if (index > 0 && strcmp(m[-1].volume, m->volume) >= 0)
		json_scan_fail(scan, "volume", "is not in order");
}

static void group_scan_spec(struct json_scan *scan, struct json_object *spec,
			    struct group_record *record)
{
	struct json_object *members;

	json_scan_at(scan, "spec");
	members = json_scan_array(scan, spec, "members", SNAPSHOT_MEMBERS_MAX,
				  true);
	record->members = record_scan_room(
		scan, members, sizeof(*record->members), &record->n_members);
	if (record->n_members == 0)
		json_scan_fail(scan, "members", "are none");
	for (size_t i = 0; i < record->n_members; i++)
		scan_member(scan, json_object_array_get_idx(members, i), i,
			    record);
	scan_parameters(scan, spec, &record->parameters);
	scan->path[0] = '\0';
}

static void group_scan_status(struct json_scan *scan,
			      struct json_object *status,
			      struct group_record *record)
{
	json_scan_at(scan, "status");
	record->phase = snapshot_phase_scan(scan, status, "phase");
	record_scan_uuid(scan, status, "cut", record->cut, false);
	record->cut_s = json_scan_time(scan, status, "cutTime");
	if ((record->phase == SNAPSHOT_COPYING ||
	     record->phase == SNAPSHOT_READY) &&
	    (!record->cut_s || !record->cut[0]))
		json_scan_fail(scan, "cutTime", "is missing");
	record_scan_conditions(scan, status, &record->conditions,
			       &record->n_conditions);
}

int group_record_decode(const char *json, size_t length,
			struct group_record **ret, struct error *err)
{
	struct json_scan scan = {.err = err};
	struct group_record *record = NULL;
	struct json_object *object;
	int r = json_scan_document(json, length, RECORD_TEXT_MAX,
				   RECORD_API_VERSION, RECORD_KIND_GROUP,
				   &object, err);

	if (r < 0)
		return r;
	record = group_record_new();
	if (!record)
		r = error_set(err, ENOMEM, "out of memory");
	if (record) {
		record_scan_metadata(&scan, object, &RECORD_METADATA(record));
		group_scan_spec(&scan,
				json_scan_object(&scan, object, "spec", true),
				record);
		group_scan_status(
			&scan, json_scan_object(&scan, object, "status", true),
			record);
		r = scan.r;
	}
	json_object_put(object);
	if (r < 0) {
		group_record_free(record);
		return r;
	}
	*ret = record;
	return 0;
}
