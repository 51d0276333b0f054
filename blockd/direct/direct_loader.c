/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that loads tables when maps have changed. When none is due it
 * writes zeroes ahead.
 */
#include "base/log.h"
#include "blockd/direct/direct_internal.h"

#define RETRY_NS (UINT64_C(1) * 1000 * 1000 * 1000)
/* Loading tables takes at most one part in so many of the time... */
#define PAUSES 20u
/* ...but for a machine that is so busy that it would be much later. */
#define PAUSE_MAX_NS (UINT64_C(10) * 1000 * 1000 * 1000)

/* 0: never. */
static uint64_t table_due(const struct direct_extent *extent)
{
	return extent->due_ns;
}

static uint64_t ahead_due(const struct direct_extent *extent)
{
	if (extent->gone || extent->ahead >= extent->device->clusters)
		return 0;
	return extent->ahead_ns ? extent->ahead_ns : 1;
}

/* Lock held. The extent that is due; else @next is when one is, or as it was.
 */
static struct direct_extent *find_due(
	const struct direct *direct,
	uint64_t (*due_of)(const struct direct_extent *extent), uint64_t now,
	uint64_t *next)
{
	struct direct_extent *extent;

	LIST_FOREACH (extent, &direct->extents, in_direct) {
		uint64_t due = extent->busy ? 0 : due_of(extent);

		if (due && due <= now)
			return extent;
		if (due && (!*next || due < *next))
			*next = due;
	}
	return NULL;
}

/* Lock held, let go of meanwhile. */
static void load_one(struct direct *direct, struct direct_extent *extent)
{
	struct error err;
	uint64_t begin = direct_now_ns(), end;
	int r;

	extent->busy = true;
	extent->changed = 0;
	extent->due_ns = 0;
	(void)pthread_mutex_unlock(&direct->lock);
	r = direct_extent_refresh(direct, extent, &err);
	if (r < 0 && !extent->failed)
		log_warning("pool %s: no new direct runs: %s", direct->name,
			    error_text(&err));
	extent->failed = r < 0;
	end = direct_now_ns();
	(void)pthread_mutex_lock(&direct->lock);
	extent->pause_ns = end + PAUSES * (end - begin);
	if (extent->pause_ns > end + PAUSE_MAX_NS)
		extent->pause_ns = end + PAUSE_MAX_NS;
	if (r < 0)
		extent->pause_ns = end + RETRY_NS;
	/* A device that can't be resumed is tried again, whatever changes. */
	if (extent->due_ns || (extent->suspended && !extent->frozen))
		extent->due_ns = extent->pause_ns;
	extent->busy = false;
	(void)pthread_cond_broadcast(&direct->turn);
}

/* Lock held, let go of meanwhile. */
static void load_zeroes(struct direct *direct, struct direct_extent *extent)
{
	const uint64_t end_cluster = extent->device->clusters;
	struct error err;
	uint64_t begin = direct_now_ns(), end;
	int r = 0;

	extent->busy = true;
	(void)pthread_mutex_unlock(&direct->lock);
	/* A hold has its own start over. */
	if (direct_is_held(direct, extent->object))
		extent->ahead = end_cluster;
	else
		r = raw_users_zero_ahead(direct->users, extent->object,
					 &extent->ahead, end_cluster, &err);
	if (r < 0) {
		log_warning("pool %s: no zeroes are written ahead: %s",
			    direct->name, error_text(&err));
		extent->ahead = end_cluster;
	}
	end = direct_now_ns();
	(void)pthread_mutex_lock(&direct->lock);
	extent->ahead_ns = end + (end - begin);
	extent->busy = false;
	(void)pthread_cond_broadcast(&direct->turn);
}

/* Lock held. Until @until_ns, or for ever (0), or until there is work. */
static void wait_for_work(struct direct *direct, uint64_t until_ns)
{
	const struct timespec until = {
		.tv_sec = (time_t)(until_ns / 1000000000),
		.tv_nsec = (long)(until_ns % 1000000000)};

	if (until_ns)
		(void)pthread_cond_clockwait(&direct->ask, &direct->lock,
					     CLOCK_MONOTONIC, &until);
	else
		(void)pthread_cond_wait(&direct->ask, &direct->lock);
}

void *direct_loader_run(void *context)
{
	struct direct *direct = context;

	(void)pthread_mutex_lock(&direct->lock);
	while (!direct->stopping) {
		uint64_t now = direct_now_ns(), next = 0;
		struct direct_extent *load = find_due(direct, table_due, now,
						      &next);
		struct direct_extent *ahead =
			load ? NULL : find_due(direct, ahead_due, now, &next);

		if (load)
			load_one(direct, load);
		else if (ahead)
			load_zeroes(direct, ahead);
		else
			wait_for_work(direct, next);
	}
	(void)pthread_mutex_unlock(&direct->lock);
	return NULL;
}
