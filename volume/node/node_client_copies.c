/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "volume/node/node_answer.h"
#include "volume/node/node_client_internal.h"

/* ---- holds ---- */

int node_client_hold_writes(struct node_client *client, const char *id,
			    const char *const *extents, size_t n,
			    const char *device, unsigned timeout_ms,
			    bool prepare, struct error *err)
{
	Tributary__V1__HoldWritesRequest request =
		TRIBUTARY__V1__HOLD_WRITES_REQUEST__INIT;

	request.id = (char *)id;
	request.extents = (char **)extents;
	request.n_extents = n;
	request.timeout_ms = timeout_ms;
	request.device = text_or_empty(device);
	request.prepare = prepare;
	return node_client_call(client, NODE_SERVICE "HoldWrites", &request,
				&tributary__v1__empty__descriptor, NULL, err);
}

int node_client_release_writes(struct node_client *client, const char *id,
			       bool *ret_held, struct error *err)
{
	Tributary__V1__ReleaseWritesRequest request =
		TRIBUTARY__V1__RELEASE_WRITES_REQUEST__INIT;
	auto_answer ProtobufCMessage *answer = NULL;
	int r;

	request.id = (char *)id;
	r = node_client_call(client, NODE_SERVICE "ReleaseWrites", &request,
			     &tributary__v1__release_writes_reply__descriptor,
			     &answer, err);
	if (r == 0)
		*ret_held = ((const Tributary__V1__ReleaseWritesReply *)answer)
				    ->held;
	return r;
}

/* ---- snapshots ---- */

/* The parts of a request, in one piece of memory. */
struct snapshot_item {
	Tributary__V1__SnapshotRequest request;
	struct node_labels labels;
};

static struct snapshot_item *items_make(
	const struct node_snapshot_request *requests, size_t n,
	Tributary__V1__SnapshotRequest **pointers)
{
	struct snapshot_item *items = calloc(n + 1, sizeof(*items));

	for (size_t i = 0; items && i < n; i++) {
		Tributary__V1__SnapshotRequest *m = &items[i].request;

		tributary__v1__snapshot_request__init(m);
		m->extent = (char *)requests[i].extent;
		m->extent_id = text_or_empty(requests[i].extent_id);
		m->name = (char *)requests[i].name;
		m->n_labels = node_labels_fill(&items[i].labels,
					       requests[i].labels);
		m->labels = items[i].labels.pointers;
		pointers[i] = m;
	}
	return items;
}

/* Each is a snapshot of that name. */
static bool snapshots_match(const struct node_extent *extents,
			    const struct node_snapshot_request *requests,
			    size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!extents[i].snapshot ||
		    strcmp(extents[i].name, requests[i].name) != 0)
			return false;
	return true;
}

static int take_snapshots(const struct node_client *client,
			  const Tributary__V1__CreateSnapshotsReply *m,
			  const struct node_snapshot_request *requests,
			  size_t n, struct node_extent **ret, struct error *err)
{
	struct node_extent *extents = NULL;
	int r;

	if (m->n_snapshots != n)
		return node_answer_bad(client, "number of snapshots", err);
	r = node_answer_extents(client, n, m->snapshots, &extents, err);
	if (r < 0)
		return r;
	if (!snapshots_match(extents, requests, n)) {
		node_extents_free(extents, n);
		return node_answer_bad(client, "snapshot", err);
	}
	*ret = extents;
	return 0;
}

int node_client_create_snapshots(struct node_client *client, const char *cut,
				 const char *hold,
				 const struct node_snapshot_request *requests,
				 size_t n, struct node_extent **ret,
				 struct error *err)
{
	Tributary__V1__CreateSnapshotsRequest request =
		TRIBUTARY__V1__CREATE_SNAPSHOTS_REQUEST__INIT;
	Tributary__V1__SnapshotRequest *pointers[NODE_CUT_MAX];
	auto_free struct snapshot_item *items = NULL;
	auto_answer ProtobufCMessage *answer = NULL;
	int timeout_ms = client->timeout_ms, r = 0;

	if (n < 1 || n > NODE_CUT_MAX)
		return error_set(err, EINVAL,
				 "node '%s': %zu extents in one cut: 1 to %d",
				 client->node, n, NODE_CUT_MAX);
	items = items_make(requests, n, pointers);
	if (!items)
		return error_set(err, ENOMEM, "out of memory");
	request.cut = (char *)cut;
	request.hold = text_or_empty(hold);
	request.snapshots = pointers;
	request.n_snapshots = n;
	if (!request.hold[0]) {
		r = node_client_get_extent(client, requests[0].extent, NULL,
					   err);
		timeout_ms = NODE_LONG_MS;
	}
	if (r == 0)
		r = node_client_call_for(
			client, timeout_ms, NODE_SERVICE "CreateSnapshots",
			&request,
			&tributary__v1__create_snapshots_reply__descriptor,
			&answer, err);
	if (r < 0 || !ret)
		return r;
	return take_snapshots(client,
			      (Tributary__V1__CreateSnapshotsReply *)answer,
			      requests, n, ret, err);
}

