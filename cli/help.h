/* SPDX-License-Identifier: Apache-2.0 */
/* What `trib help` says, and what its exit codes mean. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include <stdio.h>

#include "cli/command/command.h"

enum {
	EXIT_FAILED = 1,      /* any other error */
	EXIT_USAGE = 2,       /* the words of the command are wrong */
	EXIT_NOT_FOUND = 3,   /* no such node, pool, extent or volume */
	EXIT_EXISTS = 4,      /* there already, and different */
	EXIT_NO_SPACE = 5,    /* nothing was made */
	EXIT_BUSY = 6,        /* in use, or fenced by somebody newer */
	EXIT_REPEAT = 7,      /* unfinished: do it again, or the opposite */
	EXIT_NOT_ALLOWED = 8, /* permission, or the peer refuses */
};

/* The exit code of a negative errno. */
int help_exit_code(int r);

/* One command, or with NULL all of them. */
void help_print(const struct command *command, FILE *out);

/*
 * Set @err: @words are no command. If commands begin with these words, the text
 * has the possible next words. Returns -@error.
 */
int help_no_command(int error, char *const *words, int n, struct error *err);

#endif
