/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/service.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "csi/call/csi_check.h"
#include "csi/call/csi_text.h"
#include "csi/controller/controller.h"
#include "csi/controller/observer.h"
#include "csi/heap_trim.h"
#include "csi/kata/kata_record.h"
#include "csi/node/node_service.h"
#include "csi/node/node_watch.h"
#include "csi/node/timeout_call.h"

enum service { IDENTITY, CONTROLLER, GROUP, METADATA, NODE };

#define TIMEOUT_END_MS 2000

#define READS   false
#define CHANGES true

/*
 * Every method of the specification; without a handler: UNIMPLEMENTED.
 * @changes: told in the log.
 */
static const struct row {
	enum service service;
	const char *path;
	const ProtobufCMessageDescriptor *in, *out;
	csi_handler handler;
	bool changes;
	bool streams;
} rows[] = {
#define ROW(service, package, name, message, ...)                   \
	{                                                           \
		service, "/csi.v1." package "/" name,               \
			&csi__v1__##message##_request__descriptor,  \
			&csi__v1__##message##_response__descriptor, \
			__VA_ARGS__                                 \
	}
	ROW(IDENTITY, "Identity", "GetPluginInfo", get_plugin_info,
	    csi_get_plugin_info, READS, false),
	ROW(IDENTITY, "Identity", "GetPluginCapabilities",
	    get_plugin_capabilities, csi_get_plugin_capabilities, READS, false),
	ROW(IDENTITY, "Identity", "Probe", probe, csi_probe, READS, false),

	ROW(CONTROLLER, "Controller", "CreateVolume", create_volume,
	    csi_create_volume, CHANGES, false),
	ROW(CONTROLLER, "Controller", "DeleteVolume", delete_volume,
	    csi_delete_volume, CHANGES, false),
	ROW(CONTROLLER, "Controller", "ControllerPublishVolume",
	    controller_publish_volume, csi_controller_publish_volume, CHANGES,
	    false),
	ROW(CONTROLLER, "Controller", "ControllerUnpublishVolume",
	    controller_unpublish_volume, csi_controller_unpublish_volume,
	    CHANGES, false),
	ROW(CONTROLLER, "Controller", "ValidateVolumeCapabilities",
	    validate_volume_capabilities, csi_validate_volume_capabilities,
	    READS, false),
	ROW(CONTROLLER, "Controller", "ListVolumes", list_volumes,
	    csi_list_volumes, READS, false),
	ROW(CONTROLLER, "Controller", "GetCapacity", get_capacity,
	    csi_get_capacity, READS, false),
	ROW(CONTROLLER, "Controller", "ControllerGetCapabilities",
	    controller_get_capabilities, csi_controller_get_capabilities, READS,
	    false),
	ROW(CONTROLLER, "Controller", "CreateSnapshot", create_snapshot,
	    csi_create_snapshot, CHANGES, false),
	ROW(CONTROLLER, "Controller", "DeleteSnapshot", delete_snapshot,
	    csi_delete_snapshot, CHANGES, false),
	ROW(CONTROLLER, "Controller", "ListSnapshots", list_snapshots,
	    csi_list_snapshots, READS, false),
	ROW(CONTROLLER, "Controller", "GetSnapshot", get_snapshot,
	    csi_get_snapshot, READS, false),
	ROW(CONTROLLER, "Controller", "ControllerExpandVolume",
	    controller_expand_volume, csi_controller_expand_volume, CHANGES,
	    false),
	ROW(CONTROLLER, "Controller", "ControllerGetVolume",
	    controller_get_volume, csi_controller_get_volume, READS, false),
	ROW(CONTROLLER, "Controller", "ControllerModifyVolume",
	    controller_modify_volume, csi_controller_modify_volume, CHANGES,
	    false),

	ROW(GROUP, "GroupController", "GroupControllerGetCapabilities",
	    group_controller_get_capabilities,
	    csi_group_controller_get_capabilities, READS, false),
	ROW(GROUP, "GroupController", "CreateVolumeGroupSnapshot",
	    create_volume_group_snapshot, csi_create_volume_group_snapshot,
	    CHANGES, false),
	ROW(GROUP, "GroupController", "DeleteVolumeGroupSnapshot",
	    delete_volume_group_snapshot, csi_delete_volume_group_snapshot,
	    CHANGES, false),
	ROW(GROUP, "GroupController", "GetVolumeGroupSnapshot",
	    get_volume_group_snapshot, csi_get_volume_group_snapshot, READS,
	    false),

	ROW(METADATA, "SnapshotMetadata", "GetMetadataAllocated",
	    get_metadata_allocated, csi_get_metadata_allocated, READS, true),
	ROW(METADATA, "SnapshotMetadata", "GetMetadataDelta",
	    get_metadata_delta, csi_get_metadata_delta, READS, true),

	ROW(NODE, "Node", "NodeStageVolume", node_stage_volume,
	    csi_node_stage_volume, CHANGES, false),
	ROW(NODE, "Node", "NodeUnstageVolume", node_unstage_volume,
	    csi_node_unstage_volume, CHANGES, false),
	ROW(NODE, "Node", "NodePublishVolume", node_publish_volume,
	    csi_node_publish_volume, CHANGES, false),
	ROW(NODE, "Node", "NodeUnpublishVolume", node_unpublish_volume,
	    csi_node_unpublish_volume, CHANGES, false),
	ROW(NODE, "Node", "NodeGetVolumeStats", node_get_volume_stats,
	    csi_node_get_volume_stats, READS, false),
	ROW(NODE, "Node", "NodeExpandVolume", node_expand_volume,
	    csi_node_expand_volume, CHANGES, false),
	ROW(NODE, "Node", "NodeGetCapabilities", node_get_capabilities,
	    csi_node_get_capabilities, READS, false),
	ROW(NODE, "Node", "NodeGetInfo", node_get_info, csi_node_get_info,
	    READS, false),
#undef ROW
};

