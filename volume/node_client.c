/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/node_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "proto/blockd.pb-c.h"
#include "rpc/rpc.h"

#define SERVICE         "/tributary.v1.Blockd/"
#define POOLS_MAX       1024   /* of one node */
#define EXTENTS_MAX     100000 /* of one node */
#define DEFAULT_WAIT_MS 10000

struct node_client {
	struct rpc_client *rpc;
	int timeout_ms;
	char node[RECORD_NAME_SIZE];
};

int node_client_new(const struct node_record *node, int timeout_ms,
		    struct node_client **ret, struct error *err)
{
	const struct rpc_tls tls = {
		.ca_file = node->tls_ca_file,
		.cert_file = node->tls_cert_file,
		.key_file = node->tls_key_file,
	};
	struct node_client *client;
	int r;

	if (!node->control_address[0])
		return error_set(err, EINVAL,
				 "node '%s' only uses volumes: it has no "
				 "blockd, no pools and no extents",
				 node->name);
	client = calloc(1, sizeof(*client));
	if (!client)
		return error_set(err, ENOMEM, "out of memory");
	memcpy(client->node, node->name, sizeof(client->node));
	client->timeout_ms = timeout_ms > 0 ? timeout_ms : DEFAULT_WAIT_MS;
	r = rpc_client_new(
		node->control_address, node->tls_ca_file[0] ? &tls : NULL,
		node->tls_server_name[0] ? node->tls_server_name : NULL,
		&client->rpc, err);
	if (r < 0) {
		(void)error_prefix(err, "node '%s': ", node->name);
		free(client);
		return r;
	}
	*ret = client;
	return 0;
}

void node_client_free(struct node_client *client)
{
	if (!client)
		return;
	rpc_client_free(client->rpc);
	free(client);
}

/* One call; *ret is freed by cleanup_message. */
static int call(struct node_client *client, const char *path,
		const void *request, const ProtobufCMessageDescriptor *type,
		ProtobufCMessage **ret, struct error *err)
{
	int r = rpc_client_call(client->rpc, path, request, type,
				client->timeout_ms, ret, err);

	if (r < 0)
		(void)error_prefix(err, "node '%s': ", client->node);
	return r;
}

static void cleanup_message(ProtobufCMessage **message)
{
	if (*message)
		protobuf_c_message_free_unpacked(*message, NULL);
}
#define auto_message auto_cleanup(cleanup_message)

/* ---- answers ---- */

static int too_long(struct node_client *client, const char *what,
		    struct error *err)
{
	return error_set(err, EPROTO, "node '%s': answered with a bad %s",
			 client->node, what);
}

/* Copy what has to fit, or the answer is not ours to use. */
static bool take(char *ret, size_t size, const char *text)
{
	size_t length = strnlen(text, size);

	if (length >= size)
		return false;
	memcpy(ret, text, length + 1);
	return true;
}

/* Copy what is for people: cut when it is too long. */
static void take_some(char *ret, size_t size, const char *text)
{
	(void)snprintf(ret, size, "%s", text);
}

static int read_pool(struct node_client *client, const Tributary__V1__Pool *m,
		     struct node_pool *ret, struct error *err)
{
	struct node_pool pool = {
		.capacity = m->capacity,
		.reserved = m->reserved,
		.allocated = m->allocated,
		.available = m->available,
		.extents = m->extents,
		.overcommit_percent = m->overcommit_percent,
		.floor = m->floor,
	};

	if (!take(pool.name, sizeof(pool.name), m->name) ||
	    name_check("pool", pool.name, NULL) < 0 ||
	    !take(pool.path, sizeof(pool.path), m->path) ||
	    !take(pool.id, sizeof(pool.id), m->id) ||
	    !take(pool.incarnation, sizeof(pool.incarnation), m->incarnation))
		return too_long(client, "pool", err);
	memcpy(pool.node, client->node, sizeof(pool.node));
	take_some(pool.kind, sizeof(pool.kind), m->kind);
	take_some(pool.state, sizeof(pool.state), m->state);
	take_some(pool.message, sizeof(pool.message), m->message);
	*ret = pool;
	return 0;
}

