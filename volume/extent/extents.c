/* SPDX-License-Identifier: Apache-2.0 */
/* extents.h: single extents, by hand. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/size.h"
#include "base/wire/crc32c.h"
#include "initiator/device/device.h"
#include "volume/extent/extent_internal.h"
#include "volume/mount/local.h"
#include "volume/op/context.h"
#include "volume/op/volume_walk.h"

#define GRANT_BY_HAND "by-hand" /* an export that is no attachment's */

#define EXTENT_UNIT 4096u /* bytes; proto/blockd.proto, CreateExtentRequest */

int extent_client(struct volume_context *ctx, const char *node,
		  const char *name, struct node_client **ret, struct error *err)
{
	int r = name_check("node", node, err);

	if (r == 0)
		r = name_check("extent", name, err);
	return r < 0 ? r : context_client(ctx, node, ret, err);
}

int volume_extent_create(struct volume_context *ctx,
			 const struct extent_request *request,
			 struct node_extent *ret, struct error *err)
{
	struct node_extent_request wanted = {
		.pool = request->pool,
		.name = request->name,
		.labels = request->labels,
		.thick = request->thick,
		.limits = request->limits,
	};
	struct node_client *client = NULL;
	int r = extent_client(ctx, request->node, request->name, &client, err);

	if (r == 0 &&
	    size_round_up(request->size, EXTENT_UNIT, &wanted.size) < 0)
		r = error_set(err, ERANGE, "the size is too large");
	return r < 0 ? r : node_client_create_extent(client, &wanted, ret, err);
}

int volume_extent_get(struct volume_context *ctx, const char *node,
		      const char *name, struct node_extent *ret,
		      struct error *err)
{
	struct node_client *client = NULL;
	int r = extent_client(ctx, node, name, &client, err);

	return r < 0 ? r : node_client_get_extent(client, name, ret, err);
}

int volume_extent_list(struct volume_context *ctx, const char *node,
		       const char *pool, struct node_extent **ret,
		       size_t *ret_count, struct error *err)
{
	struct node_client *client = NULL;
	int r = context_client(ctx, node, &client, err);

	return r < 0 ? r
		     : node_client_list_extents(client, pool ? pool : "", ret,
						ret_count, err);
}

int volume_extent_resize(struct volume_context *ctx, const char *node,
			 const char *name, uint64_t size,
			 struct node_extent *ret, struct error *err)
{
	struct node_client *client = NULL;
	int r = extent_client(ctx, node, name, &client, err);

	if (r == 0 && size_round_up(size, EXTENT_UNIT, &size) < 0)
		r = error_set(err, ERANGE, "the size is too large");
	return r < 0 ? r
		     : node_client_resize_extent(client, name, size, ret, err);
}

/* -EBUSY when it was made for a volume, and not @force. */
static int check_free(const struct node_extent *extent, bool force,
		      struct error *err)
{
	const char *volume = labels_get(&extent->labels, VOLUME_LABEL_NAME);
	const char *snapshot = labels_get(&extent->labels, SNAPSHOT_LABEL_NAME);

	if (!force && snapshot)
		return error_set(err, EBUSY,
				 "extent '%s' on node '%s' is part of snapshot "
				 "'%s'; use the snapshot, or --force if that "
				 "is lost",
				 extent->name, extent->node, snapshot);
	if (force || !labels_get(&extent->labels, VOLUME_LABEL_UID))
		return 0;
	return error_set(err, EBUSY,
			 "extent '%s' on node '%s' is part of volume '%s'; use "
			 "the volume, or --force if that is lost",
			 extent->name, extent->node, volume ? volume : "?");
}

int extent_get_free(struct volume_context *ctx, const char *node,
		    const char *name, bool force, struct node_client **client,
		    struct node_extent *ret, struct error *err)
{
	int r = extent_client(ctx, node, name, client, err);

