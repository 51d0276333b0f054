/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "cli/command/command.h"
#include "cli/text/json.h"
#include "cli/text/table.h"
#include "volume/scrub/scrub.h"

struct orphan_list {
	struct orphan *orphans; /* owned */
	size_t n;
	struct json_object *all; /* owned; an array */
};

static void orphans_print(const struct orphan_list *list)
{
	struct table *table = table_new("NODE", "NAME", "VOLUME", "SIZE>",
					"SINCE (UTC)", "WHAT TO DO", NULL);
	char text[SIZE_TEXT_MAX], since[CLI_TIME_SIZE];

	for (size_t i = 0; i < list->n; i++) {
		const struct orphan *o = &list->orphans[i];

		table_cell(table, "%s", o->node);
		table_cell(table, "%s", o->name);
		table_cell(table, "%s", o->volume);
		table_cell(table, "%s", size_format(text, o->size));
		table_cell(table, "%s", cli_time(since, o->since_s));
		table_cell(table, "%s", o->message);
	}
	table_print(table, stdout);
	(void)fflush(stdout); /* before anything is deleted */
}

/* Keep only those that are due, @grace_s after a scrub saw them. */
static void orphans_keep_due(struct orphan_list *list, uint64_t grace_s)
{
	size_t n = 0;

	for (size_t i = 0; i < list->n; i++)
		if (volume_orphan_is_due(&list->orphans[i], grace_s, NULL) == 0)
			list->orphans[n++] = list->orphans[i];
	list->n = n;
}

static void tell_silent(size_t n)
{
	if (n > 0)
		(void)fprintf(stderr, "trib: %zu node%s did not answer\n", n,
			      n == 1 ? "" : "s");
}

/* Delete each; the others go on after an error. Returns the first. */
static int orphans_reclaim(struct cli *cli, struct orphan_list *list,
			   struct error *err)
{
	int r = 0;

	for (size_t i = 0; i < list->n; i++) {
		const struct orphan *o = &list->orphans[i];
		struct error why = {0};
		int one = volume_orphan_reclaim(
			cli->volumes, o, cli->options.reclaim_grace, &why);
		struct json_object *object = json_orphan(o);

		json_put_flag(object, "reclaimed", one == 0);
		json_put_text(object, "problem",
			      one < 0 ? error_text(&why) : "");
		json_object_array_add(list->all, object);
		if (one == 0)
			cli_say(cli, "extent %s/%s reclaimed", o->node,
				o->name);
		else if (r == 0)
			r = error_set(err, -one, "extent %s/%s: %s", o->node,
				      o->name, error_text(&why));
	}
	return r;
}

/*
 * The age of what is not known yet begins here. Another scrub that runs does
 * the same.
 */
static int scrub_now(struct cli *cli, struct volume_scrubbed *ret,
		     struct error *err)
{
	int r = volume_scrub(cli->volumes, 0, ret, err);

	return r == -EAGAIN ? 0 : r;
}

static int orphans_load(struct cli *cli, struct orphan_list *list,
			struct error *err)
{
	size_t unreachable = 0;
	int r = volume_orphans(cli->volumes, &list->orphans, &list->n,
			       &unreachable, err);

	if (r == 0)
		tell_silent(unreachable);
	return r;
}

static int reclaim_run(struct cli *cli, struct orphan_list *list,
		       struct error *err)
{
	struct volume_scrubbed seen;
	int r = scrub_now(cli, &seen, err);

	if (r == 0)
		r = orphans_load(cli, list, err);
	if (r < 0)
		return r;
	orphans_keep_due(list, cli->options.reclaim_grace);
	if (list->n == 0)
		cli_say(cli, "nothing to reclaim");
	else if (!cli->options.json)
		orphans_print(list);
	r = orphans_reclaim(cli, list, err);
	/* So that nobody is told of what is gone. */
	if (r == 0 && list->n > 0)
		r = scrub_now(cli, &seen, err);
	(void)cli_answer(cli, json_object_get(list->all));
	return r;
}

static int orphans_show(struct cli *cli, struct orphan_list *list,
			struct error *err)
{
	int r = orphans_load(cli, list, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < list->n; i++)
		json_object_array_add(list->all,
				      json_orphan(&list->orphans[i]));
	if (!cli_answer(cli, json_object_get(list->all)) && list->n > 0)
		orphans_print(list);
	if (list->n == 0)
		cli_say(cli, "no orphans");
	return 0;
}

int volume_orphans_run(struct cli *cli, struct error *err)
{
	struct orphan_list list = {.all = json_object_new_array()};
	int r = cli->options.reclaim ? reclaim_run(cli, &list, err)
				     : orphans_show(cli, &list, err);

	json_object_put(list.all);
	free(list.orphans);
	return r;
}

static struct json_object *scrubbed_json(const struct volume_scrubbed *seen)
{
	struct json_object *object = json_object_new_object();

	json_put_flag(object, "ran", seen->ran);
	json_put_number(object, "atSeconds", (uint64_t)seen->at_s);
	json_put_number(object, "orphans", seen->orphans);
	json_put_number(object, "orphanBytes", seen->orphan_bytes);
	json_put_number(object, "missing", seen->missing);
	json_put_number(object, "silent", seen->silent);
	return object;
}

int volume_scrub_run(struct cli *cli, struct error *err)
{
	struct volume_scrubbed seen;
	char size[SIZE_TEXT_MAX], at[CLI_TIME_SIZE];
	int r = volume_scrub(cli->volumes, cli->options.every, &seen, err);

	/* The timers of several hosts: one of them does it. */
	if (r == -EAGAIN && cli->options.every > 0) {
		cli_say(cli, "%s", error_text(err));
		return 0;
	}
	if (r < 0)
		return r;
	tell_silent(seen.silent);
	if (!cli_answer(cli, scrubbed_json(&seen)))
		(void)printf("%s UTC: orphans: %" PRIu64
			     " (%s), missing extents: %" PRIu64 "\n",
			     cli_time(at, seen.at_s), seen.orphans,
			     size_format(size, seen.orphan_bytes),
			     seen.missing);
	return 0;
}
