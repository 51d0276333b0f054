/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/node/pool_try.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"

struct pool_try {
	struct pool *pool;
	void (*ended)(void *context);
	void *context;
	pthread_t thread;
	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t over;
	bool is_over;
	int result;
	struct error why;
};

static void *pool_try_run(void *try_)
{
	struct pool_try *t = try_;
	struct pool *pool = t->pool;
	struct error why = {0};
	int r = pool->ops->retry ? pool->ops->retry(pool, &why) : 0;

	if (r == 0)
		r = pool->ops->try(pool, &why);
	(void)pthread_mutex_lock(&t->lock);
	t->result = r;
	t->why = why;
	t->is_over = true;
	(void)pthread_cond_broadcast(&t->over);
	/*
	 * Under the lock: a thread that sees the end of the try joins this
	 * thread.
	 */
	t->ended(t->context);
	(void)pthread_mutex_unlock(&t->lock);
	return NULL;
}

static void try_free(struct pool_try *t)
{
	(void)pthread_cond_destroy(&t->over);
	(void)pthread_mutex_destroy(&t->lock);
	free(t);
}

int pool_try_begin(struct pool *pool, void (*ended)(void *context),
		   void *context, struct pool_try **ret)
{
	struct pool_try *t = calloc(1, sizeof(*t));
	pthread_condattr_t monotonic;
	int r;

	if (!t)
		return -ENOMEM;
	t->pool = pool;
	t->ended = ended;
	t->context = context;
	/* These can't fail on Linux. */
	(void)pthread_mutex_init(&t->lock, NULL);
	(void)pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&t->over, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);
	r = pthread_create(&t->thread, NULL, pool_try_run, t);
	if (r) {
		try_free(t);
		return -r;
	}
	*ret = t;
	return 0;
}

bool pool_try_wait(struct pool_try *t, int ms)
{
	const int64_t until_ms = clock_ms() + ms;
	const struct timespec until = {.tv_sec = until_ms / 1000,
				       .tv_nsec = until_ms % 1000 * 1000000};
	bool over;
	int r = 0;

	(void)pthread_mutex_lock(&t->lock);
	while (!t->is_over && r == 0 && ms > 0)
		r = pthread_cond_timedwait(&t->over, &t->lock, &until);
	over = t->is_over;
	(void)pthread_mutex_unlock(&t->lock);
	return over;
}

int pool_try_end(struct pool_try *t, struct error *err)
{
	int r;

	(void)pthread_join(t->thread, NULL); /* it is one, and ours */
	r = t->result;
	if (r != 0 && err)
		*err = t->why;
	try_free(t);
	return r;
}
