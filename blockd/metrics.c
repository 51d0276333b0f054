/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/metrics.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"

#define OK          200u
#define UNAVAILABLE 503u

/* What is told of all exports, one family after the other. */
struct shown {
	size_t n;
	struct one {
		const char *name; /* borrowed from its extent */
		unsigned connections;
		struct export_stats stats;
	} * list;
};

static void head(FILE *out, const char *name, const char *type,
		 const char *help)
{
	(void)fprintf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name,
		      type);
}

/* ---- exports ---- */

static void counter(FILE *out, const struct shown *shown, const char *name,
		    const char *help, size_t member)
{
	head(out, name, "counter", help);
	for (size_t i = 0; i < shown->n; i++)
		for (enum export_op op = 0; op < EXPORT_OPS; op++) {
			const struct export_op_stats *s =
				&shown->list[i].stats.ops[op];

			if (s->operations > 0)
				(void)fprintf(
					out,
					"%s{extent=\"%s\",op=\"%s\"} %" PRIu64
					"\n",
					name, shown->list[i].name,
					export_op_name(op),
					*(const uint64_t *)((const char *)s +
							    member));
		}
}

static void histogram(FILE *out, const char *extent, enum export_op op,
		      const struct export_op_stats *s)
{
	static const char name[] = "trib_blockd_operation_seconds";
	const char *what = export_op_name(op);
	uint64_t sum = 0;

	for (unsigned i = 0; i + 1 < EXPORT_LATENCIES; i++) {
		sum += s->latency[i];
		(void)fprintf(out,
			      "%s_bucket{extent=\"%s\",op=\"%s\",le=\"%g\"} "
			      "%" PRIu64 "\n",
			      name, extent, what, (double)(1u << i) / 1e6, sum);
	}
	sum += s->latency[EXPORT_LATENCIES - 1];
	(void)fprintf(out,
		      "%s_bucket{extent=\"%s\",op=\"%s\",le=\"+Inf\"} %" PRIu64
		      "\n%s_sum{extent=\"%s\",op=\"%s\"} %" PRIu64 ".%06" PRIu64
		      "\n%s_count{extent=\"%s\",op=\"%s\"} "
		      "%" PRIu64 "\n",
		      name, extent, what, sum, name, extent, what,
		      s->total_us / 1000000, s->total_us % 1000000, name,
		      extent, what, sum);
}

static void write_exports(FILE *out, const struct shown *shown)
{
	counter(out, shown, "trib_blockd_operations_total",
		"Requests answered, by extent and kind.",
		offsetof(struct export_op_stats, operations));
	counter(out, shown, "trib_blockd_errors_total",
		"Those of them answered with an error.",
		offsetof(struct export_op_stats, errors));
	counter(out, shown, "trib_blockd_bytes_total",
		"Bytes that the others asked for.",
		offsetof(struct export_op_stats, bytes));
	head(out, "trib_blockd_operation_seconds", "histogram",
	     "From a request to its reply.");
	for (size_t i = 0; i < shown->n; i++)
		for (enum export_op op = 0; op < EXPORT_OPS; op++)
			if (shown->list[i].stats.ops[op].operations > 0)
				histogram(out, shown->list[i].name, op,
					  &shown->list[i].stats.ops[op]);
	head(out, "trib_blockd_connections", "gauge",
	     "Connections of an export.");
	for (size_t i = 0; i < shown->n; i++)
		(void)fprintf(out,
			      "trib_blockd_connections{extent=\"%s\"} %u\n",
			      shown->list[i].name, shown->list[i].connections);
}

static int collect(struct service *service, struct extent **list, size_t n,
		   struct shown *ret)
{
	ret->list = calloc(n + 1, sizeof(*ret->list));
	if (!ret->list)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) {
		struct one *one = &ret->list[ret->n];

		one->name = list[i]->record.name; /* for its life */
		if (exports_stats(service->exports, one->name, &one->stats,
				  NULL, NULL, NULL) < 0)
			continue; /* not served */
		one->connections = exports_connections(service->exports,
						       one->name);
		ret->n++;
	}
	return 0;
}

/* ---- pools ---- */

static void write_pools(FILE *out, const struct node_pool_info *infos, size_t n)
{
	static const struct {
		const char *name, *help;
	} rows[] = {
		{"trib_blockd_pool_capacity_bytes", "What a pool can promise."},
		{"trib_blockd_pool_reserved_bytes", "What it has promised."},
		{"trib_blockd_pool_allocated_bytes", "What is really used."},
		{"trib_blockd_pool_available_bytes",
		 "The largest extent that could be made now."},
	};

	for (size_t row = 0; row < array_size(rows); row++) {
		head(out, rows[row].name, "gauge", rows[row].help);
		for (size_t i = 0; i < n; i++) {
			const uint64_t values[] = {
				infos[i].space.capacity, infos[i].reserved,
				infos[i].allocated, infos[i].space.available};

			if (infos[i].state == NODE_POOL_ONLINE)
				(void)fprintf(out,
					      "%s{pool=\"%s\"} %" PRIu64 "\n",
					      rows[row].name,
					      infos[i].known.name, values[row]);
		}
	}
	head(out, "trib_blockd_pool_online", "gauge",
	     "1 if a pool is there and whole enough to be used.");
	for (size_t i = 0; i < n; i++)
		(void)fprintf(out, "trib_blockd_pool_online{pool=\"%s\"} %d\n",
			      infos[i].known.name,
			      infos[i].state == NODE_POOL_ONLINE);
}

static unsigned write_metrics(void *context, FILE *out)
{
	struct service *service = context;
	auto_free struct node_pool_info *infos = NULL;
	struct extent **list = NULL;
	struct shown shown = {0};
	size_t n = 0, n_pools = 0;
	int r = node_list_pools(service->node, NULL, &infos, &n_pools, NULL);

	if (r == 0)
		r = node_list_extents(service->node, NULL, &list, &n, NULL);
	if (r == 0) {
		r = collect(service, list, n, &shown);
		write_pools(out, infos, n_pools);
		write_exports(out, &shown);
		free(shown.list);
		node_put_list(list, n);
	}
	return r < 0 ? UNAVAILABLE : OK;
}

static const struct http_page pages[] = {
	{"/metrics", "text/plain; version=0.0.4; charset=utf-8", write_metrics},
};

int metrics_start(const char *address, struct service *service,
		  struct http **ret, struct error *err)
{
	return http_start(address, pages, array_size(pages), service, ret, err);
}
