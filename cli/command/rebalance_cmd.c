/* SPDX-License-Identifier: Apache-2.0 */
/* trib volume rebalance: the plan, then its moves. */
#include <stdio.h>

#include "base/size.h"
#include "cli/command/command.h"
#include "cli/text/json.h"
#include "cli/text/table.h"
#include "volume/move/rebalance.h"

struct rebalancing {
	struct cli *cli;
	struct json_object *moves; /* owned */
};

static struct json_object *json_move(const struct rebalance_move *move,
				     bool moved, const char *problem)
{
	struct json_object *object = json_object_new_object();

	json_put_text(object, "volume", move->volume);
	json_put_number(object, "split", move->split.index);
	json_put_number(object, "size", move->split.size);
	json_put_text(object, "node", move->split.node);
	json_put_text(object, "pool", move->split.pool);
	json_put_text(object, "toNode", move->node);
	json_put_text(object, "toPool", move->pool);
	json_put_flag(object, "moved", moved);
	json_put_text(object, "problem", problem ?: "");
	return object;
}

static struct json_object *json_plan_pools(const struct rebalance_plan *plan)
{
	struct json_object *list = json_object_new_array();

	for (size_t i = 0; i < plan->n_pools; i++) {
		const struct rebalance_pool *pool = &plan->pools[i];
		struct json_object *object = json_object_new_object();

		json_put_text(object, "node", pool->node);
		json_put_text(object, "pool", pool->name);
		json_object_object_add(object, "full",
				       json_object_new_double(pool->before));
		json_object_object_add(object, "fullThen",
				       json_object_new_double(pool->after));
		(void)json_object_array_add(list, object);
	}
	return list;
}

static void print_moves(const struct rebalance_plan *plan)
{
	struct table *t = table_new("VOLUME", "SPLIT>", "SIZE>", "FROM", "TO",
				    NULL);
	char text[SIZE_TEXT_MAX];

	for (size_t i = 0; i < plan->n_moves; i++) {
		const struct rebalance_move *move = &plan->moves[i];

		table_cell(t, "%s", move->volume);
		table_cell(t, "%u", move->split.index);
		table_cell(t, "%s", size_format(text, move->split.size));
		table_cell(t, "%s/%s", move->split.node, move->split.pool);
		table_cell(t, "%s/%s", move->node, move->pool);
	}
	table_print(t, stdout);
}

static void print_pools(const struct rebalance_plan *plan)
{
	struct table *t = table_new("POOL", "FULL>", "THEN>", NULL);

	for (size_t i = 0; i < plan->n_pools; i++) {
		const struct rebalance_pool *pool = &plan->pools[i];

		table_cell(t, "%s/%s", pool->node, pool->name);
		table_cell(t, "%.0f %%", pool->before * 100);
		table_cell(t, "%.0f %%", pool->after * 100);
	}
	table_print(t, stdout);
}

static void print_plan(struct cli *cli, const struct rebalance_plan *plan)
{
	if (cli->options.json || cli->options.quiet)
		return;
	if (plan->n_moves > 0) {
		print_moves(plan);
		(void)putchar('\n');
	}
	print_pools(plan);
	if (plan->attached + plan->other > 0)
		cli_say(cli,
			"%zu volumes stay: %zu are attached, and %zu are not "
			"ready",
			plan->attached + plan->other, plan->attached,
			plan->other);
	if (plan->n_moves == 0)
		cli_say(cli, "nothing to move: no move gains enough");
}

static void tell_move(void *context, const struct rebalance_move *move,
		      const char *problem)
{
	struct rebalancing *to = context;

	(void)json_object_array_add(to->moves,
				    json_move(move, !problem, problem));
	if (problem)
		(void)fprintf(stderr, "trib: split %u of volume %s stays: %s\n",
			      move->split.index, move->volume, problem);
	else
		cli_say(to->cli, "volume %s: split %u is in %s/%s",
			move->volume, move->split.index, move->node,
			move->pool);
}

int volume_rebalance_run(struct cli *cli, struct error *err)
{
	struct rebalancing to = {.cli = cli};
	struct rebalance_plan plan;
	struct json_object *answer;
	int r = volume_rebalance_plan(cli->volumes, &plan, err);

	if (r < 0)
		return r;
	print_plan(cli, &plan);
	to.moves = json_object_new_array();
	if (!cli->options.dry_run)
		r = volume_rebalance(cli->volumes, &plan, tell_move, &to, err);
	else
		for (size_t i = 0; i < plan.n_moves; i++)
			(void)json_object_array_add(
				to.moves,
				json_move(&plan.moves[i], false, NULL));
	answer = json_object_new_object();
	json_object_object_add(answer, "moves", to.moves);
	json_object_object_add(answer, "pools", json_plan_pools(&plan));
	(void)cli_answer(cli, answer);
	rebalance_plan_done(&plan);
	return r;
}
