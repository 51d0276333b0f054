/* SPDX-License-Identifier: Apache-2.0 */
/* I/O counters of the export of an extent, as its node reports them. */
#ifndef VOLUME_EXPORT_STATS_H
#define VOLUME_EXPORT_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "volume/node/node_client.h"
#include "volume/op/context.h"

#define EXPORT_STATS_OPERATIONS  16 /* kinds; more are left out */
#define EXPORT_STATS_CONNECTIONS 4096

struct operation_stats {
	char operation[32]; /* "read" */
	uint64_t count, errors;
	uint64_t bytes;
	uint64_t total_us;
	/* At most so long took half of them, and 99 of 100; us. */
	uint64_t p50_us, p99_us;
};

struct connection_stats {
	char peer[192];
	char features[128];
	uint64_t age_ms;
	uint64_t count, errors, bytes; /* of all operations */
};

struct export_use {
	size_t n_operations, n_connections;
	struct operation_stats operations[EXPORT_STATS_OPERATIONS];
	struct connection_stats *connections; /* owned: free() */
};

int volume_extent_stats(struct volume_context *ctx, const char *node,
			const char *name, struct export_use *ret,
			struct error *err);

#endif
