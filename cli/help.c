/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/help.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

static const struct {
	int error;
	int code;
} exit_codes[] = {
	{ENOENT, EXIT_NOT_FOUND},   {ENODEV, EXIT_NOT_FOUND},
	{EEXIST, EXIT_EXISTS},      {ENOSPC, EXIT_NO_SPACE},
	{EBUSY, EXIT_BUSY},         {ESTALE, EXIT_BUSY},
	{EAGAIN, EXIT_REPEAT},      {EHOSTUNREACH, EXIT_REPEAT},
	{ETIMEDOUT, EXIT_REPEAT},   {ECANCELED, EXIT_REPEAT},
	{EACCES, EXIT_NOT_ALLOWED}, {EPERM, EXIT_NOT_ALLOWED},
};

int help_exit_code(int r)
{
	for (size_t i = 0; i < array_size(exit_codes); i++)
		if (exit_codes[i].error == -r)
			return exit_codes[i].code;
	return EXIT_FAILED;
}

static void all_print(FILE *out)
{
	const struct command *c;

	(void)fputs("usage: trib COMMAND [ARGUMENT...] [OPTION...]\n\n", out);
	for (size_t i = 0; (c = command_at(i)); i++) {
		int width = fprintf(out, "  %s %s", c->words, c->arguments);

		(void)fprintf(out, "%*s%s\n", width < 36 ? 36 - width : 1, "",
			      c->summary);
	}
	(void)fputs("\nOptions of every command:\n", out);
	options_help(cli_global_rows, cli_global_rows_count, out);
	(void)fputs(
		"\nExit codes: 0 done; 1 failed; 2 wrong usage; 3 not found; "
		"4 exists and differs;\n5 no space; 6 in use or fenced; "
		"7 unfinished, repeat it; 8 not allowed.\n"
		"`trib COMMAND --help` tells more.\n",
		out);
}

void help_print(const struct command *command, FILE *out)
{
	if (!command) {
		all_print(out);
		return;
	}
	(void)fprintf(out, "usage: trib %s %s%s\n\n%s.\n", command->words,
		      command->arguments, command->n_rows ? " [OPTION...]" : "",
		      command->summary);
	if (command->text)
		(void)fprintf(out, "%s\n", command->text);
	if (command->n_rows) {
		(void)fputs("\nOptions:\n", out);
		options_help(command->rows, command->n_rows, out);
	}
	(void)fputs("\nOptions of every command:\n", out);
	options_help(cli_global_rows, cli_global_rows_count, out);
}

/* What may follow @said, which some commands begin with. */
static void list_next(const char *said, char *ret, size_t size)
{
	const struct command *command;
	size_t length = strlen(said), at = 0;

	ret[0] = '\0';
	for (size_t i = 0; at < size && (command = command_at(i)); i++) {
		const char *words = command->words;

		if (strncmp(words, said, length) == 0 && words[length] == ' ')
			at += (size_t)snprintf(ret + at, size - at, "%s%s",
					       at ? ", " : "",
					       words + length + 1);
	}
}

int help_no_command(int error, char *const *words, int n, struct error *err)
{
	char said[64] = "", next[256] = "";
	size_t at = 0;

	for (int i = 0; i < n && words[i][0] != '-' && at < sizeof(said); i++) {
		at += (size_t)snprintf(said + at, sizeof(said) - at, "%s%s",
				       at ? " " : "", words[i]);
		list_next(said, next, sizeof(next));
		if (!next[0])
			break;
	}
	if (next[0])
		return error_set(err, error,
				 "'%s' is not all of a command; it goes on "
				 "with: %s",
				 said, next);
	return error_set(err, error, "no command '%s'; `trib help` lists them",
			 said);
}

int help_run(struct cli *cli, struct error *err)
{
	const struct command *command = NULL;
	int taken;

	if (cli->n_arguments > 0) {
		command = command_find(cli->arguments, cli->n_arguments,
				       &taken);
		if (!command)
			return help_no_command(ENOENT, cli->arguments,
					       cli->n_arguments, err);
	}
	help_print(command, stdout);
	return 0;
}
