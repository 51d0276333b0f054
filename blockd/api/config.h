/* SPDX-License-Identifier: Apache-2.0 */
/*
 * blockd's options: one table for the flags, /etc/tributary/blockd.conf and
 * --help. What each means is in the table's text (config.c).
 */
#ifndef BLOCKD_CONFIG_H
#define BLOCKD_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "blockd/pool/pool_record.h"

#define CONFIG_FILE "/etc/tributary/blockd.conf"

struct config {
	char *file;
	char *node_name;
	char *state_dir;
	char *run_dir;
	struct option_list control;
	char *tls_ca;
	char *tls_cert;
	char *tls_key;
	bool allow_plain_tcp;
	char *metrics_address; /* NULL: none */
	struct option_list listen;
	struct option_list listen_iscsi; /* empty: no iSCSI */
	char *iscsi_secrets;             /* directory; NULL: no CHAP */
	uint64_t low_space;    /* percent of a pool; 0: nobody is told */
	char *iscsi_discovery; /* file; NULL: discovery is free */
	char *nbd_tls;         /* off, offered, required */
	char *nbd_tls_cert;
	char *nbd_tls_key;
	char *nbd_tls_ca;
	char *nbd_tls_psk;
	struct option_list pools;   /* "NAME=PATH" */
	struct option_list devices; /* patterns: devices.h */
	uint64_t pool_capacity;     /* bytes; 0: what the file system has */
	uint64_t overcommit_percent;
	uint64_t floor; /* bytes; 0: by the medium */
	bool direct_io;
	bool direct; /* runs: blockd/direct/ */
	uint64_t loops;
	uint64_t max_connections;
	uint64_t peer_timeout;      /* seconds */
	struct option_list without; /* features of the loops */
	char *log_level;
	bool check_config;
	char *check_pool; /* path; NULL: serve */
	bool repair;
	bool help;
	bool version;
	enum log_level level;   /* log_level, parsed */
	unsigned loops_without; /* @without, parsed */
};

/*
 * Defaults, then the file, then the flags; everything checked. A file that
 * was not named by --config may be missing. config_done() frees, also after a
 * failure. -EINVAL and others: the text says what is wrong where.
 */
int config_load(struct config *config, int argc, char **argv,
		struct error *err);
void config_done(struct config *config);

/* Cut "NAME=PATH" up. @ret_path borrows from @text. */
int config_pool(const char *text, char ret_name[static POOL_NAME_SIZE],
		const char **ret_path, struct error *err);

void config_help(FILE *out);

#endif
