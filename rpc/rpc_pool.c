/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "rpc/rpc_internal.h"

static void *work(void *context)
{
	struct rpc_pool *pool = context;

	pthread_mutex_lock(&pool->lock);
	for (;;) {
		struct rpc_job *job = STAILQ_FIRST(&pool->jobs);

		if (job) {
			STAILQ_REMOVE_HEAD(&pool->jobs, next);
			pool->waiting--;
			pthread_mutex_unlock(&pool->lock);
			job->run(job);
			pthread_mutex_lock(&pool->lock);
			continue;
		}
		if (pool->stop)
			break;
		pool->idle++;
		pthread_cond_wait(&pool->work, &pool->lock);
		pool->idle--;
	}
	pthread_mutex_unlock(&pool->lock);
	return NULL;
}

int rpc_pool_start(struct rpc_pool *pool, unsigned workers, unsigned queue,
		   struct error *err)
{
	*pool = (struct rpc_pool){.waiting_max = queue};
	pthread_mutex_init(&pool->lock, NULL);
	pthread_cond_init(&pool->work, NULL);
	STAILQ_INIT(&pool->jobs);
	pool->threads = gpr_zalloc(workers * sizeof(*pool->threads));
	for (; pool->n_threads < workers; pool->n_threads++) {
		int r = rpc_core_thread(&pool->threads[pool->n_threads],
					"rpc-worker", work, pool);

		if (r < 0) {
			rpc_pool_stop(pool);
			return error_set(err, -r, "start worker %u of %u: %s",
					 pool->n_threads + 1, workers,
					 strerror(-r));
		}
	}
	return 0;
}

bool rpc_pool_push(struct rpc_pool *pool, struct rpc_job *job)
{
	bool taken;

	pthread_mutex_lock(&pool->lock);
	/* A job that an idle worker is about to take does not wait. */
	taken = pool->waiting < pool->waiting_max + pool->idle;
	if (taken) {
		STAILQ_INSERT_TAIL(&pool->jobs, job, next);
		pool->waiting++;
		pthread_cond_signal(&pool->work);
	}
	pthread_mutex_unlock(&pool->lock);
	return taken;
}

void rpc_pool_stop(struct rpc_pool *pool)
{
	pthread_mutex_lock(&pool->lock);
	pool->stop = true;
	pthread_cond_broadcast(&pool->work);
	pthread_mutex_unlock(&pool->lock);
	for (unsigned i = 0; i < pool->n_threads; i++)
		pthread_join(pool->threads[i], NULL);
	gpr_free(pool->threads);
	pthread_cond_destroy(&pool->work);
	pthread_mutex_destroy(&pool->lock);
}
