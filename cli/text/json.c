/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/text/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

void json_put_text(struct json_object *object, const char *key,
		   const char *text)
{
	json_object_object_add(object, key, json_object_new_string(text));
}

void json_put_number(struct json_object *object, const char *key,
		     uint64_t value)
{
	json_object_object_add(object, key, json_object_new_uint64(value));
}

void json_put_flag(struct json_object *object, const char *key, bool value)
{
	json_object_object_add(object, key, json_object_new_boolean(value));
}

static void put_labels(struct json_object *object, const struct labels *labels)
{
	struct json_object *all = json_object_new_object();

	for (size_t i = 0; i < labels->count; i++)
		json_put_text(all, labels->items[i].key,
			      labels->items[i].value);
	json_object_object_add(object, "labels", all);
}

struct json_object *json_error(int r, const char *message)
{
	struct json_object *error = json_object_new_object();
	struct json_object *object = json_object_new_object();

	json_put_text(error, "code", strerrorname_np(-r) ?: "EIO");
	json_put_text(error, "message", message);
	json_object_object_add(object, "error", error);
	return object;
}

struct json_object *json_pool(const struct node_pool *pool)
{
	struct json_object *object = json_object_new_object();

	json_put_text(object, "node", pool->node);
	json_put_text(object, "name", pool->name);
	json_put_text(object, "kind", pool->kind);
	json_put_text(object, "path", pool->path);
	if (pool->cordoned)
		json_put_flag(object, "cordoned", true);
	json_put_text(object, "id", pool->id);
	json_put_text(object, "state", pool->state);
	json_put_text(object, "message", pool->message);
	json_put_number(object, "capacity", pool->capacity);
	json_put_number(object, "nominal", pool->nominal);
	json_put_number(object, "reserved", pool->reserved);
	json_put_number(object, "allocated", pool->allocated);
	if (pool->sharing_known) {
		json_put_number(object, "shared", pool->shared);
		json_put_number(object, "reclaimable", pool->reclaimable);
	}
	json_put_number(object, "available", pool->available);
	json_put_number(object, "extents", pool->extents);
	json_put_number(object, "overcommitPercent", pool->overcommit_percent);
	json_put_number(object, "floor", pool->floor);
	if (pool->note[0])
		json_put_text(object, "note", pool->note);
	if (pool->cluster_size)
		json_put_number(object, "clusterSize", pool->cluster_size);
	return object;
}

static struct json_object *json_scrub(const struct node_scrub *scrub)
{
	struct json_object *object = json_object_new_object();

	json_put_number(object, "atSeconds", (uint64_t)scrub->at_s);
	json_put_number(object, "orphans", scrub->orphans);
	json_put_number(object, "orphanBytes", scrub->orphan_bytes);
	json_put_number(object, "missing", scrub->missing);
	return object;
}

struct json_object *json_node(const struct node_state *node)
{
	struct json_object *object = json_object_new_object();
	struct json_object *pools = json_object_new_array();

	json_put_text(object, "name", node->record.name);
	json_put_text(object, "control", node->record.control_address);
	json_put_text(object, "data", node->record.data_address);
	put_labels(object, &node->record.labels);
	json_put_flag(object, "reachable", node->reachable);
	json_put_flag(object, "lost", node->lost);
	json_put_flag(object, "cordoned", node->record.cordoned);
	if (node->last_seen_s >= 0)
		json_put_number(object, "lastSeenSeconds",
				(uint64_t)node->last_seen_s);
	if (node->record.report)
		json_put_text(object, "ready",
			      node_ready_name(node->record.report->ready));
	if (node->record.scrub)
		json_object_object_add(object, "scrub",
				       json_scrub(node->record.scrub));
	json_put_text(object, "problem", node->problem);
	json_put_text(object, "warning", node->warning);
	json_put_text(object, "version", node->version);
	json_put_text(object, "bootID", node->boot_id);
	json_put_number(object, "uptimeSeconds", node->uptime_s);
	for (size_t i = 0; i < node->n_pools; i++)
		json_object_array_add(pools, json_pool(&node->pools[i]));
	json_object_object_add(object, "pools", pools);
	return object;
}