int node_client_revert_extent(struct node_client *client, const char *name,
			      const char *id, const char *snapshot,
			      struct node_extent *ret, struct error *err)
{
	Tributary__V1__RevertExtentRequest request =
		TRIBUTARY__V1__REVERT_EXTENT_REQUEST__INIT;
	int r = node_client_get_extent(client, name, NULL, err);

	if (r < 0)
		return r;
	request.name = (char *)name;
	request.id = text_or_empty(id);
	request.snapshot = (char *)snapshot;
	return node_client_call_extent(client, NODE_LONG_MS,
				       NODE_SERVICE "RevertExtent", &request,
				       ret, err);
}

int node_client_set_limits(struct node_client *client, const char *name,
			   const struct node_limits *limits,
			   struct node_extent *ret, struct error *err)
{
	Tributary__V1__SetLimitsRequest request =
		TRIBUTARY__V1__SET_LIMITS_REQUEST__INIT;
	Tributary__V1__Limits some = TRIBUTARY__V1__LIMITS__INIT;

	some.iops = limits->iops;
	some.bytes_per_second = limits->bytes_per_second;
	request.name = (char *)name;
	if (some.iops || some.bytes_per_second)
		request.limits = &some;
	return node_client_call_extent(client, client->timeout_ms,
				       NODE_SERVICE "SetLimits", &request, ret,
				       err);
}

/* ---- ranges ---- */

struct listing {
	node_range each;
	void *context;
	uint64_t size;   /* bytes; a snapshot's never changes */
	uint64_t start;  /* ranges end after it */
	uint64_t end;    /* of the last range */
	bool begun, bad; /* a message came; the answer makes no sense */
	int result;      /* of @each */
};

static bool range_ok(const struct listing *l, const Tributary__V1__Range *m)
{
	uint64_t end;

	return m->length &&
	       !__builtin_add_overflow(m->offset, m->length, &end) &&
	       end <= l->size && m->offset >= l->end && end > l->start;
}

static int take_ranges(void *context, const ProtobufCMessage *message)
{
	const Tributary__V1__ListRangesReply *m =
		(const Tributary__V1__ListRangesReply *)message;
	struct listing *l = context;

	/* Only the first may have no ranges: else it might never end. */
	l->bad = m->size != l->size || (l->begun && !m->n_ranges);
	l->begun = true;
	for (size_t i = 0; !l->bad && i < m->n_ranges; i++) {
		const Tributary__V1__Range *range = m->ranges[i];

		l->bad = !range_ok(l, range);
		if (l->bad)
			break;
		l->end = range->offset + range->length;
		l->result = l->each(l->context, l->size, range->offset,
				    range->length);
		if (l->result)
			return -ECANCELED;
	}
	return l->bad ? -EPROTO : 0;
}

int node_client_list_ranges(struct node_client *client,
			    const struct node_ranges_request *wanted,
			    node_range each, void *context, uint64_t *ret_size,
			    struct error *err)
{
	Tributary__V1__ListRangesRequest request =
		TRIBUTARY__V1__LIST_RANGES_REQUEST__INIT;
	struct listing l = {
		.each = each,
		.context = context,
		.start = wanted->start,
	};
	struct node_extent extent = {0};
	int r = node_client_get_extent(client, wanted->name, &extent, err);

	if (r < 0)
		return r;
	l.size = extent.size;
	node_extent_done(&extent);
	request.name = (char *)wanted->name;
	request.id = text_or_empty(wanted->id);
	request.older = text_or_empty(wanted->older);
	request.older_id = text_or_empty(wanted->older_id);
	request.start = wanted->start;
	r = rpc_client_stream(client->rpc, NODE_SERVICE "ListRanges",
			      &request.base,
			      &tributary__v1__list_ranges_reply__descriptor,
			      NODE_LONG_MS, take_ranges, &l, err);
	if (l.bad)
		return node_answer_bad(client, "list of ranges", err);
	if (l.result)
		return l.result;
	if (r < 0)
		return error_prefix(err, r, "node '%s': ", client->node);
	if (ret_size)
		*ret_size = l.size;
	return 0;
}

/* ---- pools ---- */