static int read_pools(struct node_client *client, size_t n,
		      Tributary__V1__Pool **m, struct node_pool **ret,
		      size_t *ret_count, struct error *err)
{
	struct node_pool *pools;

	if (n > POOLS_MAX)
		return too_long(client, "number of pools", err);
	pools = calloc(n + 1, sizeof(*pools));
	if (!pools)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		int r = read_pool(client, m[i], &pools[i], err);

		if (r < 0) {
			free(pools);
			return r;
		}
	}
	*ret = pools;
	*ret_count = n;
	return 0;
}

static bool read_initiators(const Tributary__V1__Export *m,
			    struct node_extent *extent)
{
	if (m->n_initiators > EXPORT_INITIATORS_MAX)
		return false;
	extent->initiators = calloc(m->n_initiators + 1,
				    sizeof(*extent->initiators));
	if (!extent->initiators)
		return false;
	for (size_t i = 0; i < m->n_initiators; i++) {
		if (!take(extent->initiators[i], NODE_ADDRESS_SIZE,
			  m->initiators[i]))
			return false;
		extent->n_initiators++;
	}
	return true;
}

static bool read_export(const Tributary__V1__Export *m,
			struct node_extent *extent)
{
	extent->has_export = true;
	extent->epoch = m->epoch;
	extent->active = m->active;
	extent->read_only = m->read_only;
	extent->connections = m->connections;
	return read_initiators(m, extent) &&
	       take(extent->local_device, sizeof(extent->local_device),
		    m->local_device) &&
	       take(extent->nbd_name, sizeof(extent->nbd_name), m->nbd_name);
}

static int read_labels(const Tributary__V1__Extent *m, struct labels *ret)
{
	if (m->n_labels > LABELS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < m->n_labels; i++) {
		int r = labels_set(ret, m->labels[i]->key, m->labels[i]->value,
				   NULL);

		if (r < 0)
			return r;
	}
	return 0;
}

static int read_extent(struct node_client *client,
		       const Tributary__V1__Extent *m, struct node_extent *ret,
		       struct error *err)
{
	struct node_extent extent = {
		.size = m->size,
		.allocated = m->allocated,
		.blank = m->blank,
		.created_s = (int64_t)m->created_s,
	};

	if (!take(extent.name, sizeof(extent.name), m->name) ||
	    name_check("extent", extent.name, NULL) < 0 ||
	    !take(extent.pool, sizeof(extent.pool), m->pool) ||
	    !take(extent.id, sizeof(extent.id), m->id) ||
	    !take(extent.path, sizeof(extent.path), m->path) ||
	    !take(extent.incarnation, sizeof(extent.incarnation),
		  m->incarnation) ||
	    (m->export && !read_export(m->export, &extent)) ||
	    read_labels(m, &extent.labels) < 0) {
		node_extent_done(&extent);
		return too_long(client, "extent", err);
	}
	memcpy(extent.node, client->node, sizeof(extent.node));
	take_some(extent.state, sizeof(extent.state), m->state);
	take_some(extent.message, sizeof(extent.message), m->message);
	*ret = extent;
	return 0;
}

/* A call that answers with an extent, which the caller may not want. */
static int call_extent(struct node_client *client, const char *path,
		       const void *request, struct node_extent *ret,
		       struct error *err)
{
	auto_message ProtobufCMessage *answer = NULL;
	int r = call(client, path, request, &tributary__v1__extent__descriptor,
		     &answer, err);

	if (r < 0 || !ret)
		return r;
	return read_extent(client, (Tributary__V1__Extent *)answer, ret, err);
}

/* ---- node and pools ---- */