	if (r == 0)
		r = node_client_get_extent(*client, name, ret, err);
	if (r < 0)
		return r;
	r = check_free(ret, force, err);
	if (r < 0)
		node_extent_done(ret);
	return r;
}

static int refuse_recorded(void *extent_, const struct volume_record *record,
			   struct error *err)
{
	const struct node_extent *extent = extent_;
	const char *uid = labels_get(&extent->labels, VOLUME_LABEL_UID);

	if (!uid || strcmp(record->uid, uid) != 0)
		return 0;
	for (size_t k = 0; k < record->n_splits; k++) {
		const struct volume_split *split = &record->splits[k];

		if (split->state == SPLIT_DELETED || split->lost ||
		    strcmp(split->extent_id, extent->id) != 0)
			continue;
		return error_set(err, EBUSY,
				 "volume '%s' looks for it on node '%s'; `trib "
				 "volume delete %s` deletes it, after `trib "
				 "volume recover %s` if it is elsewhere",
				 record->name, split->node, record->name,
				 record->name);
	}
	return 0;
}

/*
 * Refuse an extent that was written to and that a record has: it belongs to
 * that volume.
 */
static int check_unrecorded(struct volume_context *ctx,
			    struct node_extent *extent, struct error *err)
{
	if (!labels_get(&extent->labels, VOLUME_LABEL_UID) || extent->blank ||
	    extent->snapshot)
		return 0;
	return volume_walk(ctx, NULL, refuse_recorded, extent, NULL, err);
}

int volume_extent_delete(struct volume_context *ctx, const char *node,
			 const char *name, bool force, struct error *err)
{
	struct node_client *client = NULL;
	struct node_extent extent = {0};
	int r = extent_get_free(ctx, node, name, force, &client, &extent, err);

	if (r == -ENOENT && client)
		return 0; /* the node is known, the extent is not there */
	if (r < 0)
		return r;
	r = check_unrecorded(ctx, &extent, err);
	if (r == 0)
		r = node_client_delete_extent(client, name, extent.id, err);
	node_extent_done(&extent);
	return r;
}

int volume_extent_export(struct volume_context *ctx,
			 const struct extent_export_request *request,
			 struct node_extent *ret, struct error *err)
{
	struct node_client *client = NULL;
	struct node_extent extent = {0};
	const char *over;
	bool same;
	int r = extent_get_free(ctx, request->node, request->name,
				request->force, &client, &extent, err);

	if (r < 0)
		return r;
	/* An export by hand is one attachment; it may be changed */
	same = !extent.has_export || !extent.grant[0] ||
	       strcmp(extent.grant, GRANT_BY_HAND) == 0;
	over = extent.grant;
	r = node_client_set_export(
		client,
		&(struct node_export_request){
			.name = request->name,
			.epoch = request->epoch ? request->epoch
						: extent.epoch + !same,
			.grant = same ? extent.grant : GRANT_BY_HAND,
			.over = &over,
			.n_over = request->force || extent.connections == 0,
			.initiators = request->initiators,
			.n_initiators = request->n_initiators,
			.read_only = request->read_only,
			.lun = request->lun,
		},
		ret, err);
	node_extent_done(&extent);
	return r;
}

int volume_extent_unexport(struct volume_context *ctx, const char *node,
			   const char *name, struct error *err)
{
	struct node_client *client = NULL;
	int r = extent_client(ctx, node, name, &client, err);

	return r < 0 ? r
		     : node_client_remove_export(client, name, 0, NULL, 0, err);
}

/* ---- attach ---- */

/*
 * The name of the attachment: short enough whatever the names are, and the
 * same each time without asking anybody.
 */
static void attachment_id(const char *node, const char *name, char *ret)
{
	char both[2 * RECORD_NAME_SIZE];
	int n = snprintf(both, sizeof(both), "%s/%s", node, name);

	(void)snprintf(ret, RECORD_NAME_SIZE,
		       EXTENT_ATTACHMENT_PREFIX "%08" PRIx32,
		       crc32c(0, both, (size_t)n));
}

