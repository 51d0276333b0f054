/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "cli/command/command.h"
#include "cli/text/json.h"
#include "cli/text/progress.h"
#include "cli/text/table.h"
#include "volume/snapshot/snapshot.h"

#define LOOK_MS 200 /* how often to ask how far a copy is */

/* What a person waits for: the share that is copied. */
static const char *phase_text(const struct snapshot_record *record, char *buf,
			      size_t size)
{
	if (record->phase != SNAPSHOT_COPYING)
		return snapshot_phase_name(record->phase);
	(void)snprintf(buf, size, "Copying %u%%",
		       (unsigned)((double)snapshot_record_copied(record) * 100 /
				  (double)record->spec.capacity));
	return buf;
}

/* ---- waiting for a copy ---- */

/* For the next look. -ECANCELED: a signal; it is copied all the same. */
static int wait_look(const struct cli *cli, const char *name, struct error *err)
{
	struct pollfd stop = {.fd = cli->stop_fd, .events = POLLIN};

	if (poll(&stop, 1, LOOK_MS) <= 0)
		return 0;
	return error_set(err, ECANCELED,
			 "interrupted; '%s' is taken, and its copy goes on",
			 name);
}

static void show_copied(const struct cli *cli, struct progress *progress,
			const struct snapshot_record *record)
{
	uint64_t copied = snapshot_record_copied(record);
	char text[96], done[SIZE_TEXT_MAX];

	(void)snprintf(text, sizeof(text), "%.63s: %s copied", record->name,
		       size_format(done, copied));
	if (!cli->options.quiet)
		progress_show(progress, "copy", (unsigned)(copied >> 20),
			      (unsigned)(record->spec.capacity >> 20), text);
}

/* @record is replaced by one that is whole. */
static int snapshot_wait(struct cli *cli, struct snapshot_record **record,
			 struct error *err)
{
	struct progress progress = {0};
	int r = 0;

	while (r == 0 && (*record)->phase == SNAPSHOT_COPYING) {
		struct snapshot_record *now = NULL;

		show_copied(cli, &progress, *record);
		r = wait_look(cli, (*record)->name, err);
		if (r == 0)
			r = volume_snapshot_refresh(cli->volumes,
						    (*record)->name, &now, err);
		if (r == -EAGAIN) {
			r = 0; /* somebody else looks */
		} else if (r == 0) {
			snapshot_record_free(*record);
			*record = now;
		}
	}
	progress_end(&progress);
	return r;
}

static int group_wait(struct cli *cli, struct group_record **record,
		      struct error *err)
{
	int r = 0;

	while (r == 0 && (*record)->phase == SNAPSHOT_COPYING) {
		struct group_record *now = NULL;

		r = wait_look(cli, (*record)->name, err);
		if (r == 0)
			r = volume_group_refresh(cli->volumes, (*record)->name,
						 &now, err);
		if (r == -EAGAIN) {
			r = 0; /* somebody else looks */
		} else if (r == 0) {
			group_record_free(*record);
			*record = now;
		}
	}
	return r;
}

/* ---- one ---- */

int snapshot_create_run(struct cli *cli, struct error *err)
{
	struct snapshot_record *record = NULL;
	struct labels labels = {0};
	char size[SIZE_TEXT_MAX];
	int r = cli_labels(&cli->options.label, &labels, err);

	if (r == 0)
		r = volume_snapshot_create(
			cli->volumes,
			&(struct snapshot_create_request){
				.name = cli_argument(cli, 0),
				.volume = cli_argument(cli, 1),
				.labels = &labels,
			},
			&record, err);
	labels_done(&labels);
	if (r == 0)
		r = snapshot_wait(cli, &record, err);
	if (r == 0 && !cli_answer(cli, json_snapshot(record)))
		cli_say(cli, "snapshot %s of volume %s: %s at one instant",
			record->name, record->volume,
			size_format(size, record->spec.capacity));
	snapshot_record_free(record);
	return r;
}

