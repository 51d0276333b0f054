/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rpc/rpc_internal.h"

/*
 * The stack of a worker is as large as its deepest job has made it: 100 KiB
 * here and there, for each of them, for ever. One that goes to sleep gives
 * back what lies below.
 */
struct stack {
	char *low; /* NULL: not known */
	uintptr_t page;
	bool used;
};

static struct stack stack_of_this_thread(void)
{
	struct stack stack = {.page = (uintptr_t)sysconf(_SC_PAGESIZE)};
	pthread_attr_t attr;
	void *low = NULL;
	size_t size = 0;

	if (pthread_getattr_np(pthread_self(), &attr) != 0)
		return stack;
	if (pthread_attr_getstack(&attr, &low, &size) == 0)
		stack.low = low;
	(void)pthread_attr_destroy(&attr); /* cannot fail */
	return stack;
}

static void stack_release(struct stack *stack)
{
	uintptr_t here = (uintptr_t)__builtin_frame_address(0);
	uintptr_t end = here / stack->page * stack->page - 2 * stack->page;
	uintptr_t low = (uintptr_t)stack->low;

	stack->used = false;
	if (stack->low && low < end)
		(void)madvise(stack->low, end - low,
			      MADV_DONTNEED); /* a hint */
}

static void *work(void *context)
{
	struct stack stack = stack_of_this_thread();
	struct rpc_pool *pool = context;

	pthread_mutex_lock(&pool->lock);
	for (;;) {
		struct rpc_job *job = STAILQ_FIRST(&pool->jobs);

		if (job) {
			STAILQ_REMOVE_HEAD(&pool->jobs, next);
			pool->waiting--;
			pthread_mutex_unlock(&pool->lock);
			job->run(job);
			stack.used = true;
			pthread_mutex_lock(&pool->lock);
			continue;
		}
		if (pool->stop)
			break;
		if (stack.used) {
			pthread_mutex_unlock(&pool->lock);
			stack_release(&stack);
			pthread_mutex_lock(&pool->lock);
			continue;
		}
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