static struct json_object *json_export(const struct node_extent *extent)
{
	struct json_object *object = json_object_new_object();
	struct json_object *allowed = json_object_new_array();
	struct json_object *portals = json_object_new_array();

	json_put_text(object, "nbdName", extent->nbd_name);
	json_put_text(object, "iscsiName", extent->iscsi_name);
	json_put_text(object, "iscsiTarget", extent->iscsi_target);
	json_put_number(object, "iscsiLun", extent->iscsi_lun);
	for (size_t i = 0; i < extent->n_iscsi_portals; i++)
		json_object_array_add(
			portals,
			json_object_new_string(extent->iscsi_portals[i]));
	json_object_object_add(object, "iscsiPortals", portals);
	json_put_number(object, "epoch", extent->epoch);
	json_put_flag(object, "active", extent->active);
	json_put_flag(object, "readOnly", extent->read_only);
	json_put_number(object, "connections", extent->connections);
	json_put_text(object, "localDevice", extent->local_device);
	for (size_t i = 0; i < extent->n_initiators; i++)
		json_object_array_add(
			allowed, json_object_new_string(extent->initiators[i]));
	json_object_object_add(object, "initiators", allowed);
	return object;
}

static struct json_object *json_origin(const struct node_origin *origin)
{
	struct json_object *object = json_object_new_object();

	json_put_text(object, "name", origin->name);
	json_put_text(object, "id", origin->id);
	json_put_text(object, "cut", origin->cut);
	json_put_text(object, "method", origin->method);
	return object;
}

static struct json_object *json_limits(const struct node_limits *limits)
{
	struct json_object *object = json_object_new_object();

	json_put_number(object, "iops", limits->iops);
	json_put_number(object, "bytesPerSecond", limits->bytes_per_second);
	return object;
}

static struct json_object *json_direct(const struct node_direct *direct)
{
	struct json_object *object = json_object_new_object();

	json_put_text(object, "device", direct->device);
	json_put_number(object, "bytes", direct->bytes);
	json_put_number(object, "runs", direct->runs);
	json_put_number(object, "reads", direct->reads);
	json_put_number(object, "readBytes", direct->read_bytes);
	json_put_number(object, "writes", direct->writes);
	json_put_number(object, "writtenBytes", direct->written_bytes);
	json_put_number(object, "discards", direct->discards);
	json_put_number(object, "flushes", direct->flushes);
	return object;
}

struct json_object *json_extent(const struct node_extent *extent)
{
	struct json_object *object = json_object_new_object();

	json_put_text(object, "node", extent->node);
	json_put_text(object, "name", extent->name);
	json_put_text(object, "pool", extent->pool);
	json_put_text(object, "id", extent->id);
	json_put_number(object, "size", extent->size);
	json_put_number(object, "reserved", extent->reserved);
	json_put_number(object, "allocated", extent->allocated);
	json_put_flag(object, "blank", extent->blank);
	json_put_text(object, "state", extent->state);
	json_put_text(object, "message", extent->message);
	if (extent->pool_state[0]) {
		json_put_text(object, "poolState", extent->pool_state);
		json_put_text(object, "poolMessage", extent->pool_message);
	}
	json_put_text(object, "path", extent->path);
	json_put_text(object, "kind", extent->snapshot ? "snapshot" : "extent");
	if (extent->origin.name[0])
		json_object_object_add(object, "origin",
				       json_origin(&extent->origin));
	json_put_number(object, "shared", extent->shared);
	json_put_number(object, "reclaimable", extent->reclaimable);
	json_put_flag(object, "thick", extent->thick);
	json_put_number(object, "copied", extent->copied);
	json_object_object_add(object, "limits", json_limits(&extent->limits));
	put_labels(object, &extent->labels);
	if (extent->has_export)
		json_object_object_add(object, "export", json_export(extent));
	if (extent->direct.device[0])
		json_object_object_add(object, "direct",
				       json_direct(&extent->direct));
	return object;
}

struct json_object *json_extents(const struct node_extent *extents, size_t n)
{
	struct json_object *all = json_object_new_array();

