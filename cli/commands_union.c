/* SPDX-License-Identifier: Apache-2.0 */
/* Unions that are mounted here, volumes' and others. */
#include "cli/command/command_group.h"

#define BRANCH_TEXT                                                              \
	"BRANCH is written as trib-union has it: PATH=nc,4G; the words are rw, " \
	"ro, nc, local and a\nminfreespace."

static const struct option_row drain_rows[] = {
	ROW("bandwidth", 0, OPTION_STRING, bandwidth, "SIZE",
	    "bytes a second at most, or none (none)"),
	ROW("stop", 0, OPTION_FLAG, stop, NULL,
	    "stop the drain; migrated files stay where they are"),
};

static const struct command commands[] = {
	{.words = "union status",
	 .arguments = "PATH",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_PATH},
	 .summary = "the branches of the union that PATH is on",
	 .run = union_status_run},
	{.words = "union explain",
	 .arguments = "PATH",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_PATH},
	 .summary = "on which branches a path is, and where a new file goes",
	 .text = "PATH may be absent. If PATH is a directory, the new file "
		 "is in it, otherwise beside\n"
		 "it.",
	 .run = union_explain_run},
	{.words = "union add",
	 .arguments = "PATH BRANCH",
	 .min_arguments = 2,
	 .max_arguments = 2,
	 .kinds = {ARGUMENT_PATH, ARGUMENT_PATH},
	 .summary = "add a branch to the union that PATH is on",
	 .text = BRANCH_TEXT,
	 .run = union_add_run},
	{.words = "union set",
	 .arguments = "PATH BRANCH=WORD,...",
	 .min_arguments = 2,
	 .max_arguments = 2,
	 .kinds = {ARGUMENT_PATH, ARGUMENT_PATH},
	 .summary = "set the mode or minfreespace of a branch",
	 .text = BRANCH_TEXT,
	 .run = union_set_run},
	{.words = "union policy",
	 .arguments = "PATH NAME=VALUE...",
	 .min_arguments = 2,
	 .max_arguments = 64,
	 .kinds = {ARGUMENT_PATH, ARGUMENT_WORD},
	 .summary = "set policies, or minfreespace",
	 .text = "NAME is policy, category.create (search, action), func.mkdir "
		 "and so on, or\nminfreespace, as in the options of trib-union. "
		 "All are set, or none, until the\nunion is unmounted.",
	 .run = union_policy_run},
	{.words = "union drain",
	 .arguments = "PATH BRANCH",
	 .min_arguments = 2,
	 .max_arguments = 2,
	 .kinds = {ARGUMENT_PATH, ARGUMENT_PATH},
	 .summary = "migrate all files of a branch to the others, then detach "
		    "it",
	 .text = "The drain goes on while the union is used, and at its "
		 "next mount.",
	 ROWS(drain_rows),
	 .run = union_drain_run},
	{.words = "union upgrade",
	 .arguments = "PATH",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_PATH},
	 .summary = "replace the server of the union that PATH is on",
	 .text = "The program that is at trib-union's path now takes over; "
		 "users of the union go on. A\n"
		 "program that keeps other records than the present server "
		 "is refused.",
	 .run = union_upgrade_run},
	{.words = "union remove",
	 .arguments = "PATH BRANCH",
	 .min_arguments = 2,
	 .max_arguments = 2,
	 .kinds = {ARGUMENT_PATH, ARGUMENT_PATH},
	 .summary = "detach an empty branch",
	 .run = union_remove_run},
};
const struct command_group union_commands = GROUP(commands);
