/* SPDX-License-Identifier: Apache-2.0 */
#include "union/uring_worker.h"

#include <errno.h>
#include <linux/fuse.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/uring_ring.h"

struct worker {
	struct uring *uring;
	struct uring_job job;
	struct uring_entry *entry;
	struct uring_ring ring;
	bool committed;     /* before its handler ended */
	uint64_t commit_id; /* of the last command; 0: it registers */
	void *data;         /* URING_REQUEST_MAX bytes: the request */
};

static _Thread_local struct worker *mine;

static int open_ring(struct worker *worker)
{
	const struct uring_job *job = &worker->job;
	int fd = worker->uring->server.fd;

	if (!job->kept)
		return uring_ring_init(&worker->ring, fd);
	return uring_ring_open(
		&worker->ring, job->kept->rings[job->number],
		&uring_kept_place(job->kept, job->number).record->params, fd);
}

static struct uring_entry *get_entry(struct worker *worker)
{
	const struct uring_job *job = &worker->job;
	struct uring_entries *entries = &worker->uring->entries;
	struct uring_place place;

	if (job->taking)
		return uring_entries_take(entries, job->taking->unique,
					  job->taking->error, worker);
	if (!job->kept)
		return uring_entry_new(entries, NULL, job->queue, worker);
	place = uring_kept_place(job->kept, job->number);
	return uring_entry_new(entries, &place, job->queue, worker);
}

static int prepare(struct worker *worker)
{
	cpu_set_t cpu;
	int r = worker->uring->server.setup();

	if (r < 0)
		return r;
	/* Where the asking process is; a CPU that is off has none. */
	CPU_ZERO(&cpu);
	CPU_SET(worker->job.queue, &cpu);
	(void)sched_setaffinity(0, sizeof(cpu), &cpu);
	worker->data = malloc(URING_REQUEST_MAX);
	if (!worker->data)
		return -ENOMEM;
	r = open_ring(worker);
	if (r < 0)
		return r;
	worker->entry = get_entry(worker);
	if (worker->entry)
		return 0;
	uring_ring_done(&worker->ring);
	return worker->job.taking ? -ENOENT : -ENOMEM;
}

/* True: an entry has been taken, and a reply is in it. */
static bool tell_taken(struct worker *worker, int r)
{
	struct uring *uring = worker->uring;
	struct uring_taking *taking = take_ptr(worker->job.taking);

	if (!taking)
		return false;
	pthread_mutex_lock(&uring->lock);
	taking->result = r;
	pthread_cond_broadcast(&uring->change);
	pthread_mutex_unlock(&uring->lock);
	return r == 0;
}

/* One of the first is ready, or cannot be. True: go on. */
static bool meet(struct uring *uring, int r)
{
	bool on;

	pthread_mutex_lock(&uring->lock);
	uring->preparing--;
	if (r < 0 && !uring->error)
		uring->error = r;
	pthread_cond_broadcast(&uring->change);
	while (uring->stage == URING_PREPARING ||
	       uring->stage == URING_PREPARED)
		pthread_cond_wait(&uring->change, &uring->lock);
	on = uring->stage == URING_ON;
	pthread_mutex_unlock(&uring->lock);
	return on && r == 0;
}

static void registered(struct uring *uring, int r)
{
	bool said;

	pthread_mutex_lock(&uring->lock);
	said = uring->error;
	if (r < 0 && !uring->error)
		uring->error = r;
	if (--uring->unregistered == 0 && !uring->error)
		atomic_store(&uring->on, true);
	pthread_mutex_unlock(&uring->lock);
	/* The kernel takes up /dev/fuse by itself. */
	if (r < 0 && !said)
		log_warning("io_uring: the kernel refuses an entry: %s; "
			    "requests come by /dev/fuse",
			    strerror(-r));
}

/* The entry is the kernel's; so is it of requests that wait already. */
static int register_late(struct worker *worker)
{
	const struct uring_server *server = &worker->uring->server;
	int r = uring_ring_register(&worker->ring, worker->entry);

	if (r == 0)
		server->kick(server->context);
	return r;
}

