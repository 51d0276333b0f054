/* SPDX-License-Identifier: Apache-2.0 */
/* volume.h: nodes and pools. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parallel.h"
#include "rpc/rpc_cert.h"
#include "volume/op/context.h"
#include "volume/op/node_states.h"

#define SWAP_TRIES       16
#define IDENTITY_WAIT_MS 2000 /* it may be down when it is made known */

/* Check the identity of a node: when it answers, it has to be the one meant. */
static int check_identity(const struct node_record *node, char *ret_trouble,
			  struct error *err)
{
	struct node_state state = {.record = *node};
	struct node_client *client = NULL;
	int r = node_client_new(node, IDENTITY_WAIT_MS, &client, err);

	if (r == 0)
		r = node_client_get(client, &state, err);
	node_client_free(client);
	free(state.pools);
	node_state_warn(&state);
	if (ret_trouble)
		(void)snprintf(ret_trouble, ERROR_TEXT_MAX, "%s",
			       r < 0 ? error_text(err) : state.warning);
	return error_is_open(r) ? 0 : r;
}

/* Replace a node's registration, keeping its identity. */
static int node_replace(struct volume_context *ctx, struct node_record *node,
			struct error *err)
{
	struct node_record old = {0};
	auto_free char *json = NULL;
	int r = context_node_load(ctx, node->name, &old, err);

	if (r < 0)
		return r;
	node_record_inherit(node, &old);
	node->report = old.report;
	r = node_record_encode(node, &json, err);
	node->report = NULL;
	node->cordoned_pools = (struct name_list){0};
	node->scrub = NULL;
	node_record_done(&old);
	if (r < 0)
		return r;
	return ctx->store->ops->compare_and_swap(
		ctx->store, RECORD_KIND_NODE, node->name,
		node->resource_version, json, NULL, err);
}

static int node_create(struct volume_context *ctx, struct node_record *node,
		       struct error *err)
{
	auto_free char *json = NULL;
	int r;

	(void)uuid_make(node->uid);
	node->created_s = clock_wall_s();
	node->resource_version[0] = '\0';
	r = node_record_encode(node, &json, err);
	if (r < 0)
		return r;
	return ctx->store->ops->create(ctx->store, RECORD_KIND_NODE, node->name,
				       json, NULL, err);
}

int volume_node_add(struct volume_context *ctx, const struct node_record *node,
		    char *ret_trouble, struct error *err)
{
	struct node_record copy = *node; /* labels stay the caller's */
	int r = node_record_check(node, err);

	if (ret_trouble)
		ret_trouble[0] = '\0';
	if (r == 0 && node->control_address[0])
		r = check_identity(node, ret_trouble, err);
	if (r < 0)
		return r;
	copy.report = NULL; /* what is known of it stays */
	copy.scrub = NULL;
	for (int i = 0; i < SWAP_TRIES; i++) {
		r = node_create(ctx, &copy, err);
		if (r == -EEXIST)
			r = node_replace(ctx, &copy, err);
		if (r != -ESTALE && r != -ENOENT)
			return r;
	}
	return error_set(err, EAGAIN,
			 "node '%s' is being changed by others all the time",
			 node->name);
}

/*
 * Set the node's limit, and make the node known: for a node that only uses
 * volumes nothing else does.
 */
static int limit_once(struct volume_context *ctx, const char *name,
		      unsigned max_volumes, struct error *err)
{
	struct node_record node = {0};
	auto_free char *json = NULL;
	int r = context_node_load(ctx, name, &node, err);

	if (r == -ENOENT) {
		(void)snprintf(node.name, sizeof(node.name), "%s", name);
		node.max_volumes = max_volumes;
		return node_create(ctx, &node, err);
	}
	if (r == 0 && node.max_volumes != max_volumes) {
		node.max_volumes = max_volumes;
		r = node_record_encode(&node, &json, err);
		if (r == 0)
			r = ctx->store->ops->compare_and_swap(
				ctx->store, RECORD_KIND_NODE, name,
				node.resource_version, json, NULL, err);
	}
	node_record_done(&node);
	return r;
}

int volume_node_limit(struct volume_context *ctx, const char *name,
		      unsigned max_volumes, struct error *err)
{
	int r = name_check("node", name, err);

	for (int i = 0; r == 0 && i < SWAP_TRIES; i++) {
		r = limit_once(ctx, name, max_volumes, err);
		if (r != -EEXIST && r != -ESTALE && r != -ENOENT)
			return r;
		r = 0;
	}
	return r < 0 ? r
		     : error_set(err, EAGAIN,
				 "node '%s' is being changed by others all "
				 "the time",
				 name);
}

