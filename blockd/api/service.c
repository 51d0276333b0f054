/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/api/service.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/size.h"
#include "blockd/api/service_internal.h"
#include "blockd/export/exports_direct.h"

/* ---- node and pools ---- */

/* Warn of the certificate in use; @ret_text: ERROR_TEXT_MAX bytes. */
static bool service_cert_warns(const struct service_cert *own, char *ret_text)
{
	struct rpc_cert cert = own->cert;

	if (own->reread)
		(void)rpc_cert_read(own->cert.file, own->kind, &cert,
				    NULL); /* or the one before it serves on */
	return rpc_cert_warns(&cert, (int64_t)time(NULL), ret_text);
}

static int get_node(struct rpc_call *call, const ProtobufCMessage *in,
		    ProtobufCMessage *out, struct error *err)
{
	const struct service *service = rpc_context(call);
	Tributary__V1__Node *node = (Tributary__V1__Node *)out;
	char text[ERROR_TEXT_MAX];
	int r = service_list_pools(call, NULL, &node->pools, &node->n_pools,
				   err);

	(void)in; /* has no fields */
	if (r < 0)
		return r;
	node->name = rpc_strdup(call, service->name);
	node->version = rpc_strdup(call, TRIBUTARY_VERSION);
	node->boot_id = rpc_strdup(call, service->boot_id);
	node->uptime_s = (uint64_t)(clock_ms() - service->started_ms) / 1000;
	node->clock_ms = clock_wall_ms();
	node->n_nbd_addresses = service->n_nbd_addresses;
	node->nbd_addresses = rpc_alloc(call, (service->n_nbd_addresses + 1) *
						      sizeof(char *));
	for (size_t i = 0; i < service->n_nbd_addresses; i++)
		node->nbd_addresses[i] = rpc_strdup(call,
						    service->nbd_addresses[i]);
	node->warnings = rpc_alloc(call, (SERVICE_CERTS + 1) * sizeof(char *));
	for (size_t i = 0; i < service->n_certs; i++)
		if (service_cert_warns(&service->certs[i], text))
			node->warnings[node->n_warnings++] = rpc_strdup(call,
									text);
	return 0;
}

static int list_pools(struct rpc_call *call, const ProtobufCMessage *in,
		      ProtobufCMessage *out, struct error *err)
{
	Tributary__V1__ListPoolsReply *reply =
		(Tributary__V1__ListPoolsReply *)out;

	(void)in; /* has no fields */
	return service_list_pools(call, NULL, &reply->pools, &reply->n_pools,
				  err);
}

static int create_pool(struct rpc_call *call, const ProtobufCMessage *in,
		       ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__CreatePoolRequest *request =
		(const Tributary__V1__CreatePoolRequest *)in;
	const struct service *service = rpc_context(call);
	const struct node_pool_request wanted = {
		.name = request->name,
		.path = request->path,
		.overcommit_percent = request->overcommit_percent,
		.capacity = request->capacity,
		.cluster_size = request->cluster_size,
		.raw = request->raw,
		.may_format = true,
		.force = request->force,
	};
	auto_free struct node_pool_info *infos = NULL;
	size_t n = 0;
	char note[ERROR_TEXT_MAX];
	int r = node_add_pool(service->node, &wanted, note, err);

	/* A pool that came back has exports. */
	if (r == 0)
		r = exports_restore(service->exports, request->name, err);
	if (r == 0)
		r = node_list_pools(service->node, request->name, &infos, &n,
				    err);
	if (r == 0 && n == 0)
		r = error_set(err, EAGAIN, "pool '%s' was deleted meanwhile",
			      request->name);
	if (r < 0)
		return service_translate(r, err);
	service_fill_pool(call, &infos[0], (Tributary__V1__Pool *)out);
	((Tributary__V1__Pool *)out)->note = rpc_strdup(call, note);
	return 0;
}

static int delete_pool(struct rpc_call *call, const ProtobufCMessage *in,
		       ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__DeletePoolRequest *request =
		(const Tributary__V1__DeletePoolRequest *)in;
	const struct service *service = rpc_context(call);
	int r = name_check("pool", request->name, err);

	(void)out; /* has no fields */
	if (r == 0)
		r = node_delete_pool(service->node, request->name, err);
	return r < 0 ? service_translate(r, err) : 0;
}

/* ---- extents ---- */

