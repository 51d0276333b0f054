/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/testkit/direct_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CLUSTER_BLOCKS (CLUSTER / BLOCK)

/* What a blockd has of a device. */
struct handle {
	struct direct_device device;
	struct direct_kit_device *of;
};

static struct direct_kit_device *device_of(struct direct_device *device)
{
	return container_of(device, struct handle, device)->of;
}

/* ---- as blockd calls it ---- */

static int may_call(struct direct_kit_device *device, struct error *err)
{
	struct direct_kit *kit = device->kit;

	atomic_fetch_add(&kit->calls, 1);
	if (kit->fails_in && atomic_fetch_sub(&kit->fails_in, 1) == 1)
		return error_set(err, EIO, "the test has it fail");
	if (kit->dies_in && atomic_fetch_sub(&kit->dies_in, 1) == 1)
		kit->dead = true;
	return kit->dead ? error_set(err, EIO, "blockd is dead") : 0;
}

/* Of those that start processes, or load tables. */
static int may_take_long(struct direct_kit_device *device, struct error *err)
{
	if (device->frozen)
		atomic_fetch_add(&device->kit->frozen_calls, 1);
	return may_call(device, err);
}

static struct direct_runs runs_copy(const struct direct_runs *runs)
{
	struct direct_runs copy = {0};

	for (size_t i = 0; i < runs->n; i++)
		assert_int_equal(direct_runs_add(&copy, &runs->items[i]), 0);
	return copy;
}

static int kit_load(struct direct_device *handle,
		    const struct direct_runs *runs, struct error *err)
{
	struct direct_kit_device *device = device_of(handle);
	int r = may_take_long(device, err);

	if (r == 0 && device->gone)
		r = error_set(err, ENODEV, "it is gone");
	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&device->lock);
	direct_runs_done(&device->next);
	device->next = runs_copy(runs);
	device->waits = true;
	(void)pthread_mutex_unlock(&device->lock);
	return 0;
}

static int kit_prepare(struct direct_device *handle, struct error *err)
{
	struct direct_kit_device *device = device_of(handle);
	int r = may_take_long(device, err);

	if (r == 0)
		device->prepared = true;
	return r;
}

static int kit_clear(struct direct_device *handle, struct error *err)
{
	struct direct_kit_device *device = device_of(handle);
	int r = may_take_long(device, err);

	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&device->lock);
	direct_runs_done(&device->next);
	device->waits = false;
	device->prepared = false;
	(void)pthread_mutex_unlock(&device->lock);
	return 0;
}

static int kit_suspend(struct direct_device *handle, unsigned flags,
		       struct error *err)
{
	struct direct_kit_device *device = device_of(handle);
	int r = may_call(device, err);

	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&device->lock);
	device->suspended = true;
	device->frozen = flags & DIRECT_FREEZE;
	assert_true(device->prepared || !device->frozen);
	while (device->in_flight)
		(void)pthread_cond_wait(&device->changed, &device->lock);
	(void)pthread_mutex_unlock(&device->lock);
	return 0;
}

static int kit_resume(struct direct_device *handle, struct error *err)
{
	struct direct_kit_device *device = device_of(handle);
	int r = may_call(device, err);

	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&device->lock);
	r = device->suspended ? 0 : 1;
	if (device->frozen)
		device->prepared = false;
	device->frozen = false;
	if (device->waits) {
		direct_runs_done(&device->live);
		device->live = device->next;
		device->next = (struct direct_runs){0};
		device->waits = false;
	}
	device->suspended = false;
	(void)pthread_cond_broadcast(&device->changed);
	(void)pthread_mutex_unlock(&device->lock);
	return r;
}

static int kit_look(struct direct_device *handle, struct direct_found *ret,
		    struct error *err)
{
	struct direct_kit_device *device = device_of(handle);
	int r = may_take_long(device, err);

	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&device->lock);
	ret->live = runs_copy(&device->live);
	ret->suspended = device->suspended;
	(void)pthread_mutex_unlock(&device->lock);
	return 0;
}

/* Tests say themselves which devices each() tells of. */
static int kit_forget(struct direct_device *handle, struct error *err)
{
	return may_call(device_of(handle), err);
}

static void kit_close(struct direct_device *handle)
{
	free(container_of(handle, struct handle, device));
}

static const struct direct_device_ops kit_ops = {
	.load = kit_load,
	.clear = kit_clear,
	.prepare = kit_prepare,
	.suspend = kit_suspend,
	.resume = kit_resume,
	.look = kit_look,
	.forget = kit_forget,
	.close = kit_close,
};

