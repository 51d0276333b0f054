/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/node/node_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "volume/node/node_answer.h"
#include "volume/node/node_client_internal.h"

#define DEFAULT_WAIT_MS 10000
/* node_client_get_soon() */
#define SOON_MS  3000
#define AGAIN_MS 300
#define QUIET_MS 10000

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
		(void)error_prefix(err, r, "node '%s': ", node->name);
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

int node_client_call(struct node_client *client, const char *path,
		     const void *request,
		     const ProtobufCMessageDescriptor *type,
		     ProtobufCMessage **ret, struct error *err)
{
	return node_client_call_for(client, client->timeout_ms, path, request,
				    type, ret, err);
}

/*
 * Another silence within QUIET_MS does not make it last: one that is only slow
 * is waited for again after that.
 */
static void client_set_silent(struct node_client *client, bool answered)
{
	int64_t now_ms = clock_ms();

	if (answered)
		client->quiet_ms = 0;
	else if (!client->quiet_ms || now_ms >= client->quiet_ms + QUIET_MS)
		client->quiet_ms = now_ms;
}

int node_client_call_for(struct node_client *client, int timeout_ms,
			 const char *path, const void *request,
			 const ProtobufCMessageDescriptor *type,
			 ProtobufCMessage **ret, struct error *err)
{
	int r = rpc_client_call(client->rpc, path, request, type, timeout_ms,
				ret, err);

	client_set_silent(client, r != -ETIMEDOUT && r != -EHOSTUNREACH);
	if (r < 0)
		(void)error_prefix(err, r, "node '%s': ", client->node);
	return r;
}

static int node_client_get_within(struct node_client *client, int wait_ms,
				  struct node_state *ret, struct error *err)
{
	Tributary__V1__GetNodeRequest request =
		TRIBUTARY__V1__GET_NODE_REQUEST__INIT;
	auto_answer ProtobufCMessage *answer = NULL;
	const Tributary__V1__Node *m;
	int64_t asked_ms = clock_wall_ms();
	int r = node_client_call_for(client, wait_ms, NODE_SERVICE "GetNode",
				     &request, &tributary__v1__node__descriptor,
				     &answer, err);

	if (r < 0)
		return r;
	m = (const Tributary__V1__Node *)answer;
	if (strcmp(m->name, client->node) != 0)
		return error_set(
			err, EINVAL,
			"node '%s': its address answers as node '%.63s'",
			client->node, m->name);
	if (!node_answer_take(ret->boot_id, sizeof(ret->boot_id), m->boot_id))
		return node_answer_bad(client, "boot id", err);
	node_answer_take_some(ret->version, sizeof(ret->version), m->version);
	ret->uptime_s = m->uptime_s;
	/* The node answered between the call's beginning and its end. */
	ret->clock_known = m->clock_ms != 0;
	ret->clock_ahead_ms = m->clock_ms - (asked_ms + clock_wall_ms()) / 2;
	ret->n_nbd_addresses = 0;
	for (size_t i = 0;
	     i < m->n_nbd_addresses && i < array_size(ret->nbd_addresses); i++)
		node_answer_take_some(
			ret->nbd_addresses[ret->n_nbd_addresses++],
			NODE_ADDRESS_SIZE, m->nbd_addresses[i]);
	/* The first is enough to send somebody there. */
	if (m->n_warnings > 0)
		node_answer_take_some(ret->warning, sizeof(ret->warning),
				      m->warnings[0]);
	return node_answer_pools(client, m->n_pools, m->pools, &ret->pools,
				 &ret->n_pools, err);
}

int node_client_get(struct node_client *client, struct node_state *ret,
		    struct error *err)
{
	return node_client_get_within(client, client->timeout_ms, ret, err);
}

int node_client_get_soon(struct node_client *client, struct node_state *ret,
			 struct error *err)
{
	int64_t quiet_ms = client->quiet_ms;
	int soon_ms = client->timeout_ms / 10 * 3;
	int wait_ms = soon_ms > SOON_MS ? soon_ms : SOON_MS;

	if (quiet_ms && clock_ms() < quiet_ms + QUIET_MS)
		wait_ms = AGAIN_MS;
	if (wait_ms > client->timeout_ms)
		wait_ms = client->timeout_ms;
	return node_client_get_within(client, wait_ms, ret, err);
}

int node_client_create_pool(struct node_client *client,
			    const struct pool_request *wanted,
			    struct node_pool *ret, struct error *err)
{
	Tributary__V1__CreatePoolRequest request =
		TRIBUTARY__V1__CREATE_POOL_REQUEST__INIT;
	auto_answer ProtobufCMessage *answer = NULL;
	int r;

	request.name = (char *)wanted->name;
	request.path = (char *)wanted->path;
	request.capacity = wanted->capacity;
	request.overcommit_percent = wanted->overcommit_percent;
	request.force = wanted->force;
	request.cluster_size = wanted->cluster_size;
	request.raw = wanted->raw;
	r = node_client_call(client, NODE_SERVICE "CreatePool", &request,
			     &tributary__v1__pool__descriptor, &answer, err);
	if (r < 0 || !ret)
		return r;
	return node_answer_pool(client, (Tributary__V1__Pool *)answer, ret,
				err);
}

int node_client_list_pools(struct node_client *client, struct node_pool **ret,
			   size_t *ret_count, struct error *err)
{
	Tributary__V1__ListPoolsRequest request =
		TRIBUTARY__V1__LIST_POOLS_REQUEST__INIT;
	auto_answer ProtobufCMessage *answer = NULL;
	const Tributary__V1__ListPoolsReply *m;
	int r = node_client_call(client, NODE_SERVICE "ListPools", &request,
				 &tributary__v1__list_pools_reply__descriptor,
				 &answer, err);

	if (r < 0)
		return r;
	m = (const Tributary__V1__ListPoolsReply *)answer;
	return node_answer_pools(client, m->n_pools, m->pools, ret, ret_count,
				 err);
}

int node_client_delete_pool(struct node_client *client, const char *name,
			    struct error *err)
{
	Tributary__V1__DeletePoolRequest request =
		TRIBUTARY__V1__DELETE_POOL_REQUEST__INIT;
	auto_answer ProtobufCMessage *answer = NULL;

	request.name = (char *)name;
	return node_client_call(client, NODE_SERVICE "DeletePool", &request,
				&tributary__v1__empty__descriptor, &answer,
				err);
}