static const char *method_name(const struct row *row)
{
	return strrchr(row->path, '/') + 1;
}

/* ---- around each call ---- */

static const struct row *row_of(const ProtobufCMessage *in)
{
	for (size_t i = 0; i < array_size(rows); i++)
		if (rows[i].in == in->descriptor)
			return &rows[i];
	return NULL;
}

/*
 * Log one line a call. "call" counts this process's calls, "volume" is the
 * volume's name. The line has everything of the request but secrets and mount
 * flags.
 */
static void call_report(const struct row *row, const struct csi_call *c,
			unsigned long id, const char *text, int code,
			int64_t took_ms)
{
	bool known = c->id.name[0];
	enum log_level level = row->changes ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG;

	if (code != RPC_OK)
		level = row->changes ? LOG_LEVEL_WARNING : LOG_LEVEL_INFO;
	log_write(level,
		  "call=%lu method=%s%s%s code=%s ms=%lld request={%s}%s%s", id,
		  c->method, known ? " volume=" : "", c->id.name,
		  rpc_code_name((enum rpc_code)code), (long long)took_ms, text,
		  code != RPC_OK ? ": " : "",
		  code != RPC_OK ? error_text(c->err) : "");
}

static int checked(const struct row *row, struct csi_call *c,
		   const ProtobufCMessage *in, ProtobufCMessage *out)
{
	enum rpc_code code = RPC_OK;
	char text[ERROR_TEXT_MAX];
	int r;

	if (csi_check(in, &code, c->err) < 0) {
		(void)snprintf(text, sizeof(text), "%s", error_text(c->err));
		return csi_fail(c, code, "%s", text);
	}
	/* A client that has gone will repeat the call, or do its opposite. */
	if (row->changes)
		volume_cancel_on(rpc_cancel_fd(c->rpc));
	r = row->handler(c, in, out);
	volume_cancel_on(-1);
	if (c->locked) {
		volume_lock_release(&c->csi->locks, &c->lock);
		if (row->service == NODE)
			node_watch_look(c->csi->watch);
	}
	return r;
}

