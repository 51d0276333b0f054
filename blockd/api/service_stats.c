/* SPDX-License-Identifier: Apache-2.0 */
/* GetExportStats: the operations done through an export, and its clients. */
#include <stdlib.h>

#include "base/clock.h"
#include "blockd/api/service_internal.h"

static Tributary__V1__OperationStats *fill_op(
	struct rpc_call *call, const struct export_op_stats *from,
	enum export_op op)
{
	Tributary__V1__OperationStats *out = rpc_alloc(call, sizeof(*out));

	tributary__v1__operation_stats__init(out);
	out->operation = rpc_strdup(call, export_op_name(op));
	out->count = from->operations;
	out->errors = from->errors;
	out->bytes = from->bytes;
	out->total_us = from->total_us;
	out->n_latency = EXPORT_LATENCIES;
	out->latency = rpc_alloc(call, sizeof(from->latency));
	for (unsigned i = 0; i < EXPORT_LATENCIES; i++)
		out->latency[i] = from->latency[i];
	return out;
}

/* Fill in the operations that were used; returns how many. */
static size_t fill_ops(struct rpc_call *call, const struct export_stats *stats,
		       Tributary__V1__OperationStats ***ret)
{
	size_t n = 0;

	*ret = rpc_alloc(call, EXPORT_OPS * sizeof(**ret));
	for (enum export_op op = 0; op < EXPORT_OPS; op++)
		if (stats->ops[op].operations > 0)
			(*ret)[n++] = fill_op(call, &stats->ops[op], op);
	return n;
}

static Tributary__V1__Connection *fill_connection(
	struct rpc_call *call, const struct target_connection *from)
{
	Tributary__V1__Connection *out = rpc_alloc(call, sizeof(*out));

	tributary__v1__connection__init(out);
	out->id = from->id;
	out->peer = rpc_strdup(call, from->peer);
	out->features = rpc_strdup(call, from->features);
	out->age_ms = (uint64_t)(clock_ms() - from->since_ms);
	out->n_operations = fill_ops(call, &from->stats, &out->operations);
	return out;
}

int service_get_export_stats(struct rpc_call *call, const ProtobufCMessage *in,
			     ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__GetExportStatsRequest *request =
		(const Tributary__V1__GetExportStatsRequest *)in;
	Tributary__V1__ExportStats *reply = (Tributary__V1__ExportStats *)out;
	const struct service *service = rpc_context(call);
	auto_free struct target_connection *list = NULL;
	auto_extent struct extent *extent = NULL;
	struct export_stats stats = {0};
	size_t n = 0;
	int r = extent_find(service->node, request->name, &extent, err);

	if (r == 0)
		r = exports_stats(service->exports, request->name, &stats,
				  &list, &n, err);
	if (r < 0)
		return service_translate(r, err);
	reply->n_operations = fill_ops(call, &stats, &reply->operations);
	reply->connections = rpc_alloc(call,
				       (n + 1) * sizeof(*reply->connections));
	for (size_t i = 0; i < n; i++)
		reply->connections[reply->n_connections++] = fill_connection(
			call, &list[i]);
	return 0;
}
