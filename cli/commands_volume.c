/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes and their snapshots. */
#include "cli/command/command_group.h"
#include "volume/snapshot/snapshot.h"

/* Of all that make volumes, but for how large and from what. */
#define VOLUME_ROWS                                                                   \
	ROW("policy", 0, OPTION_STRING, policy, "NAME",                               \
	    "where new files go: pfrd, mfs, ff, epmfs, local... (pfrd)"),             \
		ROW("transport", 0, OPTION_STRING, transport, "NAME",                 \
		    "auto, nbd, iscsi, fuse or ublk for remote splits (auto)"),       \
		ROW("splits", 0, OPTION_NUMBER, splits, "N",                          \
		    "at least this many extents (as few as serve)"),                  \
		ROW("max-splits", 0, OPTION_NUMBER, max_splits, "N",                  \
		    "at most this many extents"),                                     \
		ROW("max-extent", 0, OPTION_SIZE, max_extent, "SIZE",                 \
		    "no extent larger than this"),                                    \
		ROW("share-pools", 0, OPTION_FLAG, share_pools, NULL,                 \
		    "several extents may lie in one pool"),                           \
		ROW("placement", 0, OPTION_STRING, placement, "NAME",                 \
		    "balanced: fill pools evenly; packed: the fullest first; local: " \
		    "one node's first (balanced)"),                                   \
		ROW("local", 0, OPTION_STRING, local, "NODE",                         \
		    "node for --placement local (this one)"),                         \
		ROW("on", 0, OPTION_LIST, on, "NODE", "only on these nodes"),         \
		ROW("not-on", 0, OPTION_LIST, not_on, "NODE",                         \
		    "never on these nodes"),                                          \
		ROW("in-pool", 0, OPTION_LIST, in_pool, "POOL",                       \
		    "only in pools of these names"),                                  \
		ROW("node-label", 0, OPTION_LIST, node_label, "KEY=VALUE",            \
		    "only on nodes with these labels"),                               \
		ROW("label", 'l', OPTION_LIST, label, "KEY=VALUE",                    \
		    "kept with the volume"),                                          \
		LIMIT_ROWS

static const struct option_row volume_create_rows[] = {
	ROW("size", 's', OPTION_SIZE, size, "SIZE", "for example 5GiB"),
	ROW("from-snapshot", 0, OPTION_STRING, from_snapshot, "SNAPSHOT",
	    "start with the content of this snapshot"),
	ROW("from-volume", 0, OPTION_STRING, from_volume, "VOLUME",
	    "start with the present content of this volume"),
	ROW("layout", 0, OPTION_STRING, layout, "NAME",
	    "union: the extents' file systems as one tree; linear: one device, "
	    "its extents end to end; stripe: one device, its extents striped "
	    "(union)"),
	ROW("stripe-width", 0, OPTION_NUMBER, stripe_width, "N",
	    "of a stripe: extents in a set, 2 to 64 (2)"),
	ROW("stripe-unit", 0, OPTION_SIZE, stripe_unit, "SIZE",
	    "of a stripe: a power of two, 4KiB to 4MiB (256KiB)"),
	ROW("fs", 0, OPTION_STRING, fs, "TYPE",
	    "ext4 or xfs: of each split of a union (ext4), or of the device; "
	    "linear and stripe are a bare block device without it"),
	VOLUME_ROWS};

static const struct option_row volume_copy_rows[] = {
	ROW("size", 's', OPTION_SIZE, size, "SIZE",
	    "larger than the source (the same)"),
	VOLUME_ROWS};

static const struct option_row volume_limit_rows[] = {LIMIT_ROWS};

static const struct option_row snapshot_create_rows[] = {
	ROW("label", 'l', OPTION_LIST, label, "KEY=VALUE", "kept with it"),
};

static const struct option_row snapshot_list_rows[] = {
	ROW("all", 'a', OPTION_FLAG, all, NULL,
	    "also the temporary ones of clones"),
};

static const struct option_row volume_resize_rows[] = {
	ROW("size", 's', OPTION_SIZE, size, "SIZE",
	    "the new, larger size of the whole volume"),
};

