/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of /metrics about single connections. Peers come and go, so the
 * number of rows is bounded: up to METRICS_CONNECTIONS_MAX, the oldest of each
 * export first. One figure says how many connections are left out.
 */
#ifndef BLOCKD_METRICS_CONNECTIONS_H
#define BLOCKD_METRICS_CONNECTIONS_H

#include <stdio.h>

#include "target/target.h"

#define METRICS_CONNECTIONS_MAX 128

struct metrics_connection {
	const char *extent; /* borrowed */
	struct target_connection is;
};

struct metrics_connections {
	struct metrics_connection *list; /* owned */
	size_t n, left_out;
};

/*
 * Add the connections of one export, the newest first, as target_export_stats()
 * has them.
 *
 * @extent  borrowed until they are written
 *
 * -ENOMEM.
 */
int metrics_connections_add(struct metrics_connections *all, const char *extent,
			    const struct target_connection *list, size_t n);

void metrics_connections_write(FILE *out,
			       const struct metrics_connections *all);

void metrics_connections_done(struct metrics_connections *all);

#endif
