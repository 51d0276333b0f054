/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/api/service_reply.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "blockd/api/direct_stats.h"
#include "blockd/api/service_internal.h"
#include "blockd/copy/copy_job.h"
#include "blockd/local/local_top.h"
#include "blockd/node/pool_at.h"

void service_fill_pool(struct rpc_call *call, const struct node_pool_info *info,
		       Tributary__V1__Pool *out)
{
	const struct service *service = rpc_context(call);
	char incarnation[EXPORTS_INCARNATION_SIZE];
	const char *kind = "";

	out->name = rpc_strdup(call, info->known.name);
	out->path = rpc_strdup(call, info->known.path);
	out->id = rpc_strdup(call, info->known.id);
	(void)pool_at_kind(info->known.path, &kind, NULL); /* it is missing */
	out->kind = rpc_strdup(call, kind);
	out->state = rpc_strdup(call, node_pool_state_name(info->state));
	out->message = rpc_strdup(call, info->message);
	out->extents = info->extents;
	if (!info->served)
		return;
	out->kind = rpc_strdup(call, info->record.kind);
	out->capacity = info->space.capacity;
	out->reserved = info->reserved;
	out->allocated = info->allocated;
	out->available = info->space.available;
	out->overcommit_percent = (uint32_t)info->record.overcommit_percent;
	out->floor = info->space.floor;
	out->cluster_size = info->cluster_size;
	out->nominal = info->nominal;
	out->sharing_known = info->sharing_known;
	out->shared = info->sharing.shared;
	out->reclaimable = info->sharing.reclaimable;
	out->incarnation = rpc_strdup(
		call, exports_incarnation(service->exports, &info->record,
					  incarnation));
}

int service_list_pools(struct rpc_call *call, const char *name,
		       Tributary__V1__Pool ***ret, size_t *ret_n,
		       struct error *err)
{
	const struct service *service = rpc_context(call);
	auto_free struct node_pool_info *infos = NULL;
	Tributary__V1__Pool **pools;
	size_t n;
	int r = node_list_pools(service->node, name, &infos, &n, err);

	if (r < 0)
		return r;
	pools = rpc_alloc(call, (n + 1) * sizeof(*pools));
	for (size_t i = 0; i < n; i++) {
		pools[i] = rpc_alloc(call, sizeof(**pools));
		tributary__v1__pool__init(pools[i]);
		service_fill_pool(call, &infos[i], pools[i]);
	}
	*ret = pools;
	*ret_n = n;
	return 0;
}

static Tributary__V1__IscsiExport *fill_iscsi_export(
	struct rpc_call *call, const struct extent_scsi *scsi)
{
	Tributary__V1__IscsiExport *out;

	if (!scsi->target[0] && !scsi->account[0])
		return NULL;
	out = rpc_alloc(call, sizeof(*out));
	tributary__v1__iscsi_export__init(out);
	out->target = rpc_strdup(call, scsi->target);
	out->lun = scsi->lun;
	out->account = rpc_strdup(call, scsi->account);
	return out;
}

/* How to reach it by iSCSI. */
static void fill_iscsi(struct rpc_call *call, const struct pool_record *pool,
		       const struct extent_record *record,
		       Tributary__V1__Export *out)
{
	const struct service *service = rpc_context(call);
	char name[EXPORT_SCSI_NAME_SIZE];
	size_t n = service->n_iscsi_addresses;

	exports_iscsi_name(service->exports, pool, record, name);
	if (!name[0])
		return;
	out->iscsi_name = rpc_strdup(call, name);
	out->iscsi_portals = rpc_alloc(call,
				       (n + 1) * sizeof(*out->iscsi_portals));
	for (size_t i = 0; i < n; i++)
		out->iscsi_portals[i] = rpc_strdup(call,
						   service->iscsi_addresses[i]);
	out->n_iscsi_portals = n;
}

