/* SPDX-License-Identifier: Apache-2.0 */
/* All commands: those of no group, and where the others are. */
#include <string.h>

#include "cli/command/command_group.h"

static const struct option_row status_rows[] = {
	ROW("watch", 'w', OPTION_FLAG, watch, NULL,
	    "go on: print it again at each change"),
};

static const struct option_row doctor_rows[] = {
	ROW("host", 0, OPTION_FLAG, only_host, NULL,
	    "look at this machine alone, not at the cluster"),
};

static const struct option_row events_rows[] = {
	ROW("watch", 'w', OPTION_FLAG, watch, NULL,
	    "go on: print each change as it happens"),
};

static const struct option_row top_rows[] = {
	ROW("once", 0, OPTION_FLAG, once, NULL,
	    "print it once, of two seconds, and end"),
	ROW("on", 0, OPTION_LIST, on, "NODE", "only splits on these nodes"),
};

static const struct command first[] = {
	{.words = "doctor",
	 .arguments = "",
	 .summary = "what is amiss on this machine and in the cluster, and "
		    "how it is mended",
	 ROWS(doctor_rows),
	 .needs_volumes = true,
	 .tells_of_store = true,
	 .only_looks = true,
	 .run = doctor_run},
	{.words = "events",
	 .arguments = "",
	 .summary = "what has changed, and when, by the records",
	 .text = "The last change of each condition of nodes, volumes and "
		 "snapshots. No node is asked.",
	 ROWS(events_rows),
	 .needs_volumes = true,
	 .only_looks = true,
	 .run = events_run},
	{.words = "status",
	 .arguments = "",
	 .summary = "nodes, pools, volumes and their problems",
	 ROWS(status_rows),
	 .needs_volumes = true,
	 .only_looks = true,
	 .run = status_run},
	{.words = "top",
	 .arguments = "[VOLUME]",
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_VOLUME},
	 .summary = "rates and latencies of volumes in use and of nodes, every "
		    "two seconds",
	 .text = "Volumes attached here are counted by this machine's kernel, "
		 "others by the exports of their splits. A split that another "
		 "node uses on its own disk is counted by that node's kernel "
		 "alone, so it is not known here.",
	 ROWS(top_rows),
	 .needs_volumes = true,
	 .only_looks = true,
	 .run = top_run},
};

static const struct option_row mount_rows[] = {
	ROW("options", 'o', OPTION_STRING, mount_options, "LIST",
	    "of mount(8), with commas: noatime,nosuid...; degraded: without lost splits"),
	ROW("transport", 0, OPTION_STRING, transport, "NAME",
	    "auto, nbd, iscsi, fuse or ublk for remote splits (the volume's)"),
	ROW("read-only", 'r', OPTION_FLAG, read_only, NULL, "write nothing"),
	ROW("force", 'f', OPTION_FLAG, force, NULL,
	    "cut off the node that has it attached"),
};

static const struct option_row umount_rows[] = {
	ROW("force", 'f', OPTION_FLAG, force, NULL,
	    "although files are open; their users get errors"),
};

static const struct option_row attach_rows[] = {
	ROW("transport", 0, OPTION_STRING, transport, "NAME",
	    "auto, loop, nbd, iscsi, fuse or ublk (auto)"),
	ROW("read-only", 'r', OPTION_FLAG, read_only, NULL, "write nothing"),
	ROW("force", 'f', OPTION_FLAG, force, NULL,
	    "also a part of a volume, or attached elsewhere: cut that "
	    "off"),
};

static const struct command last[] = {
	{.words = "mount",
	 .arguments = "VOLUME [DIR]",
	 .min_arguments = 1,
	 .max_arguments = 2,
	 .kinds = {ARGUMENT_VOLUME, ARGUMENT_PATH},
	 .summary = "mount a volume here; repairs a mount that broke",
	 .text = "Without DIR a linear or striped volume becomes a block "
		 "device, whose name is printed. Where it has a file system, "
		 "that is for its repair.",
	 ROWS(mount_rows),
	 .needs_volumes = true,
	 .run = mount_run},
	{.words = "umount",
	 .arguments = "VOLUME|DIR",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_VOLUME},
	 .summary = "unmount a volume and detach its extents",
	 ROWS(umount_rows),
	 .needs_volumes = true,
	 .run = umount_run},
	{.words = "attach",
	 .arguments = "[NODE/]EXTENT",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_EXTENT},
	 .summary = "make one extent a block device here",
	 ROWS(attach_rows),
	 .needs_volumes = true,
	 .run = attach_run},
	{.words = "detach",
	 .arguments = "[NODE/]EXTENT",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_EXTENT},
	 .summary = "undo attach",
	 .needs_volumes = true,
	 .run = detach_run},
	{.words = "devices",
	 .arguments = "",
	 .summary = "extents that are block devices here",
	 .needs_volumes = true,
	 .run = devices_run},
	{.words = "complete",
	 .arguments = "[WORD...]",
	 .max_arguments = 64,
	 .summary = "possible next words, for the shell's completion",
	 .run = complete_run},
	{.words = "help",
	 .arguments = "[COMMAND...]",
	 .max_arguments = 8,
	 .summary = "all commands, or one of them",
	 .run = help_run},
};

/* In the order of help. */
static const struct command_group first_commands = GROUP(first);
static const struct command_group last_commands = GROUP(last);
static const struct command_group *const groups[] = {
	&first_commands,  &cluster_commands, &node_commands, &extent_commands,
	&volume_commands, &union_commands,   &last_commands,
};

const struct command *command_at(size_t index)
{
	for (size_t i = 0; i < array_size(groups); i++) {
		if (index < groups[i]->n)
			return &groups[i]->commands[index];
		index -= groups[i]->n;
	}
	return NULL;
}

/* How many of the @n words the command's own words are; 0: others. */
static int words_match(const char *own, char *const *words, int n)
{
	int taken = 0;

	while (*own) {
		size_t length = strcspn(own, " ");

		if (taken == n || strlen(words[taken]) != length ||
		    strncmp(words[taken], own, length) != 0)
			return 0;
		taken++;
		own += length;
		own += strspn(own, " ");
	}
	return taken;
}

const struct command *command_find(char *const *words, int n, int *ret_taken)
{
	const struct command *command;

	for (size_t i = 0; (command = command_at(i)); i++) {
		int taken = words_match(command->words, words, n);

		if (taken > 0) {
			*ret_taken = taken;
			return command;
		}
	}
	return NULL;
}
