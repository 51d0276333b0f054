/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "cli/command/command.h"
#include "cli/text/json.h"
#include "cli/text/table.h"
#include "volume/mount/check.h"

static const char *result_of(const struct split_found *s)
{
	return s->looked ? branch_verdict_name(s->found.verdict) : "blank";
}

static struct json_object *json_found(const char *volume,
				      const struct volume_found *found)
{
	struct json_object *object = json_object_new_object();
	struct json_object *splits = json_object_new_array();

	for (size_t i = 0; i < found->n_splits; i++) {
		const struct split_found *s = &found->splits[i];
		struct json_object *one = json_object_new_object();

		json_put_number(one, "index", s->split.index);
		json_put_text(one, "node", s->split.node);
		json_put_text(one, "extent", s->split.extent);
		json_put_text(one, "result", result_of(s));
		json_put_text(one, "found", s->found.what);
		json_put_text(one, "advice", s->advice);
		json_object_array_add(splits, one);
	}
	json_put_text(object, "volume", volume);
	json_put_flag(object, "sound", found->sound);
	json_object_object_add(object, "splits", splits);
	return object;
}

static void found_print(const struct volume_found *found)
{
	struct table *table = table_new("SPLIT>", "NODE", "EXTENT", "RESULT",
					"FOUND", NULL);

	for (size_t i = 0; i < found->n_splits; i++) {
		const struct split_found *s = &found->splits[i];

		table_cell(table, "%u", s->split.index);
		table_cell(table, "%s", s->split.node);
		table_cell(table, "%s", s->split.extent);
		table_cell(table, "%s", result_of(s));
		table_cell(table, "%s", s->found.what[0] ? s->found.what : "-");
	}
	table_print(table, stdout);
	for (size_t i = 0; i < found->n_splits; i++)
		if (found->splits[i].advice[0])
			(void)printf("split %zu: %s\n", i,
				     found->splits[i].advice);
}

int volume_check_run(struct cli *cli, struct error *err)
{
	const char *name = cli_argument(cli, 0);
	struct volume_found *found = NULL;
	int r = volume_check(cli->volumes, name, cli->options.repair, &found,
			     err);

	if (r < 0)
		return r;
	if (!cli_answer(cli, json_found(name, found)))
		found_print(found);
	/* Also for a script that looks at nothing else. */
	if (!found->sound)
		r = error_set(err, EUCLEAN, "volume '%s': not all is sound",
			      name);
	volume_found_free(found);
	return r;
}
