/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "cli/command/command.h"
#include "cli/command/volume_cmd.h"
#include "cli/command/volume_layout.h"
#include "cli/text/json.h"
#include "cli/text/table.h"
#include "volume/op/volume_walk.h"

static int word_set(char *ret, size_t size, const char *what, const char *text,
		    struct error *err)
{
	if (!text)
		return 0;
	if (strlen(text) >= size)
		return error_set(err, EINVAL, "--%s: no such choice '%.32s'",
				 what, text);
	(void)strcpy(ret, text); /* checked just above */
	return 0;
}

static int nodes_set(struct name_list *ret, const struct option_list *list,
		     struct error *err)
{
	for (size_t i = 0; i < list->count; i++) {
		int r = name_list_add(ret, list->items[i], err);

		if (r < 0)
			return r;
	}
	return 0;
}

/* --placement and --local. */
static int placement_set(const struct cli *cli, struct volume_spec *spec,
			 struct error *err)
{
	const struct cli_options *o = &cli->options;
	const char *name = o->placement, *node = o->local;
	int r;

	if (!name && node)
		name = "local";
	r = word_set(spec->placement, sizeof(spec->placement), "placement",
		     name, err);
	if (r < 0 || strcmp(spec->placement, "local") != 0) {
		if (r == 0 && node)
			r = error_set(err, EINVAL,
				      "--local NODE goes with --placement "
				      "local");
		return r;
	}
	if (!node)
		node = volume_context_node(cli->volumes);
	r = word_set(spec->local_node, sizeof(spec->local_node), "local", node,
		     err);
	if (r == 0)
		r = volume_node_known(cli->volumes, node, err);
	if (r == 0)
		return error_set(err, ENOENT,
				 "no node '%s' is known, whose pools could be "
				 "filled first; say which: --local NODE",
				 node);
	return r < 0 ? r : 0;
}

static int volume_spec_fill(const struct cli_options *o,
			    struct volume_spec *spec, struct error *err)
{
	int r;

	if (o->splits > VOLUME_SPLITS_MAX || o->max_splits > VOLUME_SPLITS_MAX)
		return error_set(err, EINVAL, "at most %d splits",
				 VOLUME_SPLITS_MAX);
	spec->capacity = o->size;
	spec->min_splits = (unsigned)o->splits;
	spec->max_splits = (unsigned)o->max_splits;
	spec->max_extent = o->max_extent;
	spec->share_pools = o->share_pools;
	r = word_set(spec->layout, sizeof(spec->layout), "layout", o->layout,
		     err);
	if (r == 0)
		r = word_set(spec->fs_type, sizeof(spec->fs_type), "fs", o->fs,
			     err);
	if (r == 0)
		r = word_set(spec->policy, sizeof(spec->policy), "policy",
			     o->policy, err);
	if (r == 0)
		r = word_set(spec->transport, sizeof(spec->transport),
			     "transport", o->transport, err);
	if (r == 0)
		r = nodes_set(&spec->nodes, &o->on, err);
	if (r == 0)
		r = nodes_set(&spec->exclude, &o->not_on, err);
	if (r == 0)
		r = nodes_set(&spec->pools, &o->in_pool, err);
	if (r == 0)
		r = cli_labels(&o->node_label, &spec->node_labels, err);
	return r < 0 ? r : volume_layout_fill(o, spec, err);
}

int volume_make(struct cli *cli, const char *name,
		const struct volume_source *source, struct error *err)
{
	struct volume_record *record = NULL;
	struct volume_spec spec = {0};
	struct labels labels = {0};
	char text[SIZE_TEXT_MAX];
	int r = volume_spec_fill(&cli->options, &spec, err);

	spec.source = *source;
	if (r == 0)
		r = placement_set(cli, &spec, err);
	if (r == 0)
		r = limits_fill(&cli->options, &spec.limits, err);
	if (r == 0)
		r = cli_labels(&cli->options.label, &labels, err);
	if (r == 0)
		r = volume_create(cli->volumes,
				  &(struct volume_create_request){
					  .name = name,
					  .spec = &spec,
					  .labels = &labels,
				  },
				  &record, err);
	volume_spec_done(&spec);
	labels_done(&labels);
	if (r < 0 || !record)
		return r;
	if (!cli_answer(cli, json_record(record))) {
		cli_say(cli, "volume %s: %s in %zu split%s", record->name,
			size_format(text, record->spec.capacity),
			record->n_splits, record->n_splits == 1 ? "" : "s");
		if (!cli->options.quiet)
			volume_splits_print(record);
	}
	volume_record_free(record);
	return 0;
}

static int source_fill(const struct cli_options *o, struct volume_source *ret,
		       struct error *err)
{
	const char *name = o->from_snapshot ? o->from_snapshot : o->from_volume;

	if (!name)
		return 0;
	if (o->from_snapshot && o->from_volume)
		return error_set(err, EINVAL,
				 "--from-snapshot or --from-volume, not both");
	ret->kind = o->from_snapshot ? VOLUME_SOURCE_SNAPSHOT
				     : VOLUME_SOURCE_VOLUME;
	(void)snprintf(ret->name, sizeof(ret->name), "%s", name);
	return name_check("source", name, err);
}

