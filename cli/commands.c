/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/command.h"
#include "volume/snapshot.h"

#define ROW(name, letter, type, field, argument, help)                   \
	{                                                                \
		name, letter, type, offsetof(struct cli_options, field), \
			argument, help, NULL, 0, 0                       \
	}
#define ROWS(table) .rows = (table), .n_rows = array_size(table)

static const struct option_row status_rows[] = {
	ROW("watch", 'w', OPTION_FLAG, watch, NULL,
	    "go on: show it again when something changes"),
};

static const struct option_row node_add_rows[] = {
	ROW("control", 0, OPTION_STRING, control, "ADDRESS",
	    "its blockd: unix:/path or tcp:HOST:PORT"),
	ROW("data", 0, OPTION_STRING, data, "ADDRESS",
	    "its NBD server: HOST:PORT or unix:/path"),
	ROW("allow", 0, OPTION_LIST, allow, "ADDRESS",
	    "addresses its own connections come from, if not found alone"),
	ROW("label", 'l', OPTION_LIST, label, "KEY=VALUE",
	    "for placement: zone, rack..."),
	ROW("tls-ca", 0, OPTION_STRING, tls_ca, "FILE",
	    "authority that signed its certificate (PEM)"),
	ROW("tls-cert", 0, OPTION_STRING, tls_cert, "FILE",
	    "certificate to show it"),
	ROW("tls-key", 0, OPTION_STRING, tls_key, "FILE",
	    "key of that certificate"),
	ROW("tls-name", 0, OPTION_STRING, tls_name, "NAME",
	    "name in its certificate, if not the host"),
};

static const struct option_row node_register_rows[] = {
	ROW("keep", 'k', OPTION_FLAG, keep, NULL,
	    "go on: heartbeats, and what it has, until stopped"),
	ROW("name", 0, OPTION_STRING, name, "NAME", "its name (this node's)"),
	ROW("control", 0, OPTION_STRING, control, "ADDRESS",
	    "its blockd, from here: unix:/path or tcp:HOST:PORT"),
	ROW("advertise-control", 0, OPTION_STRING, advertise_control, "ADDRESS",
	    "its blockd, for others (the same)"),
	ROW("data", 0, OPTION_STRING, data, "ADDRESS",
	    "its NBD server: HOST:PORT or unix:/path"),
	ROW("labels", 'l', OPTION_LIST, label, "KEY=VALUE",
	    "for placement: zone, rack... (those known stay)"),
	ROW("allow", 0, OPTION_LIST, allow, "ADDRESS",
	    "addresses its own connections come from, if not found alone"),
	ROW("tls-ca", 0, OPTION_STRING, tls_ca, "FILE",
	    "authority that signed its certificate (PEM)"),
	ROW("tls-cert", 0, OPTION_STRING, tls_cert, "FILE",
	    "certificate to show it"),
	ROW("tls-key", 0, OPTION_STRING, tls_key, "FILE",
	    "key of that certificate"),
	ROW("tls-name", 0, OPTION_STRING, tls_name, "NAME",
	    "name in its certificate, if not the host"),
};

static const struct option_row pool_create_rows[] = {
	ROW("capacity", 0, OPTION_SIZE, capacity, "SIZE",
	    "give extents this much (what the medium has)"),
	ROW("overcommit", 0, OPTION_NUMBER, overcommit, "PERCENT",
	    "promise this much of the capacity (100)"),
	ROW("force", 'f', OPTION_FLAG, force, NULL,
	    "a device or file may hold something else; it is lost"),
};

#define LIMIT_ROWS                                                    \
	ROW("iops", 0, OPTION_STRING, iops, "N",                      \
	    "operations a second at most, or none"),                  \
		ROW("bandwidth", 0, OPTION_STRING, bandwidth, "SIZE", \
		    "bytes a second at most, or none")

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
	LIMIT_ROWS};

static const struct option_row extent_limit_rows[] = {LIMIT_ROWS};

static const struct option_row extent_ranges_rows[] = {
	ROW("older", 'o', OPTION_STRING, older, "SNAPSHOT",
	    "where it differs from this one of the same extent"),
	ROW("start", 0, OPTION_SIZE, start, "OFFSET",
	    "only what ends after it (0)"),
};

