/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/live/events.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "cli/text/json.h"

/*
 * A lost node's last heartbeat is as old as the store says, in whole seconds:
 * the time of the same one differs by some.
 */
#define SAME_S 5

static void event_add(struct event_list *list, int64_t at_s, const char *kind,
		      const char *name, bool good, const char *reason,
		      const char *fmt, ...)
	__attribute__((format(printf, 7, 8)));

static void event_add(struct event_list *list, int64_t at_s, const char *kind,
		      const char *name, bool good, const char *reason,
		      const char *fmt, ...)
{
	struct event *events = reallocarray(list->events, list->n + 1,
					    sizeof(*events));
	struct event *event;
	va_list ap;

	if (!events)
		abort();
	list->events = events;
	event = &events[list->n++];
	*event = (struct event){.at_s = at_s, .good = good};
	(void)snprintf(event->object, sizeof(event->object), "%s %.63s", kind,
		       name);
	(void)snprintf(event->reason, sizeof(event->reason), "%s", reason);
	va_start(ap, fmt);
	(void)vsnprintf(event->message, sizeof(event->message), fmt, ap);
	va_end(ap);
}

static void events_of_conditions(struct event_list *list, const char *kind,
				 const char *name,
				 const struct volume_condition *conditions,
				 size_t n)
{
	for (size_t i = 0; i < n; i++)
		event_add(list, conditions[i].since_s, kind, name,
			  conditions[i].status, conditions[i].reason, "%s: %s",
			  conditions[i].type, conditions[i].message);
}

void events_of_node(struct event_list *list, const struct node_state *node,
		    int64_t now_s)
{
	const struct node_report *report = node->record.report;
	const struct node_scrub *scrub = node->record.scrub;
	const char *name = node->record.name;
	char size[SIZE_TEXT_MAX];

	event_add(list, node->record.created_s, "node", name, true, "Known",
		  "%s", node->record.control_address);
	/* Without a leader nobody writes that into the record. */
	if (node->lost)
		event_add(list, now_s - node->last_seen_s, "node", name, false,
			  NODE_REASON_LOST,
			  "nothing was heard of its keeper since then");
	else if (report)
		event_add(list, report->since_s, "node", name,
			  report->ready == NODE_READY_TRUE, report->reason,
			  "%s", report->message);
	if (scrub)
		event_add(list, scrub->at_s, "node", name,
			  scrub->orphans + scrub->missing == 0, "Scrubbed",
			  "orphans: %" PRIu64 " (%s), missing extents: "
			  "%" PRIu64,
			  scrub->orphans,
			  size_format(size, scrub->orphan_bytes),
			  scrub->missing);
}

void events_of_volume(struct event_list *list,
		      const struct volume_record *record)
{
	for (size_t i = 0; i < record->n_attachments; i++) {
		const struct volume_attachment *a = &record->attachments[i];

		event_add(list, a->since_s, "volume", record->name, true,
			  attachment_state_name(a->state), "on node %s%s%.200s",
			  a->node, a->mount_point[0] ? " at " : "",
			  a->mount_point);
	}
	events_of_conditions(list, "volume", record->name, record->conditions,
			     record->n_conditions);
}

void events_of_snapshot(struct event_list *list,
			const struct snapshot_record *record)
{
	if (record->cut_s)
		event_add(list, record->cut_s, "snapshot", record->name, true,
			  "Cut", "of volume %s", record->volume);
	events_of_conditions(list, "snapshot", record->name, record->conditions,
			     record->n_conditions);
}

/* The order of events of one second does not change from look to look. */
static int event_compare(const void *a_, const void *b_)
{
	const struct event *a = a_, *b = b_;
	int order = (a->at_s > b->at_s) - (a->at_s < b->at_s);

	if (order == 0)
		order = strcmp(a->object, b->object);
	return order ? order : strcmp(a->reason, b->reason);
}

void events_sort(struct event_list *list)
{
	if (list->n > 0)
		qsort(list->events, list->n, sizeof(*list->events),
		      event_compare);
}

/* The first of @list, which is sorted, that is not before @at_s. */
static size_t event_first(const struct event_list *list, int64_t at_s)
{
	size_t low = 0, high = list->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (list->events[middle].at_s < at_s)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static bool event_is_in(const struct event_list *list,
			const struct event *event)
{
	for (size_t i = event_first(list, event->at_s - SAME_S);
	     i < list->n && list->events[i].at_s <= event->at_s + SAME_S; i++) {
		const struct event *e = &list->events[i];

		if (e->good == event->good &&
		    strcmp(e->object, event->object) == 0 &&
		    strcmp(e->reason, event->reason) == 0 &&
		    strcmp(e->message, event->message) == 0)
			return true;
	}
	return false;
}

int events_copy(const struct event_list *from, struct event_list *ret,
		struct error *err)
{
	ret->events = calloc(from->n + 1, sizeof(*ret->events));
	if (!ret->events)
		return error_set(err, ENOMEM, "out of memory");
	if (from->n > 0)
		memcpy(ret->events, from->events,
		       from->n * sizeof(*ret->events));
	ret->n = from->n;
	return 0;
}

void events_drop_known(struct event_list *list, const struct event_list *known)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++)
		if (!event_is_in(known, &list->events[i]))
			list->events[n++] = list->events[i];
	list->n = n;
}

struct json_object *event_json(const struct event *event)
{
	struct json_object *object = json_object_new_object();

	json_put_number(object, "atSeconds", (uint64_t)event->at_s);
	json_put_text(object, "object", event->object);
	json_put_flag(object, "good", event->good);
	json_put_text(object, "reason", event->reason);
	json_put_text(object, "message", event->message);
	return object;
}
