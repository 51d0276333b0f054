/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>

#include "base/size.h"
#include "cli/command/command.h"
#include "cli/text/json.h"

static struct json_object *json_trimmed(const char *name, uint64_t bytes)
{
	struct json_object *object = json_object_new_object();

	json_put_text(object, "volume", name);
	json_put_number(object, "trimmed", bytes);
	return object;
}

struct all {
	struct cli *cli;
	struct json_object *list; /* owned */
};

static void trim_told(void *all_, const char *name, uint64_t bytes,
		      const char *problem)
{
	struct all *all = all_;
	char text[SIZE_TEXT_MAX];

	if (problem)
		(void)fprintf(stderr, "trib: %s\n", problem);
	else
		cli_say(all->cli, "volume %s: %s trimmed", name,
			size_format(text, bytes));
	(void)json_object_array_add(all->list, json_trimmed(name, bytes));
}

int volume_trim_run(struct cli *cli, struct error *err)
{
	struct all all = {.cli = cli, .list = json_object_new_array()};
	uint64_t bytes = 0;
	int r;

	if (cli->n_arguments == 0) {
		r = volume_trim_here(cli->volumes, trim_told, &all, err);
	} else {
		r = volume_trim(cli->volumes, cli_argument(cli, 0), &bytes,
				err);
		if (r == 0)
			trim_told(&all, cli_argument(cli, 0), bytes, NULL);
	}
	if (r < 0)
		json_object_put(all.list);
	else
		(void)cli_answer(cli, all.list);
	return r;
}
