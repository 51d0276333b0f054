/* SPDX-License-Identifier: Apache-2.0 */
/* Single extents. */
#include "cli/command/command_group.h"
#include "volume/volume.h"

static const struct option_row extent_create_rows[] = {
	ROW("size", 's', OPTION_SIZE, size, "SIZE", "for example 10GiB"),
	ROW("pool", 'p', OPTION_STRING, pool, "POOL",
	    "make it in this pool (the one with the most room)"),
	ROW("label", 'l', OPTION_LIST, label, "KEY=VALUE", "kept with it"),
	ROW("thick", 0, OPTION_FLAG, thick, NULL,
	    "allocate it now, not when it is written to"),
	LIMIT_ROWS};

static const struct option_row extent_snapshot_rows[] = {
	ROW("name", 'n', OPTION_STRING, name, "NAME",
	    "of the snapshot; of several: suffix to each extent's name "
	    "(the time)"),
	ROW("label", 'l', OPTION_LIST, label, "KEY=VALUE", "kept with it"),
};

static const struct option_row extent_clone_rows[] = {
	ROW("size", 's', OPTION_SIZE, size, "SIZE",
	    "larger than its source (the same)"),
	ROW("label", 'l', OPTION_LIST, label, "KEY=VALUE", "kept with it"),
	ROW("thick", 0, OPTION_FLAG, thick, NULL,
	    "allocate now all that it does not share with its source"),
	LIMIT_ROWS};

static const struct option_row extent_limit_rows[] = {LIMIT_ROWS};

static const struct option_row extent_ranges_rows[] = {
	ROW("older", 'o', OPTION_STRING, older, "SNAPSHOT",
	    "print where it may differ from this one of the same extent"),
	ROW("start", 0, OPTION_SIZE, start, "OFFSET",
	    "only ranges that end after it (0)"),
};

static const struct option_row extent_list_rows[] = {
	ROW("pool", 'p', OPTION_STRING, pool, "POOL",
	    "only extents of this pool"),
};

static const struct option_row extent_resize_rows[] = {
	ROW("size", 's', OPTION_SIZE, size, "SIZE", "the new, larger size"),
};

static const struct option_row extent_delete_rows[] = {
	ROW("force", 'f', OPTION_FLAG, force, NULL,
	    "although it is part of a volume"),
};

static const struct option_row extent_export_rows[] = {
	ROW("allow", 'a', OPTION_LIST, allow, "ADDRESS",
	    "allowed client: an address, a prefix, unix, any, "
	    "tls:NAME, iscsi:NAME"),
	ROW("epoch", 'e', OPTION_NUMBER, epoch, "NUMBER",
	    "cut off clients of older epochs"),
	ROW("read-only", 'r', OPTION_FLAG, read_only, NULL, "refuse writes"),
	ROW("target", 't', OPTION_STRING, target, "NAME",
	    "make it a LUN of this iSCSI target (a target of its own)"),
	ROW("lun", 'l', OPTION_NUMBER, lun, "NUMBER",
	    "LUN of that target, 0 to 255 (0)"),
	ROW("account", 0, OPTION_STRING, account, "NAME",
	    "file of iscsi-secrets for logins (the extent's, or "
	    "default)"),
	ROW("force", 'f', OPTION_FLAG, force, NULL,
	    "although it is part of a volume"),
};

