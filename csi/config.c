/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/config.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "csi/kata/kata_record.h"
#include "volume/record/node.h"

#define SOCKET_SUFFIX   ".sock"
#define WORKERS_MAX     64
#define TRIM_PERIOD_MAX 31536000 /* seconds: a year */

#define ROW(name, letter, type, field, argument, help, text, min, max)        \
	{                                                                     \
		name, letter, type, offsetof(struct config, field), argument, \
			help, text, min, max                                  \
	}

static const struct option_row rows[] = {
	ROW("mode", 'm', OPTION_STRING, mode_name, "MODE",
	    "controller (volumes of the cluster), node (mounts on this "
	    "machine) or all",
	    "all", 0, 0),
	ROW("endpoint", 'e', OPTION_STRING, endpoint, "SOCKET",
	    "serve here: unix:///PATH.sock (default: $" CSI_ENDPOINT_VARIABLE
	    ")",
	    NULL, 0, 0),
	ROW("store", 's', OPTION_STRING, store, "WHERE",
	    "records of nodes and volumes", VOLUME_STORE_DEFAULT, 0, 0),
	ROW("node", 'n', OPTION_STRING, node, "NAME",
	    "name of this machine's node (default: the host name); a "
	    "controller has none",
	    NULL, 0, 0),
	ROW("run-dir", 'r', OPTION_STRING, run_dir, "DIR",
	    "mounts, devices and publications of this machine",
	    VOLUME_RUN_DIR_DEFAULT, 0, 0),
	ROW("bin-dir", 0, OPTION_STRING, bin_dir, "DIR",
	    "directory of trib-union (default: that of this program, "
	    "then $PATH)",
	    NULL, 0, 0),
	ROW("launcher", 0, OPTION_STRING, launcher, "SOCKET",
	    "trib-launch at this socket starts processes that outlive "
	    "the driver (default: the driver itself)",
	    NULL, 0, 0),
	ROW("iscsi-secrets", 0, OPTION_STRING, iscsi_secrets, "DIR",
	    "CHAP secrets for extents attached by iSCSI, files as for "
	    "blockd's iscsi-secrets (default: no CHAP)",
	    NULL, 0, 0),
	ROW("source-address", 0, OPTION_STRING, source_address, "ADDRESS",
	    "source address of this machine's NBD connections, as "
	    "servers see it (default: the kernel's choice)",
	    NULL, 0, 0),
	ROW("workers", 0, OPTION_NUMBER, workers, "N", "calls served at once",
	    "16", 1, WORKERS_MAX),
	ROW("call-timeout-ms", 0, OPTION_NUMBER, call_timeout_ms, "N",
	    "milliseconds that a node may take to answer one call", "10000",
	    100, 600000),
	ROW("metrics-address", 0, OPTION_STRING, metrics_address, "ADDRESS",
	    "serve /metrics, /healthz and /readyz here by HTTP: "
	    "HOST:PORT or unix:/PATH (default: nowhere)",
	    NULL, 0, 0),
	/*
	 * A staged volume costs its union, a process of about 10 MB, and a few
	 * devices: this many a node can pay beside its pods, of which a
	 * kubelet runs 110 unless told otherwise.
	 */
	ROW("max-volumes", 0, OPTION_NUMBER, max_volumes, "N",
	    "most volumes on a node; 0: as many as the orchestrator "
	    "likes",
	    "128", 0, NODE_VOLUMES_MAX),
	ROW("trim-period-s", 0, OPTION_NUMBER, trim_period_s, "N",
	    "seconds between trims of the volumes mounted on a node; "
	    "0: never",
	    "604800", 0, TRIM_PERIOD_MAX),
	ROW("ephemeral-limit", 0, OPTION_SIZE, ephemeral_limit, "SIZE",
	    "allow inline volumes of pods, of at most this size, made "
	    "on their node (default: not allowed)",
	    NULL, 0, 0),
	ROW("kata-run-dir", 0, OPTION_STRING, kata_run_dir, "DIR",
	    "directory of Kata Containers' sandboxes and direct volumes",
	    KATA_RUN_DIR_DEFAULT, 0, 0),
	ROW("log-level", 0, OPTION_STRING, log_level, "LEVEL",
	    "error, warning, info or debug", "info", 0, 0),
	ROW("parameters", 0, OPTION_FLAG, parameters, NULL,
	    "show the parameters of a StorageClass, as Markdown", NULL, 0, 0),
	ROW("help", 'h', OPTION_FLAG, help, NULL, "show this", NULL, 0, 0),
	ROW("version", 'V', OPTION_FLAG, version, NULL, "show the version",
	    NULL, 0, 0),
};

void config_help(FILE *out)
{
	(void)fputs("Usage: trib-csi [OPTION...]\n\n"
		    "The CSI driver " CSI_DRIVER_NAME ".\n\n",
		    out);
	options_help(rows, array_size(rows), out);
	(void)fputs("\n"
		    "SIGTERM stops it cleanly: running calls end between two "
		    "of their steps, and their\n"
		    "repetition finishes them. Exit status: 0 stopped or "
		    "nothing to do, 1 it could not\n"
		    "start, 2 a wrong flag or variable.\n"
		    "",
		    out);
}

void config_done(struct config *config)
{
	options_done(rows, array_size(rows), config);
}

int config_endpoint(const char *text, char *ret, size_t size, struct error *err)
{
	const char *path = text;
	size_t length;

	if (strncmp(path, "unix:", 5) == 0)
		path += 5;
	if (strncmp(path, "///", 3) == 0)
		path += 2;
	length = strlen(path);
	if (path[0] != '/' || path[1] == '/' ||
	    length <= strlen("/" SOCKET_SUFFIX) ||
	    strcmp(path + length - strlen(SOCKET_SUFFIX), SOCKET_SUFFIX) != 0)
		return error_set(
			err, EINVAL,
			"endpoint '%s': write unix:///PATH" SOCKET_SUFFIX,
			text);
	if (snprintf(ret, size, "unix:%s", path) >= (int)size)
		return error_set(err, EINVAL, "endpoint '%s': too long", text);
	return 0;
}

/* The variable, when there is no flag. */
static int take_endpoint(struct config *config, struct error *err)
{
	const char *text = config->endpoint ? config->endpoint
					    : getenv(CSI_ENDPOINT_VARIABLE);

	if (!text || !text[0])
		return error_set(
			err, EINVAL,
			"no endpoint: give --endpoint "
			"unix:///PATH.sock or set " CSI_ENDPOINT_VARIABLE);
	return config_endpoint(text, config->address, sizeof(config->address),
			       err);
}

static int config_check(struct config *config, struct error *err)
{
	int r = csi_mode_parse(config->mode_name, &config->mode, err);

	if (r < 0)
		return r;
	if (log_level_parse(config->log_level, &config->level) < 0)
		return error_set(err, EINVAL,
				 "log-level '%s': it is error, warning, info "
				 "or debug",
				 config->log_level);
	return take_endpoint(config, err);
}

int config_load(struct config *config, int argc, char **argv, struct error *err)
{
	int index = argc, r;

	*config = (struct config){0};
	options_defaults(rows, array_size(rows), config);
	r = options_parse(rows, array_size(rows), config, argc, argv, &index,
			  err);
	if (r == 0 && index < argc)
		r = error_set(err, EINVAL, "'%s': there are only flags",
			      argv[index]);
	if (r < 0 || config->help || config->version || config->parameters)
		return r;
	return config_check(config, err);
}
