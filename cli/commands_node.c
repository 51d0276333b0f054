/* SPDX-License-Identifier: Apache-2.0 */
/* Nodes, and the pools on them. */
#include "cli/command/command_group.h"

#define ALLOW_ROW                                      \
	ROW("allow", 0, OPTION_LIST, allow, "ADDRESS", \
	    "source addresses of its connections, if not found alone")

/* How its blockd is reached. */
#define TLS_ROWS                                                    \
	ROW("tls-ca", 0, OPTION_STRING, tls_ca, "FILE",             \
	    "authority that signed its certificate (PEM)"),         \
		ROW("tls-cert", 0, OPTION_STRING, tls_cert, "FILE", \
		    "certificate of this side"),                    \
		ROW("tls-key", 0, OPTION_STRING, tls_key, "FILE",   \
		    "key of that certificate"),                     \
		ROW("tls-name", 0, OPTION_STRING, tls_name, "NAME", \
		    "name in its certificate, if not the host")

static const struct option_row node_add_rows[] = {
	ROW("control", 0, OPTION_STRING, control, "ADDRESS",
	    "its blockd: unix:/path or tcp:HOST:PORT"),
	ROW("data", 0, OPTION_STRING, data, "ADDRESS",
	    "its NBD server: HOST:PORT or unix:/path"),
	ALLOW_ROW,
	ROW("label", 'l', OPTION_LIST, label, "KEY=VALUE",
	    "for placement: zone, rack..."),
	TLS_ROWS,
};

static const struct option_row node_remove_rows[] = {
	ROW("lost", 0, OPTION_FLAG, lost, NULL,
	    "also with extents of volumes: the node is lost for good"),
	ROW("grace", 0, OPTION_NUMBER, grace, "SECONDS",
	    "with --lost: only if it was not heard of for so long (3600)"),
};

static const struct option_row node_register_rows[] = {
	ROW("keep", 'k', OPTION_FLAG, keep, NULL,
	    "go on: send heartbeats and the state of its pools, until "
	    "stopped"),
	ROW("name", 0, OPTION_STRING, name, "NAME", "its name (this node's)"),
	ROW("control", 0, OPTION_STRING, control, "ADDRESS",
	    "its blockd, from here: unix:/path or tcp:HOST:PORT"),
	ROW("advertise-control", 0, OPTION_STRING, advertise_control, "ADDRESS",
	    "its blockd, for others (the same)"),
	ROW("data", 0, OPTION_STRING, data, "ADDRESS",
	    "its NBD server: HOST:PORT or unix:/path"),
	ROW("labels", 'l', OPTION_LIST, label, "KEY=VALUE",
	    "for placement: zone, rack... (existing ones stay)"),
	ALLOW_ROW,
	TLS_ROWS,
};

static const struct option_row pool_create_rows[] = {
	ROW("capacity", 0, OPTION_SIZE, capacity, "SIZE",
	    "give extents this much (the size of the medium; of an "
	    "existing pool: as before)"),
	ROW("overcommit", 0, OPTION_NUMBER, overcommit, "PERCENT",
	    "promise this much of the capacity (100; as before)"),
	ROW("cluster-size", 0, OPTION_SIZE, cluster_size, "SIZE",
	    "unit of allocation of a raw pool (1 MiB; a power of two, "
	    "64 KiB to 64 MiB)"),
	ROW("raw", 0, OPTION_FLAG, raw, NULL,
	    "PATH is a block device or file: refuse a directory"),
	ROW("force", 'f', OPTION_FLAG, force, NULL,
	    "also a device or file with other content, which is lost"),
};

static const struct option_row pool_check_rows[] = {
	ROW("repair", 0, OPTION_FLAG, repair, NULL,
	    "free unused clusters, and rewrite damaged metadata"),
};

