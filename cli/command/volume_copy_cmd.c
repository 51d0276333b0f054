/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes that begin as something else, and limits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/size.h"
#include "cli/command/command.h"
#include "cli/command/volume_cmd.h"
#include "cli/text/json.h"
#include "cli/text/table.h"
#include "volume/snapshot/snapshot.h"

#define NONE "none"

static const char *content_of(const struct volume_split *split)
{
	return split->source_node[0] ? "copied from node "
	       : split->source[0]    ? "shared"
				     : "new";
}

void volume_splits_print(const struct volume_record *record)
{
	const bool made_from = record->spec.source.kind != VOLUME_SOURCE_NONE;
	struct table *table = table_new("SPLIT>", "NODE", "POOL", "EXTENT",
					"SIZE>", made_from ? "CONTENT" : NULL,
					NULL);
	char text[SIZE_TEXT_MAX];

	for (size_t i = 0; i < record->n_splits; i++) {
		const struct volume_split *split = &record->splits[i];

		table_cell(table, "%u", split->index);
		table_cell(table, "%s", split->node);
		table_cell(table, "%s", split->pool);
		table_cell(table, "%s", split->extent);
		table_cell(table, "%s", size_format(text, split->size));
		if (made_from)
			table_cell(table, "%s%s", content_of(split),
				   split->source_node);
	}
	table_print(table, stdout);
}

/* The snapshot or volume named by the first argument, as the second. */
static int make_from(struct cli *cli, enum volume_source_kind kind,
		     struct error *err)
{
	struct volume_source source = {.kind = kind};
	const char *name = cli_argument(cli, 0);
	int r = name_check(kind == VOLUME_SOURCE_SNAPSHOT ? "snapshot"
							  : "volume",
			   name, err);

	if (r < 0)
		return r;
	(void)snprintf(source.name, sizeof(source.name), "%s", name);
	return volume_make(cli, cli_argument(cli, 1), &source, err);
}

int snapshot_restore_run(struct cli *cli, struct error *err)
{
	return make_from(cli, VOLUME_SOURCE_SNAPSHOT, err);
}

int volume_clone_run(struct cli *cli, struct error *err)
{
	return make_from(cli, VOLUME_SOURCE_VOLUME, err);
}

/* ---- limits ---- */

/* Operations a second, as people write them; "none" is 0. */
static int iops_parse(const char *text, uint64_t *ret, struct error *err)
{
	char *end = NULL;
	unsigned long long value;

	if (strcmp(text, NONE) == 0) {
		*ret = 0;
		return 0;
	}
	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *end || end == text || text[0] == '-' || value == 0)
		return error_set(err, EINVAL,
				 "--iops: '%.32s' is no number above 0, and "
				 "not '" NONE "'",
				 text);
	*ret = value;
	return 0;
}

static int bandwidth_parse(const char *text, uint64_t *ret, struct error *err)
{
	int r;

	if (strcmp(text, NONE) == 0) {
		*ret = 0;
		return 0;
	}
	r = size_parse(text, ret, err);
	if (r == 0 && *ret == 0)
		r = error_set(err, EINVAL, "it is 0; say '" NONE "'");
	return r < 0 ? error_prefix(err, r, "--bandwidth: ") : 0;
}

int limits_fill(const struct cli_options *o, struct volume_limits *limits,
		struct error *err)
{
	int r = 0;

	if (o->iops)
		r = iops_parse(o->iops, &limits->iops, err);
	if (r == 0 && o->bandwidth)
		r = bandwidth_parse(o->bandwidth, &limits->bytes_per_second,
				    err);
	return r;
}

void limits_print(const struct volume_limits *limits)
{
	char text[SIZE_TEXT_MAX];

	if (limits->iops)
		(void)printf("limit     %llu operations a second\n",
			     (unsigned long long)limits->iops);
	if (limits->bytes_per_second)
		(void)printf("limit     %s a second\n",
			     size_format(text, limits->bytes_per_second));
}

int volume_limit_run(struct cli *cli, struct error *err)
{
	struct volume_record *record = NULL;
	struct volume_limits limits;
	const char *name = cli_argument(cli, 0);
	int r;

	if (!cli->options.iops && !cli->options.bandwidth)
		return cli_usage(cli, err,
				 "say which: --iops N, --bandwidth SIZE");
	/* A limit that is not given stays. */
	r = volume_get(cli->volumes, name, &record, err);
	if (r < 0)
		return r;
	limits = record->spec.limits;
	volume_record_free(record);
	record = NULL;
	r = limits_fill(&cli->options, &limits, err);
	if (r == 0)
		r = volume_limit(cli->volumes, name, &limits, &record, err);
	if (r < 0)
		return r;
	if (!cli_answer(cli, json_record(record))) {
		if (limits.iops || limits.bytes_per_second)
			cli_say(cli, "volume %s is limited", name);
		else
			cli_say(cli, "volume %s has no limits", name);
		if (!cli->options.quiet)
			limits_print(&limits);
	}
	volume_record_free(record);
	return 0;
}
