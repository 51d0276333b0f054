/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/testkit/fake_node_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"

static void fake_sleep(int ms)
{
	const struct timespec pause = {.tv_sec = ms / 1000,
				       .tv_nsec = (long)(ms % 1000) * 1000000};

	(void)nanosleep(&pause, NULL); /* a test is not exact */
}

void fake_pause(struct fake_node *node)
{
	for (int ms = 0; ms < atomic_load(&node->pause_ms); ms += 10)
		fake_sleep(10);
}

struct fake_extent *fake_find(struct fake_node *node, const char *name)
{
	for (size_t i = 0; i < FAKE_EXTENTS_MAX; i++)
		if (strcmp(node->extents[i].name, name) == 0)
			return &node->extents[i];
	return NULL;
}

uint64_t fake_room(const struct fake_node *node)
{
	uint64_t used = 0;

	for (size_t i = 0; i < FAKE_EXTENTS_MAX; i++)
		if (node->extents[i].name[0])
			used += node->extents[i].size;
	return node->capacity - used;
}

struct fake_node *fake_node_of(struct rpc_call *call)
{
	struct fake_node *node = rpc_context(call);

	atomic_fetch_add(&node->asked, 1);
	return node;
}

void fake_answer(struct rpc_call *call, const struct fake_extent *e,
		 Tributary__V1__Extent *out)
{
	out->name = rpc_strdup(call, e->name);
	out->pool = rpc_strdup(call, "main");
	out->id = rpc_strdup(call, e->id);
	out->size = e->size;
	out->blank = !e->origin[0];
	out->state = rpc_strdup(call, e->copying ? "copying" : "ok");
	if (e->copying)
		out->copied = e->size / (unsigned)(e->copying + 1);
	out->kind = rpc_strdup(call, e->snapshot ? "snapshot" : "extent");
	if (e->origin[0]) {
		out->origin = rpc_alloc(call, sizeof(*out->origin));
		tributary__v1__origin__init(out->origin);
		out->origin->name = rpc_strdup(call, e->origin);
		out->origin->id = rpc_strdup(call, e->origin_id);
		out->origin->cut = rpc_strdup(call, e->cut);
		out->origin->method = rpc_strdup(call, "shared");
	}
	if (e->iops || e->bytes_per_second) {
		out->limits = rpc_alloc(call, sizeof(*out->limits));
		tributary__v1__limits__init(out->limits);
		out->limits->iops = e->iops;
		out->limits->bytes_per_second = e->bytes_per_second;
	}
	out->n_labels = e->labels.count;
	out->labels = rpc_alloc(call, e->labels.count * sizeof(void *) + 1);
	for (size_t i = 0; i < e->labels.count; i++) {
		Tributary__V1__Label *label = rpc_alloc(call, sizeof(*label));

		tributary__v1__label__init(label);
		label->key = rpc_strdup(call, e->labels.items[i].key);
		label->value = rpc_strdup(call, e->labels.items[i].value);
		out->labels[i] = label;
	}
}

static Tributary__V1__Pool **the_pool(struct rpc_call *call,
				      struct fake_node *node)
{
	Tributary__V1__Pool **list = rpc_alloc(call, sizeof(void *));
	Tributary__V1__Pool *pool = rpc_alloc(call, sizeof(*pool));

	tributary__v1__pool__init(pool);
	pool->name = rpc_strdup(call, "main");
	pool->kind = rpc_strdup(call, "dir");
	pool->state = rpc_strdup(call, node->pool_state ?: "online");
	pool->message = rpc_strdup(call, node->pool_state ? "it is ill" : "");
	pool->capacity = node->capacity;
	pthread_mutex_lock(&node->lock);
	pool->available = fake_room(node);
	pthread_mutex_unlock(&node->lock);
	list[0] = pool;
	return list;
}

