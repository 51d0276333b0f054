/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The calls about users, snapshots and limits, and those to check and grow a
 * pool.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "blockd/api/service_internal.h"
#include "blockd/copy/extent_cut.h"
#include "blockd/copy/pull_job.h"
#include "blockd/copy/quiesce.h"

#define RANGES_MAX 4096 /* in one message; proto/blockd.proto */

/* ---- quiesces ---- */

int service_hold_writes(struct rpc_call *call, const ProtobufCMessage *in,
			ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__HoldWritesRequest *request =
		(const Tributary__V1__HoldWritesRequest *)in;
	const struct service *service = rpc_context(call);
	int r = extents_quiesce(service->node, request->id,
				(const char *const *)request->extents,
				request->n_extents, request->device,
				request->timeout_ms,
				request->prepare ? QUIESCE_PREPARE : 0, err);

	(void)out; /* has no fields */
	return r < 0 ? service_translate(r, err) : 0;
}

int service_release_writes(struct rpc_call *call, const ProtobufCMessage *in,
			   ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__ReleaseWritesRequest *request =
		(const Tributary__V1__ReleaseWritesRequest *)in;
	const struct service *service = rpc_context(call);

	(void)err; /* one that is not there is told by the answer */
	((Tributary__V1__ReleaseWritesReply *)out)->held = quiesce_end(
		service->node->quiesces, request->id);
	return 0;
}

/* ---- snapshots ---- */

/* What the call's arena holds until the answer has gone. */
struct cut_call {
	struct snapshot_request snapshots[EXTENT_CUT_MAX];
	struct extent_label labels[EXTENT_CUT_MAX][EXTENT_LABELS_MAX];
	struct extent *made[EXTENT_CUT_MAX];
};

static int take_snapshots(const Tributary__V1__CreateSnapshotsRequest *request,
			  struct cut_call *c, struct error *err)
{
	if (request->n_snapshots < 1 || request->n_snapshots > EXTENT_CUT_MAX)
		return error_set(err, EINVAL,
				 "a cut is of 1 to %d extents, not %zu",
				 EXTENT_CUT_MAX, request->n_snapshots);
	for (size_t i = 0; i < request->n_snapshots; i++) {
		const Tributary__V1__SnapshotRequest *one =
			request->snapshots[i];
		int r = service_take_labels(one->labels, one->n_labels,
					    c->labels[i], err);

		if (r < 0)
			return r;
		c->snapshots[i] = (struct snapshot_request){
			.extent = one->extent,
			.extent_id = one->extent_id,
			.name = one->name,
			.labels = c->labels[i],
			.n_labels = one->n_labels,
		};
	}
	return 0;
}

static int reply_snapshots(struct rpc_call *call, struct extent **made,
			   size_t n, Tributary__V1__CreateSnapshotsReply *reply,
			   struct error *err)
{
	auto_loopdev_users struct loopdev_users users = {0};
	int r = loopdev_users_scan(&users, err);

	reply->snapshots = rpc_alloc(call, n * sizeof(*reply->snapshots));
	for (size_t i = 0; r == 0 && i < n; i++) {
		Tributary__V1__Extent *one = rpc_alloc(call, sizeof(*one));

		tributary__v1__extent__init(one);
		r = service_fill_extent(call, made[i], &users, one, err);
		reply->snapshots[reply->n_snapshots++] = one;
	}
	return r;
}

static int cut(struct rpc_call *call,
	       const Tributary__V1__CreateSnapshotsRequest *request,
	       struct cut_call *c, Tributary__V1__CreateSnapshotsReply *reply,
	       struct error *err)
{
	const struct service *service = rpc_context(call);
	const size_t n = request->n_snapshots;
	const struct cut_request wanted = {
		.cut = request->cut,
		.hold = request->hold,
		.snapshots = c->snapshots,
		.n = n,
	};
	int r = extents_cut(service->node, &wanted, c->made, err);

	if (r < 0)
		return service_failed(service, "",
				      n ? request->snapshots[0]->extent : NULL,
				      r, err);
	log_info("cut %s: %zu snapshots, %s of %s the first", request->cut, n,
		 request->snapshots[0]->name, request->snapshots[0]->extent);
	r = reply_snapshots(call, c->made, n, reply, err);
	for (size_t i = 0; i < n; i++)
		extent_unref(c->made[i]);
	return r < 0 ? service_translate(r, err) : 0;
}