static void commit(struct worker *worker, uint64_t commit_id)
{
	worker->commit_id = commit_id;
	uring_ring_commit(&worker->ring, worker->entry, commit_id);
}

/*
 * The holder is gone, and with it who looks after its rings: go on with one of
 * this thread's own. That has ended all commands that it had taken, but let
 * requests first come that were on their way: io_sq_thread(). The entry is at
 * the same address here, so what it had not taken can be said by any ring.
 * Meanwhile the kernel had no entry to put a request into.
 */
static int leave_kept(struct worker *worker)
{
	bool answers = worker->commit_id && uring_ring_is_unsent(&worker->ring);
	struct uring_ring own;
	int r = uring_ring_init(&own, worker->uring->server.fd);

	if (r < 0)
		return r;
	uring_ring_done(&worker->ring);
	worker->ring = own;
	if (!answers)
		return register_late(worker);
	commit(worker, worker->commit_id);
	return 0;
}

/*
 * A command of a ring that is kept was ended: with the connection, or by the
 * end of the holder. 0: the entry is the kernel's again; or -errno.
 */
static int enter_again(struct worker *worker, int r)
{
	if (r != -EOWNERDEAD) {
		worker->commit_id = 0;
		r = register_late(worker);
	}
	return r == -EOWNERDEAD ? leave_kept(worker) : r;
}

/* What a server before has left. 1: there is a request in it. */
static int go_on(struct worker *worker, enum uring_found found, int result)
{
	if (found == URING_KERNELS)
		return 0;
	uring_ring_skip(&worker->ring);
	return found == URING_REFUSED ? result : 1;
}

static int register_new(struct worker *worker)
{
	/* Before the first ones are known to the kernel no request waits. */
	int r = worker->job.first
			? uring_ring_register(&worker->ring, worker->entry)
			: register_late(worker);

	return r == -EOWNERDEAD ? leave_kept(worker) : r;
}

/* The entry is the kernel's; or 1: there is a request in it; or -errno. */
static int enter(struct worker *worker, enum uring_found *ret_found)
{
	struct uring_record *record = worker->entry->place.record;
	struct uring_counts counts = {0};
	int r;

	*ret_found = URING_NEW;
	if (record && worker->ring.kept) {
		counts = uring_ring_counts(&worker->ring);
		*ret_found = uring_found(&counts, record);
		atomic_store(&record->used, true); /* by the next one, too */
	}
	r = *ret_found == URING_NEW ? register_new(worker)
				    : go_on(worker, *ret_found, counts.result);
	if (worker->job.first)
		registered(worker->uring, r < 0 ? r : 0);
	return r;
}

/* Reply and wait for the next request. */
static int next(struct worker *worker, uint64_t commit_id)
{
	atomic_uint *idle = &worker->uring->idle[worker->job.queue];
	int r;

	if (commit_id)
		commit(worker, commit_id);
	atomic_fetch_add(idle, 1);
	r = uring_ring_wait(&worker->ring);
	while (r < 0 && worker->ring.kept) {
		r = enter_again(worker, r);
		if (r < 0)
			break;
		r = uring_ring_wait(&worker->ring);
	}
	atomic_fetch_sub(idle, 1);
	return r;
}

static void reply_only(struct worker *worker, int error)
{
	struct fuse_out_header out = {
		.len = sizeof(out),
		.error = error,
		.unique = worker->entry->unique,
	};
	const struct iovec iov = {&out, sizeof(out)};

	(void)uring_entries_reply(&worker->uring->entries, worker->entry, &iov,
				  1); /* it is there */
}

static void refuse(struct worker *worker)
{
	log_warning("io_uring: a request of the kernel has sizes that cannot "
		    "be");
	reply_only(worker, -EIO);
}

/* Its length, or -EPROTO. */
static int take_request(struct worker *worker, enum uring_found found)
{
	if (found == URING_HAS_TAKEN)
		return uring_entry_again(worker->entry, worker->data);
	return uring_entry_begin(
		worker->entry, worker->data,
		worker->ring.kept ? uring_ring_counts(&worker->ring).published
				  : 0);
}