void node_check_done(struct node_check *check)
{
	for (size_t i = 0; i < check->n_findings; i++)
		free(check->findings[i]);
	free(check->findings);
	*check = (struct node_check){0};
}

static int take_check(const Tributary__V1__CheckPoolReply *m,
		      struct node_check *ret, struct error *err)
{
	struct node_check check = {
		.clean = m->clean,
		.repaired = m->repaired,
		.findings = calloc(m->n_findings + 1, sizeof(char *)),
	};

	if (!check.findings)
		return error_set(err, ENOMEM, "out of memory");
	for (size_t i = 0; i < m->n_findings; i++) {
		check.findings[i] = strdup(m->findings[i]);
		if (!check.findings[i]) {
			node_check_done(&check);
			return error_set(err, ENOMEM, "out of memory");
		}
		check.n_findings++;
	}
	*ret = check;
	return 0;
}

/* The node answers, and has the pool. */
static int pool_is_there(struct node_client *client, const char *name,
			 struct error *err)
{
	auto_free struct node_pool *pools = NULL;
	size_t n = 0;
	int r = node_client_list_pools(client, &pools, &n, err);

	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++)
		if (strcmp(pools[i].name, name) == 0)
			return 0;
	return error_set(err, ENOENT, "node '%s': no pool '%s'", client->node,
			 name);
}

int node_client_check_pool(struct node_client *client, const char *name,
			   bool repair, struct node_check *ret,
			   struct error *err)
{
	Tributary__V1__CheckPoolRequest request =
		TRIBUTARY__V1__CHECK_POOL_REQUEST__INIT;
	auto_answer ProtobufCMessage *answer = NULL;
	int r = pool_is_there(client, name, err);

	request.name = (char *)name;
	request.repair = repair;
	if (r == 0)
		r = node_client_call_for(
			client, NODE_LONG_MS, NODE_SERVICE "CheckPool",
			&request, &tributary__v1__check_pool_reply__descriptor,
			&answer, err);
	if (r < 0)
		return r;
	return take_check((Tributary__V1__CheckPoolReply *)answer, ret, err);
}

/* Ranges of a request; in one piece of memory, owned. */
static Tributary__V1__Range **pieces_new(const struct node_piece *pieces,
					 size_t n)
{
	Tributary__V1__Range **pointers = calloc(
		n + 1, sizeof(*pointers) + sizeof(**pointers));
	Tributary__V1__Range *ranges = (Tributary__V1__Range *)(pointers + n +
								1);

	for (size_t i = 0; pointers && i < n; i++) {
		tributary__v1__range__init(&ranges[i]);
		ranges[i].offset = pieces[i].offset;
		ranges[i].length = pieces[i].length;
		pointers[i] = &ranges[i];
	}
	return pointers;
}

int node_client_pull(struct node_client *client,
		     const struct node_pull_request *wanted,
		     struct node_pulled *ret, struct error *err)
{
	auto_free Tributary__V1__Range **ranges = pieces_new(wanted->ranges,
							     wanted->n_ranges);
	Tributary__V1__PullExtentRequest request =
		TRIBUTARY__V1__PULL_EXTENT_REQUEST__INIT;
	auto_answer ProtobufCMessage *answer = NULL;
	const Tributary__V1__PullExtentReply *reply;
	int r;

	if (!ranges)
		return error_set(err, ENOMEM, "out of memory");
	request.name = (char *)wanted->name;
	request.id = text_or_empty(wanted->id);
	request.address = (char *)wanted->address;
	request.export = (char *)wanted->export;
	request.ranges = ranges;
	request.n_ranges = wanted->n_ranges;
	r = node_client_call(client, NODE_SERVICE "PullExtent", &request,
			     &tributary__v1__pull_extent_reply__descriptor,
			     &answer, err);
	if (r < 0)
		return r;
	reply = (const Tributary__V1__PullExtentReply *)answer;
	*ret = (struct node_pulled){reply->runs, reply->position};
	return 0;
}

int node_client_grow_pool(struct node_client *client, const char *name,
			  struct node_pool *ret, struct error *err)
{
	Tributary__V1__GrowPoolRequest request =
		TRIBUTARY__V1__GROW_POOL_REQUEST__INIT;
	auto_answer ProtobufCMessage *answer = NULL;
	int r;

	request.name = (char *)name;
	r = node_client_call(client, NODE_SERVICE "GrowPool", &request,
			     &tributary__v1__pool__descriptor, &answer, err);
	if (r < 0 || !ret)
		return r;
	return node_answer_pool(client, (Tributary__V1__Pool *)answer, ret,
				err);
}
