/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How the table of commands (cli/command/command.h) is written: a file for each
 * group of them, with the rows of their options above.
 */
#ifndef CLI_COMMAND_GROUP_H
#define CLI_COMMAND_GROUP_H

#include <stddef.h>

#include "base/cleanup.h"
#include "cli/command/command.h"

#define ROW(name, letter, type, field, argument, help)                   \
	{                                                                \
		name, letter, type, offsetof(struct cli_options, field), \
			argument, help, NULL, 0, 0                       \
	}
#define ROWS(table) .rows = (table), .n_rows = array_size(table)

/* Of all that can be limited. */
#define LIMIT_ROWS                                                    \
	ROW("iops", 0, OPTION_STRING, iops, "N",                      \
	    "operations a second at most, or none"),                  \
		ROW("bandwidth", 0, OPTION_STRING, bandwidth, "SIZE", \
		    "bytes a second at most, or none")

struct command_group {
	const struct command *commands;
	size_t n;
};

#define GROUP(table)                         \
	{                                    \
		(table), array_size((table)) \
	}

extern const struct command_group cluster_commands; /* and certificates */
extern const struct command_group node_commands;    /* and pools */
extern const struct command_group extent_commands;
extern const struct command_group volume_commands; /* and snapshots */
extern const struct command_group union_commands;

#endif
