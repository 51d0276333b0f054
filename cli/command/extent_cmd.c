/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "cli/command/command.h"
#include "cli/command/each_node.h"
#include "cli/command/extent_cmd.h"
#include "cli/text/json.h"
#include "cli/text/table.h"
#include "volume/extent/extents.h"

static void origin_print(const struct node_extent *extent)
{
	const struct node_origin *origin = &extent->origin;
	char text[SIZE_TEXT_MAX];

	if (origin->name[0])
		(void)printf("%s %s, %s\n",
			     extent->snapshot ? "snapshot of" : "made from  ",
			     origin->name, origin->method);
	if (strcmp(extent->state, NODE_COPYING) == 0)
		(void)printf("copied      %s\n",
			     size_format(text, extent->copied));
	if (extent->limits.iops)
		(void)printf("limit       %llu operations a second\n",
			     (unsigned long long)extent->limits.iops);
	if (extent->limits.bytes_per_second)
		(void)printf(
			"limit       %s a second\n",
			size_format(text, extent->limits.bytes_per_second));
}

/* Its own node's disk, past blockd. */
static void direct_print(const struct node_direct *direct)
{
	char bytes[SIZE_TEXT_MAX], in[SIZE_TEXT_MAX], out[SIZE_TEXT_MAX];

	if (direct->device[0])
		(void)printf("direct      %s in %" PRIu64 " pieces, %s read, "
			     "%s written\n",
			     size_format(bytes, direct->bytes), direct->runs,
			     size_format(in, direct->read_bytes),
			     size_format(out, direct->written_bytes));
}

static void extent_print(const struct node_extent *extent)
{
	char size[SIZE_TEXT_MAX], allocated[SIZE_TEXT_MAX];
	char left[SIZE_TEXT_MAX];

	(void)printf("%s    %s/%s\npool        %s%s%s%s%s\nid          %s\n"
		     "size        %s, %s allocated%s\n"
		     "state       %s%s%s\npath        %s\n",
		     extent->snapshot ? "snapshot" : "extent  ", extent->node,
		     extent->name, extent->pool,
		     extent->pool_state[0] ? ", " : "", extent->pool_state,
		     extent->pool_state[0] ? ": " : "", extent->pool_message,
		     extent->id, size_format(size, extent->size),
		     size_format(allocated, extent->allocated),
		     extent->thick   ? ", thick"
		     : extent->blank ? ", never written"
				     : "",
		     extent->state, extent->message[0] ? ": " : "",
		     extent->message, extent->path);
	(void)printf("space       %s reserved, %s shared, %s reclaimable\n",
		     size_format(size, extent->reserved),
		     size_format(allocated, extent->shared),
		     size_format(left, extent->reclaimable));
	origin_print(extent);
	for (size_t i = 0; i < extent->labels.count; i++)
		(void)printf("label       %s=%s\n", extent->labels.items[i].key,
			     extent->labels.items[i].value);
	if (!extent->has_export)
		return;
	(void)printf("export      %s, epoch %llu, %s%s, %u connections\n",
		     extent->nbd_name, (unsigned long long)extent->epoch,
		     extent->active ? "served" : "not served",
		     extent->read_only ? ", read-only" : "",
		     extent->connections);
	if (extent->iscsi_target[0])
		(void)printf("iscsi       LUN %u of %s\n", extent->iscsi_lun,
			     extent->iscsi_target);
	for (size_t i = 0; i < extent->n_initiators; i++)
		(void)printf("allowed     %s\n", extent->initiators[i]);
	if (extent->local_device[0])
		(void)printf("held by     %s on its own node\n",
			     extent->local_device);
	direct_print(&extent->direct);
}

int extent_answer(struct cli *cli, struct node_extent *extent)
{
	if (!cli_answer(cli, json_extent(extent)))
		extent_print(extent);
	node_extent_done(extent);
	return 0;
}

int extent_create_run(struct cli *cli, struct error *err)
{
	struct node_extent extent = {0};
	struct node_limits limits = {0};
	struct labels labels = {0};
	struct reference at;
	int r = cli_reference(cli, 0, "extent", &at, err);

	if (r < 0)
		return r;
	if (!cli->options.size)
		return cli_usage(cli, err, "say how large: --size SIZE");
	r = extent_limits_fill(cli, &limits, err);
	if (r == 0)
		r = cli_labels(&cli->options.label, &labels, err);
	if (r == 0)
		r = volume_extent_create(cli->volumes,
					 &(struct extent_request){
						 .node = at.node,
						 .pool = cli->options.pool,
						 .name = at.name,
						 .size = cli->options.size,
						 .labels = &labels,
						 .thick = cli->options.thick,
						 .limits = limits,
					 },
					 &extent, err);
	labels_done(&labels);
	return r < 0 ? r : extent_answer(cli, &extent);
}

int extent_show_run(struct cli *cli, struct error *err)
{
	struct node_extent extent = {0};
	struct reference at;
	int r = cli_reference(cli, 0, "extent", &at, err);

	if (r == 0)
		r = volume_extent_get(cli->volumes, at.node, at.name, &extent,
				      err);
	return r < 0 ? r : extent_answer(cli, &extent);
}