static const struct command commands[] = {
	{.words = "node add",
	 .arguments = "NAME",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_WORD},
	 .summary = "register a node, or change its registration",
	 .text = "Without --control and --data the node only uses volumes.",
	 ROWS(node_add_rows),
	 .needs_volumes = true,
	 .run = node_add_run},
	{.words = "node register",
	 .arguments = "",
	 .summary = "register this machine, and send its heartbeats",
	 .text = "With --keep it goes on until it is stopped. A node that "
		 "is silent for 40 s is lost,\n"
		 "and commands do not wait for it. Without --control the "
		 "node only uses volumes.",
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
	{.words = "node cordon",
	 .arguments = "NODE",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_NODE},
	 .summary = "place nothing new on a node",
	 .text = "Extents that are there stay, are used and may grow.",
	 .needs_volumes = true,
	 .run = node_cordon_run},
	{.words = "node uncordon",
	 .arguments = "NODE",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_NODE},
	 .summary = "place extents on a node again",
	 .text = "Pools that were cordoned by themselves stay so.",
	 .needs_volumes = true,
	 .run = node_uncordon_run},
	{.words = "node drain",
	 .arguments = "NODE",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_NODE},
	 .summary = "cordon a node, and move its splits elsewhere",
	 .text = "Each split goes where the planner puts it by its volume's "
		 "placement. Splits of volumes\n"
		 "that are attached stay: unmount these, and repeat. Extents "
		 "of snapshots stay, too.",
	 .needs_volumes = true,
	 .run = node_drain_run},
	{.words = "node remove",
	 .arguments = "NAME",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_NODE},
	 .summary = "remove a node without extents of a volume",
	 .text = "--lost: a node that will not come back. Its splits are lost "
		 "then, also if it does.\n"
		 "Their volumes can be deleted; a union is mounted by `-o "
		 "degraded` or made whole by\n"
		 "`trib volume repair`. A node without heartbeats needs "
		 "--grace 0: nothing tells since\n"
		 "when it is silent.",
	 ROWS(node_remove_rows),
	 .needs_volumes = true,
	 .run = node_remove_run},
	{.words = "pool create",
	 .arguments = "[NODE/]POOL PATH",
	 .min_arguments = 2,
	 .max_arguments = 2,
	 .kinds = {ARGUMENT_NODE, ARGUMENT_PATH},
	 .summary = "make a pool of a directory, device or file of a node",
	 .text = "An existing pool, from another node or place, is taken up "
		 "as it is. Settings given here\n"
		 "replace its own, and the command says so.\n"
		 "\n"
		 "What 4 KiB requests get of the disk, used on its own node "
		 "(reads, writes):\n"
		 "  a directory                             0.9, 0.6\n"
		 "  a device                                0.3, 0.3\n"
		 "  a device, blockd with direct = yes      0.9, 0.8 (in a "
		 "virtual machine)\n"
		 "A device has snapshots and clones by sharing on any disk; a "
		 "directory has them on XFS\nand Btrfs.",
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
	 .summary = "delete an empty pool",
	 .needs_volumes = true,
	 .run = pool_delete_run},
	{.words = "pool cordon",
	 .arguments = "[NODE/]POOL",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_POOL},
	 .summary = "place nothing new in a pool",
	 .text = "Extents that are there stay, are used and may grow.",
	 .needs_volumes = true,
	 .run = pool_cordon_run},
	{.words = "pool uncordon",
	 .arguments = "[NODE/]POOL",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_POOL},
	 .summary = "place extents in a pool again",
	 .needs_volumes = true,
	 .run = pool_uncordon_run},
	{.words = "pool drain",
	 .arguments = "[NODE/]POOL",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_POOL},
	 .summary = "cordon a pool, and move its splits elsewhere",
	 .text = "As `trib node drain`; other pools of the node may take them.",
	 .needs_volumes = true,
	 .run = pool_drain_run},
	{.words = "pool check",
	 .arguments = "[NODE/]POOL",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_POOL},
	 .summary = "verify a pool's metadata, while it is used",
	 .text = "Prints a line for each error; exit code 1 if errors "
		 "remain. Pools of kind \"dir\" have\n"
		 "nothing to verify.",
	 ROWS(pool_check_rows),
	 .needs_volumes = true,
	 .run = pool_check_run},
	{.words = "pool grow",
	 .arguments = "[NODE/]POOL",
	 .min_arguments = 1,
	 .max_arguments = 1,
	 .kinds = {ARGUMENT_POOL},
	 .summary = "use the new space of a device or file that has grown",
	 .needs_volumes = true,
	 .run = pool_grow_run},
};
const struct command_group node_commands = GROUP(commands);
