/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/record/json_scan.h"
#include "volume/record/record_json.h"
#include "volume/record/volume_record.h"

static const char *const phase_names[] = {
	[VOLUME_CREATING] = "Creating", [VOLUME_READY] = "Ready",
	[VOLUME_DELETING] = "Deleting", [VOLUME_REVERTING] = "Reverting",
	[VOLUME_MOVING] = "Moving",
};

static const char *const split_names[] = {
	[SPLIT_PLANNED] = "Planned",       [SPLIT_CREATED] = "Created",
	[SPLIT_FORMATTING] = "Formatting", [SPLIT_READY] = "Ready",
	[SPLIT_DELETED] = "Deleted",
};

static const char *const attachment_names[] = {
	[ATTACHMENT_ATTACHING] = "Attaching",
	[ATTACHMENT_ATTACHED] = "Attached",
	[ATTACHMENT_DETACHING] = "Detaching",
	[ATTACHMENT_PUBLISHED] = "Published",
};

const char *volume_phase_name(enum volume_phase phase)
{
	return phase_names[phase];
}

const char *split_state_name(enum split_state state)
{
	return split_names[state];
}

const char *attachment_state_name(enum attachment_state state)
{
	return attachment_names[state];
}

enum split_state split_state_scan(struct json_scan *scan,
				  struct json_object *in, const char *key)
{
	return (enum split_state)json_scan_enum(scan, in, key, split_names,
						array_size(split_names));
}

/* ---- encode ---- */

static struct json_object *encode_splits(const struct volume_record *record)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < record->n_splits; i++) {
		const struct volume_split *s = &record->splits[i];
		struct json_object *object = json_object_new_object();

		json_add_number(object, "index", s->index);
		json_add_text(object, "node", s->node);
		json_add_text(object, "pool", s->pool);
		json_add_text(object, "extent", s->extent);
		json_add_text(object, "extentID", s->extent_id);
		json_add_number(object, "size", s->size);
		if (s->grow_to)
			json_add_number(object, "growTo", s->grow_to);
		json_add_text(object, "state", split_names[s->state]);
		json_add_text(object, "fsUUID", s->fs_uuid);
		if (s->fs_behind)
			json_add(object, "fsBehind",
				 json_object_new_boolean(true));
		json_add_text(object, "device", s->device);
		if (s->suspect)
			json_add(object, "fsSuspect",
				 json_object_new_boolean(true));
		if (s->lost)
			json_add(object, "lost", json_object_new_boolean(true));
		json_add_text(object, "source", s->source);
		json_add_text(object, "sourceID", s->source_id);
		json_add_text(object, "sourceNode", s->source_node);
		if (s->copying)
			json_add(object, "copying",
				 json_object_new_boolean(true));
		if (s->pulled)
			json_add_number(object, "pulled", s->pulled);
		if (s->source[0])
			json_add_text(object, "sourceState",
				      split_names[s->source_state]);
		if (s->move.node[0])
			json_add(object, "move", record_json_move(&s->move));
		(void)json_object_array_add(array, object);
	}
	return array;
}

static struct json_object *encode_grants(const struct volume_record *record)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < record->n_grants; i++)
		(void)json_object_array_add(
			array, json_object_new_string(record->grants[i]));
	return array;
}

static struct json_object *encode_attachments(
	const struct volume_record *record)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < record->n_attachments; i++) {
		const struct volume_attachment *a = &record->attachments[i];
		struct json_object *object = json_object_new_object();

		json_add_text(object, "node", a->node);
		json_add_number(object, "epoch", a->epoch);
		json_add_text(object, "mountPoint", a->mount_point);
		json_add_text(object, "state", attachment_names[a->state]);
		json_add(object, "readOnly",
			 json_object_new_boolean(a->read_only));
		if (a->published)
			json_add(object, "published",
				 json_object_new_boolean(true));
		if (a->shared)
			json_add(object, "shared",
				 json_object_new_boolean(true));
		json_add_text(object, "note", a->note);
		json_add(object, "since", json_from_time(a->since_s));
		(void)json_object_array_add(array, object);
	}
	return array;
}

int volume_record_encode(const struct volume_record *record, char **ret_json,
			 struct error *err)
{
	struct json_object *object = json_object_new_object();
	struct json_object *status = json_object_new_object();

