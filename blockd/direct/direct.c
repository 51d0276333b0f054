/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/direct/direct.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "blockd/direct/direct_internal.h"

static struct direct_system *the_system;

void direct_system_set(struct direct_system *system)
{
	the_system = system;
}

struct direct_system *direct_system(void)
{
	return the_system;
}

static struct direct_extent *find_extent(const struct direct *direct,
					 uint32_t object)
{
	struct direct_extent *extent;

	LIST_FOREACH (extent, &direct->extents, in_direct)
		if (extent->object == object)
			return extent;
	return NULL;
}

/* ---- changes of maps: under the store's lock ---- */

static bool extent_has(const struct direct_extent *extent, uint64_t logical,
		       uint64_t count)
{
	return extent && (direct_runs_hit(&extent->live, logical, count) ||
			  direct_runs_hit(&extent->next, logical, count));
}

static bool breaks(const struct direct *direct, const struct raw_record *record)
{
	const struct direct_extent *extent = find_extent(direct,
							 record->object);

	switch (record->type) {
	case RAW_MAP:
	case RAW_UNMAP:
		return extent_has(extent, record->logical, record->count);
	case RAW_SHARE:
		return extent_has(extent, 0, UINT64_MAX) ||
		       extent_has(find_extent(direct, record->from), 0,
				  UINT64_MAX);
	case RAW_DROP: return extent_has(extent, 0, UINT64_MAX);
	case RAW_POOL:
	case RAW_OBJECT:
	case RAW_LEAF:
	case RAW_USE:
	case RAW_WRITTEN: break; /* no entry of a whole cluster changes */
	}
	return false;
}

/* The loader is to look, but not for each change at once. */
static void extent_changed(struct direct *direct, struct direct_extent *extent,
			   uint64_t changes)
{
	uint64_t due = direct_now_ns() + direct->batch_ns;
	bool sooner;

	(void)pthread_mutex_lock(&direct->lock);
	extent->changed += changes;
	if (due < extent->pause_ns)
		due = extent->pause_ns;
	if (extent->changed >= direct->batch_changes)
		due = extent->pause_ns ? extent->pause_ns : 1;
	sooner = !extent->due_ns || due < extent->due_ns;
	if (sooner)
		extent->due_ns = due;
	if (sooner)
		(void)pthread_cond_signal(&direct->ask);
	(void)pthread_mutex_unlock(&direct->lock);
}

/* What one object gives up another one may have alone then. */
static void note_change(struct direct *direct, const struct raw_record *record)
{
	const bool gives_up = record->type == RAW_DROP ||
			      record->type == RAW_UNMAP ||
			      record->type == RAW_SHARE;
	struct direct_extent *extent;

	LIST_FOREACH (extent, &direct->extents, in_direct)
		if (gives_up || extent->object == record->object)
			extent_changed(direct, extent,
				       record->count ? record->count : 1);
}

static bool refuses(void *context, const struct raw_record *record)
{
	struct direct *direct = context;

	if (LIST_EMPTY(&direct->extents))
		return false;
	if (breaks(direct, record)) {
		atomic_fetch_add(&direct->refused, 1);
		return true;
	}
	note_change(direct, record);
	return false;
}

/* ---- turns: one thread at a time deals with a device ---- */

/* NULL: it has no device. */
static struct direct_extent *extent_take(struct direct *direct, uint32_t object)
{
	struct direct_extent *extent;

	(void)pthread_mutex_lock(&direct->lock);
	while ((extent = find_extent(direct, object)) && extent->busy)
		(void)pthread_cond_wait(&direct->turn, &direct->lock);
	if (extent)
		extent->busy = true;
	(void)pthread_mutex_unlock(&direct->lock);
	return extent;
}

static void extent_give(struct direct *direct, struct direct_extent *extent)
{
	(void)pthread_mutex_lock(&direct->lock);
	extent->busy = false;
	(void)pthread_cond_broadcast(&direct->turn);
	(void)pthread_cond_signal(&direct->ask);
	(void)pthread_mutex_unlock(&direct->lock);
}

