/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/api/config.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/loop/loop.h"
#include "base/uuid_name.h"
#include "blockd/pool/extent_record.h"
#include "blockd/pool/space.h"
#include "target/target.h"

static const struct option_row rows[] = {
	{"config", 'c', OPTION_STRING, offsetof(struct config, file), "FILE",
	 "read this file", CONFIG_FILE, 0, 0},
	{"node-name", 'n', OPTION_STRING, offsetof(struct config, node_name),
	 "NAME", "name of this node (default: the host name)", NULL, 0, 0},
	{"pool", 'p', OPTION_LIST, offsetof(struct config, pools), "NAME=PATH",
	 "serve this pool; an empty directory is formatted when no pool of "
	 "that name was known before",
	 NULL, 0, 0},
	{"devices", 0, OPTION_LIST, offsetof(struct config, devices), "PATTERN",
	 "make each blank disk with such a path a pool, at the start; the "
	 "others are left alone, and the log says why",
	 NULL, 0, 0},
	{"pool-capacity", 0, OPTION_SIZE,
	 offsetof(struct config, pool_capacity), "SIZE",
	 "bytes that a pool of --pool promises; this changes an "
	 "existing pool, too (0: an existing pool as it is, a new "
	 "one the size of its medium)",
	 "0", 0, EXTENT_SIZE_MAX * 1024},
	{"overcommit", 0, OPTION_NUMBER,
	 offsetof(struct config, overcommit_percent), "PERCENT",
	 "part of its capacity that a pool formatted by --pool "
	 "promises",
	 "100", SPACE_OVERCOMMIT_MIN, SPACE_OVERCOMMIT_MAX},
	{"floor", 0, OPTION_SIZE, offsetof(struct config, floor), "SIZE",
	 "bytes of every pool's file system that are never promised (0: 1 % "
	 "of it, from 64 MiB to 16 GiB)",
	 "0", 0, 0},
	{"direct-io", 0, OPTION_FLAG, offsetof(struct config, direct_io), NULL,
	 "read and write extents past the page cache (blocks of 4 KiB)", "no",
	 0, 0},
	{"direct", 0, OPTION_FLAG, offsetof(struct config, direct), NULL,
	 "let attachments of this node pass by blockd where they can, "
	 "straight to the disk of a raw pool (needs device mapper)",
	 "no", 0, 0},
	{"listen", 'l', OPTION_LIST, offsetof(struct config, listen), "ADDRESS",
	 "serve NBD at tcp:HOST:PORT or unix:PATH", "tcp:0.0.0.0:10809", 0, 0},
	{"listen-iscsi", 0, OPTION_LIST, offsetof(struct config, listen_iscsi),
	 "ADDRESS",
	 "serve iSCSI at tcp:HOST:PORT, too (port 3260; default: no iSCSI)",
	 NULL, 0, 0},
	{"iscsi-secrets", 0, OPTION_STRING,
	 offsetof(struct config, iscsi_secrets), "DIR",
	 "CHAP users and secrets: a file for each extent, by its name, for "
	 "each account, or \"default\"",
	 NULL, 0, 0},
	{"low-space", 0, OPTION_NUMBER, offsetof(struct config, low_space),
	 "PERCENT",
	 "iSCSI initiators of a pool's extents are told when less than this "
	 "of its capacity is left; 0: never",
	 "10", 0, 99},
	{"iscsi-discovery", 0, OPTION_STRING,
	 offsetof(struct config, iscsi_discovery), "FILE",
	 "CHAP user and secret for discovery", NULL, 0, 0},
	{"nbd-tls", 0, OPTION_STRING, offsetof(struct config, nbd_tls), "WHEN",
	 "TLS for NBD clients: off, offered, or required (of TCP clients; this "
	 "system's own attachments have none)",
	 "off", 0, 0},
	{"nbd-tls-cert", 0, OPTION_STRING,
	 offsetof(struct config, nbd_tls_cert), "FILE",
	 "certificate of the NBD server (PEM)", NULL, 0, 0},
	{"nbd-tls-key", 0, OPTION_STRING, offsetof(struct config, nbd_tls_key),
	 "FILE", "its key (PEM, no access for others)", NULL, 0, 0},
	{"nbd-tls-ca", 0, OPTION_STRING, offsetof(struct config, nbd_tls_ca),
	 "FILE",
	 "authority that must have signed an NBD client's "
	 "certificate (PEM)",
	 NULL, 0, 0},
	{"nbd-tls-psk", 0, OPTION_STRING, offsetof(struct config, nbd_tls_psk),
	 "FILE",
	 "keys that NBD clients may use instead of certificates: lines "
	 "NAME:HEX (no access for others)",
	 NULL, 0, 0},
	{"control", 'C', OPTION_LIST, offsetof(struct config, control),
	 "ADDRESS",
	 "serve the control API at unix:PATH, or at tcp:HOST:PORT with TLS",
	 "unix:/run/tributary/blockd.sock", 0, 0},
	{"tls-ca", 0, OPTION_STRING, offsetof(struct config, tls_ca), "FILE",
	 "authority that must have signed a control client's "
	 "certificate (PEM)",
	 NULL, 0, 0},
	{"tls-cert", 0, OPTION_STRING, offsetof(struct config, tls_cert),
	 "FILE", "certificate of the control server (PEM)", NULL, 0, 0},
	{"tls-key", 0, OPTION_STRING, offsetof(struct config, tls_key), "FILE",
	 "its key (PEM, no access for others)", NULL, 0, 0},
	{"allow-plain-tcp", 0, OPTION_FLAG,
	 offsetof(struct config, allow_plain_tcp), NULL,
	 "control by TCP without TLS: any client that reaches the "
	 "port owns the data",
	 "no", 0, 0},
	{"metrics-address", 0, OPTION_STRING,
	 offsetof(struct config, metrics_address), "ADDRESS",
	 "serve /metrics here by HTTP: HOST:PORT or unix:/PATH", NULL, 0, 0},
	{"state-dir", 0, OPTION_STRING, offsetof(struct config, state_dir),
	 "DIR", "directory of the list of pools", "/var/lib/tributary/blockd",
	 0, 0},
	{"run-dir", 0, OPTION_STRING, offsetof(struct config, run_dir), "DIR",
	 "directory of the sockets, made with mode 0700 if missing",
	 "/run/tributary", 0, 0},
	{"loops", 0, OPTION_NUMBER, offsetof(struct config, loops), "N",
	 "threads of the servers (0: one per core, at most 4)", "0", 0, 256},
	{"max-connections", 0, OPTION_NUMBER,
	 offsetof(struct config, max_connections), "N", "connections at once",
	 "1024", 1, 65536},
	{"peer-timeout", 0, OPTION_NUMBER,
	 offsetof(struct config, peer_timeout), "SECONDS",
	 "close a TCP connection whose client neither answers nor "
	 "takes anything for this long",
	 "60", 2, TARGET_PEER_TIMEOUT_MAX_S},
	{"without", 0, OPTION_LIST, offsetof(struct config, without), "FEATURE",
	 "do without this feature of the kernel's io_uring, if it makes "
	 "trouble: " LOOP_FEATURE_NAMES,
	 NULL, 0, 0},
	{"log-level", 0, OPTION_STRING, offsetof(struct config, log_level),
	 "LEVEL", "error, warning, info or debug", "info", 0, 0},
	{"check-config", 0, OPTION_FLAG, offsetof(struct config, check_config),
	 NULL, "check file and flags, start nothing", NULL, 0, 0},
	{"check-pool", 0, OPTION_STRING, offsetof(struct config, check_pool),
	 "PATH",
	 "verify the raw pool on this device or file, which no "
	 "blockd may have open, and start nothing",
	 NULL, 0, 0},
	{"repair", 0, OPTION_FLAG, offsetof(struct config, repair), NULL,
	 "with --check-pool: rewrite metadata that is damaged in "
	 "one of its two copies",
	 NULL, 0, 0},
	{"help", 'h', OPTION_FLAG, offsetof(struct config, help), NULL,
	 "show this", NULL, 0, 0},
	{"version", 'V', OPTION_FLAG, offsetof(struct config, version), NULL,
	 "show the version", NULL, 0, 0},
};