static const struct option_row pool_check_rows[] = {
	ROW("repair", 0, OPTION_FLAG, repair, NULL,
	    "give back what nobody uses"),
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
	    "who may connect: an address, a prefix, unix, any"),
	ROW("epoch", 'e', OPTION_NUMBER, epoch, "NUMBER",
	    "fence everyone older"),
	ROW("read-only", 'r', OPTION_FLAG, read_only, NULL, "refuse writes"),
	ROW("force", 'f', OPTION_FLAG, force, NULL,
	    "although it is part of a volume"),
};

/* Of all that make volumes, but for how large and from what. */
#define VOLUME_ROWS                                                                   \
	ROW("policy", 0, OPTION_STRING, policy, "NAME",                               \
	    "where new files go: mfs, ff, epmfs, local (mfs)"),                       \
		ROW("transport", 0, OPTION_STRING, transport, "NAME",                 \
		    "auto, nbd or fuse for remote splits (auto)"),                    \
		ROW("splits", 0, OPTION_NUMBER, splits, "N",                          \
		    "at least this many extents (as few as serve)"),                  \
		ROW("max-splits", 0, OPTION_NUMBER, max_splits, "N",                  \
		    "at most this many"),                                             \
		ROW("max-extent", 0, OPTION_SIZE, max_extent, "SIZE",                 \
		    "no extent larger than this"),                                    \
		ROW("share-pools", 0, OPTION_FLAG, share_pools, NULL,                 \
		    "several extents may lie in one pool"),                           \
		ROW("placement", 0, OPTION_STRING, placement, "NAME",                 \
		    "balanced: fill pools evenly; packed: the fullest first; local: " \
		    "one node's first (balanced)"),                                   \
		ROW("local", 0, OPTION_STRING, local, "NODE",                         \
		    "with --placement local: that node (this one)"),                  \
		ROW("on", 0, OPTION_LIST, on, "NODE", "only on these nodes"),         \
		ROW("not-on", 0, OPTION_LIST, not_on, "NODE",                         \
		    "never on these"),                                                \
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
	    "begin with its content"),
	ROW("from-volume", 0, OPTION_STRING, from_volume, "VOLUME",
	    "begin with its content, as it is now"),
	ROW("layout", 0, OPTION_STRING, layout, "NAME",
	    "union: a tree; linear: a block device of one extent (union)"),
	ROW("fs", 0, OPTION_STRING, fs, "TYPE",
	    "file system of the splits: ext4 or xfs (ext4)"),
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
	    "also those that are there only to clone from"),
};

static const struct option_row volume_resize_rows[] = {
	ROW("size", 's', OPTION_SIZE, size, "SIZE",
	    "the new, larger size of the whole volume"),
};

static const struct option_row volume_publish_rows[] = {
	ROW("read-only", 'r', OPTION_FLAG, read_only, NULL,
	    "that node may only read"),
	ROW("shared", 0, OPTION_FLAG, shared, NULL,
	    "with --read-only: others may read at the same time"),
	ROW("note", 0, OPTION_STRING, note, "TEXT", "kept with it"),
};

static const struct option_row mount_rows[] = {
	ROW("options", 'o', OPTION_STRING, mount_options, "LIST",
	    "of mount(8), with commas: noatime,nosuid,discard..."),
	ROW("transport", 0, OPTION_STRING, transport, "NAME",
	    "auto, nbd or fuse for remote splits (the volume's)"),
	ROW("read-only", 'r', OPTION_FLAG, read_only, NULL,
	    "nothing is written"),
	ROW("force", 'f', OPTION_FLAG, force, NULL,
	    "fence the node that has it"),
};

static const struct option_row umount_rows[] = {
	ROW("force", 'f', OPTION_FLAG, force, NULL,
	    "although files are open; their users get errors"),
};

static const struct option_row attach_rows[] = {
	ROW("transport", 0, OPTION_STRING, transport, "NAME",
	    "auto, loop, nbd or fuse (auto)"),
	ROW("read-only", 'r', OPTION_FLAG, read_only, NULL,
	    "nothing is written"),
	ROW("force", 'f', OPTION_FLAG, force, NULL,
	    "part of a volume, or attached elsewhere: fence that"),
};