static int call_dispatch(struct rpc_call *rpc, const ProtobufCMessage *in,
			 ProtobufCMessage *out, struct error *err)
{
	static atomic_ulong calls;
	unsigned long id = atomic_fetch_add(&calls, 1) + 1;
	const struct row *row = row_of(in);
	struct csi_call c = {
		.rpc = rpc,
		.csi = rpc_context(rpc),
		.method = method_name(row),
		.err = err,
	};
	size_t index = (size_t)(row - rows);
	int64_t start_ns = clock_ns(), took_us;
	char text[CSI_TEXT_MAX];
	int r;

	csi_metrics_begin(&c.csi->metrics, index);
	r = checked(row, &c, in, out);
	took_us = (clock_ns() - start_ns) / 1000;
	csi_metrics_end(&c.csi->metrics, index, (enum rpc_code) - r,
			(uint64_t)took_us);
	if (-r == RPC_UNAVAILABLE)
		observer_look(c.csi->observer);
	if (row->changes && row->service != NODE)
		observer_room_changed(c.csi->observer);
	call_report(row, &c, id, csi_text(text, sizeof(text), in), -r,
		    took_us / 1000);
	heap_trim_later(c.csi->heap_trim_fd);
	return r < 0 ? -rpc_code_to_errno((enum rpc_code) - r) : 0;
}

/* ---- which there are ---- */

static_assert(array_size(rows) <= CSI_METHODS_MAX, "csi_metrics.h");

static const char *names[array_size(rows) + 1];

static bool mode_serves(enum csi_mode mode, enum service service)
{
	switch (service) {
	case IDENTITY: return true;
	case NODE: return mode != CSI_MODE_CONTROLLER;
	default: return mode != CSI_MODE_NODE;
	}
}

/* The tables of methods, one for each mode, which stay for ever. */
static struct rpc_method methods[CSI_MODE_NODE + 1][array_size(rows)];

static void methods_fill(void)
{
	for (size_t i = 0; i < array_size(rows); i++)
		names[i] = method_name(&rows[i]);
	for (size_t i = 0; i < array_size(methods) * array_size(rows); i++) {
		enum csi_mode mode = (enum csi_mode)(i / array_size(rows));
		const struct row *row = &rows[i % array_size(rows)];
		bool there = row->handler && mode_serves(mode, row->service);

		methods[mode][i % array_size(rows)] = (struct rpc_method){
			.path = row->path,
			.in = row->in,
			.out = row->out,
			.handler = there ? call_dispatch : NULL,
			.server_streams = row->streams,
		};
	}
}

static void methods_make(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	(void)pthread_once(&once, methods_fill); /* cannot fail */
}

const struct rpc_method *csi_methods(enum csi_mode mode, size_t *ret_count)
{
	methods_make();
	*ret_count = array_size(rows);
	return methods[mode];
}

/* ---- the whole ---- */

int csi_init(struct csi *csi, enum csi_mode mode,
	     const struct volume_config *config, struct error *err)
{
	struct volume_config volumes = *config;
	int r;

	*csi = (struct csi){
		.mode = mode,
		.cancel_fd = config->cancel_fd,
		.heap_trim_fd = -1,
		.kata_run_dir = KATA_RUN_DIR_DEFAULT,
	};
	if (csi->cancel_fd == 0)
		csi->cancel_fd = -1;
	methods_make();
	csi->metrics.names = names;
	volume_locks_init(&csi->locks);
	/*
	 * The controller's pod, or host, may have a node's name: volumes
	 * attached there are still not its own.
	 */
	volumes.no_node = mode == CSI_MODE_CONTROLLER;
	(void)snprintf(csi->state_dir, sizeof(csi->state_dir), "%.4000s/csi",
		       config->run_dir ? config->run_dir
				       : VOLUME_RUN_DIR_DEFAULT);
	r = volume_context_open(&volumes, &csi->volumes, err);
	if (r == 0 && mode != CSI_MODE_CONTROLLER)
		r = node_watch_start(csi, &csi->watch, err);
	return r;
}

void csi_done(struct csi *csi)
{
	node_watch_stop(csi->watch);
	/* A question that nobody waits for any more still uses it. */
	if (timeout_call_wait_all(TIMEOUT_END_MS))
		volume_context_close(csi->volumes);
	volume_locks_done(&csi->locks);
}