/* ---- cordon ---- */

/* A pool that is not there is a typo, unless the node does not answer. */
static int pool_known(struct volume_context *ctx, const char *name,
		      const char *pool, struct error *err)
{
	auto_free struct node_pool *pools = NULL;
	struct error why = {0};
	size_t n = 0;
	int r = volume_pool_list(ctx, name, &pools, &n, &why);

	if (r < 0 && error_is_open(r))
		return 0;
	if (r < 0)
		return error_set(err, -r, "%s", error_text(&why));
	for (size_t i = 0; i < n; i++) {
		if (strcmp(pools[i].name, pool) == 0)
			return 0;
	}
	return error_set(err, ENOENT, "node '%s' has no pool '%s'", name, pool);
}

static int pool_cordon(struct node_record *node, const char *pool,
		       bool cordoned, struct error *err)
{
	if (!cordoned) {
		name_list_remove(&node->cordoned_pools, pool);
		return 0;
	}
	if (node->cordoned_pools.count >= NODE_REPORT_POOLS_MAX)
		return error_set(err, E2BIG,
				 "node '%s' has %d cordoned pools; cordon the "
				 "node",
				 node->name, NODE_REPORT_POOLS_MAX);
	return name_list_add(&node->cordoned_pools, pool, err);
}

static int cordon_once(struct volume_context *ctx, const char *name,
		       const char *pool, bool cordoned, struct error *err)
{
	struct node_record node = {0};
	auto_free char *json = NULL;
	int r = context_node_load(ctx, name, &node, err);

	if (r < 0)
		return r;
	if (pool)
		r = pool_cordon(&node, pool, cordoned, err);
	else
		node.cordoned = cordoned;
	if (r == 0)
		r = node_record_encode(&node, &json, err);
	if (r == 0)
		r = ctx->store->ops->compare_and_swap(
			ctx->store, RECORD_KIND_NODE, name,
			node.resource_version, json, NULL, err);
	node_record_done(&node);
	return r;
}

int volume_node_cordon(struct volume_context *ctx, const char *name,
		       const char *pool, bool cordoned, struct error *err)
{
	int r = name_check("node", name, err);

	if (r == 0 && pool)
		r = name_check("pool", pool, err);
	if (r == 0 && pool && cordoned)
		r = pool_known(ctx, name, pool, err);
	if (r < 0)
		return r;
	for (int i = 0; i < SWAP_TRIES; i++) {
		r = cordon_once(ctx, name, pool, cordoned, err);
		if (r != -ESTALE)
			return r;
	}
	return error_set(err, EAGAIN,
			 "node '%s' is being changed by others all the time",
			 name);
}

/* ---- pools ---- */

int volume_pool_create(struct volume_context *ctx,
		       const struct pool_request *request,
		       struct node_pool *ret, struct error *err)
{
	struct node_client *client = NULL;
	int r = name_check("pool", request->name, err);

	if (r == 0)
		r = context_client(ctx, request->node, &client, err);
	if (r < 0)
		return r;
	return node_client_create_pool(client, request, ret, err);
}

int volume_pool_delete(struct volume_context *ctx, const char *node,
		       const char *name, struct error *err)
{
	struct node_client *client = NULL;
	int r = name_check("pool", name, err);

	if (r == 0)
		r = context_client(ctx, node, &client, err);
	return r < 0 ? r : node_client_delete_pool(client, name, err);
}

int volume_pool_list(struct volume_context *ctx, const char *node,
		     struct node_pool **ret, size_t *ret_count,
		     struct error *err)
{
	struct node_client *client = NULL;
	struct node_record record = {0};
	struct node_pool *pools = NULL;
	size_t n = 0;
	int r = context_node_load(ctx, node, &record, err);

	if (r == 0)
		r = context_client(ctx, node, &client, err);
	if (r == 0)
		r = node_client_list_pools(client, &pools, &n, err);
	for (size_t i = 0; r == 0 && i < n; i++)
		pools[i].cordoned = node_record_cordons(&record, pools[i].name);
	node_record_done(&record);
	if (r == 0) {
		*ret = pools;
		*ret_count = n;
	}
	return r;
}

int volume_node_known(struct volume_context *ctx, const char *name,
		      struct error *err)
{
	struct node_record node = {0};
	int r;

	if (name_check("node", name, NULL) < 0)
		return 0;
	r = context_node_load(ctx, name, &node, err);
	if (r == 0)
		node_record_done(&node);
	return r == -ENOENT ? 0 : r == 0 ? 1 : r;
}
