/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/call/csi_metrics.h"

#include <inttypes.h>

#include "base/cleanup.h"

/*
 * Bounds in microseconds, and in seconds as text: the output must not depend on
 * rounding. They go from the time of a read of the store to that of a large
 * mkfs.
 */
static const struct {
	uint64_t us;
	const char *text;
} bounds[CSI_METRICS_BUCKETS] = {
	{1000, "0.001"}, {5000, "0.005"},  {10000, "0.01"},  {25000, "0.025"},
	{50000, "0.05"}, {100000, "0.1"},  {250000, "0.25"}, {500000, "0.5"},
	{1000000, "1"},  {2500000, "2.5"}, {10000000, "10"}, {60000000, "60"},
};

void csi_metrics_begin(struct csi_metrics *metrics, size_t method)
{
	atomic_fetch_add(&metrics->methods[method].running, 1);
}

void csi_metrics_end(struct csi_metrics *metrics, size_t method,
		     enum rpc_code code, uint64_t took_us)
{
	struct csi_method_metrics *m = &metrics->methods[method];
	size_t bucket = 0;

	while (bucket < CSI_METRICS_BUCKETS && took_us > bounds[bucket].us)
		bucket++;
	atomic_fetch_sub(&m->running, 1);
	atomic_fetch_add(&m->codes[code], 1);
	atomic_fetch_add(&m->buckets[bucket], 1);
	atomic_fetch_add(&m->took_us, took_us);
}

static void head(FILE *out, const char *name, const char *type,
		 const char *help)
{
	(void)fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name,
		      type);
}

static bool was_called(struct csi_method_metrics *m)
{
	for (size_t i = 0; i < CSI_METRICS_CODES; i++)
		if (atomic_load(&m->codes[i]))
			return true;
	return atomic_load(&m->running) > 0;
}

static void write_codes(struct csi_metrics *metrics, FILE *out)
{
	head(out, "trib_csi_calls_total", "counter",
	     "Calls that ended, by method and gRPC code.");
	for (size_t i = 0; metrics->names[i]; i++)
		for (size_t k = 0; k < CSI_METRICS_CODES; k++) {
			uint64_t n = atomic_load(&metrics->methods[i].codes[k]);

			if (n)
				(void)fprintf(
					out,
					"trib_csi_calls_total{method="
					"\"%s\",code=\"%s\"} %" PRIu64 "\n",
					metrics->names[i],
					rpc_code_name((enum rpc_code)k), n);
		}
}

/* Of one method; each bucket has those below it, too. */
static void write_histogram(struct csi_method_metrics *m, const char *name,
			    FILE *out)
{
	uint64_t us, sum = 0;

	for (size_t i = 0; i <= CSI_METRICS_BUCKETS; i++) {
		sum += atomic_load(&m->buckets[i]);
		(void)fprintf(out,
			      "trib_csi_call_seconds_bucket{method=\"%s\","
			      "le=\"%s\"} %" PRIu64 "\n",
			      name,
			      i < CSI_METRICS_BUCKETS ? bounds[i].text : "+Inf",
			      sum);
	}
	us = atomic_load(&m->took_us);
	(void)fprintf(out,
		      "trib_csi_call_seconds_sum{method=\"%s\"} %" PRIu64
		      ".%06" PRIu64 "\n"
		      "trib_csi_call_seconds_count{method=\"%s\"} %" PRIu64
		      "\n",
		      name, us / 1000000, us % 1000000, name, sum);
}

static void write_calls(struct csi_metrics *metrics, FILE *out)
{
	write_codes(metrics, out);
	head(out, "trib_csi_call_seconds", "histogram",
	     "How long calls took, by method.");
	for (size_t i = 0; metrics->names[i]; i++)
		if (was_called(&metrics->methods[i]))
			write_histogram(&metrics->methods[i], metrics->names[i],
					out);
	head(out, "trib_csi_calls_in_flight", "gauge",
	     "Calls that run now, by method.");
	for (size_t i = 0; metrics->names[i]; i++)
		if (was_called(&metrics->methods[i]))
			(void)fprintf(
				out,
				"trib_csi_calls_in_flight{method=\"%s\"} %d\n",
				metrics->names[i],
				atomic_load(&metrics->methods[i].running));
}

static void write_gauge(FILE *out, const char *name, const char *help,
			uint64_t value)
{
	head(out, name, "gauge", help);
	(void)fprintf(out, "%s %" PRIu64 "\n", name, value);
}

/*
 * Write the figures of the cluster. Only the leader knows and tells them, so
 * that they can be summed.
 */
static void write_cluster(struct csi_metrics *metrics, FILE *out)
{
	write_gauge(out, "trib_csi_volumes", "Volumes of the cluster.",
		    atomic_load(&metrics->volumes));
	write_gauge(out, "trib_csi_volumes_abnormal",
		    "Volumes of which something is wrong.",
		    atomic_load(&metrics->abnormal));
	write_gauge(out, "trib_csi_volumes_bytes",
		    "Capacity of all volumes together.",
		    atomic_load(&metrics->capacity));
	write_gauge(out, "trib_csi_nodes", "Storage nodes of the cluster.",
		    atomic_load(&metrics->nodes));
	write_gauge(out, "trib_csi_nodes_silent",
		    "Storage nodes that do not answer.",
		    atomic_load(&metrics->nodes_silent));
	if (!atomic_load(&metrics->scrub_s))
		return; /* nothing is known yet, which is not 0 */
	write_gauge(out, "trib_csi_orphan_extents", "Extents without a record.",
		    atomic_load(&metrics->orphans));
	write_gauge(out, "trib_csi_orphan_bytes",
		    "Sizes of the extents without a record.",
		    atomic_load(&metrics->orphan_bytes));
	write_gauge(out, "trib_csi_missing_extents",
		    "Extents that records look for in vain.",
		    atomic_load(&metrics->missing));
	write_gauge(out, "trib_csi_scrub_timestamp_seconds",
		    "When records and extents were compared last.",
		    atomic_load(&metrics->scrub_s));
}

void csi_metrics_write(struct csi_metrics *metrics, const char *mode, FILE *out)
{
	bool leads = atomic_load(&metrics->leads);

	head(out, "trib_csi_build_info", "gauge", "Always 1.");
	(void)fprintf(out,
		      "trib_csi_build_info{version=\"%s\",mode=\"%s\"} 1\n",
		      TRIBUTARY_VERSION, mode);
	write_calls(metrics, out);
	if (atomic_load(&metrics->elects))
		write_gauge(out, "trib_csi_leader",
			    "1 where the background work is done.", leads);
	if (leads)
		write_cluster(metrics, out);
}
