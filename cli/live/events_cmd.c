/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cli/command/command.h"
#include "cli/live/events.h"
#include "volume/op/node_states.h"
#include "volume/op/volume_walk.h"
#include "volume/op/watch.h"
#include "volume/snapshot/snapshot.h"

#define EVERY_MS 10000 /* heartbeats and snapshots are not watched */

static int nodes_add(struct cli *cli, struct event_list *list,
		     struct error *err)
{
	struct node_state *nodes = NULL;
	size_t n = 0;
	int r = node_states_load(cli->volumes, &nodes, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		events_of_node(list, &nodes[i], clock_wall_s());
	node_states_free(nodes, n);
	return r;
}

static int volume_add(void *list, const struct volume_record *record,
		      struct error *err)
{
	(void)err;
	events_of_volume(list, record);
	return 0;
}

static int volumes_add(struct cli *cli, struct event_list *list,
		       struct error *err)
{
	return volume_walk(cli->volumes, NULL, volume_add, list, NULL, err);
}

static int snapshots_add(struct cli *cli, struct event_list *list,
			 struct error *err)
{
	const struct snapshot_filter filter = {.temporary = true};
	struct snapshot_record **records = NULL;
	size_t n = 0;
	int r = volume_snapshot_list(cli->volumes, &filter, &records, &n, NULL,
				     NULL, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		events_of_snapshot(list, records[i]);
	snapshot_records_free(records, n);
	return r;
}

/* Of all records; no node is asked. The caller frees list->events. */
static int events_get(struct cli *cli, struct event_list *list,
		      struct error *err)
{
	int r = nodes_add(cli, list, err);

	if (r == 0)
		r = volumes_add(cli, list, err);
	if (r == 0)
		r = snapshots_add(cli, list, err);
	if (r == 0)
		events_sort(list);
	return r;
}

/* ---- shown ---- */

/* As a document a line, where they go on; else main() prints the array. */
static void event_print(const struct cli *cli, const struct event *event)
{
	struct json_object *object;
	char at[CLI_TIME_SIZE];

	if (!cli->options.json) {
		(void)printf("%s  %-7s  %s  %s  %s\n",
			     cli_time(at, event->at_s),
			     event->good ? "" : "warning", event->object,
			     event->reason, event->message);
		return;
	}
	object = event_json(event);
	(void)puts(json_object_to_json_string_ext(
		object, JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(object);
}

struct following {
	struct cli *cli;
	struct event_list known; /* owned; all that is printed */
	bool cut;                /* it was told that nothing can be heard of */
};

/* Print what is new, and know all that there is by now. */
static int events_print_new(struct following *f, struct error *err)
{
	struct event_list all = {0}, fresh = {0};
	int r = events_get(f->cli, &all, err);

	if (r == 0)
		r = events_copy(&all, &fresh, err);
	if (r == 0) {
		events_drop_known(&fresh, &f->known);
		for (size_t i = 0; i < fresh.n; i++)
			event_print(f->cli, &fresh.events[i]);
		free(f->known.events);
		f->known = all;
		all.events = NULL;
	}
	free(all.events);
	free(fresh.events);
	if (r == 0 && fflush(stdout) != 0)
		return error_set(err, EIO, "writing: %s", strerror(errno));
	return r;
}

static int events_changed(void *following, const char *problem,
			  struct error *err)
{
	struct following *f = following;
	struct error why = {0};
	int r = problem[0] ? error_set(&why, EHOSTUNREACH, "%s", problem)
			   : events_print_new(f, &why);

	if (r < 0 && r != -EHOSTUNREACH && r != -ETIMEDOUT)
		return error_set(err, -r, "%s", error_text(&why));
	/* Data goes on without the store; so do we. */
	if (r < 0 && !f->cut)
		(void)fprintf(stderr, "trib events: %s; waiting\n",
			      error_text(&why));
	f->cut = r < 0;
	return 0;
}

static int events_follow(struct cli *cli, struct error *err)
{
	struct following f = {.cli = cli};
	int r = volume_watch(cli->volumes, cli->stop_fd, EVERY_MS,
			     events_changed, &f, err);

	free(f.known.events);
	return r;
}

int events_run(struct cli *cli, struct error *err)
{
	struct json_object *array;
	struct event_list list = {0};
	int r;

	if (cli->options.watch)
		return events_follow(cli, err);
	r = events_get(cli, &list, err);
	array = json_object_new_array();
	for (size_t i = 0; r == 0 && i < list.n; i++)
		json_object_array_add(array, event_json(&list.events[i]));
	if (r < 0)
		json_object_put(array);
	else if (!cli_answer(cli, array))
		for (size_t i = 0; i < list.n; i++)
			event_print(cli, &list.events[i]);
	free(list.events);
	return r;
}