/* Lock held. */
static struct direct_hold *find_hold(const struct direct *direct,
				     uint32_t object)
{
	struct direct_hold *hold;

	LIST_FOREACH (hold, &direct->holds, in_direct)
		if (hold->object == object)
			return hold;
	return NULL;
}

bool direct_is_held(struct direct *direct, uint32_t object)
{
	bool held;

	(void)pthread_mutex_lock(&direct->lock);
	held = find_hold(direct, object);
	(void)pthread_mutex_unlock(&direct->lock);
	return held;
}

/* ---- holds ---- */

static int hold_add(struct direct *direct, uint32_t object, struct error *err)
{
	struct direct_hold *hold, *made = calloc(1, sizeof(*made));

	if (!made)
		return error_set(err, ENOMEM, "out of memory");
	(void)pthread_mutex_lock(&direct->lock);
	hold = find_hold(direct, object);
	if (!hold) {
		hold = made;
		made = NULL;
		hold->object = object;
		LIST_INSERT_HEAD(&direct->holds, hold, in_direct);
	}
	hold->count++;
	(void)pthread_mutex_unlock(&direct->lock);
	free(made);
	return 0;
}

/* How many are left, or -ESTALE. */
static int hold_take(struct direct *direct, uint32_t object)
{
	struct direct_hold *hold;
	int left = -ESTALE;

	(void)pthread_mutex_lock(&direct->lock);
	hold = find_hold(direct, object);
	if (hold)
		left = (int)--hold->count;
	if (left == 0)
		LIST_REMOVE(hold, in_direct);
	(void)pthread_mutex_unlock(&direct->lock);
	if (left == 0)
		free(hold);
	return left;
}

/* The last hold has gone. 1: somebody else had let a frozen device go on. */
static int extent_end_hold(struct direct *direct, struct direct_extent *extent)
{
	const bool was_frozen = extent->frozen;
	struct error err;
	int r = 0;

	extent->frozen = false;
	if (extent->suspended)
		r = direct_extent_resume(direct, extent, &err);
	if (r < 0)
		log_warning("pool %s: a device stays suspended, and is tried "
			    "again: %s",
			    direct->name, error_text(&err));
	if (!extent->suspended && extent->prepared)
		direct_extent_forget(direct, extent);
	return was_frozen && r == 1;
}

int direct_release(struct direct *direct, uint32_t object)
{
	struct direct_extent *extent = NULL;
	int r = 0, left = hold_take(direct, object);

	if (left == 0)
		extent = extent_take(direct, object);
	if (!extent)
		return left < 0 ? left : 0;
	/* Unless another one has come in between. */
	if (!direct_is_held(direct, object) &&
	    extent_end_hold(direct, extent) == 1)
		r = -ESTALE;
	extent->ahead = 0; /* what others had may be its own alone by now */
	extent_changed(direct, extent, 1);
	extent_give(direct, extent);
	return r;
}

/* A hold, for which the extent's runs are withdrawn, or are about to be. */
static int hold_begin(struct direct *direct, uint32_t object, bool prepares,
		      struct error *err)
{
	struct direct_extent *extent;
	int r = hold_add(direct, object, err);

	if (r < 0)
		return r;
	extent = extent_take(direct, object);
	if (!extent)
		return 0;
	r = prepares ? direct_extent_prepare(direct, extent, err)
		     : direct_extent_withdraw(direct, extent, extent->frozen,
					      err);
	extent_give(direct, extent);
	if (r < 0)
		(void)direct_release(direct, object);
	return r;
}

int direct_hold(struct direct *direct, uint32_t object, struct error *err)
{
	return hold_begin(direct, object, false, err);
}

int direct_prepare(struct direct *direct, uint32_t object, struct error *err)
{
	return hold_begin(direct, object, true, err);
}

int direct_freeze(struct direct *direct, uint32_t object, struct error *err)
{
	struct direct_extent *extent;
	int r;

	if (!direct_is_held(direct, object))
		return error_set(err, ESTALE, "the pool was opened anew");
	extent = extent_take(direct, object);
	if (!extent)
		return 0;
	r = direct_extent_freeze(direct, extent, err);
	extent_give(direct, extent);
	return r;
}