static struct direct_device *handle_new(struct direct_kit_device *device)
{
	struct handle *handle = calloc(1, sizeof(*handle));

	assert_non_null(handle);
	handle->of = device;
	handle->device.ops = &kit_ops;
	handle->device.clusters = device->clusters;
	return &handle->device;
}

static int kit_each(struct direct_system *system,
		    const struct direct_medium *medium,
		    void (*visit)(void *context, const char *extent_id,
				  struct direct_device *device),
		    void *context, struct error *err)
{
	struct direct_kit *kit = container_of(system, struct direct_kit,
					      system);
	struct direct_kit_device *device;

	(void)err;
	assert_string_equal(medium->pool_id, POOL_ID);
	LIST_FOREACH (device, &kit->devices, in_kit)
		visit(context, device->extent_id, handle_new(device));
	return 0;
}

/* ---- requests ---- */

/* Blocks from @at on, of @n, that go one way; the place on the medium, or 0. */
static size_t way_of(const struct direct_kit_device *device, size_t at,
		     size_t n, uint64_t *ret_from)
{
	const uint64_t cluster = at / CLUSTER_BLOCKS;
	const struct direct_run *run = direct_runs_at(&device->live, cluster);
	const uint64_t begin = run ? run->logical * CLUSTER_BLOCKS : UINT64_MAX;
	uint64_t end;

	*ret_from = 0;
	if (at < begin) {
		end = begin;
	} else {
		end = begin + run->count * CLUSTER_BLOCKS;
		*ret_from = device->kit->data_start + run->physical * CLUSTER +
			    (at - begin) * BLOCK;
	}
	return end - at < n ? (size_t)(end - at) : n;
}

static int to_medium(struct direct_kit_device *device, enum what what,
		     void *data, size_t n, uint64_t offset)
{
	auto_close int fd = open(device->kit->path, O_RDWR | O_CLOEXEC);
	ssize_t length = (ssize_t)(n * BLOCK);
	auto_free void *zeroes = NULL;

	assert_true(fd >= 0);
	if (what == READ) {
		atomic_fetch_add(&device->kit->direct_reads, 1);
		assert_int_equal(pread(fd, data, n * BLOCK, (off_t)offset),
				 length);
		return 0;
	}
	atomic_fetch_add(&device->kit->direct_writes, 1);
	if (what != WRITE) {
		zeroes = calloc(n, BLOCK);
		assert_non_null(zeroes);
		data = zeroes;
	}
	assert_int_equal(pwrite(fd, data, n * BLOCK, (off_t)offset), length);
	return 0;
}

static int kit_top(struct object *object, enum what what, void *data, size_t at,
		   size_t n, unsigned flags)
{
	struct direct_kit_device *device = object->top_context;
	int r = 0;

	(void)pthread_mutex_lock(&device->lock);
	while (device->suspended)
		(void)pthread_cond_wait(&device->changed, &device->lock);
	device->in_flight++;
	(void)pthread_mutex_unlock(&device->lock);
	if (what == FLUSH)
		r = model_one_below(object, what, data, at, n, flags);
	/* The table in use is not replaced while anything is in flight. */
	for (size_t done = 0, piece; r == 0 && done < n; done += piece) {
		uint8_t *part = data ? (uint8_t *)data + done * BLOCK : NULL;
		uint64_t offset;

		piece = way_of(device, at + done, n - done, &offset);
		if (!offset && (what == ZERO || what == DISCARD))
			atomic_fetch_add(&device->kit->slow_zeroes, 1);
		r = offset ? to_medium(device, what, part, piece, offset)
			   : model_one_below(object, what, part, at + done,
					     piece, flags);
	}
	(void)pthread_mutex_lock(&device->lock);
	device->in_flight--;
	(void)pthread_cond_broadcast(&device->changed);
	(void)pthread_mutex_unlock(&device->lock);
	return r;
}

/* ---- devices ---- */

void direct_kit_init(struct direct_kit *kit, const char *path)
{
	*kit = (struct direct_kit){
		.system = {.enabled = true, .each = kit_each},
		.path = path,
	};
	LIST_INIT(&kit->devices);
	direct_system_set(&kit->system);
}

void direct_kit_done(struct direct_kit *kit)
{
	struct direct_kit_device *device;

	while ((device = LIST_FIRST(&kit->devices)))
		direct_kit_remove(device);
	direct_system_set(NULL);
}

