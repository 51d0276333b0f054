/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "cli/command/command.h"
#include "cli/live/jobs.h"
#include "cli/text/json.h"
#include "cli/text/table.h"
#include "volume/op/watch.h"
#include "volume/snapshot/snapshot.h"

#define CLEAR    "\033[H\033[2J" /* ECMA-48 CUP, ED: an empty screen */
#define EVERY_MS 10000           /* what is in no record changes, too */

/* Everything that `trib status` looks at, as of about one moment. */
struct overview {
	struct node_state *nodes;
	size_t n_nodes;
	struct volume_record **records;
	size_t n_records;
	struct volume_status **volumes; /* n_records of them */
	struct job_list jobs;
	char problem[RECORD_TEXT_SIZE]; /* records that cannot be read */
};

static void overview_free(struct overview *all)
{
	for (size_t i = 0; all->volumes && i < all->n_records; i++)
		volume_status_free(all->volumes[i]);
	free(all->volumes);
	free(all->jobs.jobs);
	volume_records_free(all->records, all->n_records);
	node_states_free(all->nodes, all->n_nodes);
}

/* What the records say is not finished. */
static int jobs_get(struct cli *cli, struct overview *ret, struct error *err)
{
	const struct snapshot_filter filter = {.temporary = true};
	struct snapshot_record **snapshots = NULL;
	char unread[RECORD_TEXT_SIZE] = "";
	size_t n = 0;
	int r = volume_snapshot_list(cli->volumes, &filter, &snapshots, &n,
				     NULL, unread, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ret->n_records; i++)
		jobs_of_volume(&ret->jobs, ret->records[i]);
	for (size_t i = 0; i < n; i++)
		jobs_of_snapshot(&ret->jobs, snapshots[i]);
	snapshot_records_free(snapshots, n);
	if (!ret->problem[0])
		memcpy(ret->problem, unread, sizeof(unread));
	return 0;
}

static int overview_get(struct cli *cli, struct overview *ret,
			struct error *err)
{
	int r = volume_node_list(cli->volumes, &ret->nodes, &ret->n_nodes, err);

	if (r == 0)
		r = volume_list(cli->volumes, &ret->records, &ret->n_records,
				ret->problem, err);
	if (r == 0)
		r = jobs_get(cli, ret, err);
	if (r < 0)
		return r;
	ret->volumes = calloc(ret->n_records + 1, sizeof(*ret->volumes));
	if (!ret->volumes)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < ret->n_records; i++) {
		r = volume_status_get(cli->volumes, ret->records[i]->name,
				      &ret->volumes[i], err);
		/* Deleted since it was listed: no trouble of ours. */
		if (r < 0 && r != -ENOENT)
			return r;
	}
	return 0;
}

static struct json_object *overview_json(const struct overview *all)
{
	struct json_object *object = json_object_new_object();
	struct json_object *nodes = json_object_new_array();
	struct json_object *volumes = json_object_new_array();

	for (size_t i = 0; i < all->n_nodes; i++)
		json_object_array_add(nodes, json_node(&all->nodes[i]));
	for (size_t i = 0; i < all->n_records; i++)
		if (all->volumes[i])
			json_object_array_add(
				volumes, json_volume_status(all->volumes[i]));
	json_object_object_add(object, "nodes", nodes);
	json_object_object_add(object, "volumes", volumes);
	json_object_object_add(object, "jobs", jobs_json(&all->jobs));
	json_put_text(object, "problem", all->problem);
	return object;
}

