/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statistics of an export: counted by one thread for each connection, read by
 * any thread.
 */
#ifndef TARGET_EXPORT_STATS_H
#define TARGET_EXPORT_STATS_H

#include <stdbool.h>
#include <stdint.h>

enum export_op {
	EXPORT_OP_READ,
	EXPORT_OP_WRITE,
	EXPORT_OP_FLUSH,
	EXPORT_OP_DISCARD,
	EXPORT_OP_WRITE_ZEROES,
	EXPORT_OP_OTHER,
	EXPORT_OPS,
};

const char *export_op_name(enum export_op op); /* "read", "write-zeroes"... */

/* Bucket i counts what took less than 2^i us; the last also what took more. */
#define EXPORT_LATENCIES 24

struct export_op_stats {
	uint64_t operations; /* answered, well or not */
	uint64_t errors;     /* of them */
	uint64_t bytes;      /* asked for by successful ones */
	uint64_t total_us;   /* all latencies together */
	uint64_t latency[EXPORT_LATENCIES];
};

struct export_stats {
	struct export_op_stats ops[EXPORT_OPS];
};

/* Count an operation answered after @ns. Only the connection's own thread. */
void export_stats_note(struct export_stats *stats, enum export_op op,
		       uint64_t bytes, int64_t ns, bool failed);

/* Add what @from counts to @to, which is the caller's alone. */
void export_stats_add(struct export_stats *to, const struct export_stats *from);

#endif
