/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/kube_object.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/uuid_name.h"
#include "volume/record/json_scan.h"

#define ANNOTATION_UID    "union.io/uid"
#define ANNOTATION_LABELS "union.io/labels"
#define ANNOTATION_STATUS "union.io/pending-status"

#define LABEL_NAME_MAX 63 /* bytes; Kubernetes, labels and their values */

/* ---- small readers and writers ---- */

static struct json_object *get(struct json_object *in, const char *key)
{
	struct json_object *found = NULL;

	return json_object_object_get_ex(in, key, &found) ? found : NULL;
}

/* The member that is an object; json-c ends the program over others. */
static struct json_object *get_object(struct json_object *in, const char *key)
{
	struct json_object *found = get(in, key);

	return json_object_is_type(found, json_type_object) ? found : NULL;
}

/* The member, made when it is missing. */
static struct json_object *get_made(struct json_object *in, const char *key)
{
	struct json_object *found = get(in, key);

	if (!json_object_is_type(found, json_type_object)) {
		found = json_object_new_object();
		json_add(in, key, found);
	}
	return found;
}

static const char *json_text_of(struct json_object *object)
{
	return json_object_to_json_string_ext(
		object,
		JSON_C_TO_STRING_PLAIN | JSON_C_TO_STRING_NOSLASHESCAPE);
}

/* A text that holds JSON; NULL when there is none or it is not. Owned. */
static struct json_object *annotation_parse(struct json_object *object,
					    const char *name)
{
	struct json_object *annotations = get(get(object, "metadata"),
					      "annotations");
	struct json_object *text = get(annotations, name), *value = NULL;

	if (!json_object_is_type(text, json_type_string) ||
	    json_scan_parse(json_object_get_string(text),
			    (size_t)json_object_get_string_len(text),
			    RECORD_TEXT_MAX, &value, NULL) < 0)
		return NULL;
	return value;
}

static struct json_object *json_copied(struct json_object *from)
{
	struct json_object *to = NULL;

	if (from)
		(void)json_object_deep_copy(from, &to, NULL);
	return to;
}

/* ---- labels ---- */

static bool label_word(const char *text, size_t length)
{
	if (length == 0 || length > LABEL_NAME_MAX ||
	    !isalnum((unsigned char)text[0]) ||
	    !isalnum((unsigned char)text[length - 1]))
		return false;
	for (size_t i = 0; i < length; i++) {
		if (!isalnum((unsigned char)text[i]) && text[i] != '-' &&
		    text[i] != '_' && text[i] != '.')
			return false;
	}
	return true;
}

