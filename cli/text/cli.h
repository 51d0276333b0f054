/* SPDX-License-Identifier: Apache-2.0 */
/* One run of `trib`: its options, its arguments, its answer. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <json-c/json.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/options.h"
#include "cli/text/reference.h"
#include "volume/volume.h"

/* Of all commands; each command's table lists those it takes. */
struct cli_options {
	/* every command */
	char *config;
	char *store;
	char *node;
	char *run_dir;
	char *launcher;
	char *source_address;
	char *iscsi_secrets;
	bool json;
	bool quiet;
	bool help;
	bool version;

	/* nodes */
	char *control;
	char *data;
	char *tls_ca;
	char *tls_cert;
	char *tls_key;
	char *tls_name;
	char *name;
	char *advertise_control;
	bool keep;

	/* hosts and certificates */
	char *address;
	char *ca;
	char *out;
	uint64_t days;
	bool server, client;
	struct option_list hosts;
	struct option_list pools;

	/* pools and extents */
	char *pool;
	uint64_t size;         /* bytes */
	uint64_t capacity;     /* bytes */
	uint64_t overcommit;   /* percent */
	uint64_t cluster_size; /* bytes */
	bool raw;
	uint64_t epoch;
	char *target;
	uint64_t lun;
	char *account;
	char *older;
	uint64_t start; /* bytes */
	bool thick;
	bool repair;
	struct option_list allow;
	struct option_list label;

	/* volumes */
	char *layout;
	char *fs;
	char *mount_options;
	char *note;
	char *policy;
	char *placement;
	char *local;
	char *transport;
	char *from_snapshot;
	char *from_volume;
	char *iops;
	char *bandwidth;
	bool all;
	uint64_t splits;
	uint64_t max_splits;
	uint64_t max_extent; /* bytes */
	uint64_t stripe_width;
	uint64_t stripe_unit; /* bytes */
	bool share_pools;
	bool shared;
	struct option_list on;
	struct option_list not_on;
	struct option_list in_pool;
	struct option_list node_label;

	bool read_only;
	bool force, lost;
	uint64_t grace; /* seconds */
	bool watch;
	bool only_host;
	bool once;
	bool stop;

	/* moves */
	char *split, *to;
	bool cancel, dry_run;

	bool forget_lost;

	/* orphans */
	bool reclaim;
	uint64_t reclaim_grace; /* seconds */
	uint64_t every;         /* seconds */
};

struct cli {
	struct cli_options options;
	char **arguments; /* after the command's words; borrowed */
	int n_arguments;
	struct volume_context *volumes; /* NULL where the command needs none */
	struct error store_problem;     /* why volumes is NULL all the same */
	int stop_fd; /* readable: a signal says stop; 0 with no volumes */
	struct json_object *answer; /* owned; printed with --json */
	bool wrong_usage;           /* cli_usage() was called */
};

/* Every command has these. */
extern const struct option_row cli_global_rows[];
extern const size_t cli_global_rows_count;

/* Argument @index, or NULL. */
const char *cli_argument(const struct cli *cli, int index);

/* A pool or extent named by argument @index; this node when it names none. */
int cli_reference(const struct cli *cli, int index, const char *what,
		  struct reference *ret, struct error *err);

/* --label KEY=VALUE... labels_done() by the caller, also on failure. */
int cli_labels(const struct option_list *list, struct labels *ret,
	       struct error *err);

/*
 * With --json: keep @answer (takes it) for the end and return true. Without:
 * free it and return false; the command prints for people.
 */
bool cli_answer(struct cli *cli, struct json_object *answer);

/* The answer of a command that lists: both are filled, one is printed. */
struct cli_list {
	struct json_object *all; /* owned; an array */
	struct table *table;     /* owned */
};

/* Answer with @list unless @r is an error; end @list. Returns @r. */
int cli_list_end(struct cli *cli, struct cli_list *list, int r);

/* An option is missing or senseless: -EINVAL, and the exit code of usage. */
int cli_usage(struct cli *cli, struct error *err, const char *text);

/* What a command says when it is done, to people only. */
void cli_say(const struct cli *cli, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#define CLI_TIME_SIZE 32 /* bytes with NUL */

/*
 * "2026-01-31 10:00:00" in UTC, of seconds since 1970; "-" for 0: never. @buf:
 * CLI_TIME_SIZE bytes.
 */
const char *cli_time(char *buf, int64_t seconds);

/* @path from the root of the file system; returned owned, or NULL. */
char *cli_absolute(const char *path, struct error *err);

#endif