static void pools_print(const struct overview *all, FILE *out)
{
	struct table *table = table_new("NODE", "POOL", "STATE", "EXTENTS>",
					"CAPACITY>", "ALLOCATED>", "FREE>",
					NULL);
	char text[SIZE_TEXT_MAX];

	for (size_t i = 0; i < all->n_nodes; i++) {
		const struct node_state *node = &all->nodes[i];

		for (size_t p = 0; p < node->n_pools; p++) {
			const struct node_pool *pool = &node->pools[p];

			table_cell(table, "%s", node->record.name);
			table_cell(table, "%s", pool->name);
			table_cell(table, "%s", pool->state);
			table_cell(table, "%llu",
				   (unsigned long long)pool->extents);
			table_cell(table, "%s",
				   size_format(text, pool->capacity));
			table_cell(table, "%s",
				   size_format(text, pool->allocated));
			table_cell(table, "%s",
				   size_format(text, pool->available));
		}
		if (node->n_pools > 0)
			continue;
		table_cell(table, "%s", node->record.name);
		table_cell(table, "-");
		table_cell(table, "%s",
			   node->lost                        ? "lost"
			   : !node->reachable                ? "no answer"
			   : node->record.control_address[0] ? "no pool"
							     : "client");
		for (int c = 0; c < 4; c++)
			table_cell(table, "-");
	}
	table_print(table, out);
}

/* "node-a, node-b, node-b": where the splits are. */
static void places_cell(struct table *table, const struct volume_record *record)
{
	auto_free char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	if (out) {
		for (size_t i = 0; i < record->n_splits; i++)
			(void)fprintf(out, "%s%s", i ? ", " : "",
				      record->splits[i].node);
		(void)fclose(out); /* memory: nothing to lose */
	}
	table_cell(table, "%s", text ?: "?");
}

static void volumes_print(const struct overview *all, FILE *out)
{
	struct table *table = table_new("VOLUME", "SIZE>", "PHASE",
					"ATTACHED ON", "STATE", "SPLITS ON",
					NULL);
	char text[SIZE_TEXT_MAX];

	for (size_t i = 0; i < all->n_records; i++) {
		const struct volume_status *status = all->volumes[i];
		const struct volume_record *record = all->records[i];

		if (!status)
			continue;
		table_cell(table, "%s", record->name);
		table_cell(table, "%s",
			   size_format(text, record->spec.capacity));
		table_cell(table, "%s", volume_phase_name(record->phase));
		table_cell(table, "%s",
			   record->n_attachments ? record->attachments[0].node
						 : "-");
		table_cell(table, "%s",
			   status->n_conditions ? status->conditions[0].reason
						: "ok");
		places_cell(table, record);
	}
	table_print(table, out);
}

static void pool_problems_print(const struct node_state *node, FILE *out)
{
	for (size_t i = 0; i < node->n_pools; i++) {
		const struct node_pool *pool = &node->pools[i];

		if (!node_pool_is_online(pool) || pool->message[0])
			(void)fprintf(out, "pool %s/%s: %s%s%s\n",
				      node->record.name, pool->name,
				      pool->state, pool->message[0] ? ": " : "",
				      pool->message);
	}
}

/* What the last scrub found, as long as it is not mended. */
static void scrub_print(const struct node_state *node, FILE *out)
{
	const struct node_scrub *scrub = node->record.scrub;
	char size[SIZE_TEXT_MAX], at[CLI_TIME_SIZE];

	if (!scrub || scrub->orphans + scrub->missing == 0)
		return;
	(void)fprintf(out,
		      "node %s: scrub of %s UTC: orphans: %llu (%s), missing "
		      "extents: %llu; `trib volume orphans` names them\n",
		      node->record.name, cli_time(at, scrub->at_s),
		      (unsigned long long)scrub->orphans,
		      size_format(size, scrub->orphan_bytes),
		      (unsigned long long)scrub->missing);
}

static void problems_print(const struct overview *all, FILE *out)
{
	for (size_t i = 0; i < all->n_nodes; i++) {
		const struct node_state *node = &all->nodes[i];

		if (!node->reachable)
			(void)fprintf(out, "node %s: %s\n", node->record.name,
				      node->problem);
		if (node->warning[0])
			(void)fprintf(out, "node %s: %s\n", node->record.name,
				      node->warning);
		pool_problems_print(node, out);
		scrub_print(node, out);
	}
	for (size_t i = 0; i < all->n_records; i++) {
		const struct volume_status *status = all->volumes[i];

		for (size_t c = 0; status && c < status->n_conditions; c++)
			(void)fprintf(out, "volume %s: %s: %s\n",
				      all->records[i]->name,
				      status->conditions[c].reason,
				      status->conditions[c].message);
	}
	if (all->problem[0])
		(void)fprintf(out, "%s\n", all->problem);
}

