/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/controller/capacity_publish.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "csi/call/csi_check.h"
#include "csi/call/request.h"
#include "volume/op/context.h"
#include "volume/plan/volume_room.h"
#include "volume/store/store.h"

/* What a class asks for. */
struct wish {
	struct request request;
	struct store_class *class; /* borrowed */
};

/* Read the class's parameters; false: a volume of it cannot be made. */
static bool wish_read(struct wish *wish, struct store_class *class)
{
	const size_t n = class->n_parameters;
	auto_free struct csi_entry *entries = calloc(n + 1, sizeof(*entries));
	auto_free ProtobufCMessage **list = calloc(n + 1, sizeof(*list));

	wish->class = class;
	if (!entries || !list)
		return false;
	for (size_t i = 0; i < n; i++) {
		entries[i].key = class->parameters[i].key;
		entries[i].value = class->parameters[i].value;
		list[i] = &entries[i].base;
	}
	return request_read(&wish->request, list, n, NULL, 0, NULL, NULL) == 0;
}

/* Find the room of all wishes. */
static int wishes_fill(struct csi *csi, const struct wish *wishes, size_t n,
		       struct error *err)
{
	auto_free const struct volume_spec **specs = calloc(n + 1,
							    sizeof(*specs));
	auto_free struct volume_room *rooms = calloc(n + 1, sizeof(*rooms));
	int r;

	if (!specs || !rooms)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++)
		specs[i] = &wishes[i].request.spec;
	r = volume_rooms_get(csi->volumes, specs, n, rooms, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		wishes[i].class->known = true;
		wishes[i].class->available = rooms[i].available;
		wishes[i].class->maximum = rooms[i].maximum;
	}
	return r;
}

static int classes_fill(struct csi *csi, struct store_class *classes, size_t n,
			struct error *err)
{
	auto_free struct wish *wishes = calloc(n + 1, sizeof(*wishes));
	size_t made = 0;
	int r;

	if (!wishes)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		if (wish_read(&wishes[made], &classes[i]))
			made++;
		else
			request_done(&wishes[made].request);
	}
	r = wishes_fill(csi, wishes, made, err);
	for (size_t i = 0; i < made; i++)
		request_done(&wishes[i].request);
	return r;
}

int capacity_publish(struct csi *csi, struct error *err)
{
	struct store *store = csi->volumes->store;
	struct store_class *classes = NULL;
	size_t n = 0;
	int r;

	if (!store->ops->classes)
		return 0;
	r = store->ops->classes(store, CSI_DRIVER_NAME, &classes, &n, err);
	if (r == 0)
		r = classes_fill(csi, classes, n, err);
	if (r == 0)
		r = store->ops->rooms_publish(store, CSI_DRIVER_NAME, classes,
					      n, err);
	store_classes_free(classes, n);
	return r;
}