static void snapshot_row(struct table *table,
			 const struct snapshot_record *record)
{
	char text[SIZE_TEXT_MAX], buf[32];

	table_cell(table, "%s", record->name);
	table_cell(table, "%s", record->volume);
	table_cell(table, "%s", size_format(text, record->spec.capacity));
	table_cell(table, "%zu", record->n_splits);
	table_cell(table, "%s", phase_text(record, buf, sizeof(buf)));
	table_cell(table, "%s", cli_time(buf, record->cut_s));
	table_cell(table, "%s", record->group[0] ? record->group : "-");
}

int snapshot_list_run(struct cli *cli, struct error *err)
{
	const struct snapshot_filter filter = {
		.volume = cli_argument(cli, 0),
		.temporary = cli->options.all,
	};
	struct snapshot_record **records = NULL;
	struct cli_list list = {json_object_new_array(),
				table_new("SNAPSHOT", "VOLUME", "SIZE>",
					  "SPLITS>", "PHASE", "CUT (UTC)",
					  "GROUP", NULL)};
	char problem[RECORD_TEXT_SIZE] = "";
	size_t n = 0;
	int r = volume_snapshot_list(cli->volumes, &filter, &records, &n, NULL,
				     problem, err);

	for (size_t i = 0; i < n; i++) {
		json_object_array_add(list.all, json_snapshot(records[i]));
		snapshot_row(list.table, records[i]);
	}
	r = cli_list_end(cli, &list, r);
	if (problem[0])
		(void)fprintf(stderr, "trib: %s\n", problem);
	snapshot_records_free(records, n);
	return r;
}

static void snapshot_split_row(struct table *table,
			       const struct snapshot_split *split,
			       const struct snapshot_split_status *status)
{
	char text[SIZE_TEXT_MAX];

	table_cell(table, "%u", split->index);
	table_cell(table, "%s/%s", split->node, split->pool);
	table_cell(table, "%s", split->extent);
	table_cell(table, "%s", size_format(text, split->size));
	table_cell(table, "%s",
		   status->found ? size_format(text, status->allocated) : "?");
	table_cell(table, "%s",
		   status->found ? size_format(text, status->reclaimable)
				 : "?");
	table_cell(table, "%s", status->method[0] ? status->method : "-");
	table_cell(table, "%s", status->state);
}

static void snapshot_status_print(const struct snapshot_status *status)
{
	const struct snapshot_record *record = status->record;
	struct table *table = table_new("SPLIT>", "POOL", "EXTENT", "SIZE>",
					"ALLOCATED>", "WOULD FREE>", "BY",
					"STATE", NULL);
	char size[SIZE_TEXT_MAX], buf[32];

	(void)printf("snapshot  %s of volume %s, %s, %s\n", record->name,
		     record->volume, size_format(size, record->spec.capacity),
		     phase_text(record, buf, sizeof(buf)));
	(void)printf("cut       %s UTC\n", cli_time(buf, record->cut_s));
	(void)printf("holds     %s%s%s\n", record->spec.layout,
		     record->spec.fs_type[0] ? ", " : "", record->spec.fs_type);
	if (record->group[0])
		(void)printf("group     %s\n", record->group);
	for (size_t i = 0; i < record->n_conditions; i++)
		if (!record->conditions[i].status)
			(void)printf("note      %s: %s\n",
				     record->conditions[i].reason,
				     record->conditions[i].message);
	(void)putchar('\n');
	for (size_t i = 0; i < record->n_splits; i++)
		snapshot_split_row(table, &record->splits[i],
				   &status->splits[i]);
	table_print(table, stdout);
	for (size_t i = 0; i < record->n_splits; i++)
		if (status->splits[i].problem[0])
			(void)printf("split %zu: %s\n", i,
				     status->splits[i].problem);
}

int snapshot_show_run(struct cli *cli, struct error *err)
{
	struct snapshot_status *status = NULL;
	struct snapshot_record *record = NULL;
	int r = volume_snapshot_refresh(cli->volumes, cli_argument(cli, 0),
					&record, NULL);

	/* Without an answer of its nodes, show the record. */
	if (r == 0)
		snapshot_record_free(record);
	r = volume_snapshot_status_get(cli->volumes, cli_argument(cli, 0),
				       &status, err);
	if (r < 0)
		return r;
	if (!cli_answer(cli, json_snapshot_status(status)))
		snapshot_status_print(status);
	volume_snapshot_status_free(status);
	return 0;
}