int extent_resize_run(struct cli *cli, struct error *err)
{
	struct node_extent extent = {0};
	struct reference at;
	int r = cli_reference(cli, 0, "extent", &at, err);

	if (r < 0)
		return r;
	if (!cli->options.size)
		return cli_usage(cli, err, "say how large: --size SIZE");
	r = volume_extent_resize(cli->volumes, at.node, at.name,
				 cli->options.size, &extent, err);
	return r < 0 ? r : extent_answer(cli, &extent);
}

int extent_delete_run(struct cli *cli, struct error *err)
{
	struct reference at;
	int r = cli_reference(cli, 0, "extent", &at, err);

	if (r == 0)
		r = volume_extent_delete(cli->volumes, at.node, at.name,
					 cli->options.force, err);
	if (r == 0)
		cli_say(cli, "extent %s/%s deleted", at.node, at.name);
	return r;
}

/* The URI another program reaches the export by (NBD's doc/uri.md). */
static int uri_print(struct cli *cli, const struct node_extent *extent,
		     struct error *err)
{
	struct node_state *node = NULL;
	const char *data;
	int r = volume_node_get(cli->volumes, extent->node, &node, err);

	if (r < 0)
		return r;
	data = node->record.data_address;
	if (strncmp(data, "unix:", 5) == 0)
		(void)printf("nbd+unix:///%s?socket=%s\n", extent->nbd_name,
			     data + 5);
	else
		(void)printf("nbd://%s/%s\n", data, extent->nbd_name);
	node_states_free(node, 1);
	return 0;
}

int extent_export_run(struct cli *cli, struct error *err)
{
	const struct option_list *allow = &cli->options.allow;
	struct node_extent extent = {0};
	struct reference at;
	int r = cli_reference(cli, 0, "extent", &at, err);

	if (r < 0)
		return r;
	if (allow->count == 0)
		return cli_usage(
			cli, err,
			"say which clients may connect: --allow ADDRESS, a prefix, "
			"or any");
	if (cli->options.lun > 0 && !cli->options.target)
		return cli_usage(cli, err,
				 "say which target has that LUN: --target "
				 "NAME");
	r = volume_extent_export(
		cli->volumes,
		&(struct extent_export_request){
			.node = at.node,
			.name = at.name,
			.epoch = cli->options.epoch,
			.initiators = (const char *const *)allow->items,
			.n_initiators = allow->count,
			.read_only = cli->options.read_only,
			.force = cli->options.force,
			.lun = {.target = cli->options.target,
				.lun = (unsigned)cli->options.lun,
				.account = cli->options.account},
		},
		&extent, err);
	if (r < 0)
		return r;
	if (!cli_answer(cli, json_extent(&extent)))
		r = uri_print(cli, &extent, err);
	node_extent_done(&extent);
	return r;
}

int extent_unexport_run(struct cli *cli, struct error *err)
{
	struct reference at;
	int r = cli_reference(cli, 0, "extent", &at, err);

	if (r == 0)
		r = volume_extent_unexport(cli->volumes, at.node, at.name, err);
	if (r == 0)
		cli_say(cli, "extent %s/%s is not served any more", at.node,
			at.name);
	return r;
}

static void extent_row(struct table *table, const struct node_extent *extent)
{
	const char *volume = labels_get(&extent->labels, VOLUME_LABEL_NAME);
	char text[SIZE_TEXT_MAX];

	table_cell(table, "%s/%s", extent->node, extent->name);
	table_cell(table, "%s", extent->pool);
	table_cell(table, "%s", size_format(text, extent->size));
	table_cell(table, "%s", size_format(text, extent->reserved));
	table_cell(table, "%s", size_format(text, extent->allocated));
	table_cell(table, "%s",
		   extent->shared ? size_format(text, extent->shared) : "-");
	table_cell(table, "%s", size_format(text, extent->reclaimable));
	table_cell(table, "%s", extent->state);
	if (extent->has_export && extent->active)
		table_cell(table, "epoch %llu, %u connections",
			   (unsigned long long)extent->epoch,
			   extent->connections);
	else
		table_cell(table, "%s",
			   extent->local_device[0] ? extent->local_device
						   : "-");
	if (extent->snapshot)
		table_cell(table, "snapshot of %s", extent->origin.name);
	else if (extent->origin.name[0])
		table_cell(table, "from %s", extent->origin.name);
	else
		table_cell(table, "-");
	table_cell(table, "%s", volume ?: "-");
}

static int extents_of(struct cli *cli, const char *node, struct cli_list *list,
		      struct error *err)
{
	struct node_extent *extents = NULL;
	size_t n = 0;
	int r = volume_extent_list(cli->volumes, node, cli->options.pool,
				   &extents, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		json_object_array_add(list->all, json_extent(&extents[i]));
		extent_row(list->table, &extents[i]);
	}
	node_extents_free(extents, n);
	return 0;
}

static int extents_of_node(struct cli *cli, const struct node_state *node,
			   void *list, struct error *err)
{
	return extents_of(cli, node->record.name, list, err);
}

int extent_list_run(struct cli *cli, struct error *err)
{
	struct cli_list list = {
		json_object_new_array(),
		table_new("EXTENT", "POOL", "SIZE>", "RESERVED>", "ALLOCATED>",
			  "SHARED>", "RECLAIMABLE>", "STATE", "USED BY",
			  "ORIGIN", "VOLUME", NULL),
	};
	const char *node = cli_argument(cli, 0);
	int r = node ? extents_of(cli, node, &list, err)
		     : cli_each_node(cli, extents_of_node, &list, err);

	return cli_list_end(cli, &list, r);
}