int service_create_snapshots(struct rpc_call *call, const ProtobufCMessage *in,
			     ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__CreateSnapshotsRequest *request =
		(const Tributary__V1__CreateSnapshotsRequest *)in;
	struct cut_call *c = rpc_alloc(call, sizeof(*c));
	int r = take_snapshots(request, c, err);

	return r < 0 ? r
		     : cut(call, request, c,
			   (Tributary__V1__CreateSnapshotsReply *)out, err);
}

int service_pull_extent(struct rpc_call *call, const ProtobufCMessage *in,
			ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__PullExtentRequest *request =
		(const Tributary__V1__PullExtentRequest *)in;
	Tributary__V1__PullExtentReply *reply =
		(Tributary__V1__PullExtentReply *)out;
	const struct service *service = rpc_context(call);
	struct extent_range *ranges = rpc_alloc(call, (request->n_ranges + 1) *
							      sizeof(*ranges));
	const struct pull_request wanted = {
		.id = request->id,
		.address = request->address,
		.export = request->export,
		.ranges = ranges,
		.n_ranges = request->n_ranges,
	};
	auto_extent struct extent *extent = NULL;
	struct pull_answer answer;
	int r = extent_find(service->node, request->name, &extent, err);

	for (size_t i = 0; i < request->n_ranges; i++)
		ranges[i] = (struct extent_range){
			.offset = request->ranges[i]->offset,
			.length = request->ranges[i]->length,
		};
	if (r == 0)
		r = pull_job_run(extent, &wanted, &answer, err);
	if (r < 0)
		return service_failed(service, "", request->name, r, err);
	reply->runs = answer.runs;
	reply->position = answer.position;
	return 0;
}

int service_revert_extent(struct rpc_call *call, const ProtobufCMessage *in,
			  ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__RevertExtentRequest *request =
		(const Tributary__V1__RevertExtentRequest *)in;
	const struct service *service = rpc_context(call);
	auto_extent struct extent *extent = NULL;
	int r = extent_revert(service->node, request->name, request->id,
			      request->snapshot, err);

	if (r == 0)
		r = extent_find(service->node, request->name, &extent, err);
	if (r < 0)
		return service_failed(service, "", request->name, r, err);
	log_info("extent %s: is as in snapshot %s again", request->name,
		 request->snapshot);
	return service_reply_extent(call, extent, out, err);
}

int service_set_limits(struct rpc_call *call, const ProtobufCMessage *in,
		       ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__SetLimitsRequest *request =
		(const Tributary__V1__SetLimitsRequest *)in;
	const struct service *service = rpc_context(call);
	const struct extent_limits limits = service_take_limits(
		request->limits);
	auto_extent struct extent *extent = NULL;
	int r = extent_find(service->node, request->name, &extent, err);

	if (r == 0)
		r = extent_set_limits(extent, &limits, err);
	if (r < 0)
		return service_translate(r, err);
	log_info("extent %s: limits are %" PRIu64 " operations and %" PRIu64
		 " bytes a second (0: none)",
		 request->name, limits.iops, limits.bytes_per_second);
	return service_reply_extent(call, extent, out, err);
}

/* ---- ranges ---- */

/* One message, made once and filled again and again. */
struct ranges_call {
	struct rpc_call *call;
	struct extent *snapshot, *older; /* owned; older may be NULL */
	size_t max;
	struct extent_range ranges[RANGES_MAX];
	Tributary__V1__Range out[RANGES_MAX];
	Tributary__V1__Range *pointers[RANGES_MAX];
};

static int send_ranges(struct ranges_call *c, size_t n)
{
	Tributary__V1__ListRangesReply reply;

	tributary__v1__list_ranges_reply__init(&reply);
	for (size_t i = 0; i < n; i++) {
		c->out[i].offset = c->ranges[i].offset;
		c->out[i].length = c->ranges[i].length;
	}
	reply.size = c->snapshot->record.size; /* never changes */
	reply.n_ranges = n;
	reply.ranges = c->pointers;
	return rpc_send(c->call, &reply.base);
}

static int stream_ranges(struct ranges_call *c, uint64_t start,
			 struct error *err)
{
	const uint64_t size = c->snapshot->record.size;
	bool first = true;
	size_t n;