static int get_node(struct rpc_call *call, const ProtobufCMessage *in,
		    ProtobufCMessage *out_, struct error *err)
{
	struct fake_node *node = fake_node_of(call);
	Tributary__V1__Node *out = (Tributary__V1__Node *)out_;

	(void)in;
	(void)err;
	while (atomic_load(&node->silent))
		fake_sleep(20);
	out->name = rpc_strdup(call, node->name);
	out->version = rpc_strdup(call, node->version ?: "");
	out->n_pools = 1;
	out->pools = the_pool(call, node);
	return 0;
}

static int list_pools(struct rpc_call *call, const ProtobufCMessage *in,
		      ProtobufCMessage *out_, struct error *err)
{
	Tributary__V1__ListPoolsReply *out =
		(Tributary__V1__ListPoolsReply *)out_;

	(void)in;
	(void)err;
	out->n_pools = 1;
	out->pools = the_pool(call, fake_node_of(call));
	return 0;
}

static int make(struct fake_node *node,
		const Tributary__V1__CreateExtentRequest *in,
		struct fake_extent **ret, struct error *err)
{
	struct fake_extent *e = fake_find(node, in->name), *source = NULL;
	int r = 0;

	*ret = e;
	if (e)
		return e->size == in->size
			       ? 0
			       : error_set(err, EEXIST, "there already");
	if (in->size > fake_room(node))
		return error_set(err, ENOSPC, "no room");
	if (in->source[0]) {
		source = fake_find(node, in->source);
		if (!source || (in->source_id[0] &&
				strcmp(source->id, in->source_id) != 0))
			return error_set(err, ENOENT, "no extent '%s'",
					 in->source);
		if (source->size > in->size)
			return error_set(err, ERANGE, "it is larger");
	}
	e = *ret = fake_find(node, "");
	assert(e);
	(void)snprintf(e->name, sizeof(e->name), "%s", in->name);
	(void)uuid_make(e->id);
	e->size = in->size;
	if (source)
		fake_copy(node, source, e);
	if (in->limits) {
		e->iops = in->limits->iops;
		e->bytes_per_second = in->limits->bytes_per_second;
	}
	for (size_t i = 0; r == 0 && i < in->n_labels; i++)
		r = labels_set(&e->labels, in->labels[i]->key,
			       in->labels[i]->value, err);
	return r;
}

static int create_extent(struct rpc_call *call, const ProtobufCMessage *in,
			 ProtobufCMessage *out, struct error *err)
{
	struct fake_node *node = fake_node_of(call);
	struct fake_extent *e = NULL;
	int fails = atomic_exchange(&node->fails, 0), r;

	fake_pause(node);
	if (fails)
		return error_set(err, fails, "told to fail");
	pthread_mutex_lock(&node->lock);
	r = make(node, (const Tributary__V1__CreateExtentRequest *)in, &e, err);
	if (r == 0)
		fake_answer(call, e, (Tributary__V1__Extent *)out);
	pthread_mutex_unlock(&node->lock);
	return r;
}

static int get_extent(struct rpc_call *call, const ProtobufCMessage *in,
		      ProtobufCMessage *out, struct error *err)
{
	struct fake_node *node = fake_node_of(call);
	const char *name = ((const Tributary__V1__GetExtentRequest *)in)->name;
	struct fake_extent *e;
	int r = 0;

	pthread_mutex_lock(&node->lock);
	e = fake_find(node, name);
	if (e && e->copying)
		e->copying--;
	if (e)
		fake_answer(call, e, (Tributary__V1__Extent *)out);
	else
		r = error_set(err, ENOENT, "no extent '%s'", name);
	pthread_mutex_unlock(&node->lock);
	return r;
}

