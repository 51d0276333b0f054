/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/record/record_json.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

static const char *const status_names[] = {"False", "True"};

/* As volume_source_kind. */
static const char *const source_names[] = {
	[VOLUME_SOURCE_NONE] = "",
	[VOLUME_SOURCE_SNAPSHOT] = RECORD_KIND_SNAPSHOT,
	[VOLUME_SOURCE_VOLUME] = RECORD_KIND_VOLUME,
};

/* ---- encode ---- */

struct json_object *record_json_metadata(const char *name, const char *uid,
					 const char *resource_version,
					 int64_t created_s,
					 const struct labels *labels)
{
	struct json_object *object = json_object_new_object();

	json_add_text(object, "name", name);
	json_add_text(object, "uid", uid);
	json_add_text(object, "resourceVersion", resource_version);
	json_add(object, "creationTimestamp", json_from_time(created_s));
	if (labels->count > 0)
		json_add(object, "labels", json_from_labels(labels));
	return object;
}

struct json_object *record_json_names(const struct name_list *list)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < list->count; i++)
		(void)json_object_array_add(
			array, json_object_new_string(list->items[i]));
	return array;
}

static struct json_object *encode_source(const struct volume_source *source)
{
	struct json_object *object = json_object_new_object();

	json_add_text(object, "kind", source_names[source->kind]);
	json_add_text(object, "name", source->name);
	json_add_text(object, "uid", source->uid);
	return object;
}

static struct json_object *encode_limits(const struct volume_limits *limits)
{
	struct json_object *object = json_object_new_object();

	json_add_number(object, "iops", limits->iops);
	json_add_number(object, "bytesPerSecond", limits->bytes_per_second);
	return object;
}

struct json_object *record_json_spec(const struct volume_spec *spec)
{
	struct json_object *object = json_object_new_object();
	struct json_object *placement = json_object_new_object();

	json_add_number(object, "capacity", spec->capacity);
	json_add_text(object, "layout", spec->layout);
	if (spec->stripe_width) {
		json_add_number(object, "stripeWidth", spec->stripe_width);
		json_add_number(object, "stripeUnit", spec->stripe_unit);
	}
	json_add_text(object, "fsType", spec->fs_type);
	json_add_text(object, "policy", spec->policy);
	json_add_text(object, "transport", spec->transport);
	json_add_number(placement, "minSplits", spec->min_splits);
	json_add_number(placement, "maxSplits", spec->max_splits);
	json_add_number(placement, "maxExtent", spec->max_extent);
	json_add(placement, "sharePools",
		 json_object_new_boolean(spec->share_pools));
	json_add_text(placement, "strategy", spec->placement);
	json_add_text(placement, "localNode", spec->local_node);
	if (spec->nodes.count > 0)
		json_add(placement, "nodes", record_json_names(&spec->nodes));
	if (spec->exclude.count > 0)
		json_add(placement, "excludeNodes",
			 record_json_names(&spec->exclude));
	if (spec->pools.count > 0)
		json_add(placement, "pools", record_json_names(&spec->pools));
	if (spec->node_labels.count > 0)
		json_add(placement, "nodeLabels",
			 json_from_labels(&spec->node_labels));
	json_add(object, "placement", placement);
	if (spec->source.kind != VOLUME_SOURCE_NONE)
		json_add(object, "source", encode_source(&spec->source));
	if (spec->limits.iops || spec->limits.bytes_per_second)
		json_add(object, "limits", encode_limits(&spec->limits));
	return object;
}

struct json_object *record_json_conditions(
	const struct volume_condition *conditions, size_t n)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < n; i++) {
		const struct volume_condition *c = &conditions[i];
		struct json_object *object = json_object_new_object();

		json_add_text(object, "type", c->type);
		json_add_text(object, "status", status_names[c->status]);
		json_add_text(object, "reason", c->reason);
		json_add_text(object, "message", c->message);
		json_add(object, "lastTransitionTime",
			 json_from_time(c->since_s));
		(void)json_object_array_add(array, object);
	}
	return array;
}

/* ---- decode ---- */

void record_scan_name(struct json_scan *scan, struct json_object *in,
		      const char *key, char *ret)
{
	struct error err = {0};

	json_scan_text(scan, in, key, ret, RECORD_NAME_SIZE, true);
	if (scan->r == 0 && name_check("the name", ret, &err) < 0)
		json_scan_fail(scan, key, "is bad: %s", err.msg);
}

