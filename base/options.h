/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of a program: one table gives the flags, the configuration file
 * and the help text. A flag wins over the file, the file over the default:
 * options_defaults(); options_parse() to learn the file's name; then
 * options_load(); and options_parse() once more. Without a file one
 * options_parse() is enough.
 *
 *	static const struct option_row rows[] = {
 *		{ "listen", 'l', OPTION_LIST, offsetof(struct config, listen),
 *		  "ADDRESS", "serve NBD here", "tcp:0.0.0.0:10809", 0, 0 },
 *	};
 */
#ifndef BASE_OPTIONS_H
#define BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"

enum option_type {
	OPTION_FLAG,   /* bool; in a file: yes or no */
	OPTION_STRING, /* char *, owned by the target struct */
	OPTION_NUMBER, /* uint64_t within [min, max] */
	OPTION_SIZE,   /* uint64_t bytes (size_parse) within [min, max] */
	OPTION_LIST,   /* struct option_list; repeated, or comma separated */
};

struct option_list {
	char **items; /* owned */
	size_t count;
	bool is_default; /* the next value replaces the items */
};

struct option_row {
	const char
		*name; /* "pool-dir": --pool-dir and "pool-dir =" in a file */
	char letter;   /* 0: none */
	enum option_type type;
	size_t offset;
	const char *argument; /* shown in help; NULL for OPTION_FLAG */
	const char *help;
	const char *default_text; /* NULL: zero, NULL or empty */
	uint64_t min, max;        /* max 0: no limit */
};

/* Set every default. The struct was zeroed. A bad default is a bug. */
void options_defaults(const struct option_row *rows, size_t n, void *target);

/*
 * Read the "name = value" lines before any section of an INI file. An unknown
 * name, a bad value or a second value (but of a list) is an error that names
 * file and line. The target may be changed then. @other gets the lines in a
 * section, in their order (NULL: they are an error). @other returns 0 or a
 * negative errno, and @err if it has words. A section without lines is not
 * seen. ';' or '#' starts a comment line, " ;" ends a value. At most 1 MiB, 4
 * KiB a line, 49 bytes a section's name. A list in the file replaces the list
 * so far.
 */
int options_load(const struct option_row *rows, size_t n, void *target,
		 const char *path,
		 int (*other)(void *context, const char *section,
			      const char *name, const char *value,
			      struct error *err),
		 void *context, struct error *err);

/*
 * Parse flags from argv[1] up to the first word that is none, or past "--".
 * Their forms: "--name value", "--name=value", "-l value", "-lvalue". Forms of
 * an OPTION_FLAG: "--name", "--name=yes", "--name=no", "-l". @ret_index: the
 * index of the first word not used. A value that starts with "--" needs the
 * form with "=". Lists add up, also over several calls. "--help" and
 * "--version" are the caller's rows, if it wants them. -EINVAL names the flag.
 */
int options_parse(const struct option_row *rows, size_t n, void *target,
		  int argc, char **argv, int *ret_index, struct error *err);

/* One aligned line or two for each row. */
void options_help(const struct option_row *rows, size_t n, FILE *out);

/* Free what OPTION_STRING and OPTION_LIST rows own. */
void options_done(const struct option_row *rows, size_t n, void *target);

#endif
