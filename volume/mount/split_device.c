/* SPDX-License-Identifier: Apache-2.0 */
/* A split's extent: exported to this machine, and its device. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "initiator/device/device.h"
#include "volume/mount/local.h"
#include "volume/mount/split_job.h"

/* ---- export ---- */

struct initiator_list {
	const char *items[EXPORT_INITIATORS_MAX]; /* borrowed */
	size_t n;
};

static int list_add(struct initiator_list *list, const char *address,
		    struct error *err)
{
	for (size_t i = 0; i < list->n; i++) {
		if (strcmp(list->items[i], address) == 0)
			return 0;
	}
	if (list->n == EXPORT_INITIATORS_MAX)
		return error_set(err, E2BIG,
				 "more than %d addresses read one extent; give "
				 "the nodes' records a prefix for many",
				 EXPORT_INITIATORS_MAX);
	list->items[list->n++] = address;
	return 0;
}

/* List the initiators: this machine, and present readers at this epoch. */
static int list_fill(struct split_job *w, struct initiator_list *list,
		     struct error *err)
{
	const struct node_extent *now = &w->extent;
	int r = 0;

	if (w->how->joins && now->active && now->read_only &&
	    now->epoch == w->how->epoch) {
		for (size_t i = 0; r == 0 && i < now->n_initiators; i++)
			r = list_add(list, now->initiators[i], err);
	}
	for (size_t i = 0; r == 0 && i < w->n_own; i++)
		r = list_add(list, w->own[i], err);
	return r;
}

static int set_export(struct split_job *w, bool read_only, struct error *err)
{
	const struct volume_record *record = w->op->record;
	struct initiator_list list = {.n = 0};
	struct node_extent extent = {0};
	struct split_grants grants;
	int r = list_fill(w, &list, err);

	split_grants_of(record, &grants);
	if (r == 0)
		r = node_client_set_export(
			w->client,
			&(struct node_export_request){
				.name = w->split->extent,
				.epoch = w->how->epoch,
				.initiators = list.items,
				.n_initiators = list.n,
				.read_only = read_only,
				.block_size = DEVICE_BLOCK_SIZE,
				.grant = volume_record_grant(record),
				.over = grants.items,
				.n_over = grants.n,
			},
			&extent, err);
	if (r < 0)
		return r;
	node_extent_done(&w->extent);
	w->extent = extent;
	return 0;
}

static int check_extent(struct split_job *w, struct error *err)
{
	struct volume_split *split = w->split;
	struct node_extent *extent = &w->extent;
	uint64_t before = split->size;
	int r = node_client_get_extent(w->client, split->extent, extent, err);

	if (r == 0)
		r = split_adopt(w->op, split, extent, err);
	if (r == 0 && split->size != before)
		r = operation_save(w->op, err);
	if (r < 0)
		return r;
	w->written = !extent->blank && extent->allocated > 0;
	if (strcmp(extent->state, "ok") != 0)
		return error_set(err, EIO, "extent '%s' on node '%s' is %s: %s",
				 split->extent, split->node, extent->state,
				 extent->message);
	return 0;
}

/* Get the device of the split alone: a part's, if it is one of several. */
static int own_device(const struct split_job *w, struct initiator_device *ret)
{
	const struct volume_split *first = w->op->record->splits;

	return w->joined ? initiator_get_part(w->dir, first->extent,
					      (unsigned)(w->split - first), ret,
					      NULL)
			 : initiator_get(w->dir, w->split->extent, ret, NULL);
}

/* Is the device of several, if it is one, made of a device for each? */
static bool has_own_device(const struct split_job *w)
{
	struct initiator_device whole;

	if (!w->joined)
		return true;
	return initiator_get(w->dir, w->op->record->splits[0].extent, &whole,
			     NULL) == 0
		       ? whole.n_parts > 0 && !whole.under[0]
		       : initiator_joins();
}

static bool goes_by_file(const struct split_job *w)
{
	struct initiator_device device;

	return has_own_device(w) &&
	       local_goes_by_file(own_device(w, &device) == 0 ? &device : NULL,
				  &w->extent);
}

static int job_prepare(struct split_job *w, struct error *err)
{
	int r = context_node_load(w->op->ctx, w->split->node, &w->node, err);

	if (r == 0)
		r = context_client_of(w->op->ctx, &w->node, &w->client, err);
	if (r == 0)
		r = check_extent(w, err);
	w->local = w->here && goes_by_file(w);
	if (r < 0 || w->local)
		return r;
	r = context_initiators(w->op->ctx, w->op->ctx->node,
			       w->node.data_address, w->own, err);
	if (r < 0)
		return r;
	w->n_own = (size_t)r;
	return 0;
}

/*
 * Tell whether the device that is there was attached without the others, in a
 * way that takes none.
 */
static bool device_takes_none(const struct split_job *w)
{
	struct initiator_device device;

	return w->n_others > 0 &&
	       initiator_get(w->dir, w->split->extent, &device, NULL) == 0 &&
	       !device.dead && device.n_parts == 0;
}

int split_job_prepare(struct split_job *w, struct error *err)
{
	int r;

	w->waits = device_takes_none(w);
	if (w->waits)
		w->joined = false; /* it goes on as it is */
	r = job_prepare(w, err);
	for (size_t i = 0; r == 0 && i < w->n_others; i++)
		r = job_prepare(&w->others[i], err);
	return r;
}