void record_scan_uuid(struct json_scan *scan, struct json_object *in,
		      const char *key, char *ret, bool required)
{
	json_scan_text(scan, in, key, ret, UUID_TEXT_SIZE, required);
	if (scan->r < 0 || (!required && !ret[0]))
		return;
	if (strlen(ret) != UUID_TEXT_SIZE - 1 ||
	    strspn(ret, "0123456789abcdef-") != UUID_TEXT_SIZE - 1)
		json_scan_fail(scan, key, "is no lower-case UUID");
}

void record_scan_metadata(struct json_scan *scan, struct json_object *in,
			  const struct record_metadata *ret)
{
	struct json_object *meta = json_scan_object(scan, in, "metadata", true);

	json_scan_at(scan, "metadata");
	record_scan_name(scan, meta, "name", ret->name);
	record_scan_uuid(scan, meta, "uid", ret->uid, true);
	json_scan_text(scan, meta, "resourceVersion", ret->resource_version,
		       RECORD_VERSION_SIZE, false);
	*ret->created_s = json_scan_time(scan, meta, "creationTimestamp");
	*ret->deleting = json_scan_time(scan, meta, "deletionTimestamp") != 0;
	json_scan_labels(scan, meta, "labels", ret->labels);
	scan->path[0] = '\0';
}

void record_scan_names(struct json_scan *scan, struct json_object *in,
		       const char *key, size_t max, struct name_list *ret)
{
	struct json_object *array = json_scan_array(scan, in, key, max, false);
	size_t n = array ? json_object_array_length(array) : 0;
	struct error err = {0};

	for (size_t i = 0; i < n && scan->r == 0; i++) {
		struct json_object *item = json_object_array_get_idx(array, i);

		if (!json_object_is_type(item, json_type_string))
			json_scan_fail(scan, key,
				       "has a member that is no text");
		else if (name_list_add(ret, json_object_get_string(item),
				       &err) < 0)
			json_scan_fail(scan, key, "is bad: %s", err.msg);
	}
}

static void scan_source(struct json_scan *scan, struct json_object *object,
			struct volume_source *source)
{
	if (!object)
		return;
	json_scan_at(scan, "spec.source");
	source->kind = (enum volume_source_kind)json_scan_enum(
		scan, object, "kind", source_names, array_size(source_names));
	record_scan_name(scan, object, "name", source->name);
	record_scan_uuid(scan, object, "uid", source->uid, true);
	if (scan->r == 0 && source->kind == VOLUME_SOURCE_NONE)
		json_scan_fail(scan, "kind", "is empty");
}

static void scan_limits(struct json_scan *scan, struct json_object *object,
			struct volume_limits *limits)
{
	if (!object)
		return;
	json_scan_at(scan, "spec.limits");
	limits->iops = json_scan_number(scan, object, "iops", 0,
					VOLUME_LIMIT_MAX, false);
	limits->bytes_per_second = json_scan_number(
		scan, object, "bytesPerSecond", 0, VOLUME_LIMIT_MAX, false);
}

static void scan_placement(struct json_scan *scan, struct json_object *in,
			   const char *key, struct name_list *ret)
{
	record_scan_names(scan, in, key, VOLUME_NODES_MAX, ret);
}

void record_scan_spec(struct json_scan *scan, struct json_object *object,
		      struct volume_spec *spec)
{
	struct json_object *placement, *source, *limits;
	struct error err = {0};