static const struct option_row volume_move_rows[] = {
	ROW("bandwidth", 0, OPTION_STRING, bandwidth, "SIZE",
	    "bytes a second at most, of a union that is mounted (none)"),
	ROW("split", 0, OPTION_STRING, split, "N",
	    "which split (the only one, or the one that moves)"),
	ROW("to", 0, OPTION_STRING, to, "[NODE/]POOL",
	    "there (where the planner puts it)"),
	ROW("cancel", 0, OPTION_FLAG, cancel, NULL,
	    "take back a move that was begun: the split stays"),
};

static const struct option_row volume_rebalance_rows[] = {
	ROW("dry-run", 0, OPTION_FLAG, dry_run, NULL, "only show the plan"),
};

static const struct option_row volume_repair_rows[] = {
	ROW("forget-lost", 0, OPTION_FLAG, forget_lost, NULL,
	    "drop the names of lost splits, and make new ones in their place"),
};

static const struct option_row volume_orphans_rows[] = {
	ROW("reclaim", 0, OPTION_FLAG, reclaim, NULL,
	    "delete those that their records gave up, once they are listed"),
	ROW("grace", 0, OPTION_NUMBER, reclaim_grace, "SECONDS",
	    "with --reclaim: only what a scrub saw so long ago (604800)"),
};

static const struct option_row volume_scrub_rows[] = {
	ROW("every", 0, OPTION_NUMBER, every, "SECONDS",
	    "only if the last one is older than this (0)"),
};

static const struct option_row volume_check_rows[] = {
	ROW("repair", 0, OPTION_FLAG, repair, NULL,
	    "replay logs; mend ext4 by e2fsck -p as far as that is "
	    "safe, XFS by xfs_repair"),
};

static const struct option_row volume_publish_rows[] = {
	ROW("read-only", 'r', OPTION_FLAG, read_only, NULL,
	    "that node may only read"),
	ROW("shared", 0, OPTION_FLAG, shared, NULL,
	    "with --read-only: others may read at the same time"),
	ROW("note", 0, OPTION_STRING, note, "TEXT", "kept with it"),
};