/* An RFC 1123 subdomain: words of a-z 0-9 '-' with dots between. */
static bool label_prefix(const char *text, size_t length)
{
	bool inside = false; /* after a letter or digit */

	for (size_t i = 0; i < length; i++) {
		char c = text[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');

		if (!letter && c != '-' && c != '.')
			return false;
		if (!letter && (i == 0 || (!inside && text[i - 1] != '-') ||
				(c == '.' && text[i - 1] == '-')))
			return false;
		if (c == '-' && text[i - 1] == '.')
			return false;
		inside = letter;
	}
	return inside;
}

static bool label_is_kube(const char *key, const char *value)
{
	const char *slash = strchr(key, '/');
	const char *word = slash ? slash + 1 : key;

	if (slash && !label_prefix(key, (size_t)(slash - key)))
		return false;
	return label_word(word, strlen(word)) &&
	       (!value[0] || label_word(value, strlen(value)));
}

/* Set the labels of @object; true when that changed them. */
static bool labels_put(struct json_object *object, struct json_object *labels)
{
	struct json_object *meta = get_made(object, "metadata");
	struct json_object *annotations = get_made(meta, "annotations");
	struct json_object *plain = json_object_new_object();
	struct json_object *other = json_object_new_object();
	struct json_object *old_other = annotation_parse(object,
							 ANNOTATION_LABELS);
	struct json_object *old_plain = get_object(meta, "labels");
	bool changed;

	if (json_object_is_type(labels, json_type_object)) {
		json_object_object_foreach(labels, key, value)
		{
			const char *text = json_object_get_string(value);
			bool fits = label_is_kube(key, text ? text : "");

			json_add(fits ? plain : other, key,
				 json_object_get(value));
		}
	}
	changed = old_plain ? !json_object_equal(plain, old_plain)
			    : json_object_object_length(plain) > 0;
	if (old_other)
		changed |= !json_object_equal(other, old_other);
	else
		changed |= json_object_object_length(other) > 0;
	json_object_put(old_other);
	if (json_object_object_length(other) > 0)
		json_add_text(annotations, ANNOTATION_LABELS,
			      json_text_of(other));
	else
		json_object_object_del(annotations, ANNOTATION_LABELS);
	json_object_put(other);
	json_add(meta, "labels", plain);
	return changed;
}

/* Of the record: what Kubernetes has and what only the annotation has. */
static struct json_object *labels_all(struct json_object *object)
{
	struct json_object *plain = get_object(get(object, "metadata"),
					       "labels");
	struct json_object *other = annotation_parse(object, ANNOTATION_LABELS);
	struct json_object *all = json_copied(plain);

	if (!other)
		return all;
	if (!all)
		all = json_object_new_object();
	json_object_object_foreach(other, key, value)
	{
		json_add(all, key, json_object_get(value));
	}
	json_object_put(other);
	return all;
}

/* ---- a record becomes an object ---- */

static int record_parse(const struct kube_resource *resource, const char *name,
			const char *json, struct json_object **ret,
			struct error *err)
{
	struct json_object *record = NULL;
	int r = json_scan_document(json, strlen(json), RECORD_TEXT_MAX,
				   RECORD_API_VERSION, resource->kind, &record,
				   err);

	if (r == 0 && strcmp(kube_text(record, "metadata", "name"), name) != 0)
		r = error_set(err, EINVAL,
			      "the document's metadata.name is not '%s'", name);
	if (r < 0) {
		json_object_put(record);
		return r;
	}
	*ret = record;
	return 0;
}

static int annotation_set_status(struct json_object *object,
				 struct json_object *status, struct error *err)
{
	struct json_object *meta = get_made(object, "metadata");
	const char *text = json_text_of(status);

	if (strlen(text) > KUBE_PENDING_MAX)
		return error_set(err, E2BIG,
				 "the status has %zu bytes; together with a "
				 "change of the rest at most %u are kept",
				 strlen(text), KUBE_PENDING_MAX);
	json_add_text(get_made(meta, "annotations"), ANNOTATION_STATUS, text);
	return 0;
}

int kube_object_new(const struct kube_resource *resource, const char *name,
		    const char *json, struct json_object **ret,
		    struct error *err)
{
	struct json_object *record = NULL, *object, *meta, *list;
	int r = record_parse(resource, name, json, &record, err);

	if (r < 0)
		return r;
	object = json_object_new_object();
	meta = json_object_new_object();
	json_add_text(object, "apiVersion", RECORD_API_VERSION);
	json_add_text(object, "kind", resource->kind);
	json_add(object, "metadata", meta);
	json_add_text(meta, "name", name);
	if (resource->finalizer) {
		list = json_object_new_array();
		(void)json_object_array_add(
			list, json_object_new_string(resource->finalizer));
		json_add(meta, "finalizers", list);
	}
	json_add_text(get_made(meta, "annotations"), ANNOTATION_UID,
		      kube_text(record, "metadata", "uid"));
	(void)labels_put(object, get(get(record, "metadata"), "labels"));
	json_add(object, "spec", json_copied(get(record, "spec")));
	if (get(record, "status"))
		r = annotation_set_status(object, get(record, "status"), err);
	json_object_put(record);
	if (r < 0) {
		json_object_put(object);
		return r;
	}
	*ret = object;
	return 0;
}

int kube_object_change(struct json_object *object,
		       const struct kube_resource *resource, const char *name,
		       const char *json, struct kube_change *ret,
		       struct error *err)
{
	struct json_object *record = NULL, *spec, *status, *pending;
	struct kube_change change = {0};
	int r = record_parse(resource, name, json, &record, err);

	if (r < 0)
		return r;
	spec = get(record, "spec");
	status = get(record, "status");
	pending = annotation_parse(object, ANNOTATION_STATUS);
	if (!json_object_equal(spec, get(object, "spec"))) {
		json_add(object, "spec", json_copied(spec));
		change.main = true;
	}
	if (labels_put(object, get(get(record, "metadata"), "labels")))
		change.main = true;
	if (status &&
	    !json_object_equal(status,
			       pending ? pending : get(object, "status")))
		change.status = true;
	/* A pending status would hide the one written. */
	if (pending && change.status)
		change.main = true;
	json_object_put(pending);
	if (change.main && change.status)
		r = annotation_set_status(object, status, err);
	else if (change.status)
		json_add(object, "status", json_copied(status));
	json_object_put(record);
	if (r == 0)
		*ret = change;
	return r;
}

bool kube_object_settle(struct json_object *object)
{
	struct json_object *status = annotation_parse(object,
						      ANNOTATION_STATUS);

	if (!status)
		return false;
	json_add(object, "status", status);
	json_object_object_del(get(get(object, "metadata"), "annotations"),
			       ANNOTATION_STATUS);
	return true;
}

/* ---- an object becomes a record ---- */

static const char *noted_uid(struct json_object *object)
{
	return kube_text(get(get(object, "metadata"), "annotations"), NULL,
			 ANNOTATION_UID);
}

static struct json_object *record_metadata(struct json_object *object)
{
	struct json_object *meta = json_object_new_object();
	const char *uid = noted_uid(object);
	struct json_object *labels = labels_all(object);

	json_add_text(meta, "name", kube_text(object, "metadata", "name"));
	json_add_text(meta, "uid",
		      uid[0] ? uid : kube_text(object, "metadata", "uid"));
	json_add_text(meta, "resourceVersion", kube_object_version(object));
	json_add_text(meta, "creationTimestamp",
		      kube_text(object, "metadata", "creationTimestamp"));
	json_add_text(meta, "deletionTimestamp",
		      kube_text(object, "metadata", "deletionTimestamp"));
	if (labels && json_object_object_length(labels) > 0)
		json_add(meta, "labels", labels);
	else
		json_object_put(labels);
	return meta;
}

int kube_object_record(struct json_object *object, struct store_object *ret,
		       struct error *err)
{
	const char *name = kube_text(object, "metadata", "name");
	const char *version = kube_object_version(object);
	struct json_object *record, *status, *pending;
	int r;

	if (!name[0] || strlen(name) >= sizeof(ret->name) || !version[0] ||
	    strlen(version) >= sizeof(ret->version))
		return error_set(err, EUCLEAN,
				 "an object without a name and version we can "
				 "take");
	record = json_object_new_object();
	pending = annotation_parse(object, ANNOTATION_STATUS);
	status = pending ? pending : json_object_get(get(object, "status"));
	json_add_text(record, "apiVersion",
		      kube_text(object, NULL, "apiVersion"));
	json_add_text(record, "kind", kube_text(object, NULL, "kind"));
	json_add(record, "metadata", record_metadata(object));
	json_add(record, "spec", json_object_get(get(object, "spec")));
	if (status)
		json_add(record, "status", status);
	(void)strcpy(ret->name, name);
	(void)strcpy(ret->version, version);
	r = json_finish(record, HTTP_BODY_MAX, &ret->json, err);
	if (r == 0)
		ret->length = strlen(ret->json);
	return r;
}

bool kube_object_same_uid(struct json_object *a, struct json_object *b)
{
	return noted_uid(a)[0] && strcmp(noted_uid(a), noted_uid(b)) == 0;
}

const char *kube_object_version(struct json_object *object)
{
	return kube_text(object, "metadata", "resourceVersion");
}

bool kube_object_deleting(struct json_object *object)
{
	return kube_text(object, "metadata", "deletionTimestamp")[0];
}

static int finalizer_index(struct json_object *object, const char *name)
{
	struct json_object *list = get(get(object, "metadata"), "finalizers");
	size_t n = json_object_is_type(list, json_type_array)
			   ? json_object_array_length(list)
			   : 0;

	for (size_t i = 0; name && i < n; i++) {
		const char *text = json_object_get_string(
			json_object_array_get_idx(list, i));

		if (text && strcmp(text, name) == 0)
			return (int)i;
	}
	return -1;
}

bool kube_object_has_finalizer(struct json_object *object, const char *name)
{
	return finalizer_index(object, name) >= 0;
}

void kube_object_drop_finalizer(struct json_object *object, const char *name)
{
	struct json_object *list = get(get(object, "metadata"), "finalizers");
	int i;

	while ((i = finalizer_index(object, name)) >= 0)
		(void)json_object_array_del_idx(list, (size_t)i, 1);
}

struct json_object *kube_object_deletion(struct json_object *object)
{
	struct json_object *options = json_object_new_object();
	struct json_object *exactly = json_object_new_object();

	json_add_text(options, "apiVersion", "v1");
	json_add_text(options, "kind", "DeleteOptions");
	json_add_text(exactly, "uid", kube_text(object, "metadata", "uid"));
	json_add_text(exactly, "resourceVersion", kube_object_version(object));
	json_add(options, "preconditions", exactly);
	return options;
}