static int create_extent(struct rpc_call *call, const ProtobufCMessage *in,
			 ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__CreateExtentRequest *request =
		(const Tributary__V1__CreateExtentRequest *)in;
	const struct service *service = rpc_context(call);
	struct extent_label labels[EXTENT_LABELS_MAX];
	struct extent_request wanted = {
		.pool = request->pool,
		.name = request->name,
		.size = request->size,
		.labels = labels,
		.n_labels = request->n_labels,
		.source = request->source,
		.source_id = request->source_id,
		.thick = request->thick,
		.limits = service_take_limits(request->limits),
	};
	auto_extent struct extent *extent = NULL;
	char size[SIZE_TEXT_MAX];
	bool made;
	int r;

	r = service_take_labels(request->labels, request->n_labels, labels,
				err);
	if (r < 0)
		return r;
	r = extent_create(service->node, &wanted, &extent, &made, err);
	if (r < 0)
		return service_failed(service, request->pool, request->source,
				      r, err);
	if (made)
		log_info("extent %s: made in pool %s, %s", request->name,
			 extent->pool->known.name,
			 size_format(size, request->size));
	return service_reply_extent(call, extent, out, err);
}

static int get_extent(struct rpc_call *call, const ProtobufCMessage *in,
		      ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__GetExtentRequest *request =
		(const Tributary__V1__GetExtentRequest *)in;
	const struct service *service = rpc_context(call);
	auto_extent struct extent *extent = NULL;
	int r = extent_find(service->node, request->name, &extent, err);

	return r < 0 ? r : service_reply_extent(call, extent, out, err);
}

static int list_extents(struct rpc_call *call, const ProtobufCMessage *in,
			ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__ListExtentsRequest *request =
		(const Tributary__V1__ListExtentsRequest *)in;
	Tributary__V1__ListExtentsReply *reply =
		(Tributary__V1__ListExtentsReply *)out;
	const struct service *service = rpc_context(call);
	auto_loopdev_users struct loopdev_users users = {0};
	struct extent **list = NULL;
	size_t n = 0;
	int r = loopdev_users_scan(&users, err);

	if (r == 0)
		r = node_list_extents(service->node, request->pool, &list, &n,
				      err);
	if (r < 0)
		return service_translate(r, err);
	reply->extents = rpc_alloc(call, (n + 1) * sizeof(*reply->extents));
	for (size_t i = 0; i < n; i++) {
		Tributary__V1__Extent *one = rpc_alloc(call, sizeof(*one));

		tributary__v1__extent__init(one);
		if (service_fill_extent(call, list[i], &users, one, NULL) == 0)
			reply->extents[reply->n_extents++] = one;
	}
	node_put_list(list, n);
	return 0;
}

static int resize_extent(struct rpc_call *call, const ProtobufCMessage *in,
			 ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__ResizeExtentRequest *request =
		(const Tributary__V1__ResizeExtentRequest *)in;
	const struct service *service = rpc_context(call);
	auto_extent struct extent *extent = NULL;
	char size[SIZE_TEXT_MAX];
	int r = extent_find(service->node, request->name, &extent, err);

	if (r == 0)
		r = extent_resize(extent, request->size, err);
	if (r < 0)
		return service_failed(service, "", request->name, r, err);
	log_info("extent %s: has %s", request->name,
		 size_format(size, request->size));
	return service_reply_extent(call, extent, out, err);
}

static int delete_extent(struct rpc_call *call, const ProtobufCMessage *in,
			 ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__DeleteExtentRequest *request =
		(const Tributary__V1__DeleteExtentRequest *)in;
	const struct service *service = rpc_context(call);
	int r = name_check("extent", request->name, err);

	(void)out; /* has no fields */
	if (r == 0)
		r = extent_delete(service->node, request->name, request->id,
				  err);
	if (r < 0)
		return service_translate(r, err);
	log_info("extent %s: deleted", request->name);
	return 0;
}

/* ---- exports ---- */

static int set_export(struct rpc_call *call, const ProtobufCMessage *in,
		      ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__SetExportRequest *request =
		(const Tributary__V1__SetExportRequest *)in;
	const struct service *service = rpc_context(call);
	struct exports_request wanted = {
		.epoch = request->epoch,
		.initiators = (const char *const *)request->initiators,
		.n_initiators = request->n_initiators,
		.read_only = request->read_only,
		.block_size = request->block_size,
		.grant = request->grant,
		.over = (const char *const *)request->over,
		.n_over = request->n_over,
	};
	const Tributary__V1__IscsiExport *iscsi = request->iscsi;
	auto_extent struct extent *extent = NULL;
	int r = extent_find(service->node, request->name, &extent, err);

	if (r == 0 && iscsi)
		r = extent_scsi_make(iscsi->target, iscsi->lun, iscsi->account,
				     &wanted.scsi, err);
	if (r == 0)
		r = exports_set(service->exports, extent, &wanted, err);
	return r < 0 ? service_translate(r, err)
		     : service_reply_extent(call, extent, out, err);
}