/* Make the grant of an epoch for this attachment on this node. */
static void attachment_grant(const struct volume_context *ctx, const char *id,
			     char *ret)
{
	(void)snprintf(ret, NODE_GRANT_SIZE, "%s/%s", ctx->node, id);
}

static int check_holder(const struct node_extent *extent, bool force,
			struct error *err)
{
	if (extent->local_device[0])
		return error_set(err, EBUSY,
				 "node '%s' itself holds extent '%s' by %s; "
				 "detach it there",
				 extent->node, extent->name,
				 extent->local_device);
	if (force || extent->connections == 0)
		return 0;
	return error_set(
		err, EBUSY,
		"extent '%s' on node '%s' is in use by %u connections; "
		"--force cuts them off",
		extent->name, extent->node, extent->connections);
}

struct extent_work {
	struct volume_context *ctx;
	const struct extent_attach_request *request;
	struct node_record node;
	struct node_client *client;
	struct node_extent extent;
	char dir[PATH_MAX];
	char id[RECORD_NAME_SIZE];
	char grant[NODE_GRANT_SIZE];
	char over[NODE_GRANT_SIZE]; /* who had it when it was looked at */
};

static int set_next_epoch(struct extent_work *w, bool local, uint64_t epoch,
			  struct error *err)
{
	char addresses[NODE_INITIATORS_MAX][NODE_ADDRESS_SIZE];
	const char *list[NODE_INITIATORS_MAX], *over[] = {w->over, w->grant};
	struct node_extent extent = {0};
	int n = 0, r;

	if (!local) {
		n = context_initiators(w->ctx, w->ctx->node,
				       w->node.data_address, addresses, err);
		if (n < 0)
			return n;
	}
	for (int i = 0; i < n; i++)
		list[i] = addresses[i];
	r = node_client_set_export(w->client,
				   &(struct node_export_request){
					   .name = w->request->name,
					   .epoch = epoch,
					   .initiators = list,
					   .n_initiators = (size_t)n,
					   .read_only = w->request->read_only,
					   .block_size = DEVICE_BLOCK_SIZE,
					   .grant = w->grant,
					   .over = over,
					   .n_over = array_size(over),
				   },
				   &extent, err);
	if (r < 0)
		return r;
	node_extent_done(&w->extent);
	w->extent = extent;
	return 0;
}

/* As in split_device.c: nobody may have come in between; or direct runs. */
static int attached_here(struct extent_work *w, bool local, uint64_t epoch,
			 const struct initiator_device *device,
			 struct error *err)
{
	int r = 0;

	if (local)
		r = set_next_epoch(w, local, epoch, err);
	else if (!w->request->read_only && device->mapper_uuid[0])
		r = node_client_attach_direct(w->client, w->request->name,
					      epoch, w->grant,
					      device->mapper_uuid, NULL, err);
	if (r == 0 || (!local && r == -EOPNOTSUPP))
		return 0;
	(void)initiator_detach(w->dir, w->id, NULL);
	return r;
}

static int extent_attach(struct extent_work *w, struct initiator_device *ret,
			 struct error *err)
{
	bool own = strcmp(w->request->node, w->ctx->node) == 0;
	struct initiator_device there;
	bool found = initiator_get(w->dir, w->id, &there, NULL) == 0;
	bool local = own &&
		     local_goes_by_file(found ? &there : NULL, &w->extent);
	uint64_t epoch = w->extent.epoch + 1;
	struct initiator_request request = {
		.dead_timeout_ms = w->ctx->dead_timeout_ms,
		.state_dir = w->dir,
		.id = w->id,
		.transport = w->request->transport ? w->request->transport
			     : own && !local       ? "fuse"
						   : "auto",
		.address = local ? NULL : w->node.data_address,
		.size = w->extent.size,
		.read_only = w->request->read_only,
		.launcher = w->ctx->launcher,
	};
	const char *const own_grant = w->grant;
	struct iscsi_route route;
	int r = check_holder(&w->extent, w->request->force, err);

