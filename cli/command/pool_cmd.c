/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "cli/command/command.h"
#include "cli/command/each_node.h"
#include "cli/text/json.h"
#include "cli/text/table.h"

int pool_create_run(struct cli *cli, struct error *err)
{
	struct reference at;
	struct node_pool pool = {0};
	char text[SIZE_TEXT_MAX];
	int r = cli_reference(cli, 0, "pool", &at, err);

	if (r < 0)
		return r;
	r = volume_pool_create(
		cli->volumes,
		&(struct pool_request){
			.node = at.node,
			.name = at.name,
			.path = cli_argument(cli, 1),
			.capacity = cli->options.capacity,
			.overcommit_percent = (unsigned)cli->options.overcommit,
			.force = cli->options.force,
			.cluster_size = cli->options.cluster_size,
			.raw = cli->options.raw,
		},
		&pool, err);
	if (r < 0)
		return r;
	if (!cli_answer(cli, json_pool(&pool)))
		cli_say(cli, "pool %s/%s: %s free in %s%s%s", at.node, at.name,
			size_format(text, pool.available), pool.path,
			pool.note[0] ? "; " : "", pool.note);
	if (strcmp(pool.kind, "dir") == 0)
		cli_say(cli, "used on its own node, a directory gives about "
			     "0.6 of the disk's writes; `trib pool create "
			     "--help` says what a device gives");
	return 0;
}

int pool_delete_run(struct cli *cli, struct error *err)
{
	struct reference at;
	int r = cli_reference(cli, 0, "pool", &at, err);

	if (r == 0)
		r = volume_pool_delete(cli->volumes, at.node, at.name, err);
	if (r == 0)
		cli_say(cli, "pool %s/%s deleted", at.node, at.name);
	return r;
}

static int pool_cordon(struct cli *cli, bool cordoned, struct error *err)
{
	struct reference at;
	int r = cli_reference(cli, 0, "pool", &at, err);

	if (r == 0)
		r = volume_node_cordon(cli->volumes, at.node, at.name, cordoned,
				       err);
	if (r == 0)
		cli_say(cli, "pool %s/%s %s", at.node, at.name,
			cordoned ? "cordoned: nothing new is placed in it"
				 : "uncordoned");
	return r;
}

int pool_cordon_run(struct cli *cli, struct error *err)
{
	return pool_cordon(cli, true, err);
}

int pool_uncordon_run(struct cli *cli, struct error *err)
{
	return pool_cordon(cli, false, err);
}

/* What not every pool tells. */
static void known_cell(struct table *table, const struct node_pool *pool,
		       uint64_t bytes)
{
	char text[SIZE_TEXT_MAX];

	table_cell(table, "%s",
		   pool->sharing_known ? size_format(text, bytes) : "-");
}

static void pool_row(struct table *table, const struct node_pool *pool)
{
	char text[SIZE_TEXT_MAX];

	table_cell(table, "%s/%s", pool->node, pool->name);
	table_cell(table, "%s", pool->kind);
	table_cell(table, "%s%s", pool->state,
		   pool->cordoned ? ", cordoned" : "");
	table_cell(table, "%llu", (unsigned long long)pool->extents);
	table_cell(table, "%s", size_format(text, pool->capacity));
	table_cell(table, "%s", size_format(text, pool->nominal));
	table_cell(table, "%s", size_format(text, pool->reserved));
	table_cell(table, "%s", size_format(text, pool->allocated));
	known_cell(table, pool, pool->shared);
	known_cell(table, pool, pool->reclaimable);
	table_cell(table, "%s", size_format(text, pool->available));
	table_cell(table, "%s", size_format(text, pool->floor));
	table_cell(table, "%s",
		   pool->cluster_size ? size_format(text, pool->cluster_size)
				      : "-");
	table_cell(table, "%s%s%s", pool->path, pool->message[0] ? ": " : "",
		   pool->message);
}

/* Pools of one node, or of every node that answers. */
static void pools_add(struct cli_list *list, const struct node_pool *pools,
		      size_t n)
{
	for (size_t i = 0; i < n; i++) {
		json_object_array_add(list->all, json_pool(&pools[i]));
		pool_row(list->table, &pools[i]);
	}
}

static int pools_of_node(struct cli *cli, const struct node_state *node,
			 void *list, struct error *err)
{
	(void)cli;
	(void)err;
	pools_add(list, node->pools, node->n_pools);
	return 0;
}

static int pools_of_one(struct cli *cli, struct cli_list *list,
			struct error *err)
{
	auto_free struct node_pool *pools = NULL;
	size_t n = 0;
	int r = volume_pool_list(cli->volumes, cli_argument(cli, 0), &pools, &n,
				 err);

	if (r == 0)
		pools_add(list, pools, n);
	return r;
}

int pool_list_run(struct cli *cli, struct error *err)
{
	struct cli_list list = {
		json_object_new_array(),
		table_new("POOL", "KIND", "STATE", "EXTENTS>", "CAPACITY>",
			  "NOMINAL>", "RESERVED>", "ALLOCATED>", "SHARED>",
			  "RECLAIMABLE>", "FREE>", "FLOOR>", "CLUSTER>", "PATH",
			  NULL),
	};
	int r = cli_argument(cli, 0)
			? pools_of_one(cli, &list, err)
			: cli_each_node(cli, pools_of_node, &list, err);

	return cli_list_end(cli, &list, r);
}

/* ---- looking after one ---- */

static struct json_object *json_check(const struct node_check *check)
{
	struct json_object *object = json_object_new_object();
	struct json_object *findings = json_object_new_array();

	json_put_flag(object, "clean", check->clean);
	json_put_number(object, "repaired", check->repaired);
	for (size_t i = 0; i < check->n_findings; i++)
		json_object_array_add(
			findings, json_object_new_string(check->findings[i]));
	json_object_object_add(object, "findings", findings);
	return object;
}

int pool_check_run(struct cli *cli, struct error *err)
{
	struct node_check check = {0};
	struct reference at;
	int r = cli_reference(cli, 0, "pool", &at, err);

	if (r == 0)
		r = volume_pool_check(cli->volumes, at.node, at.name,
				      cli->options.repair, &check, err);
	if (r < 0)
		return r;
	if (!cli_answer(cli, json_check(&check))) {
		for (size_t i = 0; i < check.n_findings; i++)
			(void)printf("%s\n", check.findings[i]);
		cli_say(cli, "pool %s/%s: %zu findings, %llu repaired%s",
			at.node, at.name, check.n_findings,
			(unsigned long long)check.repaired,
			check.clean ? "; nothing is wrong" : "");
	}
	/* Also for a script that looks at nothing else. */
	if (!check.clean)
		r = error_set(err, EUCLEAN, "pool %s/%s: not all is well",
			      at.node, at.name);
	node_check_done(&check);
	return r;
}

int pool_grow_run(struct cli *cli, struct error *err)
{
	struct node_pool pool = {0};
	char size[SIZE_TEXT_MAX], left[SIZE_TEXT_MAX];
	struct reference at;
	int r = cli_reference(cli, 0, "pool", &at, err);

	if (r == 0)
		r = volume_pool_grow(cli->volumes, at.node, at.name, &pool,
				     err);
	if (r < 0)
		return r;
	if (!cli_answer(cli, json_pool(&pool)))
		cli_say(cli, "pool %s/%s: %s, %s free", at.node, at.name,
			size_format(size, pool.capacity),
			size_format(left, pool.available));
	return 0;
}