static int remove_export(struct rpc_call *call, const ProtobufCMessage *in,
			 ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__RemoveExportRequest *request =
		(const Tributary__V1__RemoveExportRequest *)in;
	const struct service *service = rpc_context(call);
	auto_extent struct extent *extent = NULL;
	int r = extent_find(service->node, request->name, &extent, err);

	if (r == 0)
		r = exports_remove(service->exports, extent, request->epoch,
				   (const char *const *)request->grants,
				   request->n_grants, err);
	return r < 0 ? service_translate(r, err)
		     : service_reply_extent(call, extent, out, err);
}

static int attach_direct(struct rpc_call *call, const ProtobufCMessage *in,
			 ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__AttachDirectRequest *request =
		(const Tributary__V1__AttachDirectRequest *)in;
	const struct service *service = rpc_context(call);
	auto_extent struct extent *extent = NULL;
	int r = extent_find(service->node, request->name, &extent, err);

	if (r == 0)
		r = exports_direct_attach(extent, request->epoch,
					  request->grant, request->device, err);
	return r < 0 ? service_translate(r, err)
		     : service_reply_extent(call, extent, out, err);
}

static int detach_direct(struct rpc_call *call, const ProtobufCMessage *in,
			 ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__DetachDirectRequest *request =
		(const Tributary__V1__DetachDirectRequest *)in;
	const struct service *service = rpc_context(call);
	auto_extent struct extent *extent = NULL;
	int r = extent_find(service->node, request->name, &extent, err);

	if (r == 0)
		r = exports_direct_detach(extent, request->epoch,
					  request->grant, err);
	return r < 0 ? service_translate(r, err)
		     : service_reply_extent(call, extent, out, err);
}

#define ROW(name, in, out, handler, streams)                                  \
	{                                                                     \
		"/tributary.v1.Blockd/" name,                                 \
			&tributary__v1__##in##__descriptor,                   \
			&tributary__v1__##out##__descriptor, handler, streams \
	}
#define METHOD(name, in, out, handler) ROW(name, in, out, handler, false)
#define STREAM(name, in, out, handler) ROW(name, in, out, handler, true)

const struct rpc_method service_methods[] = {
	METHOD("GetNode", get_node_request, node, get_node),
	METHOD("CreatePool", create_pool_request, pool, create_pool),
	METHOD("ListPools", list_pools_request, list_pools_reply, list_pools),
	METHOD("DeletePool", delete_pool_request, empty, delete_pool),
	METHOD("CreateExtent", create_extent_request, extent, create_extent),
	METHOD("GetExtent", get_extent_request, extent, get_extent),
	METHOD("ListExtents", list_extents_request, list_extents_reply,
	       list_extents),
	METHOD("ResizeExtent", resize_extent_request, extent, resize_extent),
	METHOD("DeleteExtent", delete_extent_request, empty, delete_extent),
	METHOD("SetExport", set_export_request, extent, set_export),
	METHOD("RemoveExport", remove_export_request, extent, remove_export),
	METHOD("AttachDirect", attach_direct_request, extent, attach_direct),
	METHOD("DetachDirect", detach_direct_request, extent, detach_direct),
	METHOD("GetExportStats", get_export_stats_request, export_stats,
	       service_get_export_stats),
	METHOD("HoldWrites", hold_writes_request, empty, service_hold_writes),
	METHOD("ReleaseWrites", release_writes_request, release_writes_reply,
	       service_release_writes),
	METHOD("CreateSnapshots", create_snapshots_request,
	       create_snapshots_reply, service_create_snapshots),
	METHOD("PullExtent", pull_extent_request, pull_extent_reply,
	       service_pull_extent),
	METHOD("RevertExtent", revert_extent_request, extent,
	       service_revert_extent),
	METHOD("SetLimits", set_limits_request, extent, service_set_limits),
	STREAM("ListRanges", list_ranges_request, list_ranges_reply,
	       service_list_ranges),
	METHOD("CheckPool", check_pool_request, check_pool_reply,
	       service_check_pool),
	METHOD("GrowPool", grow_pool_request, pool, service_grow_pool),
};
const size_t service_n_methods = array_size(service_methods);
