/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "cli/command/command.h"
#include "cli/command/node_cmd.h"
#include "cli/text/json.h"
#include "cli/text/table.h"
#include "volume/cluster/node_remove.h"

static int text_set(char *ret, size_t size, const char *what, const char *text,
		    struct error *err)
{
	if (!text)
		return 0;
	if (strlen(text) >= size)
		return error_set(err, EINVAL, "%s is longer than %zu bytes",
				 what, size - 1);
	(void)strcpy(ret, text); /* checked just above */
	return 0;
}

int node_fill(const struct cli *cli, const char *name, const char *control,
	      const struct option_list *labels, struct node_record *node,
	      struct error *err)
{
	const struct cli_options *o = &cli->options;
	const struct {
		char *ret;
		size_t size;
		const char *what, *text;
	} texts[] = {
		{node->name, sizeof(node->name), "the name", name},
		{node->control_address, sizeof(node->control_address),
		 "--control", control},
		{node->data_address, sizeof(node->data_address), "--data",
		 o->data},
		{node->tls_ca_file, sizeof(node->tls_ca_file), "--tls-ca",
		 o->tls_ca},
		{node->tls_cert_file, sizeof(node->tls_cert_file), "--tls-cert",
		 o->tls_cert},
		{node->tls_key_file, sizeof(node->tls_key_file), "--tls-key",
		 o->tls_key},
		{node->tls_server_name, sizeof(node->tls_server_name),
		 "--tls-name", o->tls_name},
	};

	for (size_t i = 0; i < array_size(texts); i++) {
		int r = text_set(texts[i].ret, texts[i].size, texts[i].what,
				 texts[i].text, err);

		if (r < 0)
			return r;
	}
	if (o->allow.count > NODE_INITIATORS_MAX)
		return error_set(err, E2BIG, "at most %d --allow addresses",
				 NODE_INITIATORS_MAX);
	for (size_t i = 0; i < o->allow.count; i++) {
		int r = text_set(node->initiators[i], NODE_ADDRESS_SIZE,
				 "--allow", o->allow.items[i], err);

		if (r < 0)
			return r;
		node->n_initiators++;
	}
	return cli_labels(labels, &node->labels, err);
}

int node_add_run(struct cli *cli, struct error *err)
{
	struct node_record node = {0};
	char trouble[ERROR_TEXT_MAX] = "";
	int r;

	if (!cli->options.control != !cli->options.data)
		return cli_usage(cli, err,
				 "say where the node is, --control ADDRESS "
				 "--data ADDRESS, or neither, when it only "
				 "uses volumes");
	r = node_fill(cli, cli_argument(cli, 0), cli->options.control,
		      &cli->options.label, &node, err);
	if (r == 0)
		r = volume_node_add(cli->volumes, &node, trouble, err);
	node_record_done(&node);
	if (r == 0)
		cli_say(cli, "node %s added", cli_argument(cli, 0));
	if (r == 0 && trouble[0])
		(void)fprintf(stderr, "trib node add: warning: %s\n", trouble);
	return r;
}

int node_remove_run(struct cli *cli, struct error *err)
{
	const struct cli_options *o = &cli->options;
	const char *name = cli_argument(cli, 0);
	struct volume_node_lost sum = {0};
	int r = o->lost ? volume_node_give_up(cli->volumes, name, o->grace,
					      &sum, err)
			: volume_node_remove(cli->volumes, name, err);

	if (r < 0)
		return r;
	cli_say(cli, "node %s removed", name);
	if (sum.splits > 0)
		cli_say(cli,
			"%zu splits of %zu volumes are lost for good; `trib "
			"status` names the volumes",
			sum.splits, sum.volumes);
	if (sum.snapshots > 0)
		cli_say(cli,
			"%zu snapshots lost extents: they can be deleted, and "
			"not be used",
			sum.snapshots);
	return 0;
}

static int cordon(struct cli *cli, bool cordoned, struct error *err)
{
	const char *name = cli_argument(cli, 0);
	int r = volume_node_cordon(cli->volumes, name, NULL, cordoned, err);

	if (r == 0)
		cli_say(cli, "node %s %s", name,
			cordoned ? "cordoned: nothing new is placed on it"
				 : "uncordoned");
	return r;
}

int node_cordon_run(struct cli *cli, struct error *err)
{
	return cordon(cli, true, err);
}

int node_uncordon_run(struct cli *cli, struct error *err)
{
	return cordon(cli, false, err);
}

static bool is_client(const struct node_state *node)
{
	return node->reachable && !node->record.control_address[0];
}

/* At most three words; @ret: 32 bytes. */
static const char *state_of(const struct node_state *node, char *ret)
{
	const struct node_report *report = node->record.report;

	if (node->lost)
		(void)strcpy(ret, "lost");
	else if (is_client(node))
		(void)strcpy(ret, report && node->last_seen_s < 0
					  ? "client, stopped"
					  : "client");
	else
		(void)strcpy(ret, node->reachable ? "ready" : "no answer");
	if (node->record.cordoned)
		(void)strcat(ret, ", cordoned");
	return ret;
}

