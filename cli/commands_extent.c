/* SPDX-License-Identifier: Apache-2.0 */
/* Single extents. */
#include "cli/command/command_group.h"
#include "volume/volume.h"

static const struct option_row extent_create_rows[] = {
	ROW("size", 's', OPTION_SIZE, size, "SIZE", "for example 10GiB"),
	ROW("pool", 'p', OPTION_STRING, pool, "POOL",
	    "where (the pool with the most room)"),
	ROW("label", 'l', OPTION_LIST, label, "KEY=VALUE", "kept with it"),
	ROW("thick", 0, OPTION_FLAG, thick, NULL,
	    "allocate it now, not when it is written to"),
	LIMIT_ROWS};

static const struct option_row extent_snapshot_rows[] = {
	ROW("name", 'n', OPTION_STRING, name, "NAME",
	    "of the snapshot; of several: behind each extent's (the time)"),
	ROW("label", 'l', OPTION_LIST, label, "KEY=VALUE", "kept with it"),
};

static const struct option_row extent_clone_rows[] = {
	ROW("size", 's', OPTION_SIZE, size, "SIZE",
	    "larger than its source (the same)"),
	ROW("label", 'l', OPTION_LIST, label, "KEY=VALUE", "kept with it"),
	ROW("thick", 0, OPTION_FLAG, thick, NULL,
	    "allocate now what it does not share with its source"),
	LIMIT_ROWS};

static const struct option_row extent_limit_rows[] = {LIMIT_ROWS};

static const struct option_row extent_ranges_rows[] = {
	ROW("older", 'o', OPTION_STRING, older, "SNAPSHOT",
	    "where it differs from this one of the same extent"),
	ROW("start", 0, OPTION_SIZE, start, "OFFSET",
	    "only what ends after it (0)"),
};

static const struct option_row extent_list_rows[] = {
	ROW("pool", 'p', OPTION_STRING, pool, "POOL", "only those in it"),
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
	    "who may: an address, a prefix, unix, any, tls:NAME, iscsi:NAME"),
	ROW("epoch", 'e', OPTION_NUMBER, epoch, "NUMBER",
	    "fence everyone older"),
	ROW("read-only", 'r', OPTION_FLAG, read_only, NULL, "refuse writes"),
	ROW("target", 't', OPTION_STRING, target, "NAME",
	    "iSCSI target that it is a LUN of (one of its own)"),
	ROW("lun", 'l', OPTION_NUMBER, lun, "NUMBER",
	    "which LUN of that target, 0 to 255 (0)"),
	ROW("account", 0, OPTION_STRING, account, "NAME",
	    "file of iscsi-secrets that logs in (the extent's, or default)"),
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
	 .summary = "delete an extent and what is on it",
	 ROWS(extent_delete_rows),
	 .needs_volumes = true,
	 .run = extent_delete_run},
	{.words = "extent export",
	 .arguments = "[NODE/]EXTENT",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_EXTENT},
	 .summary = "serve an extent by NBD and iSCSI to any client",
	 .text = "Prints the URI to give to an NBD client. Only who is named "
		 "by --allow may connect. By iSCSI, where its blockd listens "
		 "for that, it is LUN 0 of a target of its own, unless it "
		 "is said to be a LUN of another.",
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
	 .summary = "keep what extents hold now, used or not",
	 .text = "Several are cut at one instant, also on several nodes; writes "
		 "wait for that moment.\nWhere the pool has no way to share "
		 "blocks the content is copied, which takes time.",
	 ROWS(extent_snapshot_rows),
	 .needs_volumes = true,
	 .run = extent_snapshot_run},
	{.words = "extent clone",
	 .arguments = "[NODE/]EXTENT NAME",
	 .min_arguments = 2,
	 .max_arguments = 2,
	 .kinds = {ARGUMENT_EXTENT, ARGUMENT_WORD},
	 .summary = "make an extent of the content of another, or a snapshot",
	 .text = "It is in the same pool. Either may be deleted before the "
		 "other.",
	 ROWS(extent_clone_rows),
	 .needs_volumes = true,
	 .run = extent_clone_run},
	{.words = "extent revert",
	 .arguments = "[NODE/]EXTENT SNAPSHOT",
	 .min_arguments = 2,
	 .max_arguments = 2,
	 .kinds = {ARGUMENT_EXTENT, ARGUMENT_WORD},
	 .summary =
		 "take an extent back to a snapshot; what came after is lost",
	 .text = "Nobody uses the extent: it is not exported, and no device "
		 "holds it.",
	 ROWS(extent_delete_rows),
	 .needs_volumes = true,
	 .run = extent_revert_run},
	{.words = "extent limit",
	 .arguments = "[NODE/]EXTENT",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_EXTENT},
	 .summary = "limit the I/O of an extent, used or not",
	 .text = "What is not said stays as it is. What the node itself reads "
		 "and writes through a\nlocal device is not limited.",
	 ROWS(extent_limit_rows),
	 .needs_volumes = true,
	 .run = extent_limit_run},
	{.words = "extent stats",
	 .arguments = "[NODE/]EXTENT",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_EXTENT},
	 .summary = "what was done through an export, and who is connected",
	 .text = "Counted since its node's blockd first served it. What the "
		 "node itself does through\na local device is not seen.",
	 .needs_volumes = true,
	 .run = extent_stats_run},
	{.words = "extent ranges",
	 .arguments = "[NODE/]SNAPSHOT",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_EXTENT},
	 .summary = "what a snapshot has allocated, or where it may differ",
	 .text = "A line for each range: offset and length in bytes, in order. "
		 "A difference is never\nleft out; what is told may yet be the "
		 "same.",
	 ROWS(extent_ranges_rows),
	 .needs_volumes = true,
	 .run = extent_ranges_run},
};
const struct command_group extent_commands = GROUP(commands);