int volume_create_run(struct cli *cli, struct error *err)
{
	struct volume_source source = {.kind = VOLUME_SOURCE_NONE};
	int r = source_fill(&cli->options, &source, err);

	if (r < 0)
		return r;
	if (!cli->options.size && source.kind == VOLUME_SOURCE_NONE)
		return cli_usage(cli, err, "say how large: --size SIZE");
	return volume_make(cli, cli_argument(cli, 0), &source, err);
}

/* Where its file systems have yet to grow. */
static void tell_of_file_systems(struct cli *cli,
				 const struct volume_record *record)
{
	const struct volume_attachment *a = record->attachments;

	if (!volume_record_fs_behind(record))
		return;
	if (record->n_attachments == 0)
		cli_say(cli, "its file systems grow when it is mounted");
	else if (a->read_only)
		cli_say(cli,
			"it is mounted on %s read-only: its file systems grow "
			"when it is mounted for writing",
			a->node);
	else
		cli_say(cli,
			"its file systems follow when this command is repeated "
			"on %s, where it is mounted",
			a->node);
}

int volume_resize_run(struct cli *cli, struct error *err)
{
	struct volume_record *record = NULL;
	char text[SIZE_TEXT_MAX];
	int r;

	if (!cli->options.size)
		return cli_usage(cli, err, "say how large: --size SIZE");
	r = volume_resize(cli->volumes, cli_argument(cli, 0), cli->options.size,
			  &record, err);
	if (r < 0)
		return r;
	if (!cli_answer(cli, json_record(record))) {
		cli_say(cli, "volume %s: %s in %zu split%s", record->name,
			size_format(text, record->spec.capacity),
			record->n_splits, record->n_splits == 1 ? "" : "s");
		tell_of_file_systems(cli, record);
		if (!cli->options.quiet)
			volume_splits_print(record);
	}
	volume_record_free(record);
	return 0;
}

/* "" when it is mounted nowhere there: a device, or only published. */
static const char *place_of(const struct volume_record *record,
			    const struct volume_attachment *a)
{
	if (a->mount_point[0])
		return a->mount_point;
	return volume_spec_is_device(&record->spec) &&
			       a->state != ATTACHMENT_PUBLISHED
		       ? "a device"
		       : "-";
}

static void volume_row(struct table *table, const struct volume_record *record)
{
	char text[SIZE_TEXT_MAX];

	table_cell(table, "%s", record->name);
	table_cell(table, "%s", size_format(text, record->spec.capacity));
	table_cell(table, "%zu", record->n_splits);
	table_cell(table, "%s", volume_phase_name(record->phase));
	if (record->n_attachments == 0) {
		table_cell(table, "-");
		table_cell(table, "-");
		return;
	}
	if (record->n_attachments > 1)
		table_cell(table, "%s and %zu more",
			   record->attachments[0].node,
			   record->n_attachments - 1);
	else
		table_cell(table, "%s", record->attachments[0].node);
	table_cell(table, "%s (%s)", place_of(record, record->attachments),
		   attachment_state_name(record->attachments[0].state));
}

static int list_volume(void *list_, const struct volume_record *record,
		       struct error *err)
{
	struct cli_list *list = list_;

	(void)err;
	json_object_array_add(list->all, json_record(record));
	volume_row(list->table, record);
	return 0;
}

int volume_list_run(struct cli *cli, struct error *err)
{
	struct cli_list list = {json_object_new_array(),
				table_new("VOLUME", "SIZE>", "SPLITS>", "PHASE",
					  "ATTACHED ON", "AT", NULL)};
	char problem[RECORD_TEXT_SIZE] = "";
	int r = volume_walk(cli->volumes, NULL, list_volume, &list, problem,
			    err);

	r = cli_list_end(cli, &list, r);
	if (problem[0])
		(void)fprintf(stderr, "trib: %s\n", problem);
	return r;
}

static void volume_split_row(struct table *table,
			     const struct volume_split_status *status)
{
	char text[SIZE_TEXT_MAX];

	table_cell(table, "%u", status->split.index);
	table_cell(table, "%s/%s", status->split.node, status->split.pool);
	table_cell(table, "%s", size_format(text, status->split.size));
	table_cell(table, "%s",
		   status->found ? size_format(text, status->allocated) : "?");
	table_cell(table, "%s", status->state);
	table_cell(table, "%s", status->transport[0] ? status->transport : "-");
	table_cell(table, "%s", status->device[0] ? status->device : "-");
	table_cell(table, "%s",
		   status->mounted ? size_format(text, status->fs_used) : "-");
	table_cell(table, "%s",
		   status->mounted ? size_format(text, status->fs_free) : "-");
}

