/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/api/metrics_stats.h"

#include <inttypes.h>
#include <stddef.h>

#define NAME_MAX_SIZE 64 /* of a family, with NUL; ours */

void metrics_head(FILE *out, const char *prefix, const char *name,
		  const char *type, const char *help)
{
	(void)fprintf(out, "# HELP %s%s %s\n# TYPE %s%s %s\n", prefix, name,
		      help, prefix, name, type);
}

void metrics_labels(FILE *out, const char *prefix, const char *name,
		    const struct metrics_row *row)
{
	(void)fprintf(out, "%s%s{extent=\"%s\"", prefix, name, row->extent);
	if (row->is_connection)
		(void)fprintf(out, ",connection=\"%" PRIu64 "\"",
			      row->connection);
}

static void counter(FILE *out, const struct metrics_stats *stats,
		    const char *name, const char *help, size_t member)
{
	metrics_head(out, stats->prefix, name, "counter", help);
	for (size_t i = 0; i < stats->n; i++) {
		struct metrics_row row = stats->row(stats->context, i);

		for (enum export_op op = 0; op < EXPORT_OPS; op++) {
			const struct export_op_stats *s = &row.stats->ops[op];

			if (s->operations == 0)
				continue;
			metrics_labels(out, stats->prefix, name, &row);
			(void)fprintf(
				out, ",op=\"%s\"} %" PRIu64 "\n",
				export_op_name(op),
				*(const uint64_t *)((const char *)s + member));
		}
	}
}

/* One line of a histogram, up to its value. */
static void histogram_label(FILE *out, const struct metrics_stats *stats,
			    const struct metrics_row *row, const char *what,
			    enum export_op op)
{
	char name[NAME_MAX_SIZE];

	(void)snprintf(name, sizeof(name), "%s%s", stats->seconds, what);
	metrics_labels(out, stats->prefix, name, row);
	(void)fprintf(out, ",op=\"%s\"", export_op_name(op));
}

static void histogram(FILE *out, const struct metrics_stats *stats,
		      const struct metrics_row *row, enum export_op op)
{
	const struct export_op_stats *s = &row->stats->ops[op];
	uint64_t sum = 0;

	for (unsigned i = 0; i + 1 < EXPORT_LATENCIES; i++) {
		sum += s->latency[i];
		if (i % stats->bucket_step)
			continue;
		histogram_label(out, stats, row, "_bucket", op);
		(void)fprintf(out, ",le=\"%g\"} %" PRIu64 "\n",
			      (double)(1u << i) / 1e6, sum);
	}
	sum += s->latency[EXPORT_LATENCIES - 1];
	histogram_label(out, stats, row, "_bucket", op);
	(void)fprintf(out, ",le=\"+Inf\"} %" PRIu64 "\n", sum);
	histogram_label(out, stats, row, "_sum", op);
	(void)fprintf(out, "} %" PRIu64 ".%06" PRIu64 "\n",
		      s->total_us / 1000000, s->total_us % 1000000);
	histogram_label(out, stats, row, "_count", op);
	(void)fprintf(out, "} %" PRIu64 "\n", sum);
}

void metrics_stats_write(FILE *out, const struct metrics_stats *stats)
{
	char help[NAME_MAX_SIZE];

	(void)snprintf(help, sizeof(help), "Requests answered, by %s and kind.",
		       stats->by);
	counter(out, stats, "operations_total", help,
		offsetof(struct export_op_stats, operations));
	counter(out, stats, "errors_total",
		"Those of them answered with an error.",
		offsetof(struct export_op_stats, errors));
	counter(out, stats, "bytes_total", "Bytes that the others asked for.",
		offsetof(struct export_op_stats, bytes));
	metrics_head(out, stats->prefix, stats->seconds, "histogram",
		     "From a request to its reply.");
	for (size_t i = 0; i < stats->n; i++) {
		struct metrics_row row = stats->row(stats->context, i);

		for (enum export_op op = 0; op < EXPORT_OPS; op++)
			if (row.stats->ops[op].operations > 0)
				histogram(out, stats, &row, op);
	}
}
