/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/kube_capacity.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/record/json_scan.h"
#include "volume/store/kube/api/kube_list.h"

#define CLASSES_PATH "/apis/storage.k8s.io/v1/storageclasses"
#define LABEL_DRIVER "csi.storage.k8s.io/drivername"
#define NOTE_ROOM    "union.io/room" /* "AVAILABLE/MAXIMUM", bytes */
#define ROOM_SIZE    48              /* bytes of NOTE_ROOM with NUL */
#define ANSWER_MS    10000

static const struct kube_resource capacities = {
	.kind = "CSIStorageCapacity",
	.group = "storage.k8s.io",
	.version = "v1",
	.plural = "csistoragecapacities",
};

/* ---- classes ---- */

struct classes {
	const char *driver;
	struct store_class *items; /* owned */
	size_t n;
};

static int class_parameters(struct json_object *item, struct store_class *class)
{
	struct json_object *map = NULL;

	if (!json_object_object_get_ex(item, "parameters", &map) ||
	    !json_object_is_type(map, json_type_object))
		return 0;
	class->parameters = calloc((size_t)json_object_object_length(map) + 1,
				   sizeof(*class->parameters));
	if (!class->parameters)
		return -ENOMEM;
	json_object_object_foreach(map, key, value)
	{
		struct store_parameter *p =
			&class->parameters[class->n_parameters++];

		p->key = strdup(key);
		p->value = strdup(json_object_is_type(value, json_type_string)
					  ? json_object_get_string(value)
					  : "");
		if (!p->key || !p->value)
			return -ENOMEM;
	}
	return 0;
}

static int class_add(void *classes_, struct json_object *item,
		     struct error *err)
{
	struct classes *classes = classes_;
	struct store_class *items, *class;

	if (strcmp(kube_text(item, NULL, "provisioner"), classes->driver) !=
		    0 ||
	    strcmp(kube_text(item, NULL, "volumeBindingMode"),
		   "WaitForFirstConsumer") != 0)
		return 0;
	items = reallocarray(classes->items, classes->n + 1, sizeof(*items));
	if (!items)
		return error_set(err, ENOMEM, "out of memory");
	classes->items = items;
	class = &items[classes->n++];
	*class = (struct store_class){0};
	class->name = strdup(kube_text(item, "metadata", "name"));
	if (!class->name || class_parameters(item, class) < 0)
		return error_set(err, ENOMEM, "out of memory");
	return 0;
}

int kube_classes_list(struct kube_http *http, const char *driver,
		      struct store_class **ret, size_t *ret_count,
		      struct error *err)
{
	struct classes classes = {.driver = driver};
	int r = kube_list(http, CLASSES_PATH, ANSWER_MS, class_add, &classes,
			  NULL, err);

	if (r < 0) {
		store_classes_free(classes.items, classes.n);
		return r;
	}
	*ret = classes.items;
	*ret_count = classes.n;
	return 0;
}

/* ---- objects ---- */

struct publish {
	struct kube_http *http;
	const char *path; /* of all objects */
	const char *driver;
	const struct store_class *classes;
	size_t n;
	bool *there; /* owned; one a class: it has its object */
};

static void add_bytes(struct json_object *object, const char *key,
		      uint64_t bytes)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%" PRIu64, bytes);
	json_add_text(object, key, text);
}

static void room_text(const struct store_class *class, char *ret)
{
	(void)snprintf(ret, ROOM_SIZE, "%" PRIu64 "/%" PRIu64, class->available,
		       class->maximum);
}

static const char *room_of(struct json_object *item)
{
	struct json_object *meta = NULL;

	(void)json_object_object_get_ex(item, "metadata", &meta);
	return kube_text(meta, "annotations", NOTE_ROOM);
}

/*
 * Fill in the room. The annotation is as we wrote it; the server writes a
 * quantity in another way.
 */