bool direct_has(struct direct *direct, uint32_t object)
{
	bool has;

	(void)pthread_mutex_lock(&direct->lock);
	has = find_extent(direct, object);
	(void)pthread_mutex_unlock(&direct->lock);
	return has;
}

int direct_refresh(struct direct *direct, uint32_t object, struct error *err)
{
	struct direct_extent *extent = extent_take(direct, object);
	int r;

	if (!extent)
		return 0;
	r = direct_extent_refresh(direct, extent, err);
	extent_give(direct, extent);
	return r;
}

struct direct_counts direct_count(struct direct *direct, uint32_t object)
{
	struct direct_counts counts = {.loads = direct->loads,
				       .refused = direct->refused};
	const struct direct_extent *extent;

	(void)raw_store_lock(direct->store);
	extent = find_extent(direct, object);
	if (extent) {
		counts.runs = extent->live.n;
		counts.clusters = direct_runs_clusters(&extent->live);
	}
	if (extent && !extent->gone && extent->device->uuid) {
		(void)snprintf(counts.device, sizeof(counts.device), "%s",
			       extent->device->uuid);
	}
	raw_store_unlock(direct->store);
	return counts;
}

/* ---- devices come and go ---- */

static void extent_free(struct direct_extent *extent)
{
	extent->device->ops->close(extent->device);
	direct_runs_done(&extent->live);
	direct_runs_done(&extent->next);
	free(extent);
}

/* Into the list, with the runs that its table has and the map agrees to. */
static int extent_add(struct direct *direct, struct direct_extent *extent,
		      struct direct_found *found, bool *ret_agrees,
		      struct error *err)
{
	const struct raw_state *state = raw_store_lock(direct->store);
	struct raw_object *object = raw_state_object(state, extent->object);
	int r = 0;

	if (!object)
		r = error_set(err, ENOENT, "the pool has no object %u",
			      extent->object);
	else if (find_extent(direct, extent->object))
		r = error_set(err, EEXIST, "the extent has a direct device");
	if (r == 0) {
		*ret_agrees = !found->suspended && !found->strange &&
			      direct_agrees(&state->alloc, &object->map,
					    extent->device->clusters,
					    &found->live);
		if (*ret_agrees) {
			extent->live = found->live;
			found->live = (struct direct_runs){0};
		}
		(void)pthread_mutex_lock(&direct->lock);
		LIST_INSERT_HEAD(&direct->extents, extent, in_direct);
		(void)pthread_mutex_unlock(&direct->lock);
		object->map.whole = true;
	}
	raw_store_unlock(direct->store);
	return r;
}

static void extent_remove(struct direct *direct, struct direct_extent *extent)
{
	const struct raw_state *state = raw_store_lock(direct->store);
	struct raw_object *object = raw_state_object(state, extent->object);

	if (object)
		object->map.whole = false;
	(void)pthread_mutex_lock(&direct->lock);
	LIST_REMOVE(extent, in_direct);
	(void)pthread_cond_broadcast(&direct->turn);
	(void)pthread_mutex_unlock(&direct->lock);
	raw_store_unlock(direct->store);
	extent_free(extent);
}

/* A table in use that is not to be, or a device that was left suspended. */
static int extent_begin(struct direct *direct, struct direct_extent *extent,
			const struct direct_found *found, bool agrees,
			struct error *err)
{
	/* A table that was loaded and never used is out of date. */
	if (agrees)
		return extent->device->ops->clear(extent->device, err);
	log_warning("pool %s: a device of object %u was left %s; it gets a "
		    "table without direct runs",
		    direct->name, extent->object,
		    found->suspended ? "suspended" : "with an old table");
	extent->suspended = found->suspended;
	extent->unknown = true;
	return direct_extent_withdraw(direct, extent, false, err);
}

