/* SPDX-License-Identifier: Apache-2.0 */
/* Holds, snapshots, what is made of them, and limits. */
#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "csi/testkit/fake_node_internal.h"

void fake_copy(struct fake_node *node, const struct fake_extent *from,
	       struct fake_extent *to)
{
	to->content = from->content;
	to->copying = node->copies;
	memcpy(to->origin, from->name, sizeof(to->origin));
	memcpy(to->origin_id, from->id, sizeof(to->origin_id));
}

/* Fail a call that was told to fail; after the work when @fails is below 0. */
static int told_to_fail(int fails, bool done, struct error *err)
{
	if (fails == 0 || (fails < 0) != done)
		return 0;
	return error_set(err, fails < 0 ? -fails : fails, "told to fail");
}

int fake_remove_export(struct rpc_call *call, const ProtobufCMessage *in_,
		       ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__RemoveExportRequest *in = (const void *)in_;
	struct fake_node *node = fake_node_of(call);
	struct fake_extent *e;
	int r = 0;

	pthread_mutex_lock(&node->lock);
	e = fake_find(node, in->name);
	if (e)
		fake_answer(call, e, (Tributary__V1__Extent *)out);
	else
		r = error_set(err, ENOENT, "no extent '%s'", in->name);
	pthread_mutex_unlock(&node->lock);
	return r;
}

/* ---- holds ---- */

static void let_go(struct fake_node *node)
{
	node->hold[0] = '\0';
	for (size_t i = 0; i < FAKE_EXTENTS_MAX; i++)
		node->extents[i].held = false;
	pthread_cond_broadcast(&node->released);
}

int fake_hold_writes(struct rpc_call *call, const ProtobufCMessage *in_,
		     ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__HoldWritesRequest *in = (const void *)in_;
	struct fake_node *node = fake_node_of(call);
	int fails, r;

	(void)out;
	if (in->prepare)
		return 0;
	fails = atomic_exchange(&node->hold_fails, 0);
	r = told_to_fail(fails, false, err);
	if (r < 0)
		return r;
	pthread_mutex_lock(&node->lock);
	assert(!node->hold[0]);
	(void)snprintf(node->hold, sizeof(node->hold), "%s", in->id);
	for (size_t i = 0; r == 0 && i < in->n_extents; i++) {
		struct fake_extent *e = fake_find(node, in->extents[i]);

		if (e)
			e->held = true;
		else
			r = error_set(err, ENOENT, "no extent");
	}
	if (r < 0)
		let_go(node);
	pthread_mutex_unlock(&node->lock);
	return r < 0 ? r : told_to_fail(fails, true, err);
}

int fake_release_writes(struct rpc_call *call, const ProtobufCMessage *in_,
			ProtobufCMessage *out_, struct error *err)
{
	const Tributary__V1__ReleaseWritesRequest *in = (const void *)in_;
	Tributary__V1__ReleaseWritesReply *out = (void *)out_;
	struct fake_node *node = fake_node_of(call);
	int fails = atomic_exchange(&node->release_fails, 0);
	int r = told_to_fail(fails, false, err);

	if (r < 0)
		return r;
	pthread_mutex_lock(&node->lock);
	out->held = strcmp(node->hold, in->id) == 0;
	if (out->held) {
		let_go(node);
		if (atomic_load(&node->lapses) > 0) {
			atomic_fetch_sub(&node->lapses, 1);
			out->held = false;
		}
	}
	pthread_mutex_unlock(&node->lock);
	return told_to_fail(fails, true, err);
}

void fake_node_write(struct fake_node *node, const char *name, uint64_t content)
{
	struct fake_extent *e;

	pthread_mutex_lock(&node->lock);
	e = fake_find(node, name);
	assert(e && !e->snapshot);
	while (e->held)
		pthread_cond_wait(&node->released, &node->lock);
	e->content = content;
	pthread_mutex_unlock(&node->lock);
}

bool fake_node_look(struct fake_node *node, const char *name,
		    struct fake_extent *ret)
{
	struct fake_extent *e;

	pthread_mutex_lock(&node->lock);
	e = fake_find(node, name);
	if (e)
		*ret = *e;
	pthread_mutex_unlock(&node->lock);
	ret->labels = (struct labels){0};
	return e;
}

/* ---- snapshots ---- */

