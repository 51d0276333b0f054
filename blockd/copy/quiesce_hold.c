/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/copy/quiesce_hold.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/parallel.h"
#include "blockd/copy/copy_guard.h"
#include "blockd/extent/extent.h"
#include "blockd/extent/node_tables.h"
#include "blockd/local/freeze.h"
#include "blockd/local/loopdev_users.h"

#define AT_ONCE 64 /* devices that are suspended or resumed */

void quiesce_free(struct quiesce *quiesce)
{
	for (size_t i = 0; i < quiesce->n; i++)
		extent_unref(quiesce->extents[i]);
	free(quiesce->extents);
	free(quiesce->frozen);
	free(quiesce->held);
	free(quiesce->errors);
	free(quiesce->results);
	free(quiesce);
}

struct quiesce *quiesce_new(const char *id, struct extent *const *extents,
			    size_t n, const char *device)
{
	struct quiesce *quiesce = calloc(1, sizeof(*quiesce));

	if (!quiesce)
		return NULL;
	quiesce->extents = calloc(n + 1, sizeof(struct extent *));
	quiesce->frozen = calloc(n + 1, sizeof(struct freeze *));
	quiesce->held = calloc(n + 1, sizeof(*quiesce->held));
	quiesce->errors = calloc(n + 1, sizeof(*quiesce->errors));
	quiesce->results = calloc(n + 1, sizeof(*quiesce->results));
	if (!quiesce->extents || !quiesce->frozen || !quiesce->held ||
	    !quiesce->errors || !quiesce->results) {
		quiesce_free(quiesce);
		return NULL;
	}
	(void)snprintf(quiesce->id, sizeof(quiesce->id), "%s", id);
	(void)snprintf(quiesce->device, sizeof(quiesce->device), "%s", device);
	for (size_t i = 0; i < n; i++)
		quiesce->extents[i] = extent_ref(extents[i]);
	quiesce->n = n;
	quiesce->beginning = true;
	return quiesce;
}

/* ---- before ---- */

/* Two extents may lie below one device. */
static bool quiesce_has_frozen(const struct quiesce *quiesce,
			       const char *device)
{
	for (size_t i = 0; i < quiesce->n; i++)
		if (quiesce->frozen[i] &&
		    freeze_covers(quiesce->frozen[i], device))
			return true;
	return false;
}

/* Of one instant an extent that is @alone is all the same. */
static bool is_tolerated(const struct quiesce *quiesce, int r)
{
	return quiesce->alone &&
	       (r == -ENOENT || r == -EBUSY || r == -EOPNOTSUPP);
}

static int extent_error(const struct extent *extent, int r, struct error *err)
{
	return r < 0 ? error_prefix(err, r,
				    "extent '%s': ", extent->record.name)
		     : r;
}

/*
 * A local device bypasses the gate, and is to be frozen. One without a file
 * system or a mapper device of ours can't be held, unless @alone.
 */
static int prepare_local(struct quiesce *quiesce, size_t i, int frozen_fd,
			 const struct loopdev_users *local, struct error *err)
{
	const struct extent *extent = quiesce->extents[i];
	char device[LOCAL_NAME_MAX];
	int r = copy_guard_find_writer(extent, local, device, err);

	if (r < 1 || quiesce_has_frozen(quiesce, device))
		return r < 0 ? r : 0;
	r = freeze_prepare(device, frozen_fd, &quiesce->frozen[i], err);
	if (is_tolerated(quiesce, r))
		return 0;
	if (r == -ENOENT)
		return error_set(err, EBUSY,
				 "extent '%s' is written by /dev/%s on this "
				 "node, which has no file system that could be "
				 "frozen",
				 extent->record.name, device);
	return extent_error(extent, r, err);
}

static int prepare_all_local(struct quiesce *quiesce, int frozen_fd,
			     struct error *err)
{
	struct loopdev_users local;
	int r = loopdev_users_scan(&local, err);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < quiesce->n; i++)
		r = prepare_local(quiesce, i, frozen_fd, &local, err);
	loopdev_users_done(&local);
	return r;
}

/* Devices that do not pass the gate; what they wait for passes it. */
static int prepare_pool(struct quiesce *quiesce, size_t i, struct error *err)
{
	const struct extent *extent = quiesce->extents[i];
	struct pool *pool = extent->pool->pool;
	int r = pool->ops->prepare && !quiesce->held[i]
			? pool->ops->prepare(pool, extent->record.name, err)
			: 0;

	if (r == 1)
		quiesce->held[i] = true;
	return extent_error(extent, r < 0 ? r : 0, err);
}

