/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `trib complete -- WORD...` prints, one a line, what may stand in the place
 * of the last word (which may be empty). The shell's completion calls it, so
 * it never complains: what cannot be known is not offered.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/command/command.h"
#include "volume/extent/extents.h"
#include "volume/op/volume_walk.h"
#include "volume/snapshot/snapshot.h"

static bool begins(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

static void offer(const char *text, const char *start)
{
	if (begins(text, start))
		(void)puts(text);
}

/* The next word of each command that begins with the @n words typed. */
static void offer_words(char *const *words, int n, const char *last)
{
	const struct command *command;
	char offered[32] = "";

	for (size_t i = 0; (command = command_at(i)); i++) {
		const char *own = command->words;
		char word[32];
		int at = 0;

		while (at < n && *own) {
			size_t length = strcspn(own, " ");

			if (strlen(words[at]) != length ||
			    strncmp(own, words[at], length) != 0)
				break;
			own += length;
			own += strspn(own, " ");
			at++;
		}
		if (at < n || !*own)
			continue;
		(void)snprintf(word, sizeof(word), "%.*s",
			       (int)strcspn(own, " "), own);
		/* "node add" and "node list" stand together in the table. */
		if (strcmp(word, offered) != 0)
			offer(word, last);
		memcpy(offered, word, sizeof(offered));
	}
}

static void offer_options(const struct option_row *rows, size_t n,
			  const char *last)
{
	for (size_t i = 0; i < n; i++) {
		char text[64];

		(void)snprintf(text, sizeof(text), "--%s", rows[i].name);
		offer(text, last);
	}
}

static int offer_volume(void *last, const struct volume_record *record,
			struct error *err)
{
	(void)err;
	offer(record->name, last);
	return 0;
}

static void offer_volumes(struct volume_context *volumes, const char *last)
{
	(void)volume_walk(volumes, NULL, offer_volume, (void *)last, NULL,
			  NULL); /* or what was read by then */
}

static void offer_snapshots(struct volume_context *volumes, const char *last)
{
	struct snapshot_record **records = NULL;
	size_t n = 0;

	if (volume_snapshot_list(volumes, NULL, &records, &n, NULL, NULL,
				 NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		offer(records[i]->name, last);
	snapshot_records_free(records, n);
}

static void offer_groups(struct volume_context *volumes, const char *last)
{
	struct group_record **records = NULL;
	size_t n = 0;

	if (volume_group_list(volumes, &records, &n, NULL, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		offer(records[i]->name, last);
	group_records_free(records, n);
}

static void offer_extents(struct volume_context *volumes, const char *node,
			  const char *last)
{
	struct node_extent *extents = NULL;
	size_t n = 0;

	if (volume_extent_list(volumes, node, NULL, &extents, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		char text[2 * RECORD_NAME_SIZE];

		(void)snprintf(text, sizeof(text), "%s/%s", node,
			       extents[i].name);
		offer(text, last);
	}
	node_extents_free(extents, n);
}

static void offer_of_nodes(struct volume_context *volumes,
			   enum argument_kind kind, const char *last)
{
	struct node_state *nodes = NULL;
	size_t n = 0;

	if (volume_node_list(volumes, &nodes, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		const char *name = nodes[i].record.name;
		char text[2 * RECORD_NAME_SIZE];

		if (kind == ARGUMENT_NODE)
			offer(name, last);
		else if (kind == ARGUMENT_EXTENT && nodes[i].reachable)
			offer_extents(volumes, name, last);
		for (size_t p = 0;
		     kind == ARGUMENT_POOL && p < nodes[i].n_pools; p++) {
			(void)snprintf(text, sizeof(text), "%s/%s", name,
				       nodes[i].pools[p].name);
			offer(text, last);
		}
	}
	node_states_free(nodes, n);
}

static void offer_argument(struct cli *cli, enum argument_kind kind,
			   const char *last)
{
	struct volume_config config = {
		.store = cli->options.store,
		.node = cli->options.node,
		.run_dir = cli->options.run_dir,
		.call_timeout_ms = 1000, /* somebody waits at a prompt */
	};

	if (kind == ARGUMENT_NONE || kind == ARGUMENT_WORD ||
	    kind == ARGUMENT_PATH)
		return;
	if (volume_context_open(&config, &cli->volumes, NULL) < 0)
		return;
	if (kind == ARGUMENT_VOLUME)
		offer_volumes(cli->volumes, last);
	else if (kind == ARGUMENT_SNAPSHOT)
		offer_snapshots(cli->volumes, last);
	else if (kind == ARGUMENT_GROUP)
		offer_groups(cli->volumes, last);
	else
		offer_of_nodes(cli->volumes, kind, last);
}

int complete_run(struct cli *cli, struct error *err)
{
	int n = cli->n_arguments - 1; /* words before the last */
	const struct command *command;
	const char *last;
	int taken, argument = 0;

	(void)err;
	if (n < 0)
		return 0;
	last = cli->arguments[n];
	command = command_find(cli->arguments, n, &taken);
	if (!command) {
		offer_words(cli->arguments, n, last);
		return 0;
	}
	if (last[0] == '-') {
		offer_options(command->rows, command->n_rows, last);
		offer_options(cli_global_rows, cli_global_rows_count, last);
		return 0;
	}
	for (int i = taken; i < n; i++)
		if (cli->arguments[i][0] != '-')
			argument++;
	if (argument < COMMAND_ARGUMENTS_MAX)
		offer_argument(cli, command->kinds[argument], last);
	return 0;
}
