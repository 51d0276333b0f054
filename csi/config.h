/* SPDX-License-Identifier: Apache-2.0 */
/* The options of trib-csi, from flags and the environment. */
#ifndef CSI_CONFIG_H
#define CSI_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/error.h"
#include "base/log.h"
#include "base/options.h"
#include "csi/call/call.h"

#define CSI_ENDPOINT_VARIABLE "CSI_ENDPOINT" /* of the specification */

struct config {
	char *mode_name;
	char *endpoint; /* as it was given */
	char *store;
	char *node;
	char *run_dir;
	char *bin_dir;
	char *launcher;
	char *source_address;
	char *iscsi_secrets;
	char *metrics_address; /* of http.h; NULL: none */
	char *log_level;
	uint64_t workers;
	uint64_t call_timeout_ms;
	uint64_t max_volumes;
	uint64_t ephemeral_limit; /* bytes */
	uint64_t trim_period_s;
	char *kata_run_dir;
	bool parameters;
	bool help;
	bool version;
	/* From those: */
	enum csi_mode mode;
	enum log_level level;
	char address[128]; /* of rpc.h, "unix:/PATH" */
};

/*
 * Load the configuration. -EINVAL: the text says what is wrong. Without
 * --endpoint CSI_ENDPOINT has to be set. config_done() also after a failure.
 */
int config_load(struct config *config, int argc, char **argv,
		struct error *err);
void config_done(struct config *config);
void config_help(FILE *out);

/*
 * "unix:///csi/csi.sock", "unix:/csi/csi.sock" or "/csi/csi.sock" as an
 * address of rpc.h. The specification wants an absolute path that ends in
 * ".sock".
 */
int config_endpoint(const char *text, char *ret, size_t size,
		    struct error *err);

#endif
