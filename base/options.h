/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Options of a program: one table gives the flags, the configuration file
 * and the help text. A flag wins over the file, the file over the default.
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
	bool is_default;
};

struct option_row {
	const char *name; /* "pool-dir": --pool-dir and "pool-dir =" in a file */
	char letter;	  /* 0: none */
	enum option_type type;
	size_t offset;
	const char *argument; /* shown in help; NULL for OPTION_FLAG */
	const char *help;
	const char *default_text; /* NULL: zero, NULL or empty */
	uint64_t min, max;	  /* max 0: no limit */
};

/* Set every default. The struct was zeroed. */
void options_defaults(const struct option_row *rows, size_t n, void *target);

/*
 * Read "name = value" lines of an INI file; @section NULL takes those before
 * any section. An unknown name, or a bad value, is an error with the line.
 * Other sections are left to @other (may be NULL: they are an error);
 * it returns 0 or a negative errno with @err set.
 */
int options_load(const struct option_row *rows, size_t n, void *target,
		 const char *path,
		 int (*other)(void *context, const char *section,
			      const char *name, const char *value,
			      struct error *err),
		 void *context, struct error *err);

/*
 * Parse flags ("--name value", "--name=value", "-l value") up to the first
 * word that is none, or "--". @ret_index: that word's index. "--help" and
 * "--version" are the caller's rows, if it wants them.
 */
int options_parse(const struct option_row *rows, size_t n, void *target,
		  int argc, char **argv, int *ret_index, struct error *err);

/* One aligned line or two for each row. */
void options_help(const struct option_row *rows, size_t n, FILE *out);

/* Free what OPTION_STRING and OPTION_LIST rows own. */
void options_done(const struct option_row *rows, size_t n, void *target);

#endif