static const struct command commands[] = {
	{.words = "extent create",
	 .arguments = "[NODE/]EXTENT",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_NODE},
	 .summary = "reserve space and make an extent of zeroes",
	 ROWS(extent_create_rows),
	 .needs_volumes = true,
	 .run = extent_create_run},
	{.words = "extent list",
	 .arguments = "[NODE]",
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_NODE},
	 .summary = "extents of a node, or of all",
	 ROWS(extent_list_rows),
	 .needs_volumes = true,
	 .only_looks = true,
	 .run = extent_list_run},
	{.words = "extent show",
	 .arguments = "[NODE/]EXTENT",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_EXTENT},
	 .summary = "an extent and its export",
	 .needs_volumes = true,
	 .run = extent_show_run},
	{.words = "extent resize",
	 .arguments = "[NODE/]EXTENT",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_EXTENT},
	 .summary = "make an extent larger",
	 ROWS(extent_resize_rows),
	 .needs_volumes = true,
	 .run = extent_resize_run},
	{.words = "extent delete",
	 .arguments = "[NODE/]EXTENT",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_EXTENT},
	 .summary = "delete an extent and its data",
	 ROWS(extent_delete_rows),
	 .needs_volumes = true,
	 .run = extent_delete_run},
	{.words = "extent export",
	 .arguments = "[NODE/]EXTENT",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_EXTENT},
	 .summary = "serve an extent by NBD and iSCSI to any client",
	 .text = "Prints the URI for an NBD client. Only clients of --allow "
		 "may connect. By iSCSI,\n"
		 "where its blockd listens for that, the extent is LUN 0 of "
		 "a target of its own,\n"
		 "or a LUN of the target that --target names.",
	 ROWS(extent_export_rows),
	 .needs_volumes = true,
	 .run = extent_export_run},
	{.words = "extent unexport",
	 .arguments = "[NODE/]EXTENT",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_EXTENT},
	 .summary = "stop serving an extent; its connections are closed",
	 .needs_volumes = true,
	 .run = extent_unexport_run},
	{.words = "extent snapshot",
	 .arguments = "[NODE/]EXTENT...",
	 .min_arguments = 1,
	 .max_arguments = NODE_CUT_MAX,
	 .kinds = {ARGUMENT_EXTENT},
	 .summary = "keep the present content of extents, also in use",
	 .text = "Several extents are kept at one instant, also on several "
		 "nodes; writes wait for that\n"
		 "moment. A pool that cannot share blocks copies the "
		 "content, which takes time.",
	 ROWS(extent_snapshot_rows),
	 .needs_volumes = true,
	 .run = extent_snapshot_run},
	{.words = "extent clone",
	 .arguments = "[NODE/]EXTENT NAME",
	 .min_arguments = 2,
	 .max_arguments = 2,
	 .kinds = {ARGUMENT_EXTENT, ARGUMENT_WORD},
	 .summary = "make an extent with the content of another, or of a "
		    "snapshot",
	 .text = "The new extent is in the same pool. Either may be deleted "
		 "before the other.",
	 ROWS(extent_clone_rows),
	 .needs_volumes = true,
	 .run = extent_clone_run},
	{.words = "extent revert",
	 .arguments = "[NODE/]EXTENT SNAPSHOT",
	 .min_arguments = 2,
	 .max_arguments = 2,
	 .kinds = {ARGUMENT_EXTENT, ARGUMENT_WORD},
	 .summary = "set an extent back to a snapshot; later writes are lost",
	 .text = "The extent must be unused: not exported, and without a "
		 "device over it.",
	 ROWS(extent_delete_rows),
	 .needs_volumes = true,
	 .run = extent_revert_run},
	{.words = "extent limit",
	 .arguments = "[NODE/]EXTENT",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_EXTENT},
	 .summary = "limit the I/O of an extent, also in use",
	 .text = "A limit that is not given stays. The node's own I/O "
		 "through a loop device is not\n"
		 "limited.",
	 ROWS(extent_limit_rows),
	 .needs_volumes = true,
	 .run = extent_limit_run},
	{.words = "extent stats",
	 .arguments = "[NODE/]EXTENT",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_EXTENT},
	 .summary = "work done through an export, and the connected clients",
	 .text = "Counted since its node's blockd first served it. The "
		 "node's own I/O through a loop\n"
		 "device is not counted.",
	 .needs_volumes = true,
	 .run = extent_stats_run},
	{.words = "extent ranges",
	 .arguments = "[NODE/]SNAPSHOT",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_EXTENT},
	 .summary = "allocated ranges of a snapshot, or ranges that may differ",
	 .text = "A line for each range: offset and length in bytes, in "
		 "order. Every difference is in\n"
		 "a range, but a range may also have equal content.",
	 ROWS(extent_ranges_rows),
	 .needs_volumes = true,
	 .run = extent_ranges_run},
};
const struct command_group extent_commands = GROUP(commands);
