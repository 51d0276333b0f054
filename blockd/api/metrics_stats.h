/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of /metrics that is told by kind of operation: of each export, and
 * of each of its connections.
 */
#ifndef BLOCKD_METRICS_STATS_H
#define BLOCKD_METRICS_STATS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "target/export/export_stats.h"

/* Whose they are; all borrowed. */
struct metrics_row {
	const char *extent;
	bool is_connection; /* one of the extent's, and this one: */
	uint64_t connection;
	const struct export_stats *stats;
};

struct metrics_stats {
	const char *prefix;  /* of all names */
	const char *by;      /* "extent": whose they are, in words */
	const char *seconds; /* the name of the histogram */
	unsigned
		bucket_step; /* so many buckets of it are told as one; 1: all */
	size_t n;            /* rows */
	struct metrics_row (*row)(const void *context, size_t i);
	const void *context;
};

/* What stands before a family: "PREFIXNAME" is its name. */
void metrics_head(FILE *out, const char *prefix, const char *name,
		  const char *type, const char *help);

/* "PREFIXNAME{extent=...": open for more labels. */
void metrics_labels(FILE *out, const char *prefix, const char *name,
		    const struct metrics_row *row);

/* Operations, errors, bytes and how long they took; of kinds there were. */
void metrics_stats_write(FILE *out, const struct metrics_stats *stats);

#endif
