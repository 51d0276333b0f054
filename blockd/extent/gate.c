/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/extent/gate.h"

#include <assert.h>
#include <errno.h>
#include <time.h>

#include "base/clock.h"
#include "blockd/extent/extent_dev.h"

void gate_init(struct gate *gate)
{
	pthread_condattr_t attributes;

	*gate = (struct gate){0};
	LIST_INIT(&gate->devs);
	/* These can't fail on Linux. */
	(void)pthread_mutex_init(&gate->lock, NULL);
	(void)pthread_condattr_init(&attributes);
	(void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&gate->quiet, &attributes);
	(void)pthread_condattr_destroy(&attributes);
}

void gate_done(struct gate *gate)
{
	assert(LIST_EMPTY(&gate->devs));
	(void)pthread_cond_destroy(&gate->quiet);
	(void)pthread_mutex_destroy(&gate->lock);
}

/* The lock is held, here and below. */
static void set_busy(struct gate *gate)
{
	unsigned busy = 0;

	if (gate->closed)
		busy |= GATE_CLOSED;
	if (limit_is_set(&gate->limit))
		busy |= GATE_LIMITED;
	atomic_store(&gate->busy, busy);
}

static void wake_all(struct gate *gate)
{
	struct extent_dev *dev;

	LIST_FOREACH (dev, &gate->devs, in_gate)
		extent_dev_wake(dev);
}

static bool is_quiet(struct gate *gate)
{
	struct extent_dev *dev;

	LIST_FOREACH (dev, &gate->devs, in_gate)
		if (atomic_load(&dev->changing))
			return false;
	return true;
}

static int wait_quiet(struct gate *gate, int64_t until_ms)
{
	const struct timespec until = {
		.tv_sec = until_ms / 1000,
		.tv_nsec = until_ms % 1000 * 1000000,
	};

	while (!is_quiet(gate))
		if (pthread_cond_timedwait(&gate->quiet, &gate->lock, &until) ==
			    ETIMEDOUT &&
		    !is_quiet(gate))
			return -ETIMEDOUT;
	return 0;
}

static void release(struct gate *gate)
{
	assert(gate->closed);
	if (--gate->closed)
		return;
	set_busy(gate);
	wake_all(gate);
}

int gate_close(struct gate *gate, int64_t until_ms)
{
	int r;

	pthread_mutex_lock(&gate->lock);
	gate->closed++;
	set_busy(gate);
	r = wait_quiet(gate, until_ms);
	if (r < 0)
		release(gate);
	pthread_mutex_unlock(&gate->lock);
	return r;
}

void gate_open(struct gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	release(gate);
	pthread_mutex_unlock(&gate->lock);
}

void gate_set_limits(struct gate *gate, const struct extent_limits *limits)
{
	pthread_mutex_lock(&gate->lock);
	limit_set(&gate->limit, limits);
	gate->generation++;
	set_busy(gate);
	wake_all(gate);
	pthread_mutex_unlock(&gate->lock);
}

void gate_bypass_begin(struct gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	gate->bypasses++;
	wake_all(gate);
	pthread_mutex_unlock(&gate->lock);
}

void gate_bypass_end(struct gate *gate)
{
	pthread_mutex_lock(&gate->lock);
	assert(gate->bypasses);
	gate->bypasses--;
	pthread_mutex_unlock(&gate->lock);
}