	if (r == 0)
		r = set_next_epoch(w, local, epoch, err);
	if (r < 0)
		return r;
	request.local_path = local ? w->extent.path : NULL;
	request.export_name = w->extent.nbd_name;
	if (!local) {
		context_iscsi_route(w->ctx, &w->extent, w->node.data_address,
				    &route);
		iscsi_route_fill(&route, &w->extent, &request);
	}
	r = initiator_attach(&request, ret, err);
	if (r == 0 && own)
		r = attached_here(w, local, epoch, ret, err);
	if (r < 0) /* what it can't withdraw, the next epoch fences */
		(void)node_client_remove_export(w->client, w->request->name,
						epoch, &own_grant, 1, NULL);
	return r;
}

/*
 * The device of an earlier attach, if it works. One that does not is taken
 * down. 1: it is there; 0: there is none now.
 */
static int find_attached(struct extent_work *w, struct initiator_device *ret,
			 struct error *err)
{
	struct initiator_device device;
	int r = initiator_get(w->dir, w->id, &device, NULL);

	if (r == -ENOENT)
		return 0;
	if (r == 0 && device.healthy) {
		*ret = device;
		return 1;
	}
	return initiator_detach(w->dir, w->id, err);
}

int volume_extent_attach(struct volume_context *ctx,
			 const struct extent_attach_request *request,
			 struct initiator_device *ret, struct error *err)
{
	struct extent_work w = {.ctx = ctx, .request = request};
	int r;

	context_initiator_dir(ctx, w.dir);
	attachment_id(request->node, request->name, w.id);
	r = extent_get_free(ctx, request->node, request->name, request->force,
			    &w.client, &w.extent, err);
	if (r < 0)
		return r;
	if (w.extent.snapshot && !request->read_only) {
		node_extent_done(&w.extent);
		return error_set(err, EROFS,
				 "extent '%s' on node '%s' is a snapshot: "
				 "attach it with --read-only",
				 request->name, request->node);
	}
	attachment_grant(ctx, w.id, w.grant);
	memcpy(w.over, w.extent.grant, sizeof(w.over));
	r = find_attached(&w, ret, err);
	if (r == 0)
		r = context_node_load(ctx, request->node, &w.node, err);
	if (r == 0)
		r = extent_attach(&w, ret, err);
	node_extent_done(&w.extent);
	node_record_done(&w.node);
	return r < 0 ? r : 0;
}

int volume_extent_detach(struct volume_context *ctx, const char *node,
			 const char *name, struct error *err)
{
	struct node_client *client = NULL;
	char dir[PATH_MAX], id[RECORD_NAME_SIZE], grant[NODE_GRANT_SIZE];
	const char *const own = grant;
	struct initiator_device device;
	int r = name_check("node", node, err);

	if (r == 0)
		r = name_check("extent", name, err);
	if (r < 0)
		return r;
	context_initiator_dir(ctx, dir);
	attachment_id(node, name, id);
	if (initiator_get(dir, id, &device, NULL) == -ENOENT)
		return 0;
	r = initiator_detach(dir, id, err);
	attachment_grant(ctx, id, grant);
	/*
	 * Only the export of our own grant: a later user of the extent has
	 * another.
	 */
	if (r == 0 && context_client(ctx, node, &client, NULL) == 0)
		(void)node_client_remove_export(client, name, 0, &own, 1, NULL);
	return r;
}

int volume_device_list(struct volume_context *ctx,
		       struct initiator_device **ret, size_t *ret_count,
		       struct error *err)
{
	char dir[PATH_MAX];

	context_initiator_dir(ctx, dir);
	return initiator_list(dir, ret, ret_count, err);
}