/* ---- device ---- */

/* The job of part @i, from 0, of the device of @w. */
static struct split_job *job_of(struct split_job *w, size_t i)
{
	return i ? &w->others[i - 1] : w;
}

/* How the extent is reached by iSCSI, if it is. @route is borrowed. */
static void add_route(const struct split_job *w, struct iscsi_route *route,
		      struct initiator_request *request)
{
	context_iscsi_route(w->op->ctx, &w->extent, w->node.data_address,
			    route);
	iscsi_route_fill(route, &w->extent, request);
}

/*
 * A local extent that goes through a server (of a raw pool, or with limits)
 * does not go through the kernel's NBD client, which could wait for memory
 * that only our own server can free.
 */
static const char *transport_of(const struct split_job *w)
{
	if (w->local)
		return "auto";
	return w->here && strcmp(w->how->transport, "ublk") != 0
		       ? "fuse"
		       : w->how->transport;
}

/* All of it is borrowed. */
static struct initiator_request device_request(const struct split_job *w,
					       bool read_only)
{
	return (struct initiator_request){
		.dead_timeout_ms = w->op->ctx->dead_timeout_ms,
		.state_dir = w->dir,
		.id = w->split->extent,
		.transport = transport_of(w),
		.local_path = w->local ? w->extent.path : NULL,
		.address = w->local && !w->joined ? NULL : w->node.data_address,
		.export_name = w->extent.nbd_name,
		.size = w->split->size,
		.read_only = read_only,
		.launcher = w->op->ctx->launcher,
	};
}

/* The parts of a device of several splits. Both are returned owned. */
static int device_parts(struct split_job *w, struct initiator_request *request,
			struct iscsi_route **ret_routes, struct error *err)
{
	const struct volume_spec *spec = &w->op->record->spec;
	const size_t n = w->n_others + 1;
	struct initiator_request *parts = calloc(n, sizeof(*parts));
	struct iscsi_route *routes = calloc(n, sizeof(*routes));

	request->parts = parts;
	*ret_routes = routes;
	if (!parts || !routes)
		return error_set(err, ENOMEM, "out of memory");
	request->size = 0;
	for (size_t i = 0; i < n; i++) {
		const struct split_job *one = job_of(w, i);

		parts[i] = device_request(one, request->read_only);
		if (!one->local)
			add_route(one, &routes[i], &parts[i]);
		request->size += parts[i].size;
	}
	request->n_parts = n;
	request->stripe_width = spec->stripe_width;
	request->stripe_unit = spec->stripe_unit;
	request->transport = w->how->transport;
	return 0;
}

/*
 * From now on the extent's blockd alone loads tables of the device, or of that
 * of the part. Where it does not do so, all requests go through it.
 */
static int device_direct(struct split_job *w, bool read_only, struct error *err)
{
	struct initiator_device device;
	int r;

	w->direct = false;
	if (!w->here || w->local || read_only || own_device(w, &device) < 0 ||
	    !device.mapper_uuid[0])
		return 0;
	r = node_client_attach_direct(w->client, w->split->extent,
				      w->how->epoch,
				      volume_record_grant(w->op->record),
				      device.mapper_uuid, NULL, err);
	w->direct = r == 0;
	return r == -EOPNOTSUPP ? 0 : r;
}

/* Until now it was; what follows may change the device. */
static int device_not_direct(const struct split_job *w, struct error *err)
{
	return w->extent.direct.device[0]
		       ? node_client_detach_direct(
				 w->client, w->split->extent, w->how->epoch,
				 volume_record_grant(w->op->record), NULL, err)
		       : 0;
}

static int device_attach(struct split_job *w, bool read_only, struct error *err)
{
	struct initiator_request request = device_request(w, read_only);
	auto_free struct iscsi_route *routes = NULL;
	struct iscsi_route route;
	int r = 0;

	if (w->joined)
		r = device_parts(w, &request, &routes, err);
	else if (!w->local)
		add_route(w, &route, &request);
	if (r == 0)
		r = initiator_attach(&request, &w->device, err);
	free((void *)request.parts);
	/* A program that a killed call had started may be at work on it. */
	return r < 0 ? r : device_settle(w->device.device, err);
}

/*
 * Somebody may have raised the epoch of a local extent between our export and
 * the device: then theirs found no device to refuse, and ours must go.
 */
static int device_confirm(struct split_job *w, bool read_only,
			  struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i <= w->n_others; i++) {
		struct split_job *one = job_of(w, i);

		if (one->local)
			r = set_export(one, read_only, err);
	}
	if (r < 0)
		(void)initiator_detach(w->dir, w->split->extent, NULL);
	return r;
}

int split_job_connect(struct split_job *w, bool read_only, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i <= w->n_others; i++)
		r = set_export(job_of(w, i), read_only, err);
	for (size_t i = 0; r == 0 && i <= w->n_others; i++)
		r = device_not_direct(job_of(w, i), err);
	if (r == 0)
		r = device_attach(w, read_only, err);
	if (r == 0)
		r = device_confirm(w, read_only, err);
	for (size_t i = 0; r == 0 && i <= w->n_others; i++)
		r = device_direct(job_of(w, i), read_only, err);
	return r;
}
