/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text/cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/text/table.h"

#define ROW(name, letter, type, field, argument, help)                   \
	{                                                                \
		name, letter, type, offsetof(struct cli_options, field), \
			argument, help, NULL, 0, 0                       \
	}

const struct option_row cli_global_rows[] = {
	ROW("config", 'c', OPTION_STRING, config, "FILE",
	    "settings ($TRIB_CONFIG, else /etc/tributary/trib.conf)"),
	ROW("store", 0, OPTION_STRING, store, "WHERE",
	    "records of nodes and volumes (" VOLUME_STORE_DEFAULT ")"),
	ROW("node", 'n', OPTION_STRING, node, "NAME",
	    "name of this machine's node (its host name)"),
	ROW("run-dir", 0, OPTION_STRING, run_dir, "DIR",
	    "mounts and devices of this machine (" VOLUME_RUN_DIR_DEFAULT ")"),
	ROW("launcher", 0, OPTION_STRING, launcher, "SOCKET",
	    "trib-launch at this socket starts processes that outlive "
	    "a command"),
	ROW("iscsi-secrets", 0, OPTION_STRING, iscsi_secrets, "DIR",
	    "CHAP secrets for extents attached by iSCSI: files as for "
	    "blockd"),
	ROW("source-address", 0, OPTION_STRING, source_address, "ADDRESS",
	    "source address of this machine's NBD connections, as "
	    "servers see it"),
	ROW("json", 'j', OPTION_FLAG, json, NULL,
	    "print JSON for programs, not tables"),
	ROW("quiet", 'q', OPTION_FLAG, quiet, NULL, "show no progress"),
	ROW("help", 'h', OPTION_FLAG, help, NULL, "help on the command"),
	ROW("version", 0, OPTION_FLAG, version, NULL, "print the version"),
};
const size_t cli_global_rows_count = array_size(cli_global_rows);

const char *cli_argument(const struct cli *cli, int index)
{
	return index < cli->n_arguments ? cli->arguments[index] : NULL;
}

int cli_reference(const struct cli *cli, int index, const char *what,
		  struct reference *ret, struct error *err)
{
	return reference_parse(what, cli->arguments[index],
			       volume_context_node(cli->volumes), ret, err);
}

int cli_labels(const struct option_list *list, struct labels *ret,
	       struct error *err)
{
	for (size_t i = 0; i < list->count; i++) {
		int r = label_parse(list->items[i], ret, err);

		if (r < 0)
			return r;
	}
	return 0;
}

bool cli_answer(struct cli *cli, struct json_object *answer)
{
	if (!cli->options.json) {
		json_object_put(answer);
		return false;
	}
	cli->answer = answer;
	return true;
}

int cli_list_end(struct cli *cli, struct cli_list *list, int r)
{
	if (r < 0)
		json_object_put(list->all);
	if (r < 0 || cli_answer(cli, list->all))
		table_free(list->table);
	else
		table_print(list->table, stdout);
	return r;
}

int cli_usage(struct cli *cli, struct error *err, const char *text)
{
	cli->wrong_usage = true;
	return error_set(err, EINVAL, "%s", text);
}

void cli_say(const struct cli *cli, const char *fmt, ...)
{
	va_list args;

	if (cli->options.json || cli->options.quiet)
		return;
	va_start(args, fmt);
	(void)vprintf(fmt, args);
	va_end(args);
	(void)putchar('\n');
}

char *cli_absolute(const char *path, struct error *err)
{
	auto_free char *here = NULL;
	char *joined;

	if (path[0] == '/') {
		joined = strdup(path);
	} else {
		here = getcwd(NULL, 0);
		if (!here) {
			(void)error_set(err, errno, "current directory: %s",
					strerror(errno));
			return NULL;
		}
		if (asprintf(&joined, "%s/%s", here, path) < 0)
			joined = NULL;
	}
	if (!joined)
		(void)error_set(err, ENOMEM, "out of memory");
	return joined;
}

const char *cli_time(char *buf, int64_t seconds)
{
	time_t time = (time_t)seconds;
	struct tm tm;

	if (!seconds || !gmtime_r(&time, &tm) ||
	    strftime(buf, CLI_TIME_SIZE, "%Y-%m-%d %H:%M:%S", &tm) == 0)
		return "-";
	return buf;
}