static int cut_one(struct fake_node *node,
		   const Tributary__V1__SnapshotRequest *in,
		   const Tributary__V1__CreateSnapshotsRequest *all,
		   struct fake_extent **ret, struct error *err)
{
	struct fake_extent *from = fake_find(node, in->extent), *e;
	int r = 0;

	if (!from || (in->extent_id[0] && strcmp(from->id, in->extent_id) != 0))
		return error_set(err, ENOENT, "no extent '%s'", in->extent);
	if (all->hold[0] && (strcmp(all->hold, node->hold) != 0 || !from->held))
		return error_set(err, ESTALE, "the hold has lapsed");
	e = *ret = fake_find(node, in->name);
	if (e && strcmp(e->cut, all->cut) == 0)
		return 0;
	if (e)
		return error_set(err, EEXIST, "'%s' is there", in->name);
	if (fake_room(node) < from->size)
		return error_set(err, ENOSPC, "no room");
	e = *ret = fake_find(node, "");
	assert(e);
	(void)snprintf(e->name, sizeof(e->name), "%s", in->name);
	(void)snprintf(e->cut, sizeof(e->cut), "%s", all->cut);
	(void)uuid_make(e->id);
	e->size = from->size;
	e->snapshot = true;
	fake_copy(node, from, e);
	for (size_t i = 0; r == 0 && i < in->n_labels; i++)
		r = labels_set(&e->labels, in->labels[i]->key,
			       in->labels[i]->value, err);
	return r;
}

static void drop(struct fake_extent *e)
{
	labels_done(&e->labels);
	*e = (struct fake_extent){0};
}

int fake_create_snapshots(struct rpc_call *call, const ProtobufCMessage *in_,
			  ProtobufCMessage *out_, struct error *err)
{
	const Tributary__V1__CreateSnapshotsRequest *in = (const void *)in_;
	Tributary__V1__CreateSnapshotsReply *out = (void *)out_;
	struct fake_node *node = fake_node_of(call);
	int fails = atomic_exchange(&node->cut_fails, 0);
	int r = told_to_fail(fails, false, err);

	fake_pause(node);
	if (r < 0)
		return r;
	out->snapshots = rpc_alloc(call, in->n_snapshots * sizeof(void *) + 1);
	pthread_mutex_lock(&node->lock);
	node->n_cuts++;
	for (size_t i = 0; r == 0 && i < in->n_snapshots; i++) {
		struct fake_extent *e = NULL;
		Tributary__V1__Extent *extent;

		r = cut_one(node, in->snapshots[i], in, &e, err);
		if (r < 0)
			break;
		extent = rpc_alloc(call, sizeof(*extent));
		tributary__v1__extent__init(extent);
		fake_answer(call, e, extent);
		out->snapshots[out->n_snapshots++] = extent;
	}
	for (size_t i = 0; r < 0 && i < out->n_snapshots; i++)
		drop(fake_find(node, in->snapshots[i]->name));
	pthread_mutex_unlock(&node->lock);
	return r < 0 ? r : told_to_fail(fails, true, err);
}

int fake_revert_extent(struct rpc_call *call, const ProtobufCMessage *in_,
		       ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__RevertExtentRequest *in = (const void *)in_;
	struct fake_node *node = fake_node_of(call);
	int fails = atomic_exchange(&node->revert_fails, 0);
	struct fake_extent *e, *from;
	int r = told_to_fail(fails, false, err);

	if (r < 0)
		return r;
	pthread_mutex_lock(&node->lock);
	e = fake_find(node, in->name);
	from = fake_find(node, in->snapshot);
	if (!e || !from)
		r = error_set(err, ENOENT, "no such extent");
	else if (strcmp(from->origin_id, e->id) != 0)
		r = error_set(err, EINVAL, "not of this extent");
	if (r == 0) {
		e->content = from->content;
		fake_answer(call, e, (Tributary__V1__Extent *)out);
	}
	pthread_mutex_unlock(&node->lock);
	return r < 0 ? r : told_to_fail(fails, true, err);
}

