/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls of proto/blockd.proto: each translates its request, calls
 * blockd/node/node.h, blockd/extent/extent.h or blockd/export/exports.h, and
 * translates back.
 */
#ifndef BLOCKD_SERVICE_H
#define BLOCKD_SERVICE_H

#include <stddef.h>
#include <stdint.h>

#include "base/uuid_name.h"
#include "blockd/export/exports.h"
#include "blockd/node/node.h"
#include "rpc/rpc_cert.h"

#define SERVICE_CERTS 4 /* certificate and CA, of control and of NBD */

struct service_cert {
	struct rpc_cert cert; /* as it was at the start */
	enum rpc_cert_kind kind;
	bool reread; /* each connection reads the file again */
};

struct service {
	const char *name; /* of the node */
	char boot_id[UUID_TEXT_SIZE];
	int64_t started_ms;         /* clock_ms() */
	char *const *nbd_addresses; /* "HOST:PORT" or "unix:PATH" */
	size_t n_nbd_addresses;
	char *const *iscsi_addresses; /* "HOST:PORT" */
	size_t n_iscsi_addresses;
	struct node *node;
	struct exports *exports;
	struct service_cert certs[SERVICE_CERTS];
	size_t n_certs;
};

/* The table for struct rpc_server_options; its context is a struct service. */
extern const struct rpc_method service_methods[];
extern const size_t service_n_methods;

#endif
