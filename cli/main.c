/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cli/command/command.h"
#include "cli/help.h"
#include "cli/text/json.h"
#include "cli/text/progress.h"
#include "volume/cluster/node_remove.h"
#include "volume/scrub/scrub.h"

#define CONFIG_DEFAULT "/etc/tributary/trib.conf"
#define WORDS_MAX      128  /* arguments of a command */
#define ROWS_MAX       64   /* options of a command and the global ones */
#define LOOK_MS        3000 /* for one node, by commands that only look */

struct parsed {
	const struct command *command; /* NULL: none was named */
	char *arguments[WORDS_MAX];
	int n_arguments;
};

/* Options and arguments in any order; after "--" arguments only. */
static int tail_parse(const struct option_row *rows, size_t n_rows,
		      struct cli_options *options, int argc, char **argv,
		      struct parsed *ret, struct error *err)
{
	bool only_arguments = false;
	int i = 0;

	while (i < argc) {
		if (!only_arguments) {
			/* options_parse() skips a program's name. */
			int taken, r = options_parse(rows, n_rows, options,
						     argc - i + 1, argv + i - 1,
						     &taken, err);

			if (r < 0)
				return r;
			i += taken - 1;
			only_arguments = taken > 1 &&
					 strcmp(argv[i - 1], "--") == 0;
		}
		if (i == argc)
			break;
		if (ret->n_arguments == WORDS_MAX)
			return error_set(err, E2BIG, "too many arguments");
		ret->arguments[ret->n_arguments++] = argv[i++];
	}
	return 0;
}

static size_t rows_join(const struct command *command,
			struct option_row *ret_rows)
{
	size_t n = 0;

	for (size_t i = 0; command && i < command->n_rows; i++)
		ret_rows[n++] = command->rows[i];
	for (size_t i = 0; i < cli_global_rows_count; i++)
		ret_rows[n++] = cli_global_rows[i];
	return n;
}

static int command_line_parse(struct cli_options *options, int argc,
			      char **argv, struct parsed *ret,
			      struct error *err)
{
	struct option_row rows[ROWS_MAX];
	int i, taken, r;

	*ret = (struct parsed){0};
	r = options_parse(cli_global_rows, cli_global_rows_count, options, argc,
			  argv, &i, err);
	if (r < 0)
		return r;
	if (i == argc)
		return 0;
	ret->command = command_find(argv + i, argc - i, &taken);
	if (!ret->command)
		return help_no_command(EINVAL, argv + i, argc - i, err);
	i += taken;
	return tail_parse(rows, rows_join(ret->command, rows), options,
			  argc - i, argv + i, ret, err);
}

/* The whole table, to free what any command's options own. */
static void options_free(struct cli_options *options,
			 const struct command *command)
{
	struct option_row rows[ROWS_MAX];

	options_done(rows, rows_join(command, rows), options);
	*options = (struct cli_options){0};
}

static int config_load(struct cli_options *options, const char *path,
		       struct error *err)
{
	const char *from = path ?: getenv("TRIB_CONFIG");

	if (!from && access(CONFIG_DEFAULT, F_OK) < 0)
		return 0;
	return options_load(cli_global_rows, cli_global_rows_count, options,
			    from ?: CONFIG_DEFAULT, NULL, NULL, err);
}

/* Flags say which file, the file is read, then flags win over it. */
static int settings_load(struct cli *cli, int argc, char **argv,
			 struct parsed *ret, struct error *err)
{
	struct cli_options first = {0};
	int r = command_line_parse(&first, argc, argv, ret, err);

	if (r == 0 && !first.help && !first.version)
		r = config_load(&cli->options, first.config, err);
	options_free(&first, ret->command);
	if (r < 0)
		return r;
	return command_line_parse(&cli->options, argc, argv, ret, err);
}

static int volumes_open(struct cli *cli, const struct command *command,
			struct progress *progress, int cancel_fd,
			struct error *err)
{
	struct volume_config config = {
		.store = cli->options.store,
		.node = cli->options.node,
		.run_dir = cli->options.run_dir,
		.launcher = cli->options.launcher,
		.iscsi_secrets = cli->options.iscsi_secrets,
		.source_address = cli->options.source_address,
		.call_timeout_ms = command->only_looks ? LOOK_MS : 0,
		.cancel_fd = cancel_fd,
		.progress = cli->options.quiet ? NULL : progress_show,
		.progress_context = progress,
	};