	json_add_text(object, "apiVersion", RECORD_API_VERSION);
	json_add_text(object, "kind", RECORD_KIND_VOLUME);
	json_add(object, "metadata",
		 record_json_metadata(record->name, record->uid,
				      record->resource_version,
				      record->created_s, &record->labels));
	json_add(object, "spec", record_json_spec(&record->spec));
	json_add_text(status, "phase", phase_names[record->phase]);
	json_add_number(status, "epoch", record->epoch);
	if (record->n_grants > 0)
		json_add(status, "grants", encode_grants(record));
	json_add_text(status, "reverted", record->reverted);
	json_add_text(status, "revertedUID", record->reverted_uid);
	json_add(status, "splits", encode_splits(record));
	if (record->n_given_up > 0)
		json_add(status, "givenUp", record_json_given_up(record));
	json_add(status, "attachments", encode_attachments(record));
	json_add(status, "conditions",
		 record_json_conditions(record->conditions,
					record->n_conditions));
	json_add(object, "status", status);

	return json_finish(object, RECORD_TEXT_MAX, ret_json, err);
}

/* ---- decode ---- */

static void scan_split_source(struct json_scan *scan,
			      struct json_object *object,
			      struct volume_split *split)
{
	if (!json_object_object_get_ex(object, "source", NULL))
		return;
	record_scan_name(scan, object, "source", split->source);
	record_scan_uuid(scan, object, "sourceID", split->source_id, true);
	if (json_object_object_get_ex(object, "sourceNode", NULL))
		record_scan_name(scan, object, "sourceNode",
				 split->source_node);
	split->pulled = json_scan_number(scan, object, "pulled", 0, split->size,
					 false);
	split->copying = json_scan_flag(scan, object, "copying");
	if (split->copying && !split->source_node[0])
		json_scan_fail(scan, "copying", "without sourceNode");
	if (split->pulled && !split->copying)
		json_scan_fail(scan, "pulled", "of no copy");
	split->source_state = split_state_scan(scan, object, "sourceState");
	if (split->source_state == SPLIT_PLANNED ||
	    split->source_state == SPLIT_DELETED)
		json_scan_fail(scan, "sourceState", "is of no extent");
}

static void volume_scan_split(struct json_scan *scan,
			      struct json_object *object, unsigned index,
			      struct volume_split *split)
{
	json_scan_at(scan, "status.splits[%u]", index);
	split->index = (unsigned)json_scan_number(scan, object, "index", index,
						  index, true);
	record_scan_name(scan, object, "node", split->node);
	record_scan_name(scan, object, "pool", split->pool);
	record_scan_name(scan, object, "extent", split->extent);
	record_scan_uuid(scan, object, "extentID", split->extent_id, false);
	split->size = json_scan_number(scan, object, "size", 1,
				       VOLUME_CAPACITY_MAX, true);
	split->grow_to = json_scan_number(scan, object, "growTo", 0,
					  VOLUME_CAPACITY_MAX, false);
	if (split->grow_to && (split->grow_to <= split->size ||
			       split->grow_to % RECORD_SIZE_UNIT))
		json_scan_fail(scan, "growTo", "is no larger size");
	split->state = split_state_scan(scan, object, "state");
	record_scan_uuid(scan, object, "fsUUID", split->fs_uuid, true);
	split->fs_behind = json_scan_flag(scan, object, "fsBehind");
	split->suspect = json_scan_flag(scan, object, "fsSuspect");
	json_scan_text(scan, object, "device", split->device,
		       sizeof(split->device), false);
	split->lost = json_scan_flag(scan, object, "lost");
	scan_split_source(scan, object, split);
	if (split->fs_behind &&
	    (split->source[0] ? split->source_state : split->state) !=
		    SPLIT_READY)
		json_scan_fail(scan, "fsBehind", "without a file system");
	if (split->state != SPLIT_PLANNED && split->state != SPLIT_DELETED &&
	    !split->extent_id[0])
		json_scan_fail(scan, "extentID", "is missing");
	record_scan_move(scan, object, index, split);
}

/*
 * Nothing is mounted where it is only published, or is only a device. A device
 * with a file system may be either.
 */
static void check_attachment(struct json_scan *scan,
			     const struct volume_attachment *a,
			     const struct volume_spec *spec)
{
	const bool here = a->state != ATTACHMENT_PUBLISHED;

	if (a->mount_point[0] ? a->mount_point[0] != '/'
			      : here && !volume_spec_is_device(spec))
		json_scan_fail(scan, "mountPoint", "is not absolute");
	if (a->mount_point[0] && !(here && volume_spec_is_tree(spec)))
		json_scan_fail(scan, "mountPoint",
			       "of a volume that is not mounted");
	if (a->state == ATTACHMENT_PUBLISHED && !a->published)
		json_scan_fail(scan, "published", "does not match state");
	if (a->shared && !a->read_only)
		json_scan_fail(scan, "shared", "but not readOnly");
}