static void overview_print(const struct overview *all, FILE *out)
{
	if (all->n_nodes == 0)
		(void)fputs("no nodes yet; `trib node add` makes one known\n",
			    out);
	else
		pools_print(all, out);
	if (all->n_records > 0) {
		(void)fputc('\n', out);
		volumes_print(all, out);
	}
	if (all->jobs.n > 0) {
		(void)fputc('\n', out);
		jobs_print(&all->jobs, out);
	}
	problems_print(all, out);
}

/* ---- --watch ---- */

struct watching {
	struct cli *cli;
	char *shown; /* owned: the text of the last overview, without its time
		      */
	bool cut;    /* it was told that changes cannot be heard of */
};

/* A new picture on a terminal; elsewhere one after the other. */
static void picture_print(const char *text)
{
	char when[32];
	time_t now = time(NULL);
	struct tm tm;

	if (!localtime_r(&now, &tm) ||
	    strftime(when, sizeof(when), "%F %T", &tm) == 0)
		when[0] = '\0';
	(void)printf("%s%s\n%s%s", isatty(STDOUT_FILENO) ? CLEAR : "", when,
		     text, isatty(STDOUT_FILENO) ? "" : "\n");
}

static int show_text(struct watching *watching, const struct overview *all,
		     struct error *err)
{
	char *text = NULL;
	size_t length;
	FILE *out = open_memstream(&text, &length);

	if (!out)
		return error_set(err, ENOMEM, "out of memory");
	overview_print(all, out);
	if (fclose(out) != 0) {
		free(text);
		return error_set(err, ENOMEM, "out of memory");
	}
	if (!watching->shown || strcmp(watching->shown, text) != 0)
		picture_print(text);
	free(watching->shown);
	watching->shown = text;
	return 0;
}

static int show_json(const struct overview *all)
{
	struct json_object *object = overview_json(all);

	(void)puts(json_object_to_json_string_ext(
		object, JSON_C_TO_STRING_NOSLASHESCAPE));
	json_object_put(object);
	return 0;
}

static int status_changed(void *watching_, const char *problem,
			  struct error *err)
{
	struct watching *watching = watching_;
	struct overview all = {0};
	struct error why = {0};
	int r = problem[0] ? error_set(&why, EHOSTUNREACH, "%s", problem)
			   : overview_get(watching->cli, &all, &why);

	if (r == 0) {
		watching->cut = false;
		r = watching->cli->options.json
			    ? show_json(&all)
			    : show_text(watching, &all, err);
	} else if (r == -EHOSTUNREACH || r == -ETIMEDOUT) {
		/* Data goes on without it; so do we. */
		if (!watching->cut)
			(void)fprintf(stderr, "trib status: %s; waiting\n",
				      error_text(&why));
		watching->cut = true;
		r = 0;
	} else {
		r = error_set(err, -r, "%s", error_text(&why));
	}
	overview_free(&all);
	if (r == 0 && fflush(stdout) != 0)
		return error_set(err, EIO, "writing: %s", strerror(errno));
	return r;
}

static int status_watch(struct cli *cli, struct error *err)
{
	struct watching watching = {.cli = cli};
	int r = volume_watch(cli->volumes, cli->stop_fd, EVERY_MS,
			     status_changed, &watching, err);

	free(watching.shown);
	return r;
}

int status_run(struct cli *cli, struct error *err)
{
	struct overview all = {0};
	int r;

	if (cli->options.watch)
		return status_watch(cli, err);
	r = overview_get(cli, &all, err);
	if (r == 0 && !cli_answer(cli, overview_json(&all)))
		overview_print(&all, stdout);
	overview_free(&all);
	return r;
}
