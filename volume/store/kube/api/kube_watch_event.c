/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/api/kube_watch_event.h"

#include <errno.h>
#include <stdlib.h>
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

void kube_watch_events_done(struct kube_watch_events *events)
{
	free(events->line);
	*events = (struct kube_watch_events){0};
}

static int line_add(struct kube_watch_events *events, const char *bytes,
		    size_t length, struct error *err)
{
	size_t need = events->length + length;
	char *more;

	if (length == 0)
		return 0;
	if (need > KUBE_WATCH_EVENT_MAX)
		return error_set(err, EPROTO,
				 "an event of the API server is larger than "
				 "%u MiB",
				 KUBE_WATCH_EVENT_MAX >> 20);
	if (need > events->room) {
		size_t room = 2 * need < 4096 ? 4096 : 2 * need;

		more = realloc(events->line, room);
		if (!more)
			return error_set(err, ENOMEM, "out of memory");
		events->line = more;
		events->room = room;
	}
	memcpy(events->line + events->length, bytes, length);
	events->length = need;
	return 0;
}

static int event_tell(struct json_object *event,
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

/* The line is at its end. */
static int line_tell(struct kube_watch_events *events,
		     kube_watch_event_handler handler, void *context,
		     struct error *err)
{
	struct json_object *event = NULL;
	struct error why = {0};
	size_t length = events->length;
	int r;

	events->length = 0;
	if (length == 0 || (length == 1 && events->line[0] == '\r'))
		return 0;
	r = json_scan_parse(events->line, length, KUBE_WATCH_EVENT_MAX, &event,
			    &why);
	if (r == -ENOMEM)
		return error_set(err, ENOMEM, "out of memory");
	if (r < 0)
		return error_set(err, EPROTO,
				 "an event of the API server: %.300s", why.msg);
	r = event_tell(event, handler, context, err);
	json_object_put(event);
	return r;
}

int kube_watch_events_feed(struct kube_watch_events *events, const char *bytes,
			   size_t length, kube_watch_event_handler handler,
			   void *context, struct error *err)
{
	int r = 0;

	while (r == 0 && length > 0) {
		const char *newline = memchr(bytes, '\n', length);
		size_t part = newline ? (size_t)(newline - bytes) : length;

		r = line_add(events, bytes, part, err);
		if (r == 0 && newline)
			r = line_tell(events, handler, context, err);
		part += newline ? 1 : 0;
		bytes += part;
		length -= part;
	}
	return r;
}