int direct_kit_freeze(struct direct *direct, uint32_t object, struct error *err)
{
	int r = direct_prepare(direct, object, err);

	if (r < 0)
		return r;
	r = direct_freeze(direct, object, err);
	if (r < 0)
		(void)direct_release(direct, object);
	return r;
}

struct direct_kit_device *direct_kit_find(struct direct_kit *kit,
					  const struct object *object)
{
	struct direct_kit_device *device;

	LIST_FOREACH (device, &kit->devices, in_kit)
		if (strcmp(device->extent_id, object->record.id) == 0)
			return device;
	return NULL;
}

int direct_kit_try_attach(struct direct_kit_device *device, struct run *run,
			  struct object *object)
{
	return pool_raw_direct_add(run->pool, object->record.name,
				   handle_new(device), &run->err);
}

struct direct_kit_device *direct_kit_attach(struct direct_kit *kit,
					    struct run *run,
					    struct object *object)
{
	struct direct_kit_device *device = calloc(1, sizeof(*device));

	assert_non_null(device);
	kit->data_start =
		raw_store_super(pool_raw_of(run->pool)->store)->data_start;
	device->kit = kit;
	device->clusters = object->record.size / CLUSTER;
	device->object_id = pool_raw_find(pool_raw_of(run->pool),
					  object->record.name, NULL);
	memcpy(device->extent_id, object->record.id, UUID_TEXT_SIZE);
	(void)pthread_mutex_init(&device->lock, NULL);
	(void)pthread_cond_init(&device->changed, NULL);
	LIST_INSERT_HEAD(&kit->devices, device, in_kit);
	MUST(run, direct_kit_try_attach(device, run, object));
	object->top = kit_top;
	object->top_context = device;
	return device;
}

void direct_kit_remove(struct direct_kit_device *device)
{
	assert_int_equal(device->in_flight, 0);
	LIST_REMOVE(device, in_kit);
	direct_runs_done(&device->live);
	direct_runs_done(&device->next);
	(void)pthread_mutex_destroy(&device->lock);
	(void)pthread_cond_destroy(&device->changed);
	free(device);
}

void direct_kit_detach(struct direct_kit_device *device, struct run *run,
		       struct object *object)
{
	MUST(run,
	     pool_raw_direct_detach(run->pool, object->record.name, &run->err));
	assert_int_equal(device->live.n, 0);
	assert_false(device->suspended);
	object->top = NULL;
	direct_kit_remove(device);
}

/* ---- the invariant ---- */

static char wrong[256];

/* Of one cluster of a table; false: it is said. */
static bool cluster_is_right(const struct raw_state *state,
			     const struct raw_object *object, uint64_t logical,
			     uint32_t physical, uint8_t *seen)
{
	const char *what = NULL;
	uint32_t entry = object ? raw_map_get(&object->map, logical) : RAW_HOLE;

	if (entry != physical)
		what = "is not the map's";
	else if (raw_alloc_shared(&state->alloc, &object->map, logical, entry))
		what = "is shared";
	else if (seen[physical])
		what = "is in two tables";
	if (what)
		(void)snprintf(wrong, sizeof(wrong),
			       "cluster %" PRIu64 ", %u of the medium, %s",
			       logical, physical, what);
	seen[physical] = 1;
	return !what;
}

/*
 * Of a suspended device without requests in flight the table that it gets when
 * it is resumed counts.
 */
static bool table_is_right(const struct raw_state *state,
			   struct direct_kit_device *device, uint8_t *seen)
{
	const struct raw_object *object = raw_state_object(state,
							   device->object_id);
	const struct direct_runs *runs;
	bool right = true;

	(void)pthread_mutex_lock(&device->lock);
	runs = device->suspended && device->waits && !device->in_flight
		       ? &device->next
		       : &device->live;
	for (size_t i = 0; right && i < runs->n; i++)
		for (uint32_t n = 0; right && n < runs->items[i].count; n++)
			right = cluster_is_right(
				state, object, runs->items[i].logical + n,
				runs->items[i].physical + n, seen);
	(void)pthread_mutex_unlock(&device->lock);
	return right;
}

const char *direct_kit_wrong(struct direct_kit *kit, struct run *run)
{
	struct raw_store *store = pool_raw_of(run->pool)->store;
	const struct raw_state *state = raw_store_lock(store);
	uint8_t *seen = calloc(state->alloc.clusters, 1);
	struct direct_kit_device *device;
	bool right = true;

	assert_non_null(seen);
	LIST_FOREACH (device, &kit->devices, in_kit)
		right = right && table_is_right(state, device, seen);
	raw_store_unlock(store);
	free(seen);
	return right ? NULL : wrong;
}