	do {
		int r = extent_ranges(c->snapshot, c->older, start, c->ranges,
				      c->max, &n, &start, err);

		if (r < 0)
			return service_translate(r, err);
		if (n > 0 || first) {
			r = send_ranges(c, n);
			if (r < 0)
				return error_set(err, -r,
						 "the listing was given up");
		}
		first = false;
	} while (start < size);
	return 0;
}

/* -ESTALE: it has another id. */
static int find_snapshot(struct rpc_call *call, const char *name,
			 const char *id, struct extent **ret, struct error *err)
{
	const struct service *service = rpc_context(call);
	struct extent *extent;
	int r = extent_find(service->node, name, &extent, err);

	if (r < 0)
		return r;
	if (id[0] && strcmp(id, extent->record.id) != 0) {
		r = error_set(err, ESTALE,
			      "snapshot '%s' has the id %s, not %.40s", name,
			      extent->record.id, id);
		extent_unref(extent);
		return r;
	}
	*ret = extent;
	return 0;
}

static void init_ranges(struct ranges_call *c, struct rpc_call *call,
			uint32_t max)
{
	c->call = call;
	c->max = max && max < RANGES_MAX ? max : RANGES_MAX;
	for (size_t i = 0; i < c->max; i++) {
		tributary__v1__range__init(&c->out[i]);
		c->pointers[i] = &c->out[i];
	}
}

int service_list_ranges(struct rpc_call *call, const ProtobufCMessage *in,
			ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__ListRangesRequest *request =
		(const Tributary__V1__ListRangesRequest *)in;
	struct ranges_call *c = rpc_alloc(call, sizeof(*c));
	int r = find_snapshot(call, request->name, request->id, &c->snapshot,
			      err);

	(void)out; /* they go one by one */
	init_ranges(c, call, request->max_ranges);
	if (r == 0 && request->older[0])
		r = find_snapshot(call, request->older, request->older_id,
				  &c->older, err);
	r = r < 0 ? service_translate(r, err)
		  : stream_ranges(c, request->start, err);
	extent_unref(c->snapshot);
	extent_unref(c->older);
	return r;
}

/* ---- pools ---- */

#define FINDINGS_MAX 1000 /* proto/blockd.proto */

struct findings {
	struct rpc_call *call;
	Tributary__V1__CheckPoolReply *reply;
	uint64_t left;
};

static void add_finding(void *context, const char *text, bool repaired)
{
	struct findings *f = context;

	if (repaired)
		f->reply->repaired++;
	else
		f->left++;
	if (f->reply->n_findings < FINDINGS_MAX)
		f->reply->findings[f->reply->n_findings++] = rpc_strdup(f->call,
									text);
}

int service_check_pool(struct rpc_call *call, const ProtobufCMessage *in,
		       ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__CheckPoolRequest *request =
		(const Tributary__V1__CheckPoolRequest *)in;
	const struct service *service = rpc_context(call);
	struct findings f = {
		.call = call,
		.reply = (Tributary__V1__CheckPoolReply *)out,
	};
	int r;

	f.reply->findings = rpc_alloc(call, FINDINGS_MAX * sizeof(char *));
	r = node_check_pool(service->node, request->name, request->repair,
			    add_finding, &f, err);
	if (r < 0)
		return service_translate(r, err);
	f.reply->clean = f.left == 0;
	log_info("pool %s: checked, %" PRIu64 " findings, %" PRIu64 " repaired",
		 request->name, f.left + f.reply->repaired, f.reply->repaired);
	return 0;
}

int service_grow_pool(struct rpc_call *call, const ProtobufCMessage *in,
		      ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__GrowPoolRequest *request =
		(const Tributary__V1__GrowPoolRequest *)in;
	const struct service *service = rpc_context(call);
	auto_free struct node_pool_info *infos = NULL;
	size_t n = 0;
	int r = node_grow_pool(service->node, request->name, err);

	if (r == 0)
		r = node_list_pools(service->node, request->name, &infos, &n,
				    err);
	if (r == 0 && n == 0)
		r = error_set(err, EAGAIN, "pool '%s' was deleted meanwhile",
			      request->name);
	if (r < 0)
		return service_translate(r, err);
	log_info("pool %s: has %" PRIu64 " bytes", request->name,
		 infos[0].space.capacity);
	service_fill_pool(call, &infos[0], (Tributary__V1__Pool *)out);
	return 0;
}