static const struct command commands[] = {
	{.words = "volume create",
	 .arguments = "NAME",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_WORD},
	 .summary = "make a volume, which may be larger than any node",
	 .text = "A single file lies on one split, so the largest file is "
		 "smaller than the volume.\n"
		 "`trib volume show` shows its size. File systems take a "
		 "few percent of the volume.",
	 ROWS(volume_create_rows),
	 .needs_volumes = true,
	 .run = volume_create_run},
	{.words = "volume clone",
	 .arguments = "VOLUME NAME",
	 .min_arguments = 2,
	 .max_arguments = 2,
	 .kinds = {ARGUMENT_VOLUME, ARGUMENT_WORD},
	 .summary = "make a volume with the present content of another",
	 .text = "The source may be mounted and written to. The new volume "
		 "shares its pools, or is copied\n"
		 "to others where these have no room. The options place what is "
		 "copied or added.",
	 ROWS(volume_copy_rows),
	 .needs_volumes = true,
	 .run = volume_clone_run},
	{.words = "volume limit",
	 .arguments = "NAME",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_VOLUME},
	 .summary = "limit the I/O of a volume, mounted or not",
	 .text = "Each extent gets its part by size. A file lies on one "
		 "extent, so it gets that part. A\n"
		 "limit that is not given stays.",
	 ROWS(volume_limit_rows),
	 .needs_volumes = true,
	 .run = volume_limit_run},
	{.words = "volume move",
	 .arguments = "NAME",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_VOLUME},
	 .summary = "move a split of a volume to another pool",
	 .text = "A volume that is mounted nowhere is copied by block, and "
		 "nobody can mount it meanwhile.\n"
		 "Where a union is mounted, it moves its files while it is "
		 "used: run the command there.\n"
		 "`trib volume show` says how far it is. Repeat the command to "
		 "go on with a move that was\n"
		 "interrupted. Snapshots stay where they are.",
	 ROWS(volume_move_rows),
	 .needs_volumes = true,
	 .run = volume_move_run},
	{.words = "volume rebalance",
	 .arguments = "",
	 .summary = "move splits so that pools are equally full",
	 .text = "Shows which splits of unmounted volumes go where, and how "
		 "full the pools are then. Then\n"
		 "moves them, one after the other. A split goes only where "
		 "its volume's placement allows it,\n"
		 "and where that makes a difference of 5 % of a pool or more. "
		 "Cordoned pools have no part.",
	 ROWS(volume_rebalance_rows),
	 .needs_volumes = true,
	 .run = volume_rebalance_run},
	{.words = "volume resize",
	 .arguments = "NAME",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_VOLUME},
	 .summary = "make a volume larger, mounted or not",
	 .text = "The volume grows in its pools. The rest becomes new "
		 "extents on other nodes, which are\n"
		 "new branches of the mounted volume. File systems grow, "
		 "and branches join, on the node\n"
		 "that has it mounted: repeat the command there, or wait "
		 "for the next mount.",
	 ROWS(volume_resize_rows),
	 .needs_volumes = true,
	 .run = volume_resize_run},
	{.words = "volume trim",
	 .arguments = "[NAME]",
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_VOLUME},
	 .summary = "give unused space of a mounted volume back to the pools",
	 .text = "Space of deleted files goes back to the pools, and no "
		 "later snapshot keeps it. Without\n"
		 "NAME it trims all volumes mounted here for writing; "
		 "tributary-trim.timer does that\n"
		 "weekly. `fstrim` on the mount point does the same.",
	 .needs_volumes = true,
	 .run = volume_trim_run},
	{.words = "volume check",
	 .arguments = "NAME",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_VOLUME},
	 .summary = "check the file systems of a volume that is not mounted",
	 .text = "Runs e2fsck or xfs_repair on every split, here. Without "
		 "--repair nothing is written.\n"
		 "Results: sound; unclean: not unmounted, errors show when "
		 "the next mount or --repair\n"
		 "has replayed its log; damaged: the next line says what to "
		 "run. Exit code 1 if not all\n"
		 "are sound or mended.",
	 ROWS(volume_check_rows),
	 .needs_volumes = true,
	 .run = volume_check_run},
	{.words = "volume repair",
	 .arguments = "NAME",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_VOLUME},
	 .summary = "make a volume whole whose splits are lost for good",
	 .text = "For a union after `trib node remove --lost`. The planner "
		 "places the new, empty splits.\n"
		 "Run it where the volume is mounted by `-o degraded`: they "
		 "join it at once. Else they\n"
		 "join at the next mount. Repeat the command if it was "
		 "interrupted.",
	 ROWS(volume_repair_rows),
	 .needs_volumes = true,
	 .run = volume_repair_run},
	{.words = "volume list",
	 .arguments = "",
	 .summary = "all volumes",
	 .needs_volumes = true,
	 .only_looks = true,
	 .run = volume_list_run},
	{.words = "volume show",
	 .arguments = "NAME",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_VOLUME},
	 .summary = "a volume and where each split of it is",
	 .needs_volumes = true,
	 .only_looks = true,
	 .run = volume_show_run},
	{.words = "volume publish",
	 .arguments = "NAME NODE",
	 .min_arguments = 2,
	 .max_arguments = 2,
	 .kinds = {ARGUMENT_VOLUME, ARGUMENT_NODE},
	 .summary = "reserve a volume for a node: no other may mount it",
	 ROWS(volume_publish_rows),
	 .needs_volumes = true,
	 .run = volume_publish_run},
	{.words = "volume unpublish",
	 .arguments = "NAME [NODE]",
	 .min_arguments = 1,
	 .max_arguments = 2,
	 .kinds = {ARGUMENT_VOLUME, ARGUMENT_NODE},
	 .summary = "release the reservation; a node that has it mounted is "
		    "cut off",
	 .text = "Without NODE, of every node. This is for a lost node: "
		 "data that it had not written yet\n"
		 "is lost.",
	 .needs_volumes = true,
	 .run = volume_unpublish_run},
	{.words = "volume delete",
	 .arguments = "NAME",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_VOLUME},
	 .summary = "delete a volume and its data",
	 .needs_volumes = true,
	 .run = volume_delete_run},
	{.words = "volume recover",
	 .arguments = "NAME",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_WORD},
	 .summary = "rebuild a volume's record from its extents",
	 .text = "For a record that is lost, is from an old backup, or has "
		 "the old name of a node or pool.\n"
		 "Use NAME@UID if two volumes had that name. Nothing on the "
		 "extents changes.",
	 .needs_volumes = true,
	 .run = volume_recover_run},
	{.words = "volume orphans",
	 .arguments = "",
	 .summary = "extents without a volume, and volumes without an extent",
	 .text = "--reclaim lists the extents that records gave up with a lost "
		 "node, by their ids, then\n"
		 "deletes them. It waits for a grace since the first scrub that "
		 "saw them. Extents without\n"
		 "any record stay: the records may be from an old backup.",
	 ROWS(volume_orphans_rows),
	 .needs_volumes = true,
	 .only_looks = true,
	 .run = volume_orphans_run},
	{.words = "volume scrub",
	 .arguments = "",
	 .summary = "compare all records with all extents, and keep the result",
	 .text = "`trib status` and `trib doctor` show the last result. "
		 "tributary-scrub.timer runs it daily;\n"
		 "in Kubernetes the controller does, hourly. `trib volume "
		 "orphans` names what it finds.",
	 ROWS(volume_scrub_rows),
	 .needs_volumes = true,
	 .only_looks = true,
	 .run = volume_scrub_run},
	{.words = "snapshot create",
	 .arguments = "SNAPSHOT VOLUME",
	 .min_arguments = 2,
	 .max_arguments = 2,
	 .kinds = {ARGUMENT_WORD, ARGUMENT_VOLUME},
	 .summary = "keep the present content of a volume, mounted or not",
	 .text = "All of its extents are kept at one instant; writes wait "
		 "for that moment. Data that\n"
		 "programs have not flushed by then is not in it. Pools "
		 "that can't share blocks (dir pools\n"
		 "on ext4) copy it: the volume must not be mounted then, "
		 "and the command waits. If the\n"
		 "command is interrupted, the copy goes on.",
	 ROWS(snapshot_create_rows),
	 .needs_volumes = true,
	 .run = snapshot_create_run},
	{.words = "snapshot list",
	 .arguments = "[VOLUME]",
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_VOLUME},
	 .summary = "snapshots of a volume, or all",
	 ROWS(snapshot_list_rows),
	 .needs_volumes = true,
	 .only_looks = true,
	 .run = snapshot_list_run},
	{.words = "snapshot show",
	 .arguments = "SNAPSHOT",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_SNAPSHOT},
	 .summary = "a snapshot, where it is and what deleting it would free",
	 .needs_volumes = true,
	 .only_looks = true,
	 .run = snapshot_show_run},
	{.words = "snapshot delete",
	 .arguments = "SNAPSHOT",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_SNAPSHOT},
	 .summary = "delete a snapshot; its volume and clones stay",
	 .needs_volumes = true,
	 .run = snapshot_delete_run},
	{.words = "snapshot restore",
	 .arguments = "SNAPSHOT NAME",
	 .min_arguments = 2,
	 .max_arguments = 2,
	 .kinds = {ARGUMENT_SNAPSHOT, ARGUMENT_WORD},
	 .summary = "make a new volume from a snapshot",
	 .text = "The new volume shares the pools of the snapshot, or is "
		 "copied to others where these\n"
		 "have no room. The options place what is copied or added.",
	 ROWS(volume_copy_rows),
	 .needs_volumes = true,
	 .run = snapshot_restore_run},
	{.words = "snapshot revert",
	 .arguments = "SNAPSHOT",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_SNAPSHOT},
	 .summary = "set its volume back to it; later writes are lost",
	 .text = "The volume must be mounted nowhere. Its size stays as it "
		 "is.",
	 .needs_volumes = true,
	 .run = snapshot_revert_run},
	{.words = "snapshot group create",
	 .arguments = "GROUP VOLUME...",
	 .min_arguments = 2,
	 .max_arguments = 1 + SNAPSHOT_MEMBERS_MAX,
	 .kinds = {ARGUMENT_WORD, ARGUMENT_VOLUME},
	 .summary = "keep the content of several volumes at one instant",
	 .text = "All or none. The snapshots are called GROUP-0, GROUP-1, in "
		 "the order of the volumes' names.",
	 ROWS(snapshot_create_rows),
	 .needs_volumes = true,
	 .run = group_create_run},
	{.words = "snapshot group list",
	 .arguments = "",
	 .summary = "all groups",
	 .needs_volumes = true,
	 .only_looks = true,
	 .run = group_list_run},
	{.words = "snapshot group show",
	 .arguments = "GROUP",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_GROUP},
	 .summary = "a group and its snapshots",
	 .needs_volumes = true,
	 .only_looks = true,
	 .run = group_show_run},
	{.words = "snapshot group delete",
	 .arguments = "GROUP",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_GROUP},
	 .summary = "delete a group with its snapshots",
	 .needs_volumes = true,
	 .run = group_delete_run},
};
const struct command_group volume_commands = GROUP(commands);