static Tributary__V1__Export *fill_export(struct rpc_call *call,
					  const struct pool_record *pool,
					  const struct extent_record *record)
{
	const struct service *service = rpc_context(call);
	const struct extent_export *export = &record->export;
	Tributary__V1__Export *out = rpc_alloc(call, sizeof(*out));

	tributary__v1__export__init(out);
	out->epoch = export->epoch;
	out->read_only = export->read_only;
	out->active = export->active;
	out->grant = rpc_strdup(call, export->grant);
	out->block_size = (uint32_t) export->block_size;
	fill_iscsi(call, pool, record, out);
	out->connections = exports_connections(service->exports, record->name);
	out->nbd_name = export->epoch ? rpc_printf(call, "%s@%" PRIu64,
						   record->name, export->epoch)
				      : rpc_strdup(call, record->name);
	out->iscsi = fill_iscsi_export(call, &export->scsi);
	out->n_initiators = export->n_initiators;
	out->initiators = rpc_alloc(call, (export->n_initiators + 1) *
						  sizeof(*out->initiators));
	for (unsigned i = 0; i < export->n_initiators; i++)
		out->initiators[i] = rpc_strdup(call, export->initiators[i]);
	return out;
}

static void fill_labels(struct rpc_call *call,
			const struct extent_record *record,
			Tributary__V1__Extent *out)
{
	out->n_labels = record->n_labels;
	out->labels = rpc_alloc(call,
				(record->n_labels + 1) * sizeof(*out->labels));
	for (unsigned i = 0; i < record->n_labels; i++) {
		Tributary__V1__Label *label = rpc_alloc(call, sizeof(*label));

		tributary__v1__label__init(label);
		label->key = rpc_strdup(call, record->labels[i].key);
		label->value = rpc_strdup(call, record->labels[i].value);
		out->labels[i] = label;
	}
}

static Tributary__V1__Origin *fill_origin(struct rpc_call *call,
					  const struct extent_origin *origin)
{
	Tributary__V1__Origin *out = rpc_alloc(call, sizeof(*out));

	tributary__v1__origin__init(out);
	out->name = rpc_strdup(call, origin->name);
	out->id = rpc_strdup(call, origin->id);
	out->cut = rpc_strdup(call, origin->cut);
	out->method = rpc_strdup(call, pool_copy_method_name(origin->method));
	return out;
}

static Tributary__V1__Limits *fill_limits(struct rpc_call *call,
					  const struct extent_limits *limits)
{
	Tributary__V1__Limits *out = rpc_alloc(call, sizeof(*out));

	tributary__v1__limits__init(out);
	out->iops = limits->iops;
	out->bytes_per_second = limits->bytes_per_second;
	return out;
}

static void fill_record(struct rpc_call *call, const struct pool_record *pool,
			const struct extent_record *record,
			Tributary__V1__Extent *out)
{
	const struct extent_limits *limits = &record->limits;

	out->kind = rpc_strdup(call, extent_kind_name(record->kind));
	out->thick = record->thick;
	if (record->origin.name[0])
		out->origin = fill_origin(call, &record->origin);
	if (limits->iops || limits->bytes_per_second)
		out->limits = fill_limits(call, limits);
	out->name = rpc_strdup(call, record->name);
	out->id = rpc_strdup(call, record->id);
	out->size = record->size;
	out->blank = record->blank;
	out->created_s = record->created_s;
	fill_labels(call, record, out);
	if (record->export.exists)
		out->export = fill_export(call, pool, record);
}

/* NULL: it has no such device. */
static Tributary__V1__Direct *fill_direct(struct rpc_call *call,
					  struct extent *extent)
{
	struct direct_stats stats;
	Tributary__V1__Direct *out;

	if (!direct_stats_get(extent, &stats))
		return NULL;
	out = rpc_alloc(call, sizeof(*out));
	tributary__v1__direct__init(out);
	out->device = rpc_strdup(call, stats.is.device);
	out->bytes = stats.is.bytes;
	out->runs = stats.is.runs;
	out->reads = stats.reads;
	out->read_bytes = stats.read_bytes;
	out->writes = stats.writes;
	out->written_bytes = stats.written_bytes;
	out->discards = stats.discards;
	out->flushes = stats.flushes;
	return out;
}