int node_client_get(struct node_client *client, struct node_state *ret,
		    struct error *err)
{
	Tributary__V1__GetNodeRequest request =
		TRIBUTARY__V1__GET_NODE_REQUEST__INIT;
	auto_message ProtobufCMessage *answer = NULL;
	const Tributary__V1__Node *m;
	int r = call(client, SERVICE "GetNode", &request,
		     &tributary__v1__node__descriptor, &answer, err);

	if (r < 0)
		return r;
	m = (const Tributary__V1__Node *)answer;
	if (strcmp(m->name, client->node) != 0)
		return error_set(err, EINVAL,
				 "node '%s': whoever answers there calls "
				 "itself '%.63s'",
				 client->node, m->name);
	if (!take(ret->boot_id, sizeof(ret->boot_id), m->boot_id))
		return too_long(client, "boot id", err);
	take_some(ret->version, sizeof(ret->version), m->version);
	ret->uptime_s = m->uptime_s;
	ret->n_nbd_addresses = 0;
	for (size_t i = 0;
	     i < m->n_nbd_addresses && i < array_size(ret->nbd_addresses); i++)
		take_some(ret->nbd_addresses[ret->n_nbd_addresses++],
			  NODE_ADDRESS_SIZE, m->nbd_addresses[i]);
	return read_pools(client, m->n_pools, m->pools, &ret->pools,
			  &ret->n_pools, err);
}

int node_client_create_pool(struct node_client *client, const char *name,
			    const char *path, uint64_t capacity,
			    unsigned overcommit_percent, bool force,
			    struct node_pool *ret, struct error *err)
{
	Tributary__V1__CreatePoolRequest request =
		TRIBUTARY__V1__CREATE_POOL_REQUEST__INIT;
	auto_message ProtobufCMessage *answer = NULL;
	int r;

	request.name = (char *)name;
	request.path = (char *)path;
	request.capacity = capacity;
	request.overcommit_percent = overcommit_percent;
	request.force = force;
	r = call(client, SERVICE "CreatePool", &request,
		 &tributary__v1__pool__descriptor, &answer, err);
	if (r < 0 || !ret)
		return r;
	return read_pool(client, (Tributary__V1__Pool *)answer, ret, err);
}

int node_client_list_pools(struct node_client *client, struct node_pool **ret,
			   size_t *ret_count, struct error *err)
{
	Tributary__V1__ListPoolsRequest request =
		TRIBUTARY__V1__LIST_POOLS_REQUEST__INIT;
	auto_message ProtobufCMessage *answer = NULL;
	const Tributary__V1__ListPoolsReply *m;
	int r = call(client, SERVICE "ListPools", &request,
		     &tributary__v1__list_pools_reply__descriptor, &answer,
		     err);

	if (r < 0)
		return r;
	m = (const Tributary__V1__ListPoolsReply *)answer;
	return read_pools(client, m->n_pools, m->pools, ret, ret_count, err);
}

int node_client_delete_pool(struct node_client *client, const char *name,
			    struct error *err)
{
	Tributary__V1__DeletePoolRequest request =
		TRIBUTARY__V1__DELETE_POOL_REQUEST__INIT;
	auto_message ProtobufCMessage *answer = NULL;

	request.name = (char *)name;
	return call(client, SERVICE "DeletePool", &request,
		    &tributary__v1__empty__descriptor, &answer, err);
}

/* ---- extents ---- */

int node_client_create_extent(struct node_client *client, const char *pool,
			      const char *name, uint64_t size,
			      const struct labels *labels,
			      struct node_extent *ret, struct error *err)
{
	Tributary__V1__CreateExtentRequest request =
		TRIBUTARY__V1__CREATE_EXTENT_REQUEST__INIT;
	Tributary__V1__Label items[LABELS_MAX], *pointers[LABELS_MAX];