	for (size_t i = 0; i < n; i++)
		json_object_array_add(all, json_extent(&extents[i]));
	return all;
}

struct json_object *json_device(const struct initiator_device *device)
{
	struct json_object *object = json_object_new_object();

	json_put_text(object, "id", device->id);
	json_put_text(object, "device", device->device);
	json_put_text(object, "transport", device->transport);
	json_put_text(object, "why", device->why);
	json_put_text(object, "source", device->source);
	json_put_number(object, "size", device->size);
	json_put_flag(object, "readOnly", device->read_only);
	json_put_flag(object, "healthy", device->healthy);
	json_put_text(object, "problem", device->problem);
	return object;
}

struct json_object *json_orphan(const struct orphan *orphan)
{
	static const char *const kinds[] = {"extent", "split", "attachment"};
	struct json_object *object = json_object_new_object();

	json_put_text(object, "kind", kinds[orphan->kind]);
	json_put_text(object, "node", orphan->node);
	json_put_text(object, "volume", orphan->volume);
	if (orphan->snapshot[0])
		json_put_text(object, "snapshot", orphan->snapshot);
	json_put_text(object, "name", orphan->name);
	json_put_number(object, "size", orphan->size);
	json_put_text(object, "extentID", orphan->extent_id);
	if (orphan->since_s)
		json_put_number(object, "sinceSeconds",
				(uint64_t)orphan->since_s);
	json_put_flag(object, "givenUp", orphan->given_up);
	json_put_text(object, "message", orphan->message);
	return object;
}

struct json_object *json_record(const struct volume_record *record)
{
	auto_free char *text = NULL;

	if (volume_record_encode(record, &text, NULL) < 0)
		return NULL;
	return json_tokener_parse(text);
}

static struct json_object *json_split_status(
	const struct volume_split_status *status)
{
	struct json_object *object = json_object_new_object();

	json_put_number(object, "index", status->split.index);
	json_put_text(object, "node", status->split.node);
	json_put_text(object, "pool", status->split.pool);
	json_put_text(object, "extent", status->split.extent);
	json_put_number(object, "size", status->split.size);
	json_put_number(object, "allocated", status->allocated);
	json_put_text(object, "state", status->state);
	json_put_text(object, "problem", status->problem);
	json_put_number(object, "epoch", status->epoch);
	json_put_number(object, "connections", status->connections);
	json_put_text(object, "transport", status->transport);
	json_put_text(object, "device", status->device);
	json_put_text(object, "branch", status->branch);
	json_put_flag(object, "mounted", status->mounted);
	json_put_number(object, "fsSize", status->fs_size);
	json_put_number(object, "fsUsed", status->fs_used);
	json_put_number(object, "fsFree", status->fs_free);
	return object;
}

static struct json_object *json_condition(
	const struct volume_condition *condition)
{
	struct json_object *object = json_object_new_object();

	json_put_text(object, "type", condition->type);
	json_put_text(object, "status", condition->status ? "True" : "False");
	json_put_text(object, "reason", condition->reason);
	json_put_text(object, "message", condition->message);
	return object;
}

struct json_object *json_volume_status(const struct volume_status *status)
{
	struct json_object *object = json_object_new_object();
	struct json_object *splits = json_object_new_array();
	struct json_object *conditions = json_object_new_array();

	json_object_object_add(object, "record", json_record(status->record));
	json_put_flag(object, "attachedHere", status->attached_here);
	json_put_flag(object, "mounted", status->mounted);
	json_put_number(object, "unionPID", (uint64_t)status->union_pid);
	json_put_text(object, "mountPoint", status->mount_point);
	json_put_number(object, "fsSize", status->fs_size);
	json_put_number(object, "fsUsed", status->fs_used);
	json_put_number(object, "fsFree", status->fs_free);
	for (size_t i = 0; i < status->record->n_splits; i++)
		json_object_array_add(splits,
				      json_split_status(&status->splits[i]));
	json_object_object_add(object, "splits", splits);
	for (size_t i = 0; i < status->n_conditions; i++)
		json_object_array_add(conditions,
				      json_condition(&status->conditions[i]));
	json_object_object_add(object, "conditions", conditions);
	return object;
}