static void scan_attachment(struct json_scan *scan, struct json_object *object,
			    size_t index, const struct volume_spec *spec,
			    struct volume_attachment *a)
{
	json_scan_at(scan, "status.attachments[%zu]", index);
	record_scan_name(scan, object, "node", a->node);
	a->epoch = json_scan_number(scan, object, "epoch", 0, VOLUME_EPOCH_MAX,
				    true);
	a->state = (enum attachment_state)json_scan_enum(
		scan, object, "state", attachment_names,
		array_size(attachment_names));
	json_scan_text(scan, object, "mountPoint", a->mount_point,
		       sizeof(a->mount_point),
		       !volume_spec_is_device(spec) &&
			       a->state != ATTACHMENT_PUBLISHED);
	a->read_only = json_scan_flag(scan, object, "readOnly");
	a->published = json_scan_flag(scan, object, "published");
	a->shared = json_scan_flag(scan, object, "shared");
	json_scan_text(scan, object, "note", a->note, sizeof(a->note), false);
	a->since_s = json_scan_time(scan, object, "since");
	check_attachment(scan, a, spec);
}

static void scan_reverted(struct json_scan *scan, struct json_object *status,
			  struct volume_record *record)
{
	if (json_object_object_get_ex(status, "reverted", NULL))
		record_scan_name(scan, status, "reverted", record->reverted);
	record_scan_uuid(scan, status, "revertedUID", record->reverted_uid,
			 false);
	if (!record->reverted[0] != !record->reverted_uid[0] ||
	    (record->phase == VOLUME_REVERTING && !record->reverted[0]))
		json_scan_fail(scan, "reverted", "does not match phase");
}

static void scan_grants(struct json_scan *scan, struct json_object *status,
			struct volume_record *record)
{
	struct json_object *array = json_scan_array(scan, status, "grants",
						    VOLUME_GRANTS_MAX, false);
	size_t n = array ? json_object_array_length(array) : 0;

	for (size_t i = 0; i < n && scan->r == 0; i++) {
		struct json_object *one = json_object_array_get_idx(array, i);
		const char *text = json_object_is_type(one, json_type_string)
					   ? json_object_get_string(one)
					   : "";

		if (!text[0] || strlen(text) >= VOLUME_GRANT_SIZE)
			json_scan_fail(scan, "grants",
				       "has a member that is no grant");
		else
			memcpy(record->grants[record->n_grants++], text,
			       strlen(text) + 1);
	}
}

static void volume_scan_status(struct json_scan *scan,
			       struct json_object *status,
			       struct volume_record *record)
{
	struct json_object *splits, *attachments;

	json_scan_at(scan, "status");
	record->phase = (enum volume_phase)json_scan_enum(
		scan, status, "phase", phase_names, array_size(phase_names));
	record->epoch = json_scan_number(scan, status, "epoch", 0,
					 VOLUME_EPOCH_MAX, true);
	scan_grants(scan, status, record);
	scan_reverted(scan, status, record);
	record_scan_given_up(scan, status, record);
	splits = json_scan_array(scan, status, "splits", VOLUME_SPLITS_MAX,
				 true);
	attachments = json_scan_array(scan, status, "attachments",
				      VOLUME_ATTACHMENTS_MAX, false);

	record->splits = record_scan_room(scan, splits, sizeof(*record->splits),
					  &record->n_splits);
	for (size_t i = 0; i < record->n_splits; i++)
		volume_scan_split(scan, json_object_array_get_idx(splits, i),
				  (unsigned)i, &record->splits[i]);
	record->attachments = record_scan_room(scan, attachments,
					       sizeof(*record->attachments),
					       &record->n_attachments);
	for (size_t i = 0; i < record->n_attachments; i++)
		scan_attachment(scan, json_object_array_get_idx(attachments, i),
				i, &record->spec, &record->attachments[i]);
	record_scan_conditions(scan, status, &record->conditions,
			       &record->n_conditions);
}

/*
 * The splits make up the capacity. A volume in use may have more of them at
 * the end, which are only being made; one that is being deleted may have had.
 */