int fake_set_limits(struct rpc_call *call, const ProtobufCMessage *in_,
		    ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__SetLimitsRequest *in = (const void *)in_;
	struct fake_node *node = fake_node_of(call);
	int r = told_to_fail(atomic_exchange(&node->limit_fails, 0), false,
			     err);
	struct fake_extent *e;

	fake_pause(node);
	if (r < 0)
		return r;
	pthread_mutex_lock(&node->lock);
	e = fake_find(node, in->name);
	if (e) {
		e->iops = in->limits ? in->limits->iops : 0;
		e->bytes_per_second = in->limits ? in->limits->bytes_per_second
						 : 0;
		fake_answer(call, e, (Tributary__V1__Extent *)out);
	} else {
		r = error_set(err, ENOENT, "no extent '%s'", in->name);
	}
	pthread_mutex_unlock(&node->lock);
	return r;
}

/* ---- ranges ---- */

static int send_range(struct rpc_call *call, uint64_t size, uint64_t offset,
		      uint64_t length, bool there)
{
	Tributary__V1__ListRangesReply reply;
	Tributary__V1__Range range, *ranges[] = {&range};

	tributary__v1__list_ranges_reply__init(&reply);
	tributary__v1__range__init(&range);
	range.offset = offset;
	range.length = length;
	reply.size = size;
	reply.n_ranges = there;
	reply.ranges = ranges;
	return rpc_send(call, &reply.base);
}

/* Of two messages; MiB, but for what is added to the size, bytes. */
struct hostile {
	uint64_t size[2], offset[2], length[2];
};

static int send_hostile(struct rpc_call *call, enum fake_ranges what,
			uint64_t size, struct error *err)
{
	const uint64_t mib = UINT64_C(1) << 20;
	const struct hostile table[FAKE_RANGES_N] = {
		[FAKE_RANGES_BACKWARDS] = {{0}, {8, 4}, {1, 1}},
		[FAKE_RANGES_OVERLAP] = {{0}, {4, 5}, {2, 2}},
		[FAKE_RANGES_TWICE] = {{0}, {4, 4}, {1, 1}},
		[FAKE_RANGES_PAST_THE_END] = {{0}, {4, size / mib}, {1, 1}},
		[FAKE_RANGES_WRAP] = {{0}, {4, 8}, {1, UINT64_MAX / mib - 7}},
		[FAKE_RANGES_EMPTY] = {{0}, {4, 8}, {1, 0}},
		[FAKE_RANGES_BEFORE_THE_START] = {{0}, {0, 4}, {1, 1}},
		[FAKE_RANGES_OTHER_SIZE] = {{1, 1}, {4, 8}, {1, 1}},
		[FAKE_RANGES_SIZE_CHANGES] = {{0, 1}, {4, 8}, {1, 1}},
		[FAKE_RANGES_ENDLESS] = {{0}, {4, 8}, {0, 0}},
		[FAKE_RANGES_CUT] = {{0}, {4, 8}, {1, 1}},
	};
	const struct hostile *h = &table[what];
	int r = 0;

	for (size_t i = 0; r == 0 && i < 2; i++)
		r = send_range(call, size + h->size[i], h->offset[i] * mib,
			       h->length[i] * mib, what != FAKE_RANGES_ENDLESS);
	while (r == 0 && what == FAKE_RANGES_ENDLESS)
		r = send_range(call, size, 0, 0, false);
	if (r == 0 && what == FAKE_RANGES_CUT)
		return error_set(err, EIO, "something failed");
	return r < 0 ? error_set(err, -r, "the listing was given up") : 0;
}

int fake_list_ranges(struct rpc_call *call, const ProtobufCMessage *in_,
		     ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__ListRangesRequest *in = (const void *)in_;
	struct fake_node *node = fake_node_of(call);
	struct fake_extent e = {0}, older = {0};

	(void)out;
	if (!fake_node_look(node, in->name, &e) ||
	    (in->older[0] && !fake_node_look(node, in->older, &older)))
		return error_set(err, ENOENT, "no such snapshot");
	if (!e.snapshot ||
	    (in->older[0] && strcmp(e.origin_id, older.origin_id) != 0))
		return error_set(err, EINVAL, "not of one extent");
	if (in->start > e.size)
		return error_set(err, ERANGE, "past the end");
	if (atomic_load(&node->ranges) != FAKE_RANGES_GOOD)
		return send_hostile(
			call, (enum fake_ranges)atomic_load(&node->ranges),
			e.size, err);
	return send_range(call, e.size, older.content,
			  e.content - older.content,
			  e.content > older.content && e.content > in->start);
}
