/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/api/kube_watch_event.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/record/json_scan.h"

static const char *const names[] = {
	[KUBE_WATCH_EVENT_ADDED] = "ADDED",
	[KUBE_WATCH_EVENT_MODIFIED] = "MODIFIED",
	[KUBE_WATCH_EVENT_DELETED] = "DELETED",
	[KUBE_WATCH_EVENT_BOOKMARK] = "BOOKMARK",
	[KUBE_WATCH_EVENT_ERROR] = "ERROR",
};

int kube_watch_event_tell(struct json_object *event,
			  kube_watch_event_handler handler, void *context,
			  struct error *err)
{
	struct json_object *type = NULL, *object = NULL;
	const char *name;

	if (!json_object_object_get_ex(event, "type", &type) ||
	    !json_object_is_type(type, json_type_string) ||
	    !json_object_object_get_ex(event, "object", &object) ||
	    !json_object_is_type(object, json_type_object))
		return error_set(err, EPROTO,
				 "an event without a type or an "
				 "object");
	name = json_object_get_string(type);
	for (size_t i = 0; i < array_size(names); i++) {
		if (strcmp(name, names[i]) == 0)
			return handler(context, (enum kube_watch_event_type)i,
				       object, err);
	}
	return 0;
}