void config_help(FILE *out)
{
	(void)fputs(
		"Usage: blockd [OPTION...]\n\n"
		"The storage daemon of a node: carves extents out of its pools "
		"and serves them by NBD and iSCSI.\n"
		"A flag wins over the configuration file; there an option is "
		"a line \"name = value\".\n\n",
		out);
	options_help(rows, array_size(rows), out);
	(void)fputs("\nSIGTERM stops it cleanly. Exit status: 0 stopped or "
		    "nothing to do, 1 it could not\nstart or the pool is not "
		    "whole, 2 a wrong flag or configuration.\n",
		    out);
}

void config_done(struct config *config)
{
	options_done(rows, array_size(rows), config);
}

int config_pool(const char *text, char ret_name[static POOL_NAME_SIZE],
		const char **ret_path, struct error *err)
{
	const char *equals = strchr(text, '=');
	size_t length = equals ? (size_t)(equals - text) : 0;

	if (!equals || length >= POOL_NAME_SIZE || equals[1] != '/')
		return error_set(err, EINVAL,
				 "pool '%s': write NAME=/ABSOLUTE/PATH", text);
	memcpy(ret_name, text, length);
	ret_name[length] = '\0';
	*ret_path = equals + 1;
	return name_check("pool", ret_name, err);
}

