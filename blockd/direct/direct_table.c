/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of one device: chosen, loaded, taken away. What a table has is asked
 * about before it is loaded, and until it is not in use any more.
 */
#include <errno.h>

#include "base/log.h"
#include "blockd/direct/direct_internal.h"

static void set_runs(struct direct *direct, struct direct_runs *runs,
		     struct direct_runs to)
{
	struct direct_runs had;

	(void)raw_store_lock(direct->store);
	had = *runs;
	*runs = to;
	raw_store_unlock(direct->store);
	direct_runs_done(&had);
}

int direct_extent_resume(struct direct *direct, struct direct_extent *extent,
			 struct error *err)
{
	struct direct_device *device = extent->device;
	struct direct_runs next;
	int r = device->ops->resume(device, err);

	if (r < 0)
		return r;
	extent->suspended = false;
	extent->unknown = false;
	if (!extent->next_waits)
		return r;
	extent->next_waits = false;
	next = extent->next;
	(void)raw_store_lock(direct->store);
	extent->next = (struct direct_runs){0};
	direct_runs_done(&extent->live);
	extent->live = next;
	raw_store_unlock(direct->store);
	return r;
}

void direct_extent_forget(struct direct *direct, struct direct_extent *extent)
{
	struct error err;

	/* If it is still there, its clusters have to be asked about. */
	if (extent->device->ops->clear(extent->device, &err) < 0) {
		log_warning("pool %s: a table that was loaded stays: %s",
			    direct->name, error_text(&err));
		return;
	}
	extent->next_waits = false;
	extent->prepared = false;
	set_runs(direct, &extent->next, (struct direct_runs){0});
}

/* The device went, or was fenced, with what it had in use. */
static void extent_lost(struct direct *direct, struct direct_extent *extent)
{
	extent->gone = true;
	extent->next_waits = false;
	extent->suspended = false;
	extent->unknown = false;
	set_runs(direct, &extent->next, (struct direct_runs){0});
	set_runs(direct, &extent->live, (struct direct_runs){0});
	log_info("pool %s: the device of object %u is gone", direct->name,
		 extent->object);
}

/*
 * Load the table for the next resume. A table that waited is replaced, and not
 * asked about any more.
 *
 * @runs  asked about already
 */
static int extent_load(struct direct *direct, struct direct_extent *extent,
		       const struct direct_runs *runs, struct error *err)
{
	struct direct_device *device = extent->device;
	int r = device->ops->load(device, runs, err);

	atomic_fetch_add(&direct->loads, 1);
	if (r == -ENODEV)
		extent_lost(direct, extent);
	if (r < 0)
		return r;
	extent->next_waits = true;
	if (runs != &extent->next)
		set_runs(direct, &extent->next, (struct direct_runs){0});
	return 0;
}

static int extent_suspend(struct direct_extent *extent, unsigned flags,
			  struct error *err)
{
	struct direct_device *device = extent->device;
	int r = 0;

	if (!extent->suspended)
		r = device->ops->suspend(device, flags, err);
	if (r == 0)
		extent->suspended = true;
	return r;
}

/* Load, and suspend. On failure the table in use stays. */
static int extent_exchange(struct direct *direct, struct direct_extent *extent,
			   const struct direct_runs *runs, struct error *err)
{
	int r = extent_load(direct, extent, runs, err);

	if (r == 0)
		r = extent_suspend(extent, 0, err);
	if (r < 0 && !extent->gone && !extent->suspended)
		direct_extent_forget(direct, extent);
	return r;
}

int direct_extent_withdraw(struct direct *direct, struct direct_extent *extent,
			   bool stay, struct error *err)
{
	const struct direct_runs none = {0};
	int r;

	if (extent->gone || (!extent->unknown && !extent->live.n &&
			     !extent->next.n && extent->suspended == stay))
		return 0;
	r = extent_exchange(direct, extent, &none, err);
	if (r < 0)
		return extent->gone ? 0 : r;
	/* Nothing is in flight, and a resume brings a table without runs. */
	set_runs(direct, &extent->live, (struct direct_runs){0});
	if (!stay)
		r = direct_extent_resume(direct, extent, err);
	return r < 0 ? r : 0;
}

/* Tell whether no run is in use after the next resume. */
static bool resume_ends_runs(const struct direct_extent *extent)
{
	return !extent->next.n &&
	       (extent->next_waits || (!extent->live.n && !extent->unknown));
}

int direct_extent_prepare(struct direct *direct, struct direct_extent *extent,
			  struct error *err)
{
	const struct direct_runs none = {0};
	struct direct_device *device = extent->device;
	int r = 0;

	if (extent->gone || extent->frozen)
		return 0;
	if (!resume_ends_runs(extent))
		r = extent_load(direct, extent, &none, err);
	if (r == 0 && device->ops->prepare)
		r = device->ops->prepare(device, err);
	if (r == 0)
		extent->prepared = true;
	return extent->gone ? 0 : r;
}

int direct_extent_freeze(struct direct *direct, struct direct_extent *extent,
			 struct error *err)
{
	int r = 0;

	/* The device may be another one, or another hold took its turn. */
	if (!extent->prepared || !resume_ends_runs(extent))
		r = direct_extent_prepare(direct, extent, err);
	if (r < 0 || extent->gone || extent->frozen)
		return r;
	r = extent_suspend(extent, DIRECT_FREEZE, err);
	if (r < 0)
		return r;
	set_runs(direct, &extent->live, (struct direct_runs){0});
	extent->frozen = true;
	return 0;
}

static int direct_commit(struct direct *direct, struct error *err)
{
	return raw_store_pending(direct->store)
		       ? raw_store_commit(direct->store,
					  raw_store_newest(direct->store), err)
		       : 0;
}

/* Choose, and have it asked about from that moment on. 1: nothing new. */
static int extent_choose(struct direct *direct, struct direct_extent *extent,
			 struct error *err)
{
	const struct raw_state *state = raw_store_lock(direct->store);
	const struct raw_object *object = raw_state_object(state,
							   extent->object);
	struct direct_runs runs = {0};
	int r = object ? direct_choose(&state->alloc, &object->map,
				       extent->device->clusters,
				       direct->runs_max, &runs)
		       : 0;

	if (r == 0 && direct_runs_same(&runs, &extent->live))
		r = 1;
	else if (r == 0)
		extent->next = runs;
	raw_store_unlock(direct->store);
	if (r != 0)
		direct_runs_done(&runs);
	return r < 0 ? error_set(err, -r, "out of memory") : r;
}

int direct_extent_refresh(struct direct *direct, struct direct_extent *extent,
			  struct error *err)
{
	int r = 0;

	if (extent->gone)
		return 0;
	if (extent->suspended) {
		if (!extent->frozen)
			r = direct_extent_resume(direct, extent, err);
		return r < 0 ? r : 0;
	}
	if (extent->next.n)
		direct_extent_forget(direct, extent);
	if (extent->next.n || direct_is_held(direct, extent->object))
		return 0;
	/* What others gave up is its own alone when that is durable. */
	r = direct_commit(direct, err);
	if (r == 0)
		r = extent_choose(direct, extent, err);
	if (r != 0)
		return r < 0 ? r : 0;
	/* The map first: what is written from then on has to be found. */
	r = direct_commit(direct, err);
	if (r < 0) {
		set_runs(direct, &extent->next, (struct direct_runs){0});
		return r;
	}
	r = extent_exchange(direct, extent, &extent->next, err);
	if (r == 0)
		r = direct_extent_resume(direct, extent, err);
	return r < 0 && !extent->gone ? r : 0;
}
