/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "cli/command.h"
#include "cli/json.h"
#include "cli/table.h"

/* Everything that `trib status` looks at, as of about one moment. */
struct overview {
	struct node_state *nodes;
	size_t n_nodes;
	struct volume_record **records;
	size_t n_records;
	struct volume_status **volumes; /* n_records of them */
	char problem[RECORD_TEXT_SIZE]; /* records that cannot be read */
};

static void overview_free(struct overview *all)
{
	for (size_t i = 0; all->volumes && i < all->n_records; i++)
		volume_status_free(all->volumes[i]);
	free(all->volumes);
	volume_records_free(all->records, all->n_records);
	node_states_free(all->nodes, all->n_nodes);
}

static int overview_get(struct cli *cli, struct overview *ret,
			struct error *err)
{
	int r = volume_node_list(cli->volumes, &ret->nodes, &ret->n_nodes, err);

	if (r == 0)
		r = volume_list(cli->volumes, &ret->records, &ret->n_records,
				ret->problem, err);
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
	json_put_text(object, "problem", all->problem);
	return object;
}

static void pools_print(const struct overview *all)
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
	table_print(table, stdout);
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

static void volumes_print(const struct overview *all)
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
	table_print(table, stdout);
}

static void problems_print(const struct overview *all)
{
	for (size_t i = 0; i < all->n_nodes; i++)
		if (!all->nodes[i].reachable)
			(void)printf("node %s: %s\n", all->nodes[i].record.name,
				     all->nodes[i].problem);
	for (size_t i = 0; i < all->n_records; i++) {
		const struct volume_status *status = all->volumes[i];

		for (size_t c = 0; status && c < status->n_conditions; c++)
			(void)printf("volume %s: %s: %s\n",
				     all->records[i]->name,
				     status->conditions[c].reason,
				     status->conditions[c].message);
	}
	if (all->problem[0])
		(void)printf("%s\n", all->problem);
}

int status_run(struct cli *cli, struct error *err)
{
	struct overview all = {0};
	int r = overview_get(cli, &all, err);

	if (r == 0 && !cli_answer(cli, overview_json(&all))) {
		if (all.n_nodes == 0)
			(void)puts("no nodes yet; `trib node add` makes one "
				   "known");
		else
			pools_print(&all);
		if (all.n_records > 0) {
			(void)putchar('\n');
			volumes_print(&all);
		}
		problems_print(&all);
	}
	overview_free(&all);
	return r;
}