static int check_pools(const struct config *config, struct error *err)
{
	char names[2][POOL_NAME_SIZE];
	const char *path;

	for (size_t i = 0; i < config->pools.count; i++) {
		int r = config_pool(config->pools.items[i], names[0], &path,
				    err);

		for (size_t j = 0; r == 0 && j < i; j++) {
			r = config_pool(config->pools.items[j], names[1], &path,
					err);
			if (r == 0 && strcmp(names[0], names[1]) == 0)
				r = error_set(err, EINVAL,
					      "pool '%s' is given twice",
					      names[0]);
		}
		if (r < 0)
			return r;
	}
	return 0;
}

static int check_devices(const struct config *config, struct error *err)
{
	for (size_t i = 0; i < config->devices.count; i++)
		if (config->devices.items[i][0] != '/')
			return error_set(err, EINVAL,
					 "devices '%s': write an absolute path",
					 config->devices.items[i]);
	return 0;
}

static int check_addresses(const char *what, const struct option_list *list,
			   struct error *err)
{
	if (list->count == 0)
		return error_set(err, EINVAL, "%s: no address", what);
	for (size_t i = 0; i < list->count; i++)
		if (strncmp(list->items[i], "tcp:", 4) != 0 &&
		    strncmp(list->items[i], "unix:/", 6) != 0)
			return error_set(err, EINVAL,
					 "%s '%s': write tcp:HOST:PORT or "
					 "unix:/PATH",
					 what, list->items[i]);
	return 0;
}

/* TCP for control needs TLS, and TLS needs its three files. */
static int check_control(const struct config *config, struct error *err)
{
	int files = !!config->tls_ca + !!config->tls_cert + !!config->tls_key;

	if (files != 0 && files != 3)
		return error_set(err, EINVAL,
				 "tls-ca, tls-cert and tls-key go together");
	for (size_t i = 0; i < config->control.count; i++)
		if (strncmp(config->control.items[i], "tcp:", 4) == 0 &&
		    files == 0 && !config->allow_plain_tcp)
			return error_set(err, EINVAL,
					 "control '%s': TCP needs tls-ca, "
					 "tls-cert and tls-key",
					 config->control.items[i]);
	return 0;
}

static int check_iscsi(const struct config *config, struct error *err)
{
	if (config->listen_iscsi.count > 0)
		return check_addresses("listen-iscsi", &config->listen_iscsi,
				       err);
	if (config->iscsi_secrets || config->iscsi_discovery)
		return error_set(err, EINVAL, "%s goes with listen-iscsi",
				 config->iscsi_secrets ? "iscsi-secrets"
						       : "iscsi-discovery");
	return 0;
}