static int list_extents(struct rpc_call *call, const ProtobufCMessage *in,
			ProtobufCMessage *out_, struct error *err)
{
	Tributary__V1__ListExtentsReply *out =
		(Tributary__V1__ListExtentsReply *)out_;
	struct fake_node *node = fake_node_of(call);

	(void)in;
	(void)err;
	out->extents = rpc_alloc(call, FAKE_EXTENTS_MAX * sizeof(void *));
	pthread_mutex_lock(&node->lock);
	for (size_t i = 0; i < FAKE_EXTENTS_MAX && !node->lists_none; i++) {
		Tributary__V1__Extent *extent;

		if (!node->extents[i].name[0])
			continue;
		extent = rpc_alloc(call, sizeof(*extent));
		tributary__v1__extent__init(extent);
		fake_answer(call, &node->extents[i], extent);
		out->extents[out->n_extents++] = extent;
	}
	pthread_mutex_unlock(&node->lock);
	return 0;
}

static int resize_extent(struct rpc_call *call, const ProtobufCMessage *in_,
			 ProtobufCMessage *out, struct error *err)
{
	const Tributary__V1__ResizeExtentRequest *in = (const void *)in_;
	struct fake_node *node = fake_node_of(call);
	int fails = atomic_exchange(&node->fails, 0), r = 0;
	struct fake_extent *e;

	fake_pause(node);
	if (fails)
		return error_set(err, fails, "told to fail");
	pthread_mutex_lock(&node->lock);
	e = fake_find(node, in->name);
	if (!e)
		r = error_set(err, ENOENT, "no extent '%s'", in->name);
	else if (in->size < e->size)
		r = error_set(err, ERANGE, "it is larger");
	else if (in->size - e->size > fake_room(node))
		r = error_set(err, ENOSPC, "no room");
	if (r == 0) {
		e->size = in->size;
		fake_answer(call, e, (Tributary__V1__Extent *)out);
	}
	pthread_mutex_unlock(&node->lock);
	return r;
}

static int delete_extent(struct rpc_call *call, const ProtobufCMessage *in,
			 ProtobufCMessage *out, struct error *err)
{
	struct fake_node *node = fake_node_of(call);
	int fails = atomic_exchange(&node->fails, 0);
	struct fake_extent *e;

	(void)out;
	fake_pause(node);
	if (fails)
		return error_set(err, fails, "told to fail");
	pthread_mutex_lock(&node->lock);
	e = fake_find(node,
		      ((const Tributary__V1__DeleteExtentRequest *)in)->name);
	if (e) {
		labels_done(&e->labels);
		*e = (struct fake_extent){0};
	}
	pthread_mutex_unlock(&node->lock);
	return 0;
}

static const struct rpc_method methods[] = {
	{"/tributary.v1.Blockd/GetNode",
	 &tributary__v1__get_node_request__descriptor,
	 &tributary__v1__node__descriptor, get_node, false},
	{"/tributary.v1.Blockd/CreateExtent",
	 &tributary__v1__create_extent_request__descriptor,
	 &tributary__v1__extent__descriptor, create_extent, false},
	{"/tributary.v1.Blockd/GetExtent",
	 &tributary__v1__get_extent_request__descriptor,
	 &tributary__v1__extent__descriptor, get_extent, false},
	{"/tributary.v1.Blockd/ListPools",
	 &tributary__v1__list_pools_request__descriptor,
	 &tributary__v1__list_pools_reply__descriptor, list_pools, false},
	{"/tributary.v1.Blockd/ListExtents",
	 &tributary__v1__list_extents_request__descriptor,
	 &tributary__v1__list_extents_reply__descriptor, list_extents, false},
	{"/tributary.v1.Blockd/ResizeExtent",
	 &tributary__v1__resize_extent_request__descriptor,
	 &tributary__v1__extent__descriptor, resize_extent, false},
	{"/tributary.v1.Blockd/DeleteExtent",
	 &tributary__v1__delete_extent_request__descriptor,
	 &tributary__v1__empty__descriptor, delete_extent, false},
	{"/tributary.v1.Blockd/RemoveExport",
	 &tributary__v1__remove_export_request__descriptor,
	 &tributary__v1__extent__descriptor, fake_remove_export, false},
	{"/tributary.v1.Blockd/HoldWrites",
	 &tributary__v1__hold_writes_request__descriptor,
	 &tributary__v1__empty__descriptor, fake_hold_writes, false},
	{"/tributary.v1.Blockd/ReleaseWrites",
	 &tributary__v1__release_writes_request__descriptor,
	 &tributary__v1__release_writes_reply__descriptor, fake_release_writes,
	 false},
	{"/tributary.v1.Blockd/CreateSnapshots",
	 &tributary__v1__create_snapshots_request__descriptor,
	 &tributary__v1__create_snapshots_reply__descriptor,
	 fake_create_snapshots, false},
	{"/tributary.v1.Blockd/RevertExtent",
	 &tributary__v1__revert_extent_request__descriptor,
	 &tributary__v1__extent__descriptor, fake_revert_extent, false},
	{"/tributary.v1.Blockd/SetLimits",
	 &tributary__v1__set_limits_request__descriptor,
	 &tributary__v1__extent__descriptor, fake_set_limits, false},
	{"/tributary.v1.Blockd/ListRanges",
	 &tributary__v1__list_ranges_request__descriptor,
	 &tributary__v1__list_ranges_reply__descriptor, fake_list_ranges, true},
};