static void room_fill(struct json_object *object,
		      const struct store_class *class)
{
	struct json_object *meta = NULL, *notes = json_object_new_object();
	char room[ROOM_SIZE];

	room_text(class, room);
	json_add_text(notes, NOTE_ROOM, room);
	(void)json_object_object_get_ex(object, "metadata", &meta);
	json_add(meta, "annotations", notes);
	json_add_text(object, "apiVersion", "storage.k8s.io/v1");
	json_add_text(object, "kind", capacities.kind);
	add_bytes(object, "capacity", class->available);
	add_bytes(object, "maximumVolumeSize", class->maximum);
}

static int room_create(const struct publish *p, const struct store_class *class,
		       struct error *err)
{
	struct json_object *object = json_object_new_object();
	struct json_object *meta = json_object_new_object();
	struct json_object *labels = json_object_new_object();
	int r;

	json_add_text(labels, LABEL_DRIVER, p->driver);
	json_add_text(meta, "name", class->name);
	json_add_text(meta, "namespace", kube_http_namespace(p->http));
	json_add(meta, "labels", labels);
	json_add(object, "metadata", meta);
	json_add_text(object, "storageClassName", class->name);
	/* Empty, it selects every node. */
	json_add(object, "nodeTopology", json_object_new_object());
	room_fill(object, class);
	r = kube_call_within(p->http, "POST", p->path, object, false, ANSWER_MS,
			     NULL, err);
	json_object_put(object);
	return r == -EEXIST ? 0 : r; /* a leader before us; the next time */
}

/* Return the class whose object @item is; NULL: it is nobody's. */
static const struct store_class *class_of(const struct publish *p,
					  struct json_object *item)
{
	const char *name = kube_text(item, "metadata", "name");

	for (size_t i = 0; i < p->n; i++) {
		if (!p->classes[i].known ||
		    strcmp(p->classes[i].name, name) != 0)
			continue;
		p->there[i] = true;
		return &p->classes[i];
	}
	return NULL;
}

/* Change or delete an object that is there. */
static int room_settle(void *publish, struct json_object *item,
		       struct error *err)
{
	const struct publish *p = publish;
	struct json_object *meta = NULL;
	const struct store_class *class;
	char path[KUBE_PATH_SIZE + 256], room[ROOM_SIZE];
	int r = 0;

	(void)json_object_object_get_ex(item, "metadata", &meta);
	if (strcmp(kube_text(meta, "labels", LABEL_DRIVER), p->driver) != 0)
		return 0;
	class = class_of(p, item);
	if (snprintf(path, sizeof(path), "%s/%s", p->path,
		     kube_text(item, "metadata", "name")) >= (int)sizeof(path))
		return error_set(err, EPROTO, "an object's name is too long");
	if (!class) {
		r = kube_call_within(p->http, "DELETE", path, NULL, false,
				     ANSWER_MS, NULL, err);
	} else {
		room_text(class, room);
		if (strcmp(room_of(item), room) == 0)
			return 0;
		room_fill(item, class);
		r = kube_call_within(p->http, "PUT", path, item, false,
				     ANSWER_MS, NULL, err);
	}
	/* Somebody else was quicker: the next time. */
	return r == -ESTALE || r == -ENOENT ? 0 : r;
}

int kube_rooms_publish(struct kube_http *http, const char *driver,
		       const struct store_class *classes, size_t count,
		       struct error *err)
{
	char path[KUBE_PATH_SIZE];
	auto_free bool *there = calloc(count + 1, sizeof(*there));
	struct publish p = {.http = http,
			    .path = path,
			    .driver = driver,
			    .classes = classes,
			    .n = count,
			    .there = there};
	int r = there ? kube_path(http, &capacities, NULL, NULL, path, err)
		      : error_set(err, ENOMEM, "out of memory");

	if (r == 0)
		r = kube_list(http, path, ANSWER_MS, room_settle, &p, NULL,
			      err);
	for (size_t i = 0; r == 0 && i < count; i++)
		if (classes[i].known && !p.there[i])
			r = room_create(&p, &classes[i], err);
	return r;
}