	json_scan_at(scan, "spec");
	spec->capacity = json_scan_number(scan, object, "capacity", 1,
					  VOLUME_CAPACITY_MAX, true);
	json_scan_text(scan, object, "layout", spec->layout,
		       sizeof(spec->layout), true);
	spec->stripe_width = (unsigned)json_scan_number(
		scan, object, "stripeWidth", 0, VOLUME_SPLITS_MAX,
		volume_spec_stripe(spec));
	spec->stripe_unit = json_scan_number(scan, object, "stripeUnit", 0,
					     VOLUME_CAPACITY_MAX,
					     volume_spec_stripe(spec));
	json_scan_text(scan, object, "fsType", spec->fs_type,
		       sizeof(spec->fs_type), !volume_spec_is_device(spec));
	json_scan_text(scan, object, "policy", spec->policy,
		       sizeof(spec->policy), false);
	json_scan_text(scan, object, "transport", spec->transport,
		       sizeof(spec->transport), false);
	placement = json_scan_object(scan, object, "placement", false);
	source = json_scan_object(scan, object, "source", false);
	limits = json_scan_object(scan, object, "limits", false);
	json_scan_at(scan, "spec.placement");
	spec->min_splits = (unsigned)json_scan_number(
		scan, placement, "minSplits", 0, VOLUME_SPLITS_MAX, false);
	spec->max_splits = (unsigned)json_scan_number(
		scan, placement, "maxSplits", 0, VOLUME_SPLITS_MAX, false);
	spec->max_extent = json_scan_number(scan, placement, "maxExtent", 0,
					    VOLUME_CAPACITY_MAX, false);
	spec->share_pools = json_scan_flag(scan, placement, "sharePools");
	json_scan_text(scan, placement, "strategy", spec->placement,
		       sizeof(spec->placement), false);
	json_scan_text(scan, placement, "localNode", spec->local_node,
		       sizeof(spec->local_node), false);
	scan_placement(scan, placement, "nodes", &spec->nodes);
	scan_placement(scan, placement, "excludeNodes", &spec->exclude);
	scan_placement(scan, placement, "pools", &spec->pools);
	json_scan_labels(scan, placement, "nodeLabels", &spec->node_labels);
	scan_source(scan, source, &spec->source);
	scan_limits(scan, limits, &spec->limits);
	if (scan->r == 0 && volume_spec_check(spec, &err) < 0) {
		scan->path[0] = '\0';
		json_scan_fail(scan, "spec", "is bad: %s", err.msg);
	}
}

static void scan_condition(struct json_scan *scan, struct json_object *object,
			   size_t index, struct volume_condition *c)
{
	json_scan_at(scan, "status.conditions[%zu]", index);
	json_scan_text(scan, object, "type", c->type, sizeof(c->type), true);
	c->status = json_scan_enum(scan, object, "status", status_names,
				   array_size(status_names)) == 1;
	json_scan_text(scan, object, "reason", c->reason, sizeof(c->reason),
		       false);
	json_scan_text(scan, object, "message", c->message, sizeof(c->message),
		       false);
	c->since_s = json_scan_time(scan, object, "lastTransitionTime");
}

/*
 * Make room for the items of an array of status: zeroed; NULL when it is empty.
 */
void *record_scan_room(struct json_scan *scan, struct json_object *array,
		       size_t size, size_t *ret_count)
{
	size_t n = array ? json_object_array_length(array) : 0;
	void *items;

	*ret_count = 0;
	if (n == 0 || scan->r < 0)
		return NULL;
	items = calloc(n, size);
	if (!items) {
		scan->r = error_set(scan->err, ENOMEM, "out of memory");
		return NULL;
	}
	*ret_count = n;
	return items;
}

void record_scan_conditions(struct json_scan *scan, struct json_object *status,
			    struct volume_condition **ret, size_t *ret_count)
{
	struct json_object *array = json_scan_array(
		scan, status, "conditions", VOLUME_CONDITIONS_MAX, false);

	*ret = record_scan_room(scan, array, sizeof(**ret), ret_count);
	for (size_t i = 0; i < *ret_count; i++)
		scan_condition(scan, json_object_array_get_idx(array, i), i,
			       &(*ret)[i]);
}

struct json_object *record_json_given_up(const struct volume_record *record)
{
	struct json_object *array = json_object_new_array();

	for (size_t i = 0; i < record->n_given_up; i++) {
		const struct volume_given_up *g = &record->given_up[i];
		struct json_object *object = json_object_new_object();

		json_add_text(object, "node", g->node);
		json_add_text(object, "extent", g->extent);
		json_add_text(object, "extentID", g->extent_id);
		(void)json_object_array_add(array, object);
	}
	return array;
}

void record_scan_given_up(struct json_scan *scan, struct json_object *status,
			  struct volume_record *record)
{
	struct json_object *array = json_scan_array(scan, status, "givenUp",
						    VOLUME_GIVEN_UP_MAX, false);

	record->given_up = record_scan_room(
		scan, array, sizeof(*record->given_up), &record->n_given_up);
	for (size_t i = 0; i < record->n_given_up; i++) {
		struct json_object *one = json_object_array_get_idx(array, i);
		struct volume_given_up *g = &record->given_up[i];

		json_scan_at(scan, "status.givenUp[%zu]", i);
		record_scan_name(scan, one, "node", g->node);
		record_scan_name(scan, one, "extent", g->extent);
		record_scan_uuid(scan, one, "extentID", g->extent_id, true);
	}
	json_scan_at(scan, "status");
}
