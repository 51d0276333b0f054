/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "volume/node/node_answer.h"
#include "volume/node/node_client_internal.h"

#define EXTENTS_MAX 100000 /* of one node */

int node_client_call_extent(struct node_client *client, int timeout_ms,
			    const char *path, const void *request,
			    struct node_extent *ret, struct error *err)
{
	auto_answer ProtobufCMessage *answer = NULL;
	int r = node_client_call_for(client, timeout_ms, path, request,
				     &tributary__v1__extent__descriptor,
				     &answer, err);

	if (r < 0 || !ret)
		return r;
	return node_answer_extent(client, (Tributary__V1__Extent *)answer, ret,
				  err);
}

static int call_extent(struct node_client *client, const char *path,
		       const void *request, struct node_extent *ret,
		       struct error *err)
{
	return node_client_call_extent(client, client->timeout_ms, path,
				       request, ret, err);
}

size_t node_labels_fill(struct node_labels *ret, const struct labels *labels)
{
	size_t n = labels ? labels->count : 0;

	for (size_t i = 0; i < n; i++) {
		tributary__v1__label__init(&ret->items[i]);
		ret->items[i].key = labels->items[i].key;
		ret->items[i].value = labels->items[i].value;
		ret->pointers[i] = &ret->items[i];
	}
	return n;
}

int node_client_create_extent(struct node_client *client,
			      const struct node_extent_request *wanted,
			      struct node_extent *ret, struct error *err)
{
	Tributary__V1__CreateExtentRequest request =
		TRIBUTARY__V1__CREATE_EXTENT_REQUEST__INIT;
	Tributary__V1__Limits limits = TRIBUTARY__V1__LIMITS__INIT;
	struct node_labels labels;
	int timeout_ms = client->timeout_ms;

	request.pool = text_or_empty(wanted->pool);
	request.name = (char *)wanted->name;
	request.size = wanted->size;
	request.n_labels = node_labels_fill(&labels, wanted->labels);
	request.labels = labels.pointers;
	request.source = text_or_empty(wanted->source);
	request.source_id = text_or_empty(wanted->source_id);
	request.thick = wanted->thick;
	limits.iops = wanted->limits.iops;
	limits.bytes_per_second = wanted->limits.bytes_per_second;
	if (limits.iops || limits.bytes_per_second)
		request.limits = &limits;
	if (request.source[0]) {
		int r = node_client_get_extent(client, request.source, NULL,
					       err);

		/* Gone by now: it may have been made before. */
		if (r < 0 && r != -ENOENT)
			return r;
		timeout_ms = NODE_LONG_MS;
	}
	return node_client_call_extent(client, timeout_ms,
				       NODE_SERVICE "CreateExtent", &request,
				       ret, err);
}

int node_client_get_extent(struct node_client *client, const char *name,
			   struct node_extent *ret, struct error *err)
{
	Tributary__V1__GetExtentRequest request =
		TRIBUTARY__V1__GET_EXTENT_REQUEST__INIT;

	request.name = (char *)name;
	return call_extent(client, NODE_SERVICE "GetExtent", &request, ret,
			   err);
}

int node_client_list_extents(struct node_client *client, const char *pool,
			     struct node_extent **ret, size_t *ret_count,
			     struct error *err)
{
	Tributary__V1__ListExtentsRequest request =
		TRIBUTARY__V1__LIST_EXTENTS_REQUEST__INIT;
	auto_answer ProtobufCMessage *answer = NULL;
	const Tributary__V1__ListExtentsReply *m;
	int r;

	request.pool = (char *)pool;
	r = node_client_call(client, NODE_SERVICE "ListExtents", &request,
			     &tributary__v1__list_extents_reply__descriptor,
			     &answer, err);
	if (r < 0)
		return r;
	m = (const Tributary__V1__ListExtentsReply *)answer;
	if (m->n_extents > EXTENTS_MAX)
		return node_answer_bad(client, "number of extents", err);
	r = node_answer_extents(client, m->n_extents, m->extents, ret, err);
	if (r == 0)
		*ret_count = m->n_extents;
	return r;
}

int node_client_resize_extent(struct node_client *client, const char *name,
			      uint64_t size, struct node_extent *ret,
			      struct error *err)
{
	Tributary__V1__ResizeExtentRequest request =
		TRIBUTARY__V1__RESIZE_EXTENT_REQUEST__INIT;

	request.name = (char *)name;
	request.size = size;
	return call_extent(client, NODE_SERVICE "ResizeExtent", &request, ret,
			   err);
}

int node_client_delete_extent(struct node_client *client, const char *name,
			      const char *id, struct error *err)
{
	Tributary__V1__DeleteExtentRequest request =
		TRIBUTARY__V1__DELETE_EXTENT_REQUEST__INIT;
	auto_answer ProtobufCMessage *answer = NULL;

	request.name = (char *)name;
	request.id = (char *)id;
	return node_client_call(client, NODE_SERVICE "DeleteExtent", &request,
				&tributary__v1__empty__descriptor, &answer,
				err);
}

int node_client_set_export(struct node_client *client,
			   const struct node_export_request *request,
			   struct node_extent *ret, struct error *err)
{
	Tributary__V1__SetExportRequest message =
		TRIBUTARY__V1__SET_EXPORT_REQUEST__INIT;
	Tributary__V1__IscsiExport lun = TRIBUTARY__V1__ISCSI_EXPORT__INIT;

	message.name = (char *)request->name;
	message.epoch = request->epoch;
	message.initiators = (char **)request->initiators;
	message.n_initiators = request->n_initiators;
	message.read_only = request->read_only;
	message.block_size = request->block_size;
	message.grant = text_or_empty(request->grant);
	message.over = (char **)request->over;
	message.n_over = request->n_over;
	if (request->lun.target || request->lun.account) {
		lun.target = text_or_empty(request->lun.target);
		lun.lun = request->lun.lun;
		lun.account = text_or_empty(request->lun.account);
		message.iscsi = &lun;
	}
	return call_extent(client, NODE_SERVICE "SetExport", &message, ret,
			   err);
}

int node_client_attach_direct(struct node_client *client, const char *name,
			      uint64_t epoch, const char *grant,
			      const char *uuid, struct node_extent *ret,
			      struct error *err)
{
	Tributary__V1__AttachDirectRequest request =
		TRIBUTARY__V1__ATTACH_DIRECT_REQUEST__INIT;

	request.name = (char *)name;
	request.epoch = epoch;
	request.grant = text_or_empty(grant);
	request.device = (char *)uuid;
	return call_extent(client, NODE_SERVICE "AttachDirect", &request, ret,
			   err);
}

int node_client_detach_direct(struct node_client *client, const char *name,
			      uint64_t epoch, const char *grant,
			      struct node_extent *ret, struct error *err)
{
	Tributary__V1__DetachDirectRequest request =
		TRIBUTARY__V1__DETACH_DIRECT_REQUEST__INIT;

	request.name = (char *)name;
	request.epoch = epoch;
	request.grant = text_or_empty(grant);
	return call_extent(client, NODE_SERVICE "DetachDirect", &request, ret,
			   err);
}

int node_client_remove_export(struct node_client *client, const char *name,
			      uint64_t epoch, const char *const *grants,
			      size_t n, struct error *err)
{
	Tributary__V1__RemoveExportRequest request =
		TRIBUTARY__V1__REMOVE_EXPORT_REQUEST__INIT;

	request.name = (char *)name;
	request.epoch = epoch;
	request.grants = (char **)grants;
	request.n_grants = n;
	return call_extent(client, NODE_SERVICE "RemoveExport", &request, NULL,
			   err);
}
