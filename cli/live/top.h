/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rates of splits, of two samples, and their sums by volume and by node. A sum
 * with a split whose rates are not known is not known, either.
 *
 * Out of memory ends the program: it is a command, not a daemon.
 */
#ifndef CLI_TOP_H
#define CLI_TOP_H

#include <json-c/json.h>
#include <stdio.h>

#include "volume/extent/split_use.h"

/* A split of a volume in use, as of one moment. */
struct top_sample {
	char volume[RECORD_NAME_SIZE];
	char node[RECORD_NAME_SIZE]; /* which has the split */
	unsigned index;
	struct split_use use;
};

struct top_samples {
	struct top_sample *items; /* owned, free(); by volume and index */
	size_t n;
	int64_t at_ms; /* of clock_ms() */
};

struct top_rates {
	char name[RECORD_NAME_SIZE + 16]; /* "v", "v 0", "host1" */
	char node[RECORD_NAME_SIZE];      /* of a split; else "" */
	bool known;
	double reads, read_bytes, writes, write_bytes; /* a second */
	double read_ms, write_ms;   /* of one, on average; 0: there was none */
	char why[RECORD_TEXT_SIZE]; /* when not known */
};

struct top {
	struct top_rates *splits, *volumes, *nodes; /* owned */
	size_t n_splits, n_volumes, n_nodes;
};

/* Compute the rates between two samples; top_done(). */
void top_make(const struct top_samples *before, const struct top_samples *now,
	      struct top *ret);
void top_done(struct top *top);

struct json_object *top_json(const struct top *top);
void top_print(const struct top *top, FILE *out);

#endif