/* Wait for freeze @i, which was prepared. */
static int wait_for_freeze(struct quiesce *quiesce, size_t i, struct error *err)
{
	int r = quiesce->frozen[i] ? freeze_ready(quiesce->frozen[i],
						  quiesce->until_ms, err)
				   : 0;

	if (r == 0)
		return 0;
	(void)freeze_end(quiesce->frozen[i]);
	quiesce->frozen[i] = NULL;
	return is_tolerated(quiesce, r)
		       ? 0
		       : extent_error(quiesce->extents[i], r, err);
}

int quiesce_prepare(struct quiesce *quiesce, int frozen_fd, struct error *err)
{
	int r = 0;

	if (quiesce->device[0])
		r = freeze_prepare_mapper(quiesce->device, frozen_fd,
					  &quiesce->above, err);
	if (r == 0)
		r = prepare_all_local(quiesce, frozen_fd, err);
	for (size_t i = 0; r == 0 && i < quiesce->n; i++)
		r = prepare_pool(quiesce, i, err);
	for (size_t i = 0; r == 0 && i < quiesce->n; i++)
		r = wait_for_freeze(quiesce, i, err);
	if (r == 0 && quiesce->above)
		r = freeze_ready(quiesce->above, quiesce->until_ms, err);
	return r;
}

static void hold_one(void *quiesce_, size_t i)
{
	struct quiesce *quiesce = quiesce_;
	const struct extent *extent = quiesce->extents[i];
	struct pool *pool = extent->pool->pool;
	struct error *err = &quiesce->errors[i];
	int r = 0;

	if (quiesce->frozen[i])
		r = freeze_begin(quiesce->frozen[i], quiesce->until_ms, err);
	if (r < 0) {
		(void)freeze_end(quiesce->frozen[i]);
		quiesce->frozen[i] = NULL;
		if (is_tolerated(quiesce, r))
			r = 0;
	}
	if (r == 0)
		r = prepare_pool(quiesce, i, err); /* what came since */
	if (r == 0 && quiesce->held[i])
		r = pool->ops->hold(pool, extent->record.name, err);
	quiesce->results[i] = extent_error(extent, r, err);
}

static int hold_all(struct quiesce *quiesce, struct error *err)
{
	parallel_run(quiesce->n, AT_ONCE, hold_one, quiesce);
	for (size_t i = 0; i < quiesce->n; i++) {
		if (quiesce->results[i] < 0)
			return error_set(err, -quiesce->results[i], "%s",
					 error_text(&quiesce->errors[i]));
	}
	return 0;
}

int quiesce_hold(struct quiesce *quiesce, struct error *err)
{
	int r = 0;

	if (quiesce->above)
		r = freeze_begin(quiesce->above, quiesce->until_ms, err);
	if (r == 0)
		r = hold_all(quiesce, err);
	if (r < 0)
		return r;
	for (; r == 0 && quiesce->n_closed < quiesce->n;
	     quiesce->n_closed += r == 0)
		r = gate_close(&quiesce->extents[quiesce->n_closed]->gate,
			       quiesce->until_ms);
	if (r < 0)
		return error_set(
			err, -r,
			"writes to extent '%s' that are under way did "
			"not end in time",
			quiesce->extents[quiesce->n_closed]->record.name);
	return 0;
}

/* ---- after ---- */

/* An extent that is held has a user, so that it and its pool stay. */
static bool hold_end(const struct extent *extent)
{
	struct pool *pool = extent->pool->pool;

	return pool->ops->release(pool, extent->record.name) == 0;
}

static void release_one(void *quiesce_, size_t i)
{
	struct quiesce *quiesce = quiesce_;
	bool lasted = true;

	if (quiesce->held[i] && !hold_end(quiesce->extents[i]))
		lasted = false;
	if (quiesce->frozen[i] && !freeze_end(quiesce->frozen[i]))
		lasted = false;
	quiesce->results[i] = lasted;
}

bool quiesce_release(struct quiesce *quiesce)
{
	bool lasted = true;

	for (size_t i = 0; i < quiesce->n_closed; i++)
		gate_open(&quiesce->extents[i]->gate);
	parallel_run(quiesce->n, AT_ONCE, release_one, quiesce);
	for (size_t i = 0; i < quiesce->n; i++)
		lasted = lasted && quiesce->results[i];
	/* A thaw writes to what lies below. */
	if (quiesce->above && !freeze_end(quiesce->above))
		lasted = false;
	quiesce_free(quiesce);
	return lasted;
}
