/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/api/metrics_connections.h"

#include <errno.h>
#include <stdlib.h>

#include "blockd/api/metrics_stats.h"

#define PREFIX "trib_blockd_connection_"

/* So many buckets of an export's histogram make one here. */
#define BUCKET_STEP 2u

int metrics_connections_add(struct metrics_connections *all, const char *extent,
			    const struct target_connection *list, size_t n)
{
	if (!all->list)
		all->list = calloc(METRICS_CONNECTIONS_MAX, sizeof(*all->list));
	if (!all->list)
		return -ENOMEM;
	while (n > 0 && all->n < METRICS_CONNECTIONS_MAX)
		all->list[all->n++] = (struct metrics_connection){extent,
								  list[--n]};
	all->left_out += n;
	return 0;
}

void metrics_connections_done(struct metrics_connections *all)
{
	free(all->list);
	*all = (struct metrics_connections){.n = 0};
}

/* Part of it is the peer's: as the text format wants labels. */
static void put_text(FILE *out, const char *text)
{
	for (; *text; text++) {
		if (*text == '\n') {
			(void)fputs("\\n", out);
			continue;
		}
		if (*text == '"' || *text == '\\')
			(void)fputc('\\', out);
		(void)fputc(*text, out);
	}
}

static struct metrics_row row(const void *context, size_t i)
{
	const struct metrics_connections *all = context;
	const struct metrics_connection *c = &all->list[i];

	return (struct metrics_row){.extent = c->extent,
				    .is_connection = true,
				    .connection = c->is.id,
				    .stats = &c->is.stats};
}

static void write_info(FILE *out, const struct metrics_connections *all)
{
	metrics_head(out, PREFIX, "info", "gauge",
		     "The peer, and the negotiated features.");
	for (size_t i = 0; i < all->n; i++) {
		struct metrics_row who = row(all, i);

		metrics_labels(out, PREFIX, "info", &who);
		(void)fputs(",peer=\"", out);
		put_text(out, all->list[i].is.peer);
		(void)fputs("\",features=\"", out);
		put_text(out, all->list[i].is.features);
		(void)fputs("\"} 1\n", out);
	}
}

void metrics_connections_write(FILE *out, const struct metrics_connections *all)
{
	const struct metrics_stats stats = {
		.prefix = PREFIX,
		.by = "connection",
		.seconds = "seconds",
		.bucket_step = BUCKET_STEP,
		.n = all->n,
		.row = row,
		.context = all,
	};

	write_info(out, all);
	metrics_stats_write(out, &stats);
	metrics_head(out, "trib_blockd_", "connections_left_out", "gauge",
		     "Connections without rows of their own.");
	(void)fprintf(out, "trib_blockd_connections_left_out %zu\n",
		      all->left_out);
}