static void check_sizes(struct json_scan *scan,
			const struct volume_record *record)
{
	const struct volume_split *successor = volume_record_successor(record);
	size_t made = volume_record_made(record);
	uint64_t sum = 0, target = 0;

	/* The source of the clone is not cut yet. */
	if (record->phase != VOLUME_READY && record->n_splits == 0 &&
	    record->spec.source.kind == VOLUME_SOURCE_VOLUME)
		return;

	/* 256 times 2^60 would not fit: each sum is looked at on its way. */
	for (size_t i = 0; i < record->n_splits && scan->r == 0; i++) {
		const struct volume_split *s = &record->splits[i];

		if (s == successor) /* it takes what another one has */
			continue;
		if (i < made)
			sum += s->size;
		else if (s->state != SPLIT_PLANNED)
			json_scan_fail(scan, "splits",
				       "are made after one that is planned");
		target += s->grow_to ? s->grow_to : s->size;
		if (target > VOLUME_CAPACITY_MAX)
			json_scan_fail(scan, "splits", "hold too much");
	}
	if (scan->r == 0 &&
	    (record->phase == VOLUME_DELETING ? sum < record->spec.capacity
					      : sum != record->spec.capacity))
		json_scan_fail(scan, "splits",
			       "hold %" PRIu64 " bytes, not spec.capacity",
			       sum);
}

/* A device is made up of its splits in their order. */
static void check_device_splits(struct json_scan *scan,
				const struct volume_record *record)
{
	const unsigned width = record->spec.stripe_width;

	if (volume_spec_direct(&record->spec) && record->n_splits > 1)
		json_scan_fail(scan, "splits", "are more than one, of direct");
	if (!volume_spec_stripe(&record->spec))
		return;
	if (record->n_splits % width)
		json_scan_fail(scan, "splits", "are no whole stripes of %u",
			       width);
	for (size_t i = 0; i < record->n_splits && scan->r == 0; i++)
		if (record->splits[i].grow_to ||
		    record->splits[i].size !=
			    record->splits[i - i % width].size ||
		    record->splits[i].size % record->spec.stripe_unit)
			json_scan_fail(scan, "splits",
				       "of a stripe have different sizes");
}

/*
 * One split is being copied in a volume that is moving, and else none. A lost
 * one is not copied, but replaced.
 */
static void check_move(struct json_scan *scan,
		       const struct volume_record *record)
{
	size_t copies = 0;

	for (size_t i = 0; i < record->n_splits; i++)
		copies += record->splits[i].move.node[0] &&
			  !record->splits[i].move.left &&
			  (!record->splits[i].lost ||
			   record->splits[i].move.way == SPLIT_MOVE_UNION);
	if (record->phase != VOLUME_DELETING &&
	    copies != (record->phase == VOLUME_MOVING))
		json_scan_fail(scan, "phase", "does not match the splits");
}

/* A successor is last, and where the move of the other says. */
static void check_successor(struct json_scan *scan,
			    const struct volume_record *record)
{
	const struct volume_split *leaving = volume_record_leaving(record);
	const struct volume_split *successor = volume_record_successor(record);

	if (leaving &&
	    (leaving == successor || volume_spec_is_device(&record->spec) ||
	     successor->size != leaving->size || successor->move.node[0] ||
	     strcmp(successor->node, leaving->move.node) != 0 ||
	     strcmp(successor->extent, leaving->move.extent) != 0))
		json_scan_fail(scan, "splits", "lack the successor of split %u",
			       leaving->index);
}

/*
 * Check that all members of the record agree, and an attachment's epoch has
 * been given.
 */
static void volume_scan_whole(struct json_scan *scan,
			      const struct volume_record *record)
{
	json_scan_at(scan, "status");
	if (scan->r < 0)
		return;
	check_sizes(scan, record);
	if (scan->r < 0)
		return;
	check_device_splits(scan, record);
	check_move(scan, record);
	check_successor(scan, record);
	for (size_t i = 0; i < record->n_attachments; i++) {
		if (record->attachments[i].epoch > record->epoch)
			json_scan_fail(scan, "attachments",
				       "has an epoch above status.epoch");
	}
}

int volume_record_decode(const char *json, size_t length,
			 struct volume_record **ret, struct error *err)
{
	struct json_scan scan = {.err = err};
	struct volume_record *record;
	struct json_object *object;
	int r = json_scan_document(json, length, RECORD_TEXT_MAX,
				   RECORD_API_VERSION, RECORD_KIND_VOLUME,
				   &object, err);

	if (r < 0)
		return r;
	record = volume_record_new();
	if (!record) {
		json_object_put(object);
		return error_set(err, ENOMEM, "out of memory");
	}
	record_scan_metadata(&scan, object, &RECORD_METADATA(record));
	record_scan_spec(&scan, json_scan_object(&scan, object, "spec", true),
			 &record->spec);
	scan.path[0] = '\0';
	volume_scan_status(
		&scan, json_scan_object(&scan, object, "status", true), record);
	volume_scan_whole(&scan, record);
	json_object_put(object);
	if (scan.r < 0) {
		volume_record_free(record);
		return scan.r;
	}
	*ret = record;
	return 0;
}
