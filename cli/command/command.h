/* SPDX-License-Identifier: Apache-2.0 */
/* The table of commands: it gives dispatch, help and completion. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include "cli/text/cli.h"

/* What an argument names, for completion. */
enum argument_kind {
	ARGUMENT_NONE,
	ARGUMENT_WORD, /* new or free text: nothing to offer */
	ARGUMENT_NODE,
	ARGUMENT_POOL,
	ARGUMENT_EXTENT,
	ARGUMENT_VOLUME,
	ARGUMENT_SNAPSHOT,
	ARGUMENT_GROUP,
	ARGUMENT_PATH,
};

#define COMMAND_ARGUMENTS_MAX 2

struct command {
	const char *words;     /* "volume create" */
	const char *arguments; /* as shown in help: "NAME DIR" */
	int min_arguments;
	int max_arguments;
	enum argument_kind kinds[COMMAND_ARGUMENTS_MAX];
	const char *summary; /* one line */
	const char *text;    /* more lines for `--help`; NULL: none */
	const struct option_row *rows;
	size_t n_rows;
	bool needs_volumes; /* open the store first */
	/* Run also when the store does not open: cli->store_problem says why.
	 */
	bool tells_of_store;
	bool only_looks; /* a node that is silent is not waited for long */
	int (*run)(struct cli *cli, struct error *err);
};

/* In the order of help; NULL: there are no more. */
const struct command *command_at(size_t index);

/*
 * The command that @words begins with, and how many of them it takes.
 * NULL: none.
 */
const struct command *command_find(char *const *words, int n, int *ret_taken);

/* ---- one file each ---- */

int cluster_init_run(struct cli *cli, struct error *err);
int cluster_invite_run(struct cli *cli, struct error *err);
int cluster_join_run(struct cli *cli, struct error *err);

int pki_init_run(struct cli *cli, struct error *err);
int pki_issue_run(struct cli *cli, struct error *err);
int pki_renew_run(struct cli *cli, struct error *err);
int pki_show_run(struct cli *cli, struct error *err);

int node_add_run(struct cli *cli, struct error *err);
int node_register_run(struct cli *cli, struct error *err);
int node_remove_run(struct cli *cli, struct error *err);
int node_cordon_run(struct cli *cli, struct error *err);
int node_uncordon_run(struct cli *cli, struct error *err);
int node_drain_run(struct cli *cli, struct error *err);
int node_list_run(struct cli *cli, struct error *err);
int node_show_run(struct cli *cli, struct error *err);

int pool_create_run(struct cli *cli, struct error *err);
int pool_list_run(struct cli *cli, struct error *err);
int pool_delete_run(struct cli *cli, struct error *err);
int pool_cordon_run(struct cli *cli, struct error *err);
int pool_uncordon_run(struct cli *cli, struct error *err);
int pool_drain_run(struct cli *cli, struct error *err);
int pool_check_run(struct cli *cli, struct error *err);
int pool_grow_run(struct cli *cli, struct error *err);

int extent_create_run(struct cli *cli, struct error *err);
int extent_list_run(struct cli *cli, struct error *err);
int extent_show_run(struct cli *cli, struct error *err);
int extent_resize_run(struct cli *cli, struct error *err);
int extent_delete_run(struct cli *cli, struct error *err);
int extent_export_run(struct cli *cli, struct error *err);
int extent_unexport_run(struct cli *cli, struct error *err);
int extent_snapshot_run(struct cli *cli, struct error *err);
int extent_clone_run(struct cli *cli, struct error *err);
int extent_revert_run(struct cli *cli, struct error *err);
int extent_limit_run(struct cli *cli, struct error *err);
int extent_stats_run(struct cli *cli, struct error *err);
int extent_ranges_run(struct cli *cli, struct error *err);

int volume_create_run(struct cli *cli, struct error *err);
int volume_resize_run(struct cli *cli, struct error *err);
int volume_list_run(struct cli *cli, struct error *err);
int volume_show_run(struct cli *cli, struct error *err);
int volume_publish_run(struct cli *cli, struct error *err);
int volume_unpublish_run(struct cli *cli, struct error *err);
int volume_delete_run(struct cli *cli, struct error *err);
int volume_recover_run(struct cli *cli, struct error *err);
int volume_orphans_run(struct cli *cli, struct error *err);
int volume_scrub_run(struct cli *cli, struct error *err);

int volume_clone_run(struct cli *cli, struct error *err);
int volume_limit_run(struct cli *cli, struct error *err);
int volume_move_run(struct cli *cli, struct error *err);
int volume_rebalance_run(struct cli *cli, struct error *err);
int volume_repair_run(struct cli *cli, struct error *err);
int volume_trim_run(struct cli *cli, struct error *err);
int volume_check_run(struct cli *cli, struct error *err);

int snapshot_create_run(struct cli *cli, struct error *err);
int snapshot_list_run(struct cli *cli, struct error *err);
int snapshot_show_run(struct cli *cli, struct error *err);
int snapshot_delete_run(struct cli *cli, struct error *err);
int snapshot_restore_run(struct cli *cli, struct error *err);
int snapshot_revert_run(struct cli *cli, struct error *err);
int group_create_run(struct cli *cli, struct error *err);
int group_list_run(struct cli *cli, struct error *err);
int group_show_run(struct cli *cli, struct error *err);
int group_delete_run(struct cli *cli, struct error *err);

int mount_run(struct cli *cli, struct error *err);
int umount_run(struct cli *cli, struct error *err);

int attach_run(struct cli *cli, struct error *err);
int detach_run(struct cli *cli, struct error *err);
int devices_run(struct cli *cli, struct error *err);

int union_status_run(struct cli *cli, struct error *err);
int union_explain_run(struct cli *cli, struct error *err);
int union_add_run(struct cli *cli, struct error *err);
int union_set_run(struct cli *cli, struct error *err);
int union_remove_run(struct cli *cli, struct error *err);
int union_policy_run(struct cli *cli, struct error *err);
int union_upgrade_run(struct cli *cli, struct error *err);
int union_drain_run(struct cli *cli, struct error *err);

int top_run(struct cli *cli, struct error *err);
int status_run(struct cli *cli, struct error *err);
int doctor_run(struct cli *cli, struct error *err);
int events_run(struct cli *cli, struct error *err);
int complete_run(struct cli *cli, struct error *err);
int help_run(struct cli *cli, struct error *err);

#endif
