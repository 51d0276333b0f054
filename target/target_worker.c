/* SPDX-License-Identifier: Apache-2.0 */
/* A thread with its loop and its connections. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/target_internal.h"

#define BUFFER_LIMIT_DEFAULT (UINT64_C(64) << 20) /* bytes, of a loop */

/* Longer, and a disk does not answer: others stop to wait for the thread, ns.
 */
#define BLOCKED_NS      INT64_C(1000000000)
#define BLOCKED_LOOK_MS 100

/* The last connection of a worker that stops ends its loop. */
static void worker_check(struct worker *worker)
{
	if (worker->nbd.stopping && atomic_load(&worker->connections) == 0 &&
	    conn_service_still(&worker->nbd) &&
	    conn_service_still(&worker->iscsi.base))
		loop_stop(worker->loop);
}

static void conn_ended(struct conn_service *service, unsigned n)
{
	struct worker *worker = service->owner;

	atomic_fetch_sub(&worker->connections, n);
	worker_check(worker);
}

static void stop_run(struct loop_message *message)
{
	struct worker *worker = container_of(message, struct worker,
					     stop_message);

	conn_service_stop(&worker->nbd);
	conn_service_stop(&worker->iscsi.base);
	worker_check(worker);
}

/*
 * The connection that the thread waits for must be the only one. The thread
 * that hands over another one counts it first, and then looks at blocked_ns. So
 * one of the two threads sees what the other did.
 */
static bool worker_block_begin(struct loop_blocking *blocking, int64_t now_ns)
{
	struct worker *worker = container_of(blocking, struct worker, blocking);

	/* An iSCSI initiator wants answers to its pings meanwhile. */
	if (!LIST_EMPTY(&worker->iscsi.base.conns))
		return false;
	atomic_store(&worker->blocked_ns, now_ns);
	if (atomic_load(&worker->connections) == 1)
		return true;
	atomic_store(&worker->blocked_ns, 0);
	return false;
}

static void worker_block_end(struct loop_blocking *blocking)
{
	struct worker *worker = container_of(blocking, struct worker, blocking);

	atomic_store(&worker->blocked_ns, 0);
}

static void *worker_main(void *context)
{
	struct worker *worker = context;
	int r;

	r = loop_run(worker->loop);
	if (r < 0)
		log_error(r, "loop %s: %s; its connections hang", worker->name,
			  strerror(-r));
	return NULL;
}

static void service_set(struct worker *worker, struct conn_service *service,
			const struct target_options *options)
{
	service->ended = conn_ended;
	service->owner = worker;
	if (options->peer_timeout_s > 0)
		service->peer_timeout_s = options->peer_timeout_s;
}

/* @buffer_limit: the loop's, bytes */
static void services_init(struct worker *worker,
			  const struct target_options *options,
			  size_t buffer_limit)
{
	struct conn_service *nbd = &worker->nbd, *iscsi = &worker->iscsi.base;

	conn_service_init(nbd, &nbd_conn_ops, worker->loop,
			  worker->target->exports);
	nbd->tls = worker->target->tls;
	nbd->tls_required = options->tls.required;
	iscsi_service_init(&worker->iscsi, worker->loop,
			   worker->target->exports, worker->target->iscsi);
	if (options->peer_timeout_s > 0)
		worker->iscsi.ping_ms = options->peer_timeout_s * 750;
	service_set(worker, nbd, options);
	service_set(worker, iscsi, options);
	conn_service_pair(nbd, iscsi, buffer_limit);
}

int worker_start(struct target *target, struct worker *worker,
		 const struct target_options *options, unsigned index,
		 struct error *err)
{
	struct loop_options loop_options = {
		.name = worker->name,
		.without = options->without,
		.buffer_limit = options->buffer_limit ?: BUFFER_LIMIT_DEFAULT,
		/* Worker 0 accepts, so it is always there. */
		.blocking = index > 0 ? &worker->blocking : NULL,
	};
	int r;

	worker->target = target;
	worker->blocking.begin = worker_block_begin;
	worker->blocking.end = worker_block_end;
	worker->stop_message.run = stop_run;
	(void)snprintf(worker->name, sizeof(worker->name), "nbd-%u", index);
	r = loop_new(&loop_options, &worker->loop, err);
	if (r < 0)
		return r;
	services_init(worker, options, loop_options.buffer_limit);
	r = pthread_create(&worker->thread, NULL, worker_main, worker);
	if (r != 0)
		return error_set(err, r, "start a thread: %s", strerror(r));
	worker->started = true;
	return 0;
}

void worker_stop(struct worker *worker)
{
	if (worker->started)
		loop_post(worker->loop, &worker->stop_message);
}

void worker_end(struct worker *worker)
{
	if (worker->started)
		pthread_join(worker->thread, NULL);
	loop_free(worker->loop);
}

/* ---- growth ---- */

/* A message to a worker: an export has grown. Its last holder frees it. */
struct growth {
	struct loop_message message;
	struct worker *worker;
	uint64_t size; /* bytes */
	sem_t done;
	atomic_uint holders; /* the worker, and the thread that tells it */
	char name[];         /* of the export */
};

static void growth_put(struct growth *growth)
{
	if (atomic_fetch_sub(&growth->holders, 1) > 1)
		return;
	sem_destroy(&growth->done);
	free(growth);
}

static void growth_run(struct loop_message *message)
{
	struct growth *growth = container_of(message, struct growth, message);

	conn_service_grow(&growth->worker->nbd, growth->name, growth->size);
	conn_service_grow(&growth->worker->iscsi.base, growth->name,
			  growth->size);
	sem_post(&growth->done);
	growth_put(growth);
}

static struct growth *growth_new(struct worker *worker, const char *name,
				 uint64_t size)
{
	size_t length = strlen(name) + 1;
	struct growth *growth = calloc(1, sizeof(*growth) + length);

	if (!growth)
		abort(); /* an initiator would use what is refused to it */
	growth->message.run = growth_run;
	growth->worker = worker;
	growth->size = size;
	sem_init(&growth->done, 0, 0);
	atomic_init(&growth->holders, 2);
	memcpy(growth->name, name, length);
	return growth;
}

void worker_grow(struct worker *worker, const char *name, uint64_t size)
{
	struct growth *growth = growth_new(worker, name, size);
	struct timespec until;

	loop_post(worker->loop, &growth->message);
	do {
		int64_t blocked_ns = atomic_load(&worker->blocked_ns);

		if (blocked_ns != 0 && clock_ns() - blocked_ns > BLOCKED_NS)
			break;
		until = clock_deadline(BLOCKED_LOOK_MS);
	} while (sem_clockwait(&growth->done, CLOCK_MONOTONIC, &until) < 0);
	growth_put(growth);
}
