/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/loop/loop_internal.h"

bool loop_block_begin(struct loop *loop)
{
	if (!loop->blocking)
		return false;
	loop->block_ns = clock_ns();
	return loop->blocking->begin(loop->blocking, loop->block_ns);
}

int64_t loop_block_end(struct loop *loop)
{
	loop->blocking->end(loop->blocking);
	loop->was_blocked = true;
	return clock_ns() - loop->block_ns;
}

/* On the loop: tell everybody whose work is ready. */
static void ready_run(struct loop_message *message)
{
	struct loop_worker *worker = container_of(message, struct loop_worker,
						  message);
	struct loop_work *work;

	pthread_mutex_lock(&worker->lock);
	work = worker->ready_first;
	worker->ready_first = worker->ready_last = NULL;
	worker->posted = false;
	pthread_mutex_unlock(&worker->lock);
	while (work) {
		struct loop_work *next = work->next;

		worker->loop->in_flight--;
		work->done(work, work->res); /* may free it */
		work = next;
	}
}

static void work_list_add(struct loop_work **first, struct loop_work **last,
			  struct loop_work *work)
{
	work->next = NULL;
	if (*last)
		(*last)->next = work;
	else
		*first = work;
	*last = work;
}

static struct loop_work *todo_take(struct loop_worker *worker)
{
	struct loop_work *work;

	while (!worker->todo_first && !worker->ending)
		pthread_cond_wait(&worker->more, &worker->lock);
	work = worker->todo_first;
	if (!work)
		return NULL;
	worker->todo_first = work->next;
	if (!worker->todo_first)
		worker->todo_last = NULL;
	return work;
}

static void *worker_main(void *context)
{
	struct loop_worker *worker = context;
	struct loop_work *work;

	pthread_mutex_lock(&worker->lock);
	while ((work = todo_take(worker))) {
		bool post;

		pthread_mutex_unlock(&worker->lock);
		work->res = work->run(work);
		pthread_mutex_lock(&worker->lock);
		work_list_add(&worker->ready_first, &worker->ready_last, work);
		post = !worker->posted;
		worker->posted = true;
		if (post)
			loop_post(worker->loop, &worker->message);
	}
	pthread_mutex_unlock(&worker->lock);
	return NULL;
}

void loop_worker_init(struct loop_worker *worker, struct loop *loop)
{
	worker->loop = loop;
	worker->message.run = ready_run;
	pthread_mutex_init(&worker->lock, NULL);
	pthread_cond_init(&worker->more, NULL);
}

void loop_worker_done(struct loop_worker *worker)
{
	if (worker->started) {
		pthread_mutex_lock(&worker->lock);
		worker->ending = true;
		pthread_cond_signal(&worker->more);
		pthread_mutex_unlock(&worker->lock);
		pthread_join(worker->thread, NULL);
	}
	pthread_cond_destroy(&worker->more);
	pthread_mutex_destroy(&worker->lock);
}

struct refusal {
	struct loop_message message;
	struct loop_work *work;
	struct loop *loop;
};

/* Fail the work, as there is no thread for it; from the loop, as promised. */
static void refusal_run(struct loop_message *message)
{
	struct refusal *refusal = container_of(message, struct refusal,
					       message);
	struct loop_work *work = refusal->work;

	refusal->loop->in_flight--;
	free(refusal);
	work->done(work, -EAGAIN);
}

static void work_refuse(struct loop *loop, struct loop_work *work)
{
	struct refusal *refusal = calloc(1, sizeof(*refusal));

	if (!refusal)
		abort(); /* neither a thread nor 40 bytes */
	refusal->message.run = refusal_run;
	refusal->work = work;
	refusal->loop = loop;
	loop_post(loop, &refusal->message);
}

void loop_work(struct loop *loop, struct loop_work *work)
{
	struct loop_worker *worker = &loop->worker;

	loop->in_flight++;
	if (!worker->started) {
		if (pthread_create(&worker->thread, NULL, worker_main,
				   worker) != 0) {
			work_refuse(loop, work);
			return;
		}
		worker->started = true;
	}
	pthread_mutex_lock(&worker->lock);
	work_list_add(&worker->todo_first, &worker->todo_last, work);
	pthread_cond_signal(&worker->more);
	pthread_mutex_unlock(&worker->lock);
}