int direct_reject(struct direct_device *device, struct error *err)
{
	const struct direct_runs none = {0};
	int r = device->ops->load(device, &none, err);

	if (r == 0)
		r = device->ops->suspend(device, 0, err);
	if (r == 0)
		r = device->ops->resume(device, err);
	if (r >= 0 || r == -ENODEV)
		r = device->ops->forget(device, err);
	device->ops->close(device);
	return r;
}

int direct_attach(struct direct *direct, uint32_t object,
		  struct direct_device *device, struct error *err)
{
	struct direct_extent *extent = calloc(1, sizeof(*extent));
	struct direct_found found = {0};
	bool agrees = false;
	int r;

	if (!extent) {
		device->ops->close(device);
		return error_set(err, ENOMEM, "out of memory");
	}
	extent->object = object;
	extent->device = device;
	extent->busy = true;
	r = device->ops->look(device, &found, err);
	if (r == 0)
		r = extent_add(direct, extent, &found, &agrees, err);
	if (r < 0) {
		direct_runs_done(&found.live);
		extent_free(extent);
		return r;
	}
	r = extent_begin(direct, extent, &found, agrees, err);
	direct_runs_done(&found.live);
	if (r < 0) {
		extent_remove(direct, extent);
		return r;
	}
	extent_changed(direct, extent, 1);
	extent_give(direct, extent);
	return 0;
}

int direct_detach(struct direct *direct, uint32_t object, bool frozen,
		  struct error *err)
{
	struct direct_extent *extent = extent_take(direct, object);
	int r;

	if (!extent)
		return 0;
	if (extent->frozen && !frozen)
		r = error_set(err, EAGAIN,
			      "a snapshot is being taken of it; repeat this");
	else
		r = direct_extent_withdraw(direct, extent, false, err);
	if (r == 0)
		r = extent->device->ops->forget(extent->device, err);
	if (r < 0)
		extent_give(direct, extent);
	else
		extent_remove(direct, extent);
	return r;
}

/* ---- life ---- */

static void direct_done(struct direct *direct)
{
	(void)pthread_cond_destroy(&direct->turn);
	(void)pthread_cond_destroy(&direct->ask);
	(void)pthread_mutex_destroy(&direct->lock);
	free(direct);
}

int direct_new(const struct direct_options *options, struct direct **ret,
	       struct error *err)
{
	struct direct *direct = calloc(1, sizeof(*direct));
	int r;

	if (!direct)
		return error_set(err, ENOMEM, "out of memory");
	direct->store = options->store;
	direct->users = options->users;
	direct->name = options->name;
	direct->runs_max = options->runs_max;
	direct->batch_ns = options->batch_ms * UINT64_C(1000000);
	direct->batch_changes = options->batch_changes;
	LIST_INIT(&direct->extents);
	LIST_INIT(&direct->holds);
	(void)pthread_mutex_init(&direct->lock, NULL);
	(void)pthread_cond_init(&direct->turn, NULL);
	(void)pthread_cond_init(&direct->ask, NULL);
	r = pthread_create(&direct->loader, NULL, direct_loader_run, direct);
	if (r) {
		direct_done(direct);
		return error_set(err, r, "start a loader of tables: %s",
				 strerror(r));
	}
	raw_store_guard(direct->store, refuses, direct);
	*ret = direct;
	return 0;
}

void direct_free(struct direct *direct)
{
	struct direct_extent *extent;
	struct direct_hold *hold;

	if (!direct)
		return;
	(void)pthread_mutex_lock(&direct->lock);
	direct->stopping = true;
	(void)pthread_cond_signal(&direct->ask);
	(void)pthread_mutex_unlock(&direct->lock);
	(void)pthread_join(direct->loader, NULL);
	raw_store_guard(direct->store, NULL, NULL);
	while ((extent = LIST_FIRST(&direct->extents))) {
		LIST_REMOVE(extent, in_direct);
		extent_free(extent);
	}
	while ((hold = LIST_FIRST(&direct->holds))) {
		LIST_REMOVE(hold, in_direct);
		free(hold);
	}
	direct_done(direct);
}