const struct command commands[] = {
	{.words = "status",
	 .arguments = "",
	 .summary = "nodes, pools, volumes and what is wrong with them",
	 ROWS(status_rows),
	 .needs_volumes = true,
	 .only_looks = true,
	 .run = status_run},
	{.words = "node add",
	 .arguments = "NAME",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_WORD},
	 .summary = "make a node known, or change what is known of it",
	 .text = "Without --control and --data it is a machine that only uses "
		 "volumes.",
	 ROWS(node_add_rows),
	 .needs_volumes = true,
	 .run = node_add_run},
	{.words = "node register",
	 .arguments = "",
	 .summary = "make this machine known, and keep it known",
	 .text = "With --keep it goes on until it is stopped: a node that is "
		 "not heard of for 40 s is\nlost, and is not waited for. "
		 "Without --control it is a machine that only uses volumes.",
	 ROWS(node_register_rows),
	 .needs_volumes = true,
	 .run = node_register_run},
	{.words = "node list",
	 .arguments = "",
	 .summary = "nodes, and which of them answer",
	 .needs_volumes = true,
	 .only_looks = true,
	 .run = node_list_run},
	{.words = "node show",
	 .arguments = "[NAME]",
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_NODE},
	 .summary = "a node, its pools, and how it can attach extents",
	 .needs_volumes = true,
	 .only_looks = true,
	 .run = node_show_run},
	{.words = "node remove",
	 .arguments = "NAME",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_NODE},
	 .summary = "forget a node that holds nothing of a volume",
	 .needs_volumes = true,
	 .run = node_remove_run},
	{.words = "pool create",
	 .arguments = "[NODE/]POOL PATH",
	 .min_arguments = 2,
	 .max_arguments = 2,
	 .kinds = {ARGUMENT_NODE, ARGUMENT_PATH},
	 .summary = "make a directory, device or file of a node a pool",
	 ROWS(pool_create_rows),
	 .needs_volumes = true,
	 .run = pool_create_run},
	{.words = "pool list",
	 .arguments = "[NODE]",
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_NODE},
	 .summary = "pools of a node, or of all",
	 .needs_volumes = true,
	 .only_looks = true,
	 .run = pool_list_run},
	{.words = "pool delete",
	 .arguments = "[NODE/]POOL",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_POOL},
	 .summary = "give up an empty pool",
	 .needs_volumes = true,
	 .run = pool_delete_run},
	{.words = "pool check",
	 .arguments = "[NODE/]POOL",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_POOL},
	 .summary = "verify all that a pool knows of itself, while it is used",
	 .text = "Prints what is wrong, a line each; exit code 1 when something "
		 "still is. Pools of kind\n\"dir\" have nothing to verify.",
	 ROWS(pool_check_rows),
	 .needs_volumes = true,
	 .run = pool_check_run},
	{.words = "pool grow",
	 .arguments = "[NODE/]POOL",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_POOL},
	 .summary = "use all of a device or file that has become larger",
	 .needs_volumes = true,
	 .run = pool_grow_run},
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
	 .summary = "serve an extent by NBD to any client",
	 .text = "Prints the URI to give to the client. Only who is named by "
		 "--allow may connect.",
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
	{.words = "volume create",
	 .arguments = "NAME",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_WORD},
	 .summary = "make a volume, larger than any node if need be",
	 .text = "A single file lies on one split, so the largest file is "
		 "smaller than the volume:\n`trib volume show` tells how "
		 "large. File systems take a few percent of the size.",
	 ROWS(volume_create_rows),
	 .needs_volumes = true,
	 .run = volume_create_run},
	{.words = "volume clone",
	 .arguments = "VOLUME NAME",
	 .min_arguments = 2,
	 .max_arguments = 2,
	 .kinds = {ARGUMENT_VOLUME, ARGUMENT_WORD},
	 .summary = "make a volume of another's content, as it is now",
	 .text = "The other may be mounted and written to. The new one is in "
		 "the same pools; what it\nis more than its source goes where "
		 "the options say.",
	 ROWS(volume_copy_rows),
	 .needs_volumes = true,
	 .run = volume_clone_run},
	{.words = "volume limit",
	 .arguments = "NAME",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_VOLUME},
	 .summary = "limit the I/O of a volume, mounted or not",
	 .text = "Each extent gets its part by size; a file, which lies on one, "
		 "gets that part. What is\nnot said stays as it is.",
	 ROWS(volume_limit_rows),
	 .needs_volumes = true,
	 .run = volume_limit_run},
	{.words = "volume resize",
	 .arguments = "NAME",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_VOLUME},
	 .summary = "make a volume larger, mounted or not",
	 .text = "It grows in the pools where it is; what these cannot hold "
		 "becomes new extents on\nother nodes, new branches of the "
		 "mounted volume. File systems grow, and branches join,\n"
		 "on the node that has it mounted: repeat the command there, "
		 "or they do at the next mount.",
	 ROWS(volume_resize_rows),
	 .needs_volumes = true,
	 .run = volume_resize_run},
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
	 .summary = "take that back; a node that has it mounted is cut off",
	 .text = "Without NODE from every node. Meant for a node that is lost: "
		 "what it had not written yet\nis gone for it.",
	 .needs_volumes = true,
	 .run = volume_unpublish_run},
	{.words = "volume delete",
	 .arguments = "NAME",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_VOLUME},
	 .summary = "delete a volume and what is on it",
	 .needs_volumes = true,
	 .run = volume_delete_run},
	{.words = "volume orphans",
	 .arguments = "",
	 .summary = "extents without a volume, and volumes without an extent",
	 .needs_volumes = true,
	 .only_looks = true,
	 .run = volume_orphans_run},
	{.words = "snapshot create",
	 .arguments = "SNAPSHOT VOLUME",
	 .min_arguments = 2,
	 .max_arguments = 2,
	 .kinds = {ARGUMENT_WORD, ARGUMENT_VOLUME},
	 .summary = "keep what a volume holds now, mounted or not",
	 .text = "All of its extents are cut at one instant; writes wait for "
		 "that moment. What programs\nhave not flushed by then is not "
		 "in it. Pools that can't share blocks (dir pools on ext4)\n"
		 "copy it: the volume must not be mounted then, and the "
		 "command waits; interrupted,\nthe copy goes on.",
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
	 .summary = "make a new volume of a snapshot",
	 .text = "It is in the same pools; what it is more than the snapshot "
		 "goes where the options say.",
	 ROWS(volume_copy_rows),
	 .needs_volumes = true,
	 .run = snapshot_restore_run},
	{.words = "snapshot revert",
	 .arguments = "SNAPSHOT",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_SNAPSHOT},
	 .summary = "take its volume back to it; what came after is lost",
	 .text = "The volume is mounted nowhere. Its size stays as it is.",
	 .needs_volumes = true,
	 .run = snapshot_revert_run},
	{.words = "snapshot group create",
	 .arguments = "GROUP VOLUME...",
	 .min_arguments = 2,
	 .max_arguments = 1 + SNAPSHOT_MEMBERS_MAX,
	 .kinds = {ARGUMENT_WORD, ARGUMENT_VOLUME},
	 .summary = "keep what several volumes hold at one instant",
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
	{.words = "mount",
	 .arguments = "VOLUME [DIR]",
	 .min_arguments = 1,
	 .max_arguments = 2,
	 .kinds = {ARGUMENT_VOLUME, ARGUMENT_PATH},
	 .summary = "mount a volume here; repairs a mount that broke",
	 .text = "A linear volume has no DIR: it becomes a block device, whose "
		 "name is printed.",
	 ROWS(mount_rows),
	 .needs_volumes = true,
	 .run = mount_run},
	{.words = "umount",
	 .arguments = "VOLUME|DIR",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_VOLUME},
	 .summary = "unmount a volume and let go of its extents",
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
	 .summary = "what may follow, for the shell's completion",
	 .run = complete_run},
	{.words = "help",
	 .arguments = "[COMMAND...]",
	 .max_arguments = 8,
	 .summary = "all commands, or one of them",
	 .run = help_run},
};
const size_t commands_count = array_size(commands);

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
	for (size_t i = 0; i < commands_count; i++) {
		int taken = words_match(commands[i].words, words, n);

		if (taken > 0) {
			*ret_taken = taken;
			return &commands[i];
		}
	}
	return NULL;
}
