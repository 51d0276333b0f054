/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that loads tables when maps have changed. */
#include "base/log.h"
#include "blockd/direct/direct_internal.h"

#define RETRY_NS (UINT64_C(1) * 1000 * 1000 * 1000)
/* Loading tables takes at most one part in so many of the time... */
#define PAUSES 20u
/* ...but for a machine that is so busy that it would be much later. */
#define PAUSE_MAX_NS (UINT64_C(10) * 1000 * 1000 * 1000)

/* Lock held. The extent that is due, or when one is; 0: none. */
static struct direct_extent *find_due(const struct direct *direct, uint64_t now,
				      uint64_t *ret_next)
{
	struct direct_extent *extent;

	*ret_next = 0;
	LIST_FOREACH (extent, &direct->extents, in_direct) {
		if (!extent->due_ns || extent->busy)
			continue;
		if (extent->due_ns <= now)
			return extent;
		if (!*ret_next || extent->due_ns < *ret_next)
			*ret_next = extent->due_ns;
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

void *direct_loader_run(void *context)
{
	struct direct *direct = context;

	(void)pthread_mutex_lock(&direct->lock);
	while (!direct->stopping) {
		uint64_t next;
		struct direct_extent *extent = find_due(direct, direct_now_ns(),
							&next);
		const struct timespec until = {
			.tv_sec = (time_t)(next / 1000000000),
			.tv_nsec = (long)(next % 1000000000)};

		if (extent)
			load_one(direct, extent);
		else if (next)
			(void)pthread_cond_clockwait(&direct->ask,
						     &direct->lock,
						     CLOCK_MONOTONIC, &until);
		else
			(void)pthread_cond_wait(&direct->ask, &direct->lock);
	}
	(void)pthread_mutex_unlock(&direct->lock);
	return NULL;
}