void fake_node_up(struct fake_node *node)
{
	const char *addresses[] = {node->address};
	const struct rpc_server_options options = {
		.addresses = addresses,
		.n_addresses = 1,
		.methods = methods,
		.n_methods = array_size(methods),
		.context = node,
	};
	struct error err = {0};
	int r = rpc_server_start(&options, &node->server, &err);

	if (r < 0)
		(void)fprintf(stderr, "%s\n", error_text(&err));
	assert(r == 0);
}

void fake_node_start(struct fake_node *node, const char *dir, const char *name,
		     uint64_t capacity, struct volume_context *volumes)
{
	struct node_record record = {.data_address = "127.0.0.1:10809"};
	int r;

	*node = (struct fake_node){.capacity = capacity};
	pthread_mutex_init(&node->lock, NULL);
	pthread_cond_init(&node->released, NULL);
	(void)snprintf(node->name, sizeof(node->name), "%s", name);
	(void)snprintf(node->address, sizeof(node->address), "unix:%s/%s.sock",
		       dir, name);
	fake_node_up(node);
	(void)snprintf(record.name, sizeof(record.name), "%s", name);
	(void)snprintf(record.control_address, sizeof(record.control_address),
		       "%s", node->address);
	r = volume_node_add(volumes, &record, NULL, NULL);
	assert(r == 0);
	(void)r;
}

bool fake_node_lose(struct fake_node *node, const char *name)
{
	struct fake_extent *e;

	pthread_mutex_lock(&node->lock);
	e = fake_find(node, name);
	if (e) {
		labels_done(&e->labels);
		*e = (struct fake_extent){0};
	}
	pthread_mutex_unlock(&node->lock);
	return e;
}

void fake_node_down(struct fake_node *node)
{
	rpc_server_stop(node->server, 0);
	node->server = NULL;
}

void fake_node_stop(struct fake_node *node)
{
	rpc_server_stop(node->server, 0);
	for (size_t i = 0; i < FAKE_EXTENTS_MAX; i++)
		labels_done(&node->extents[i].labels);
	pthread_cond_destroy(&node->released);
	pthread_mutex_destroy(&node->lock);
}

size_t fake_node_asked(struct fake_node *node)
{
	return atomic_load(&node->asked);
}

size_t fake_node_extents(struct fake_node *node)
{
	size_t n = 0;

	pthread_mutex_lock(&node->lock);
	for (size_t i = 0; i < FAKE_EXTENTS_MAX; i++)
		n += node->extents[i].name[0] != '\0';
	pthread_mutex_unlock(&node->lock);
	return n;
}

uint64_t fake_node_free(struct fake_node *node)
{
	uint64_t bytes;

	pthread_mutex_lock(&node->lock);
	bytes = fake_room(node);
	pthread_mutex_unlock(&node->lock);
	return bytes;
}
