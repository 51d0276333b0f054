/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/extent/export_stats.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/uuid_name.h"
#include "volume/node/node_client_internal.h"

typedef Tributary__V1__OperationStats operation_message;
typedef Tributary__V1__Connection connection_message;

/* The upper end of the bucket that @share of @total is reached in, us. */
static uint64_t reached(const operation_message *m, uint64_t total,
			double share)
{
	uint64_t seen = 0;

	for (size_t i = 0; i < m->n_latency && i < 63; i++) {
		seen += m->latency[i];
		if ((double)seen >= share * (double)total)
			return UINT64_C(1) << i;
	}
	return 0;
}

static struct operation_stats take_operation(const operation_message *m)
{
	struct operation_stats ret = {
		.count = m->count,
		.errors = m->errors,
		.bytes = m->bytes,
		.total_us = m->total_us,
		.p50_us = reached(m, m->count, 0.5),
		.p99_us = reached(m, m->count, 0.99),
	};

	(void)snprintf(ret.operation, sizeof(ret.operation), "%s",
		       m->operation);
	return ret;
}

static struct connection_stats take_connection(const connection_message *m)
{
	struct connection_stats ret = {.age_ms = m->age_ms};

	(void)snprintf(ret.peer, sizeof(ret.peer), "%s", m->peer);
	(void)snprintf(ret.features, sizeof(ret.features), "%s", m->features);
	for (size_t i = 0; i < m->n_operations; i++) {
		ret.count += m->operations[i]->count;
		ret.errors += m->operations[i]->errors;
		ret.bytes += m->operations[i]->bytes;
	}
	return ret;
}

static int take_use(const Tributary__V1__ExportStats *m, struct export_use *ret,
		    struct error *err)
{
	struct export_use use = {0};

	if (m->n_connections > EXPORT_STATS_CONNECTIONS)
		return error_set(err, EPROTO, "too many connections: %zu",
				 m->n_connections);
	use.connections = calloc(m->n_connections + 1,
				 sizeof(*use.connections));
	if (!use.connections)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < m->n_operations && i < EXPORT_STATS_OPERATIONS;
	     i++)
		use.operations[use.n_operations++] = take_operation(
			m->operations[i]);
	for (size_t i = 0; i < m->n_connections; i++)
		use.connections[use.n_connections++] = take_connection(
			m->connections[i]);
	*ret = use;
	return 0;
}

static int node_client_export_stats(struct node_client *client,
				    const char *name, struct export_use *ret,
				    struct error *err)
{
	Tributary__V1__GetExportStatsRequest request =
		TRIBUTARY__V1__GET_EXPORT_STATS_REQUEST__INIT;
	auto_answer ProtobufCMessage *answer = NULL;
	int r;

	request.name = (char *)name;
	r = node_client_call(client, NODE_SERVICE "GetExportStats", &request,
			     &tributary__v1__export_stats__descriptor, &answer,
			     err);
	return r < 0 ? r
		     : take_use((Tributary__V1__ExportStats *)answer, ret, err);
}

int volume_extent_stats(struct volume_context *ctx, const char *node,
			const char *name, struct export_use *ret,
			struct error *err)
{
	struct node_client *client = NULL;
	int r = name_check("node", node, err);

	if (r == 0)
		r = name_check("extent", name, err);
	if (r == 0)
		r = context_client(ctx, node, &client, err);
	return r < 0 ? r : node_client_export_stats(client, name, ret, err);
}