/* What uring_server.kick() has brought: nobody waits for a reply. */
static bool is_kick(const struct fuse_in_header *in)
{
	return in->opcode == FUSE_NOTIFY_REPLY;
}

/* True: the entry is the worker's still, and @ret_commit_id of its reply. */
static bool serve(struct worker *worker, enum uring_found found,
		  uint64_t *ret_commit_id)
{
	struct uring *uring = worker->uring;
	struct uring_entry *entry = worker->entry;
	int length = take_request(worker, found);

	worker->committed = false;
	if (length < 0)
		refuse(worker);
	else if (is_kick(worker->data))
		reply_only(worker, 0);
	else
		uring->server.serve(uring->server.context, worker->data,
				    (size_t)length);
	*ret_commit_id = 0;
	if (worker->committed)
		return true;
	*ret_commit_id = uring_entry_end(entry, worker);
	if (*ret_commit_id)
		return true;
	/* Another thread answers; or it has, for this one hung. */
	if (!atomic_load(&uring->idle[worker->job.queue]))
		uring_more(uring);
	if (!uring_entry_wait(entry, worker))
		return false;
	*ret_commit_id = uring_entry_end(entry, worker);
	return *ret_commit_id;
}

static bool is_end(int r)
{
	return r == -ENOTCONN || r == -ECONNABORTED || r == -ECANCELED;
}

static void work(struct worker *worker, uint64_t commit_id)
{
	enum uring_found found = URING_KERNELS;
	int r = commit_id ? 0 : enter(worker, &found);
	bool has = r == 1, goes_on = r >= 0;

	mine = worker;
	while (goes_on) {
		r = has ? 0 : next(worker, commit_id);
		goes_on = r == 0 && serve(worker, found, &commit_id);
		has = false;
		found = URING_KERNELS;
	}
	mine = NULL;
	if (r < 0 && !is_end(r) && atomic_load(&worker->uring->on))
		log_error(r, "io_uring: a thread of queue %u ends: %s",
			  worker->job.queue, strerror(-r));
}

static void *thread_main(void *context)
{
	struct worker *worker = context;
	struct uring *uring = worker->uring;
	int r = prepare(worker);
	bool taken = tell_taken(worker, r);
	bool goes_on = worker->job.first ? meet(uring, r) : r == 0;

	if (goes_on)
		work(worker,
		     taken ? uring_entry_end(worker->entry, worker) : 0);
	else if (r < 0 && r != -ENOENT && !worker->job.first)
		log_warning("io_uring: no thread more: %s", strerror(-r));
	if (r == 0)
		uring_ring_done(&worker->ring);
	free(worker->data);
	free(worker);
	uring->server.end(uring->server.context);
	return NULL;
}

static int start_thread(struct worker *worker)
{
	struct uring *uring = worker->uring;
	pthread_attr_t attr;
	pthread_t thread;
	int r;

	if (!uring->server.begin(uring->server.context))
		return -EAGAIN;
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	r = pthread_create(&thread, &attr, thread_main, worker);
	pthread_attr_destroy(&attr);
	if (r)
		uring->server.end(uring->server.context);
	return -r;
}

int uring_worker_start(struct uring *uring, const struct uring_job *job)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	int r;

	if (!worker)
		return -ENOMEM;
	worker->uring = uring;
	worker->job = *job;
	r = start_thread(worker);
	if (r < 0)
		free(worker);
	return r;
}

struct uring_entry *uring_worker_entry(void)
{
	return mine ? mine->entry : NULL;
}

void uring_worker_commit_early(void)
{
	struct worker *worker = mine;
	uint64_t commit_id = uring_entry_end(worker->entry, worker);

	if (!commit_id)
		return;
	worker->committed = true;
	commit(worker, commit_id);
	(void)uring_ring_flush(&worker->ring); /* else with the next wait */
}

void uring_worker_commit_kept(void)
{
	struct worker *worker = mine;
	uint64_t commit_id;

	if (!worker->ring.kept)
		return;
	commit_id = uring_entry_end(worker->entry, worker);
	if (!commit_id)
		return;
	worker->committed = true;
	commit(worker, commit_id);
}
