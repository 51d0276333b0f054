/* SPDX-License-Identifier: Apache-2.0 */
/* Splits that go elsewhere, one by one or all of a node, and lost ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "cli/command/command.h"
#include "cli/text/json.h"
#include "volume/flow/forget_lost.h"
#include "volume/move/move.h"

static struct json_object *json_moved(const char *volume,
				      const struct volume_split *split,
				      const char *problem)
{
	struct json_object *object = json_object_new_object();

	json_put_text(object, "volume", volume);
	json_put_number(object, "split", split->index);
	json_put_text(object, "node", split->node);
	json_put_text(object, "pool", split->pool);
	json_put_text(object, "problem", problem ?: "");
	return object;
}

static int split_parse(struct cli *cli, size_t *ret, struct error *err)
{
	const char *text = cli->options.split;
	size_t digits = text ? strspn(text, "0123456789") : 0;

	*ret = MOVE_ANY_SPLIT;
	if (!text)
		return 0;
	if (digits == 0 || digits > 3 || text[digits])
		return cli_usage(cli, err, "--split is the number of a split");
	*ret = strtoul(text, NULL, 10);
	return 0;
}

static int volume_move_to(struct cli *cli, struct error *err)
{
	struct volume_move_request request = {.name = cli_argument(cli, 0)};
	struct volume_split split = {0};
	struct reference to = {0};
	int r = split_parse(cli, &request.split, err);

	if (r == 0 && cli->options.bandwidth)
		r = size_parse(cli->options.bandwidth, &request.rate, err);
	if (r == 0 && cli->options.to) {
		r = reference_parse("pool", cli->options.to,
				    volume_context_node(cli->volumes), &to,
				    err);
		request.to = (struct volume_place){to.node, to.name};
	}
	if (r == 0)
		r = volume_move(cli->volumes, &request, &split, err);
	if (r == 0 && !cli_answer(cli, json_moved(request.name, &split, NULL)))
		cli_say(cli, "volume %s: split %u is in %s/%s, %s",
			request.name, split.index, split.node, split.pool,
			split.move.way == SPLIT_MOVE_UNION
				? "moved by its union"
				: "copied by block");
	return r;
}

int volume_move_run(struct cli *cli, struct error *err)
{
	const char *name = cli_argument(cli, 0);
	int r;

	if (!cli->options.cancel)
		return volume_move_to(cli, err);
	if (cli->options.to || cli->options.split)
		return cli_usage(cli, err, "--cancel goes alone");
	r = volume_move_cancel(cli->volumes, name, err);
	if (r == 0)
		cli_say(cli, "volume %s: nothing of it is being moved", name);
	return r;
}

/* ---- lost splits ---- */

static struct json_object *json_forgotten(const char *volume,
					  const struct volume_forgotten *sum)
{
	struct json_object *object = json_object_new_object();

	json_put_text(object, "volume", volume);
	json_put_number(object, "splits", sum->splits);
	json_put_number(object, "size", sum->size);
	return object;
}

int volume_repair_run(struct cli *cli, struct error *err)
{
	const char *name = cli_argument(cli, 0);
	struct volume_forgotten sum = {0};
	char size[SIZE_TEXT_MAX];
	int r;

	if (!cli->options.forget_lost)
		return cli_usage(cli, err,
				 "say what to repair: --forget-lost drops the "
				 "names of lost splits");
	r = volume_forget_lost(cli->volumes, name, &sum, err);
	if (r < 0 || cli_answer(cli, json_forgotten(name, &sum)))
		return r;
	if (sum.splits == 0)
		cli_say(cli, "volume %s: no split of it is lost", name);
	else
		cli_say(cli,
			"volume %s: %zu lost splits have new, empty ones of "
			"%s in their place; nothing tells which files they had",
			name, sum.splits, size_format(size, sum.size));
	return 0;
}

/* ---- drain ---- */

struct drain {
	struct cli *cli;
	struct json_object *list; /* owned */
};

static void drain_told(void *drain_, const char *volume,
		       const struct volume_split *split, const char *problem)
{
	struct drain *drain = drain_;

	json_object_array_add(drain->list, json_moved(volume, split, problem));
	if (problem)
		(void)fprintf(stderr, "trib: split %u of volume %s stays: %s\n",
			      split->index, volume, problem);
	else
		cli_say(drain->cli, "volume %s: split %u is in %s/%s", volume,
			split->index, split->node, split->pool);
}

static int drain(struct cli *cli, const char *node, const char *pool,
		 struct error *err)
{
	struct drain drain = {.cli = cli, .list = json_object_new_array()};
	struct volume_drained sum = {0};
	int r = volume_node_drain(cli->volumes, node, pool, drain_told, &drain,
				  &sum, err);

	if (!cli_answer(cli, drain.list) && r == 0)
		cli_say(cli, "%s%s%s is empty and cordoned, %zu splits moved",
			node, pool ? "/" : "", pool ?: "", sum.moved);
	return r;
}

int node_drain_run(struct cli *cli, struct error *err)
{
	return drain(cli, cli_argument(cli, 0), NULL, err);
}

int pool_drain_run(struct cli *cli, struct error *err)
{
	struct reference at;
	int r = cli_reference(cli, 0, "pool", &at, err);

	return r < 0 ? r : drain(cli, at.node, at.name, err);
}