int snapshot_delete_run(struct cli *cli, struct error *err)
{
	int r = volume_snapshot_delete(cli->volumes, cli_argument(cli, 0), err);

	if (r == 0)
		cli_say(cli, "snapshot %s deleted", cli_argument(cli, 0));
	return r;
}

/* Which volume, the snapshot knows. */
int snapshot_revert_run(struct cli *cli, struct error *err)
{
	struct snapshot_record *record = NULL;
	int r = volume_snapshot_get(cli->volumes, cli_argument(cli, 0), &record,
				    err);

	if (r == 0)
		r = volume_revert(cli->volumes, record->volume, record->name,
				  err);
	if (r == 0)
		cli_say(cli, "volume %s is as it was in snapshot %s",
			record->volume, record->name);
	snapshot_record_free(record);
	return r;
}

/* ---- groups ---- */

static void members_print(const struct group_record *record)
{
	struct table *table = table_new("VOLUME", "SNAPSHOT", NULL);

	for (size_t i = 0; i < record->n_members; i++) {
		table_cell(table, "%s", record->members[i].volume);
		table_cell(table, "%s", record->members[i].snapshot);
	}
	table_print(table, stdout);
}

int group_create_run(struct cli *cli, struct error *err)
{
	struct group_record *record = NULL;
	struct labels labels = {0};
	int r = cli_labels(&cli->options.label, &labels, err);

	if (r == 0)
		r = volume_group_create(
			cli->volumes,
			&(struct group_create_request){
				.name = cli_argument(cli, 0),
				.volumes = (const char *const *)cli->arguments +
					   1,
				.n_volumes = (size_t)cli->n_arguments - 1,
				.labels = &labels,
			},
			&record, err);
	labels_done(&labels);
	if (r == 0)
		r = group_wait(cli, &record, err);
	if (r == 0 && !cli_answer(cli, json_group(record))) {
		cli_say(cli, "group snapshot %s: %zu volume%s at one instant",
			record->name, record->n_members,
			record->n_members == 1 ? "" : "s");
		if (!cli->options.quiet)
			members_print(record);
	}
	group_record_free(record);
	return r;
}

int group_list_run(struct cli *cli, struct error *err)
{
	struct group_record **records = NULL;
	struct cli_list list = {
		json_object_new_array(),
		table_new("GROUP", "VOLUMES>", "PHASE", "CUT (UTC)", NULL)};
	char problem[RECORD_TEXT_SIZE] = "", buf[32];
	size_t n = 0;
	int r = volume_group_list(cli->volumes, &records, &n, problem, err);

	for (size_t i = 0; i < n; i++) {
		json_object_array_add(list.all, json_group(records[i]));
		table_cell(list.table, "%s", records[i]->name);
		table_cell(list.table, "%zu", records[i]->n_members);
		table_cell(list.table, "%s",
			   snapshot_phase_name(records[i]->phase));
		table_cell(list.table, "%s", cli_time(buf, records[i]->cut_s));
	}
	r = cli_list_end(cli, &list, r);
	if (problem[0])
		(void)fprintf(stderr, "trib: %s\n", problem);
	group_records_free(records, n);
	return r;
}

int group_show_run(struct cli *cli, struct error *err)
{
	struct group_record *record = NULL;
	char buf[32];
	int r = volume_group_refresh(cli->volumes, cli_argument(cli, 0),
				     &record, NULL);

	/* Without an answer of its nodes, show the record. */
	if (r < 0)
		r = volume_group_get(cli->volumes, cli_argument(cli, 0),
				     &record, err);
	if (r < 0)
		return r;
	if (!cli_answer(cli, json_group(record))) {
		(void)printf("group     %s, %s\ncut       %s UTC\n\n",
			     record->name, snapshot_phase_name(record->phase),
			     cli_time(buf, record->cut_s));
		members_print(record);
	}
	group_record_free(record);
	return 0;
}

int group_delete_run(struct cli *cli, struct error *err)
{
	int r = volume_group_delete(cli->volumes, cli_argument(cli, 0), err);

	if (r == 0)
		cli_say(cli, "group snapshot %s deleted, with its members",
			cli_argument(cli, 0));
	return r;
}