static int check_nbd_tls(const struct config *config, struct error *err)
{
	bool off = strcmp(config->nbd_tls, "off") == 0;
	bool files = config->nbd_tls_cert || config->nbd_tls_key ||
		     config->nbd_tls_ca || config->nbd_tls_psk;

	if (!off && strcmp(config->nbd_tls, "offered") != 0 &&
	    strcmp(config->nbd_tls, "required") != 0)
		return error_set(err, EINVAL,
				 "nbd-tls '%s': off, offered or required",
				 config->nbd_tls);
	if (off && files)
		return error_set(err, EINVAL,
				 "nbd-tls is off, and there are files for it: "
				 "say offered or required");
	if (!off && !config->nbd_tls_psk &&
	    (!config->nbd_tls_cert || !config->nbd_tls_key))
		return error_set(err, EINVAL,
				 "nbd-tls needs nbd-tls-cert and nbd-tls-key, "
				 "or nbd-tls-psk");
	return 0;
}

static int parse_without(struct config *config, struct error *err)
{
	config->loops_without = 0;
	for (size_t i = 0; i < config->without.count; i++) {
		const char *name = config->without.items[i];
		unsigned feature = loop_feature_find(name);

		if (!feature)
			return error_set(err, EINVAL, "without '%s': %s", name,
					 LOOP_FEATURE_NAMES);
		config->loops_without |= feature;
	}
	return 0;
}

static int default_name(struct config *config, struct error *err)
{
	char host[256];

	if (config->node_name)
		return 0;
	if (gethostname(host, sizeof(host)) < 0)
		return error_set(err, errno, "host name: %s", strerror(errno));
	host[sizeof(host) - 1] = '\0';
	config->node_name = strdup(host);
	return config->node_name ? 0 : error_set(err, ENOMEM, "out of memory");
}

static int config_check(struct config *config, struct error *err)
{
	int r = default_name(config, err);

	if (r == 0 && config->repair && !config->check_pool)
		r = error_set(err, EINVAL, "repair goes with check-pool");
	if (r == 0)
		r = name_check("node", config->node_name, err);
	if (r == 0)
		r = check_addresses("listen", &config->listen, err);
	if (r == 0)
		r = check_iscsi(config, err);
	if (r == 0)
		r = check_addresses("control", &config->control, err);
	if (r == 0)
		r = check_control(config, err);
	if (r == 0)
		r = check_nbd_tls(config, err);
	if (r == 0)
		r = check_pools(config, err);
	if (r == 0)
		r = check_devices(config, err);
	if (r == 0)
		r = parse_without(config, err);
	if (r == 0 && log_level_parse(config->log_level, &config->level) < 0)
		r = error_set(err, EINVAL,
			      "log-level '%s': error, warning, info or debug",
			      config->log_level);
	return r;
}

static int parse_flags(struct config *config, int argc, char **argv,
		       struct error *err)
{
	int index;
	int r = options_parse(rows, array_size(rows), config, argc, argv,
			      &index, err);

	if (r == 0 && index < argc)
		return error_set(err, EINVAL, "'%s' is no option; see --help",
				 argv[index]);
	return r;
}

int config_load(struct config *config, int argc, char **argv, struct error *err)
{
	bool named;
	int r;

	*config = (struct config){0};
	options_defaults(rows, array_size(rows), config);
	r = parse_flags(config, argc, argv, err);
	if (r < 0 || config->help || config->version)
		return r;
	named = strcmp(config->file, CONFIG_FILE) != 0;
	if (named || access(config->file, F_OK) == 0) {
		/* The file first, then the flags over it. */
		auto_free char *file = take_ptr(config->file);

		config_done(config);
		*config = (struct config){0};
		options_defaults(rows, array_size(rows), config);
		r = options_load(rows, array_size(rows), config, file, NULL,
				 NULL, err);
		if (r == 0)
			r = parse_flags(config, argc, argv, err);
	}
	return r < 0 ? r : config_check(config, err);
}
