/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/api/metrics.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "blockd/api/direct_stats.h"
#include "blockd/api/metrics_connections.h"
#include "blockd/api/metrics_stats.h"

#define OK          200u
#define UNAVAILABLE 503u

/* The metrics of all exports, one family after the other. */
struct shown {
	size_t n;
	struct one {
		const char *name; /* borrowed from its extent */
		unsigned connections;
		struct export_stats stats;
	} * list;
	struct metrics_connections connections;
};

#define PREFIX "trib_blockd_"

/* ---- exports ---- */

static struct metrics_row export_row(const void *context, size_t i)
{
	const struct shown *shown = context;

	return (struct metrics_row){.extent = shown->list[i].name,
				    .stats = &shown->list[i].stats};
}

static void write_exports(FILE *out, const struct shown *shown)
{
	const struct metrics_stats stats = {
		.prefix = PREFIX,
		.by = "extent",
		.seconds = "operation_seconds",
		.bucket_step = 1,
		.n = shown->n,
		.row = export_row,
		.context = shown,
	};

	metrics_stats_write(out, &stats);
	metrics_head(out, PREFIX, "connections", "gauge",
		     "Connections of an export.");
	for (size_t i = 0; i < shown->n; i++)
		(void)fprintf(out, PREFIX "connections{extent=\"%s\"} %u\n",
			      shown->list[i].name, shown->list[i].connections);
}

static int metrics_collect(struct service *service, struct extent **list,
			   size_t n, struct shown *ret)
{
	int r = 0;

	ret->list = calloc(n + 1, sizeof(*ret->list));
	if (!ret->list)
		return -ENOMEM;
	for (size_t i = 0; i < n && r == 0; i++) {
		struct one *one = &ret->list[ret->n];
		auto_free struct target_connection *who = NULL;
		size_t n_who = 0;

		one->name = list[i]->record.name; /* for its life */
		if (exports_stats(service->exports, one->name, &one->stats,
				  &who, &n_who, NULL) < 0)
			continue; /* not served */
		one->connections = (unsigned)n_who;
		r = metrics_connections_add(&ret->connections, one->name, who,
					    n_who);
		ret->n++;
	}
	return r;
}

/* ---- pools ---- */

/* As one of several: 1 for the state that a pool is in. */
static void write_states(FILE *out, const struct node_pool_info *infos,
			 size_t n)
{
	metrics_head(out, PREFIX, "pool_state", "gauge",
		     "1 for the state that a pool is in, 0 for the others.");
	for (size_t i = 0; i < n; i++)
		for (enum node_pool_state s = 0; s < NODE_POOL_STATES; s++)
			(void)fprintf(out,
				      PREFIX "pool_state{pool=\"%s\","
					     "state=\"%s\"} %d\n",
				      infos[i].known.name,
				      node_pool_state_name(s),
				      infos[i].state == s);
}

static void write_pools(FILE *out, const struct node_pool_info *infos, size_t n)
{
	static const struct {
		const char *name, *help;
	} rows[] = {
		{"pool_capacity_bytes", "What a pool can promise."},
		{"pool_reserved_bytes", "What it has promised."},
		{"pool_allocated_bytes", "What is really used."},
		{"pool_available_bytes",
		 "The largest extent that could be made now."},
	};

	for (size_t row = 0; row < array_size(rows); row++) {
		metrics_head(out, PREFIX, rows[row].name, "gauge",
			     rows[row].help);
		for (size_t i = 0; i < n; i++) {
			const uint64_t values[] = {
				infos[i].space.capacity, infos[i].reserved,
				infos[i].allocated, infos[i].space.available};

			if (infos[i].served)
				(void)fprintf(out,
					      PREFIX "%s{pool=\"%s\"} %" PRIu64
						     "\n",
					      rows[row].name,
					      infos[i].known.name, values[row]);
		}
	}
	metrics_head(out, PREFIX, "pool_online", "gauge",
		     "1 if a pool can be used, else 0.");
	for (size_t i = 0; i < n; i++)
		(void)fprintf(out, PREFIX "pool_online{pool=\"%s\"} %d\n",
			      infos[i].known.name,
			      infos[i].state == NODE_POOL_ONLINE);
	write_states(out, infos, n);
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
		r = metrics_collect(service, list, n, &shown);
		write_pools(out, infos, n_pools);
		write_exports(out, &shown);
		direct_stats_write(out, PREFIX, list, n);
		metrics_connections_write(out, &shown.connections);
		metrics_connections_done(&shown.connections);
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