static void node_row(struct table *table, const struct node_state *node)
{
	char capacity[SIZE_TEXT_MAX], available[SIZE_TEXT_MAX], state[32];
	uint64_t has = 0, can_give = 0;

	for (size_t i = 0; i < node->n_pools; i++) {
		has += node->pools[i].capacity;
		can_give += node->pools[i].available;
	}
	table_cell(table, "%s", node->record.name);
	table_cell(table, "%s", state_of(node, state));
	if (is_client(node)) {
		for (int i = 0; i < 5; i++)
			table_cell(table, "-");
		return;
	}
	table_cell(table, "%zu", node->n_pools);
	table_cell(table, "%s",
		   node->reachable ? size_format(capacity, has) : "?");
	table_cell(table, "%s",
		   node->reachable ? size_format(available, can_give) : "?");
	table_cell(table, "%s", node->record.data_address);
	table_cell(table, "%s",
		   node->reachable ? node->version : node->problem);
}

int node_list_run(struct cli *cli, struct error *err)
{
	struct cli_list list = {json_object_new_array(),
				table_new("NODE", "STATE", "POOLS>",
					  "CAPACITY>", "FREE>", "DATA",
					  "VERSION", NULL)};
	struct node_state *nodes = NULL;
	size_t n = 0;
	int r = volume_node_list(cli->volumes, &nodes, &n, err);

	for (size_t i = 0; i < n; i++) {
		json_object_array_add(list.all, json_node(&nodes[i]));
		node_row(list.table, &nodes[i]);
	}
	node_states_free(nodes, n);
	return cli_list_end(cli, &list, r);
}

static struct json_object *transports_json(void)
{
	struct initiator_capability found[8];
	size_t n = initiator_probe(found, array_size(found));
	struct json_object *all = json_object_new_array();

	for (size_t i = 0; i < n; i++) {
		struct json_object *object = json_object_new_object();

		json_put_text(object, "transport", found[i].transport);
		json_put_flag(object, "usable", found[i].usable);
		json_put_text(object, "why", found[i].why);
		json_object_array_add(all, object);
	}
	return all;
}

static void transports_print(void)
{
	struct initiator_capability found[8];
	size_t n = initiator_probe(found, array_size(found));
	struct table *table = table_new("TRANSPORT", "USABLE", "WHY", NULL);

	for (size_t i = 0; i < n; i++) {
		table_cell(table, "%s", found[i].transport);
		table_cell(table, "%s", found[i].usable ? "yes" : "no");
		table_cell(table, "%s", found[i].why);
	}
	(void)putchar('\n');
	table_print(table, stdout);
}

static void heartbeat_print(const struct node_state *node)
{
	const struct node_report *report = node->record.report;

	if (node->last_seen_s >= 0)
		(void)printf("heartbeat %lld s ago\n",
			     (long long)node->last_seen_s);
	if (report && report->ready != NODE_READY_TRUE)
		(void)printf("keeper    %s: %s\n", report->reason,
			     report->message);
	if (report && report->n_transports > 0) {
		(void)printf("transports");
		for (size_t i = 0; i < report->n_transports; i++)
			(void)printf(" %s", report->transports[i]);
		(void)putchar('\n');
	}
}

static void node_print(const struct node_state *node)
{
	(void)printf("node      %s\n", node->record.name);
	if (!is_client(node))
		(void)printf("control   %s\ndata      %s\n",
			     node->record.control_address,
			     node->record.data_address);
	for (size_t i = 0; i < node->record.labels.count; i++)
		(void)printf("label     %s=%s\n",
			     node->record.labels.items[i].key,
			     node->record.labels.items[i].value);
	heartbeat_print(node);
	if (node->record.cordoned)
		(void)puts("cordoned  nothing new is placed on it");
	if (node->warning[0])
		(void)printf("warning   %s\n", node->warning);
	if (!node->reachable) {
		(void)printf("state     no answer: %s\n", node->problem);
		return;
	}
	if (is_client(node)) {
		(void)puts("state     only uses volumes");
		return;
	}
	(void)printf("state     ready, version %s, up %llu s\n", node->version,
		     (unsigned long long)node->uptime_s);
	for (size_t i = 0; i < node->n_pools; i++) {
		const struct node_pool *pool = &node->pools[i];
		char free_text[SIZE_TEXT_MAX], capacity[SIZE_TEXT_MAX];

		(void)printf(
			"pool      %s: %s%s, %s of %s free, %llu extents%s%s\n",
			pool->name, pool->state,
			pool->cordoned ? ", cordoned" : "",
			size_format(free_text, pool->available),
			size_format(capacity, pool->capacity),
			(unsigned long long)pool->extents,
			pool->message[0] ? ": " : "", pool->message);
	}
}

int node_show_run(struct cli *cli, struct error *err)
{
	const char *own = volume_context_node(cli->volumes);
	const char *name = cli_argument(cli, 0) ?: own;
	bool is_own = strcmp(name, own) == 0;
	struct node_state *node = NULL;
	struct json_object *object;
	int r = volume_node_get(cli->volumes, name, &node, err);

	if (r < 0)
		return r;
	object = json_node(node);
	if (is_own)
		json_object_object_add(object, "transports", transports_json());
	if (!cli_answer(cli, object)) {
		node_print(node);
		if (is_own)
			transports_print();
	}
	node_states_free(node, 1);
	return 0;
}