	for (size_t i = 0; i < labels->count; i++) {
		tributary__v1__label__init(&items[i]);
		items[i].key = labels->items[i].key;
		items[i].value = labels->items[i].value;
		pointers[i] = &items[i];
	}
	request.pool = (char *)pool;
	request.name = (char *)name;
	request.size = size;
	request.n_labels = labels->count;
	request.labels = pointers;
	return call_extent(client, SERVICE "CreateExtent", &request, ret, err);
}

int node_client_get_extent(struct node_client *client, const char *name,
			   struct node_extent *ret, struct error *err)
{
	Tributary__V1__GetExtentRequest request =
		TRIBUTARY__V1__GET_EXTENT_REQUEST__INIT;

	request.name = (char *)name;
	return call_extent(client, SERVICE "GetExtent", &request, ret, err);
}

int node_client_list_extents(struct node_client *client, const char *pool,
			     struct node_extent **ret, size_t *ret_count,
			     struct error *err)
{
	Tributary__V1__ListExtentsRequest request =
		TRIBUTARY__V1__LIST_EXTENTS_REQUEST__INIT;
	auto_message ProtobufCMessage *answer = NULL;
	const Tributary__V1__ListExtentsReply *m;
	struct node_extent *extents;
	int r;

	request.pool = (char *)pool;
	r = call(client, SERVICE "ListExtents", &request,
		 &tributary__v1__list_extents_reply__descriptor, &answer, err);
	if (r < 0)
		return r;
	m = (const Tributary__V1__ListExtentsReply *)answer;
	if (m->n_extents > EXTENTS_MAX)
		return too_long(client, "number of extents", err);
	extents = calloc(m->n_extents + 1, sizeof(*extents));
	if (!extents)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < m->n_extents; i++) {
		r = read_extent(client, m->extents[i], &extents[i], err);
		if (r < 0) {
			node_extents_free(extents, i);
			return r;
		}
	}
	*ret = extents;
	*ret_count = m->n_extents;
	return 0;
}

int node_client_resize_extent(struct node_client *client, const char *name,
			      uint64_t size, struct node_extent *ret,
			      struct error *err)
{
	Tributary__V1__ResizeExtentRequest request =
		TRIBUTARY__V1__RESIZE_EXTENT_REQUEST__INIT;

	request.name = (char *)name;
	request.size = size;
	return call_extent(client, SERVICE "ResizeExtent", &request, ret, err);
}

int node_client_delete_extent(struct node_client *client, const char *name,
			      const char *id, struct error *err)
{
	Tributary__V1__DeleteExtentRequest request =
		TRIBUTARY__V1__DELETE_EXTENT_REQUEST__INIT;
	auto_message ProtobufCMessage *answer = NULL;

	request.name = (char *)name;
	request.id = (char *)id;
	return call(client, SERVICE "DeleteExtent", &request,
		    &tributary__v1__empty__descriptor, &answer, err);
}

int node_client_set_export(struct node_client *client, const char *name,
			   uint64_t epoch, const char *const *initiators,
			   size_t n_initiators, bool read_only,
			   struct node_extent *ret, struct error *err)
{
	Tributary__V1__SetExportRequest request =
		TRIBUTARY__V1__SET_EXPORT_REQUEST__INIT;

	request.name = (char *)name;
	request.epoch = epoch;
	request.initiators = (char **)initiators;
	request.n_initiators = n_initiators;
	request.read_only = read_only;
	return call_extent(client, SERVICE "SetExport", &request, ret, err);
}

int node_client_remove_export(struct node_client *client, const char *name,
			      uint64_t epoch, struct node_extent *ret,
			      struct error *err)
{
	Tributary__V1__RemoveExportRequest request =
		TRIBUTARY__V1__REMOVE_EXPORT_REQUEST__INIT;

	request.name = (char *)name;
	request.epoch = epoch;
	return call_extent(client, SERVICE "RemoveExport", &request, ret, err);
}