	return volume_context_open(&config, &cli->volumes, err);
}

/* SIGINT and SIGTERM end the work between two steps, not in one. */
static int signals_catch(void)
{
	sigset_t signals;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGHUP);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	(void)signal(SIGPIPE, SIG_IGN); /* write() says it */
	return signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
}

static int command_run(struct cli *cli, const struct command *command,
		       struct error *err)
{
	auto_close int cancel_fd = -1;
	struct progress progress = {0};
	int r = 0;

	if (command->needs_volumes) {
		cancel_fd = signals_catch();
		cli->stop_fd = cancel_fd;
		r = volumes_open(cli, command, &progress, cancel_fd, err);
		if (r < 0 && command->tells_of_store) {
			cli->store_problem = *err;
			*err = (struct error){0};
			r = 0;
		}
	}
	if (r == 0)
		r = command->run(cli, err);
	progress_end(&progress);
	volume_context_close(cli->volumes);
	cli->volumes = NULL;
	return r;
}

static int answer_print(struct cli *cli)
{
	if (cli->answer) {
		(void)puts(json_object_to_json_string_ext(
			cli->answer, JSON_C_TO_STRING_PRETTY |
					     JSON_C_TO_STRING_SPACED |
					     JSON_C_TO_STRING_NOSLASHESCAPE));
		json_object_put(cli->answer);
	}
	if (fflush(stdout) != 0 || ferror(stdout))
		return -EIO;
	return 0;
}

/* Print the answer, if there is one, also after a failure. */
static int failure_tell(struct cli *cli, const struct command *command, int r,
			const struct error *err)
{
	if (cli->answer) {
		(void)answer_print(cli); /* it fails anyway */
	} else if (cli->options.json) {
		struct json_object *object = json_error(r, error_text(err));

		(void)puts(json_object_to_json_string_ext(
			object, JSON_C_TO_STRING_NOSLASHESCAPE));
		json_object_put(object);
	}
	(void)fprintf(stderr, "trib%s%s: %s\n", command ? " " : "",
		      command ? command->words : "", error_text(err));
	if (r == -ECANCELED)
		(void)fputs("interrupted; the same command goes on from here\n",
			    stderr);
	return cli->wrong_usage ? EXIT_USAGE : help_exit_code(r);
}

static int arguments_check(const struct command *command, int n,
			   struct error *err)
{
	if (n >= command->min_arguments && n <= command->max_arguments)
		return 0;
	return error_set(err, EINVAL, "usage: trib %s %s [OPTION...]",
			 command->words, command->arguments);
}

static int cli_run(struct cli *cli, int argc, char **argv)
{
	struct error err = {0};
	struct parsed parsed;
	int r = settings_load(cli, argc, argv, &parsed, &err);
	const struct command *command = parsed.command;

	if (r < 0) {
		(void)failure_tell(cli, command, r, &err);
		return EXIT_USAGE;
	}
	if (cli->options.version) {
		(void)puts("trib " TRIBUTARY_VERSION);
	} else if (!command || cli->options.help) {
		help_print(command,
			   command || cli->options.help ? stdout : stderr);
		r = command || cli->options.help ? 0 : EXIT_USAGE;
	} else {
		r = arguments_check(command, parsed.n_arguments, &err);
		if (r < 0) {
			(void)failure_tell(cli, command, r, &err);
			r = EXIT_USAGE;
			goto end;
		}
		cli->arguments = parsed.arguments;
		cli->n_arguments = parsed.n_arguments;
		r = command_run(cli, command, &err);
		if (r < 0)
			r = failure_tell(cli, command, r, &err);
	}
	if (r == 0 && answer_print(cli) < 0)
		r = EXIT_FAILED;
end:
	options_free(&cli->options, command);
	return r;
}

int main(int argc, char **argv)
{
	struct cli cli = {
		.options = {.grace = VOLUME_LOST_GRACE_S,
			    .reclaim_grace = VOLUME_RECLAIM_GRACE_S},
	};

	log_setup("trib", LOG_LEVEL_WARNING);
	return cli_run(&cli, argc, argv);
}