/* A file lies on one split, so the emptiest one bounds the next file. */
static uint64_t largest_file(const struct volume_status *status)
{
	uint64_t largest = 0;

	for (size_t i = 0; i < status->record->n_splits; i++)
		if (status->splits[i].fs_free > largest)
			largest = status->splits[i].fs_free;
	return largest;
}

static void attachment_print(const struct volume_record *record,
			     const struct volume_attachment *a)
{
	if (a->state == ATTACHMENT_PUBLISHED)
		(void)printf("published to %s%s%s%s%s\n", a->node,
			     a->read_only ? ", read-only" : "",
			     a->shared ? ", shared" : "",
			     a->note[0] ? ": " : "", a->note);
	else
		(void)printf("attached  on %s at %s (%s%s%s)\n", a->node,
			     place_of(record, a),
			     attachment_state_name(a->state),
			     a->read_only ? ", read-only" : "",
			     a->published ? ", published" : "");
}

static void volume_status_print(const struct volume_status *status)
{
	const struct volume_record *record = status->record;
	struct table *table = table_new("SPLIT>", "POOL", "SIZE>", "ALLOCATED>",
					"STATE", "BY", "DEVICE", "USED>",
					"FREE>", NULL);
	char size[SIZE_TEXT_MAX], used[SIZE_TEXT_MAX], left[SIZE_TEXT_MAX],
		largest[SIZE_TEXT_MAX];

	(void)printf("volume    %s, %s, %s, ", record->name,
		     size_format(size, record->spec.capacity),
		     volume_phase_name(record->phase));
	volume_layout_print(&record->spec);
	(void)printf(", epoch %llu\n", (unsigned long long)record->epoch);
	if (record->spec.source.kind != VOLUME_SOURCE_NONE)
		(void)printf("made from %s %s\n",
			     record->spec.source.kind == VOLUME_SOURCE_SNAPSHOT
				     ? "snapshot"
				     : "volume",
			     record->spec.source.name);
	limits_print(&record->spec.limits);
	for (size_t i = 0; i < record->n_attachments; i++)
		attachment_print(record, &record->attachments[i]);
	if (status->mounted)
		(void)printf("in use    %s used, %s free of %s; largest file "
			     "that fits: %s\n",
			     size_format(used, status->fs_used),
			     size_format(left, status->fs_free),
			     size_format(size, status->fs_size),
			     size_format(largest, largest_file(status)));
	for (size_t i = 0; i < status->n_conditions; i++)
		(void)printf("note      %s: %s\n", status->conditions[i].reason,
			     status->conditions[i].message);
	(void)putchar('\n');
	for (size_t i = 0; i < record->n_splits; i++)
		volume_split_row(table, &status->splits[i]);
	table_print(table, stdout);
	for (size_t i = 0; i < record->n_splits; i++)
		if (status->splits[i].problem[0])
			(void)printf("split %zu: %s\n", i,
				     status->splits[i].problem);
}

int volume_show_run(struct cli *cli, struct error *err)
{
	struct volume_status *status = NULL;
	int r = volume_status_get(cli->volumes, cli_argument(cli, 0), &status,
				  err);

	if (r < 0)
		return r;
	if (!cli_answer(cli, json_volume_status(status)))
		volume_status_print(status);
	volume_status_free(status);
	return 0;
}

int volume_publish_run(struct cli *cli, struct error *err)
{
	const char *name = cli_argument(cli, 0), *node = cli_argument(cli, 1);
	int r = volume_publish(cli->volumes,
			       &(struct volume_publish_request){
				       .name = name,
				       .node = node,
				       .read_only = cli->options.read_only,
				       .shared = cli->options.shared,
				       .note = cli->options.note,
			       },
			       NULL, err);

	if (r == 0)
		cli_say(cli, "volume %s is published to node %s", name, node);
	return r;
}

int volume_unpublish_run(struct cli *cli, struct error *err)
{
	const char *name = cli_argument(cli, 0), *node = cli_argument(cli, 1);
	int r = volume_unpublish(cli->volumes, name, node, err);

	if (r == 0)
		cli_say(cli, "volume %s is not published to %s%s", name,
			node ? "node " : "any node", node ? node : "");
	return r;
}

int volume_delete_run(struct cli *cli, struct error *err)
{
	int r = volume_delete(cli->volumes, cli_argument(cli, 0), err);

	if (r == 0)
		cli_say(cli, "volume %s deleted", cli_argument(cli, 0));
	return r;
}

int volume_recover_run(struct cli *cli, struct error *err)
{
	struct volume_record *record = NULL;
	char text[SIZE_TEXT_MAX];
	int r = volume_recover(cli->volumes, cli_argument(cli, 0), &record,
			       err);

	if (r < 0)
		return r;
	if (!cli_answer(cli, json_record(record))) {
		cli_say(cli, "volume %s has its record: %s in %zu split%s",
			record->name, size_format(text, record->spec.capacity),
			record->n_splits, record->n_splits == 1 ? "" : "s");
		if (!cli->options.quiet)
			volume_splits_print(record);
	}
	volume_record_free(record);
	return 0;
}
