/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process's counters, as Prometheus reads them (text format 0.0.4). They
 * count calls by method and code, their time, running calls, and volumes, and
 * tell which process leads. Counting takes no lock and costs nothing while
 * nobody calls.
 */
#ifndef CSI_METRICS_H
#define CSI_METRICS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "rpc/rpc.h"

#define CSI_METHODS_MAX     32 /* the specification's */
#define CSI_METRICS_BUCKETS 12 /* and one for what took longer */
#define CSI_METRICS_CODES   17 /* rpc.h: 0 to UNAUTHENTICATED */

#define CSI_METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct csi_method_metrics {
	atomic_uint_fast64_t codes[CSI_METRICS_CODES];
	atomic_uint_fast64_t buckets[CSI_METRICS_BUCKETS + 1];
	atomic_uint_fast64_t took_us; /* of all together */
	atomic_int running;
};

/* All zero at first but for the names. */
struct csi_metrics {
	const char *const
		*names; /* of methods; NULL after the last; borrowed */
	struct csi_method_metrics methods[CSI_METHODS_MAX];
	atomic_bool elects; /* this process takes part in an election */
	atomic_bool leads;
	/* Last seen by the leader; other processes do not report them. */
	atomic_uint_fast64_t volumes, abnormal, capacity; /* capacity: bytes */
	atomic_uint_fast64_t nodes, nodes_silent;
	/* Of the last scrub (volume/scrub/scrub.h). scrub_s: since 1970. */
	atomic_uint_fast64_t orphans, orphan_bytes, missing, scrub_s;
};

/* @method: its index in the names. */
void csi_metrics_begin(struct csi_metrics *metrics, size_t method);
void csi_metrics_end(struct csi_metrics *metrics, size_t method,
		     enum rpc_code code, uint64_t took_us);

/* @mode: "controller", "node" or "all". */
void csi_metrics_write(struct csi_metrics *metrics, const char *mode,
		       FILE *out);

#endif
