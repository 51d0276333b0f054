/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events: what the records say has changed, and when. A record has the last
 * change of each of its conditions, so an event is there until the next of its
 * kind.
 */
#ifndef CLI_EVENTS_H
#define CLI_EVENTS_H

#include <json-c/json.h>
#include <stdio.h>

#include "volume/record/node.h"
#include "volume/record/snapshot_record.h"

struct event {
	int64_t at_s;                       /* seconds since 1970 */
	char object[RECORD_NAME_SIZE + 16]; /* "volume x", "node y" */
	bool good;                          /* else a person may have to act */
	char reason[RECORD_NAME_SIZE];      /* one word */
	char message[RECORD_TEXT_SIZE + 128]; /* "": nothing to add */
};

struct event_list {
	struct event *events; /* owned, free() */
	size_t n;
};

/*
 * Add the events of one record. Out of memory ends the program: it is a
 * command, not a daemon.
 *
 * @now_s  seconds since 1970, for the last heartbeat of a lost node
 */
void events_of_node(struct event_list *list, const struct node_state *node,
		    int64_t now_s);
void events_of_volume(struct event_list *list,
		      const struct volume_record *record);
void events_of_snapshot(struct event_list *list,
			const struct snapshot_record *record);

/* The oldest first. */
void events_sort(struct event_list *list);
/* Copy all; free(). */
int events_copy(const struct event_list *from, struct event_list *ret,
		struct error *err);
/*
 * Remove those of @list that @known, which is sorted, has within some seconds,
 * too.
 */
void events_drop_known(struct event_list *list, const struct event_list *known);

struct json_object *event_json(const struct event *event);

#endif