/* What only the pool knows. The extent is in the table, so its pool is. */
static void fill_place(struct rpc_call *call, struct extent *extent,
		       const struct loopdev_users *users,
		       Tributary__V1__Extent *out)
{
	const struct service *service = rpc_context(call);
	struct pool *pool = extent->pool->pool;
	char incarnation[EXPORTS_INCARNATION_SIZE];
	struct extent_usage usage = {0};
	char top[MAPPER_NAME_MAX];
	auto_free char *path = pool->ops->path(pool, extent->record.name);
	char why[ERROR_TEXT_MAX];
	enum node_pool_state state = node_pool_of(extent->node, extent->pool,
						  why);
	const char *holder;

	if (state != NODE_POOL_ONLINE) {
		out->pool_state = rpc_strdup(call, node_pool_state_name(state));
		out->pool_message = rpc_strdup(call, why);
	}
	out->reserved = extent_reserved(extent);
	out->direct = fill_direct(call, extent);
	out->pool = rpc_strdup(call, pool->record.name);
	out->path = rpc_strdup(call, path ? path : "");
	out->incarnation = rpc_strdup(
		call, exports_incarnation(service->exports, &pool->record,
					  incarnation));
	if (extent_usage(extent, &usage, NULL) < 0)
		return; /* a damaged one may have no data */
	out->allocated = usage.allocated;
	out->shared = usage.shared;
	out->reclaimable = usage.reclaimable;
	holder = loopdev_users_find(users, usage.device, usage.inode, false);
	if (holder && out->export && local_top_find(holder, top))
		out->export->local_device = rpc_printf(call, MAPPER_FOLDER "%s",
						       top);
	else if (holder && out->export)
		out->export->local_device = rpc_printf(call, "/dev/%s", holder);
}

int service_fill_extent(struct rpc_call *call, struct extent *extent,
			const struct loopdev_users *users,
			Tributary__V1__Extent *out, struct error *err)
{
	struct extent_record record;
	const char *state;

	if (extent_copy_record(extent, &record) < 0)
		return error_set(err, ENOMEM, "out of memory");
	if (record.state == EXTENT_CREATING) {
		extent_record_done(&record);
		return error_set(err, ENOENT,
				 "there is no extent '%s' on this node",
				 extent->record.name);
	}
	fill_record(call, &extent->pool->pool->record, &record, out);
	state = record.state == EXTENT_COPYING ? "copying" : "ok";
	if (record.state == EXTENT_COPYING)
		out->copied = copy_job_done_bytes(extent);
	extent_record_done(&record);
	fill_place(call, extent, users, out);
	out->state = rpc_strdup(call, extent->damage ? "damaged" : state);
	if (extent->damage)
		out->message = rpc_strdup(call, extent->damage);
	return 0;
}

/*
 * Errors whose gRPC code would be "internal" though the caller can do
 * something about them.
 */
int service_translate(int r, struct error *err)
{
	switch (-r) {
	case ENOTEMPTY:
	case EBADMSG:
	case ENODEV: err->code = EBUSY; return -EBUSY;
	case ENOTDIR:
	case ELOOP:
	case ENAMETOOLONG: err->code = EINVAL; return -EINVAL;
	case EIO: return log_error(r, "%s", error_text(err));
	default: return r;
	}
}

int service_failed(const struct service *service, const char *pool,
		   const char *extent, int r, struct error *err)
{
	auto_extent struct extent *found = NULL;
	char name[POOL_NAME_SIZE];

	(void)snprintf(name, sizeof(name), "%s", pool);
	if (!name[0] && extent &&
	    extent_find(service->node, extent, &found, NULL) == 0)
		memcpy(name, found->pool->known.name, sizeof(name));
	return service_translate(node_blame(service->node, name, r, err), err);
}

int service_reply_extent(struct rpc_call *call, struct extent *extent,
			 ProtobufCMessage *out, struct error *err)
{
	auto_loopdev_users struct loopdev_users users = {0};
	int r = loopdev_users_scan(&users, err);

	if (r == 0)
		r = service_fill_extent(call, extent, &users,
					(Tributary__V1__Extent *)out, err);
	return r < 0 ? service_translate(r, err) : 0;
}

int service_take_labels(Tributary__V1__Label *const *labels, size_t n,
			struct extent_label *ret, struct error *err)
{
	if (n > EXTENT_LABELS_MAX)
		return error_set(err, EINVAL, "%zu labels: at most %d", n,
				 EXTENT_LABELS_MAX);
	for (size_t i = 0; i < n; i++)
		ret[i] = (struct extent_label){
			.key = labels[i]->key,
			.value = labels[i]->value,
		};
	return 0;
}

struct extent_limits service_take_limits(const Tributary__V1__Limits *limits)
{
	if (!limits)
		return (struct extent_limits){0};
	return (struct extent_limits){
		.iops = limits->iops,
		.bytes_per_second = limits->bytes_per_second,
	};
}
