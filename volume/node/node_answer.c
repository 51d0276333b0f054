/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/node/node_answer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define POOLS_MAX 1024 /* of one node */

int node_answer_bad(const struct node_client *client, const char *what,
		    struct error *err)
{
	return error_set(err, EPROTO, "node '%s': answered with a bad %s",
			 client->node, what);
}

bool node_answer_take(char *ret, size_t size, const char *text)
{
	size_t length = strnlen(text, size);

	if (length >= size)
		return false;
	memcpy(ret, text, length + 1);
	return true;
}

void node_answer_take_some(char *ret, size_t size, const char *text)
{
	(void)snprintf(ret, size, "%s", text);
}

int node_answer_pool(const struct node_client *client,
		     const Tributary__V1__Pool *m, struct node_pool *ret,
		     struct error *err)
{
	struct node_pool pool = {
		.capacity = m->capacity,
		.reserved = m->reserved,
		.allocated = m->allocated,
		.available = m->available,
		.nominal = m->nominal,
		.shared = m->shared,
		.reclaimable = m->reclaimable,
		.sharing_known = m->sharing_known,
		.extents = m->extents,
		.overcommit_percent = m->overcommit_percent,
		.floor = m->floor,
		.cluster_size = m->cluster_size,
	};

	if (!node_answer_take(pool.name, sizeof(pool.name), m->name) ||
	    name_check("pool", pool.name, NULL) < 0 ||
	    !node_answer_take(pool.path, sizeof(pool.path), m->path) ||
	    !node_answer_take(pool.id, sizeof(pool.id), m->id) ||
	    !node_answer_take(pool.incarnation, sizeof(pool.incarnation),
			      m->incarnation))
		return node_answer_bad(client, "pool", err);
	memcpy(pool.node, client->node, sizeof(pool.node));
	node_answer_take_some(pool.kind, sizeof(pool.kind), m->kind);
	node_answer_take_some(pool.state, sizeof(pool.state), m->state);
	node_answer_take_some(pool.message, sizeof(pool.message), m->message);
	node_answer_take_some(pool.note, sizeof(pool.note), m->note);
	*ret = pool;
	return 0;
}

int node_answer_pools(const struct node_client *client, size_t n,
		      Tributary__V1__Pool **m, struct node_pool **ret,
		      size_t *ret_count, struct error *err)
{
	struct node_pool *pools;

	if (n > POOLS_MAX)
		return node_answer_bad(client, "number of pools", err);
	pools = calloc(n + 1, sizeof(*pools));
	if (!pools)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		int r = node_answer_pool(client, m[i], &pools[i], err);

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
		if (!node_answer_take(extent->initiators[i], NODE_ADDRESS_SIZE,
				      m->initiators[i]))
			return false;
		extent->n_initiators++;
	}
	return true;
}

static bool read_iscsi(const Tributary__V1__Export *m,
		       struct node_extent *extent)
{
	if (!node_answer_take(extent->iscsi_name, sizeof(extent->iscsi_name),
			      m->iscsi_name))
		return false;
	for (size_t i = 0;
	     i < m->n_iscsi_portals && i < array_size(extent->iscsi_portals);
	     i++) {
		if (!node_answer_take(extent->iscsi_portals[i],
				      NODE_ADDRESS_SIZE, m->iscsi_portals[i]))
			return false;
		extent->n_iscsi_portals++;
	}
	if (!m->iscsi)
		return true;
	extent->iscsi_lun = m->iscsi->lun;
	return node_answer_take(extent->iscsi_target,
				sizeof(extent->iscsi_target), m->iscsi->target);
}

static bool read_export(const Tributary__V1__Export *m,
			struct node_extent *extent)
{
	extent->has_export = true;
	extent->epoch = m->epoch;
	extent->active = m->active;
	extent->read_only = m->read_only;
	extent->connections = m->connections;
	return read_initiators(m, extent) && read_iscsi(m, extent) &&
	       node_answer_take(extent->grant, sizeof(extent->grant),
				m->grant) &&
	       node_answer_take(extent->local_device,
				sizeof(extent->local_device),
				m->local_device) &&
	       node_answer_take(extent->nbd_name, sizeof(extent->nbd_name),
				m->nbd_name);
}

static bool read_origin(const Tributary__V1__Origin *m,
			struct node_extent *extent)
{
	struct node_origin *origin = &extent->origin;

	return node_answer_take(origin->name, sizeof(origin->name), m->name) &&
	       node_answer_take(origin->id, sizeof(origin->id), m->id) &&
	       node_answer_take(origin->cut, sizeof(origin->cut), m->cut) &&
	       node_answer_take(origin->method, sizeof(origin->method),
				m->method);
}

static bool read_direct(const Tributary__V1__Direct *m, struct node_direct *ret)
{
	ret->bytes = m->bytes;
	ret->runs = m->runs;
	ret->reads = m->reads;
	ret->read_bytes = m->read_bytes;
	ret->writes = m->writes;
	ret->written_bytes = m->written_bytes;
	ret->discards = m->discards;
	ret->flushes = m->flushes;
	return node_answer_take(ret->device, sizeof(ret->device), m->device);
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

int node_answer_extent(const struct node_client *client,
		       const Tributary__V1__Extent *m, struct node_extent *ret,
		       struct error *err)
{
	struct node_extent extent = {
		.size = m->size,
		.reserved = m->reserved,
		.allocated = m->allocated,
		.blank = m->blank,
		.created_s = (int64_t)m->created_s,
		.snapshot = strcmp(m->kind, "snapshot") == 0,
		.shared = m->shared,
		.reclaimable = m->reclaimable,
		.thick = m->thick,
		.copied = m->copied,
	};

	if (!node_answer_take(extent.name, sizeof(extent.name), m->name) ||
	    name_check("extent", extent.name, NULL) < 0 ||
	    !node_answer_take(extent.pool, sizeof(extent.pool), m->pool) ||
	    !node_answer_take(extent.id, sizeof(extent.id), m->id) ||
	    !node_answer_take(extent.path, sizeof(extent.path), m->path) ||
	    !node_answer_take(extent.incarnation, sizeof(extent.incarnation),
			      m->incarnation) ||
	    (m->export && !read_export(m->export, &extent)) ||
	    (m->origin && !read_origin(m->origin, &extent)) ||
	    (m->direct && !read_direct(m->direct, &extent.direct)) ||
	    read_labels(m, &extent.labels) < 0) {
		node_extent_done(&extent);
		return node_answer_bad(client, "extent", err);
	}
	if (m->limits) {
		extent.limits.iops = m->limits->iops;
		extent.limits.bytes_per_second = m->limits->bytes_per_second;
	}
	memcpy(extent.node, client->node, sizeof(extent.node));
	node_answer_take_some(extent.state, sizeof(extent.state), m->state);
	node_answer_take_some(extent.message, sizeof(extent.message),
			      m->message);
	node_answer_take_some(extent.pool_state, sizeof(extent.pool_state),
			      m->pool_state);
	node_answer_take_some(extent.pool_message, sizeof(extent.pool_message),
			      m->pool_message);
	*ret = extent;
	return 0;
}

int node_answer_extents(const struct node_client *client, size_t n,
			Tributary__V1__Extent **m, struct node_extent **ret,
			struct error *err)
{
	struct node_extent *extents = calloc(n + 1, sizeof(*extents));

	if (!extents)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < n; i++) {
		int r = node_answer_extent(client, m[i], &extents[i], err);

		if (r < 0) {
			node_extents_free(extents, i);
			return r;
		}
	}
	*ret = extents;
	return 0;
}
