/* SPDX-License-Identifier: Apache-2.0 */
#include "union/uring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "union/uring_cpus.h"
#include "union/uring_kept.h"
#include "union/uring_ring.h"

#define PARAMETER "/sys/module/fuse/parameters/enable_uring"

/* The steps of the first threads, which go together. */
enum stage {
	PREPARING, /* until all have what they need */
	PREPARED,  /* until FUSE_INIT is answered */
	ON,
	OFF,
};

struct uring {
	struct uring_server server;
	struct uring_entries entries;
	unsigned queues;
	const struct uring_kept *kept; /* NULL: rings are of their threads */
	atomic_uint *idle; /* entries of a queue that wait for a request */

	pthread_mutex_t lock; /* of what follows */
	pthread_cond_t change;
	enum stage stage;
	unsigned preparing; /* threads */
	unsigned unregistered;
	int error;         /* the first one of a thread that prepares */
	atomic_bool begun; /* the kernel has been told */
	atomic_bool on;    /* and all are registered */
};

/* Who wants an entry to be taken from a thread that hangs waits for that. */
struct taking {
	uint64_t unique;
	int error;  /* that it is answered with */
	int result; /* > 0: not yet; 0 or -errno */
};

/* What a thread begins with. */
struct job {
	unsigned queue;
	bool first; /* one of those that go together */
	/* The ring that it uses; NULL: one of its own. */
	const struct uring_kept *kept;
	unsigned number;       /* of that */
	struct taking *taking; /* NULL: it gets an entry that nobody has */
};

struct worker {
	struct uring *uring;
	struct job job;
	struct uring_entry *entry;
	struct uring_ring ring;
	bool committed;     /* before its handler ended */
	uint64_t commit_id; /* of the last command; 0: it registers */
	void *data;         /* URING_REQUEST_MAX bytes: the request */
};

static _Thread_local struct worker *mine;

static int open_ring(struct worker *worker)
{
	const struct job *job = &worker->job;
	int fd = worker->uring->server.fd;

	if (!job->kept)
		return uring_ring_init(&worker->ring, fd);
	return uring_ring_open(
		&worker->ring, job->kept->rings[job->number],
		&uring_kept_place(job->kept, job->number).record->params, fd);
}

static struct uring_entry *get_entry(struct worker *worker)
{
	const struct job *job = &worker->job;
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
	struct taking *taking = take_ptr(worker->job.taking);

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
	while (uring->stage == PREPARING || uring->stage == PREPARED)
		pthread_cond_wait(&uring->change, &uring->lock);
	on = uring->stage == ON;
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
	int r = worker->job.first ? uring_ring_register(&worker->ring,
							worker->entry)
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

static int start_worker(struct uring *uring, const struct job *job)
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

/* Those that are used from the beginning, and what others had used. */
static bool is_first(const struct uring *uring, unsigned number)
{
	const struct uring_kept *kept = uring->kept;

	return !kept || number < kept->header->first ||
	       atomic_load(&uring_kept_place(kept, number).record->used);
}

static int start_one(struct uring *uring, unsigned number)
{
	const struct job job = {
		.queue = number % uring->queues,
		.first = true,
		.kept = uring->kept,
		.number = number,
	};

	pthread_mutex_lock(&uring->lock);
	uring->preparing++;
	pthread_mutex_unlock(&uring->lock);
	return start_worker(uring, &job);
}

/* All of them have what they need, or one has not. */
static int start_first(struct uring *uring, unsigned count)
{
	unsigned i, started = 0;
	int r = 0;

	for (i = 0; i < count && r == 0; i++) {
		if (!is_first(uring, i))
			continue;
		r = start_one(uring, i);
		started += r == 0;
	}
	pthread_mutex_lock(&uring->lock);
	uring->preparing -= r < 0;
	while (uring->preparing)
		pthread_cond_wait(&uring->change, &uring->lock);
	if (r == 0)
		r = uring->error;
	uring->unregistered = started;
	uring->stage = r < 0 ? OFF : PREPARED;
	pthread_cond_broadcast(&uring->change);
	pthread_mutex_unlock(&uring->lock);
	return r;
}

int uring_check(struct error *err)
{
	auto_close int fd = open(PARAMETER, O_RDONLY | O_CLOEXEC);
	char yes = 'N';

	if (fd < 0)
		return error_set(err, EOPNOTSUPP,
				 "this kernel has no FUSE over io_uring");
	if (read(fd, &yes, 1) != 1 || yes != 'Y')
		return error_set(err, EOPNOTSUPP,
				 "it is off in this kernel: " PARAMETER
				 " is 'N'");
	return 0;
}

static int alloc_uring(const struct uring_server *server, unsigned queues,
		       struct uring **ret)
{
	struct uring *uring = calloc(1, sizeof(*uring));

	if (uring)
		uring->idle = calloc(queues, sizeof(*uring->idle));
	if (!uring || !uring->idle) {
		free(uring);
		return -ENOMEM;
	}
	uring->server = *server;
	uring->queues = queues;
	pthread_mutex_init(&uring->lock, NULL);
	pthread_cond_init(&uring->change, NULL);
	*ret = uring;
	return 0;
}

int uring_start(const struct uring_server *server, unsigned threads,
		struct uring **ret, struct error *err)
{
	int r, queues = uring_cpus_possible();

	*ret = NULL;
	if (queues < 0)
		return error_set(err, -queues, "count the CPUs: %s",
				 strerror(-queues));
	r = alloc_uring(server, (unsigned)queues, ret);
	if (r == 0)
		r = start_first(*ret, (*ret)->queues *
					      uring_cpus_threads((*ret)->queues,
								 threads));
	return r < 0 ? error_set(err, -r, "prepare io_uring: %s", strerror(-r))
		     : 0;
}

int uring_start_kept(const struct uring_server *server,
		     const struct uring_kept *kept, struct uring **ret,
		     struct error *err)
{
	int r;

	*ret = NULL;
	r = alloc_uring(server, kept->header->queues, ret);
	if (r == 0) {
		(*ret)->kept = kept;
		r = start_first(*ret, kept->header->count);
	}
	return r < 0 ? error_set(err, -r, "use the io_uring that is kept: %s",
				 strerror(-r))
		     : 0;
}

void uring_free(struct uring *uring)
{
	if (!uring)
		return;
	uring_entries_done(&uring->entries);
	pthread_mutex_destroy(&uring->lock);
	pthread_cond_destroy(&uring->change);
	free(uring->idle);
	free(uring);
}

bool uring_fits(struct uring *uring, size_t largest)
{
	bool prepared;

	if (!uring || largest > URING_PAYLOAD)
		return false;
	pthread_mutex_lock(&uring->lock);
	prepared = uring->stage == PREPARED;
	pthread_mutex_unlock(&uring->lock);
	return prepared;
}

void uring_begin(struct uring *uring, bool wanted)
{
	if (!uring)
		return;
	pthread_mutex_lock(&uring->lock);
	if (uring->stage == PREPARED) {
		uring->stage = wanted ? ON : OFF;
		atomic_store(&uring->begun, wanted);
		pthread_cond_broadcast(&uring->change);
	}
	pthread_mutex_unlock(&uring->lock);
}

bool uring_is_on(const struct uring *uring)
{
	return uring && atomic_load(&uring->on);
}

/* What comes now may wait for who waits for our reply: so that goes first. */
static void commit_early(struct worker *worker)
{
	uint64_t commit_id = uring_entry_end(worker->entry, worker);

	if (!commit_id)
		return;
	worker->committed = true;
	commit(worker, commit_id);
	(void)uring_ring_flush(&worker->ring); /* else with the next wait */
}

/*
 * By a ring that is kept it leaves at once: what is known of the request, in
 * case that it is served again, is known no more once this has returned.
 */
static void commit_kept(struct worker *worker)
{
	uint64_t commit_id;

	if (!worker->ring.kept)
		return;
	commit_id = uring_entry_end(worker->entry, worker);
	if (!commit_id)
		return;
	worker->committed = true;
	commit(worker, commit_id);
}

int uring_reply(struct uring *uring, const struct iovec *iov, int count)
{
	const struct fuse_out_header *out = iov[0].iov_base;
	int r;

	if (!uring || !atomic_load(&uring->begun))
		return -ENOENT;
	if (!out->unique) {
		if (mine)
			commit_early(mine);
		return -ENOENT;
	}
	r = uring_entries_reply(&uring->entries, mine ? mine->entry : NULL, iov,
				count);
	if (mine && r != -ENOENT)
		commit_kept(mine);
	return r;
}

/* One that nobody uses, of that queue. False: all are used. */
static bool find_spare(const struct uring *uring, struct job *job)
{
	const struct uring_kept *kept = uring->kept;
	unsigned i = kept->header->first + job->queue;
	struct uring_record *record;

	for (; i < kept->header->count; i += uring->queues) {
		record = uring_kept_place(kept, i).record;
		if (atomic_exchange(&record->used, true))
			continue;
		job->kept = kept;
		job->number = i;
		return true;
	}
	return false;
}

/* Without, those there are must do. */
static void start_more(struct uring *uring, unsigned queue)
{
	struct job job = {.queue = queue};

	if (uring->kept && !find_spare(uring, &job))
		return;
	if (start_worker(uring, &job) < 0 && job.kept)
		atomic_store(
			&uring_kept_place(job.kept, job.number).record->used,
			false);
}

void uring_more(struct uring *uring)
{
	unsigned i;

	for (i = 0; uring_is_on(uring) && i < uring->queues; i++)
		if (!atomic_load(&uring->idle[i]))
			start_more(uring, i);
}

int uring_answer(struct uring *uring, uint64_t unique, int error)
{
	struct taking taking = {unique, error, 1};
	struct job job = {.taking = &taking};
	const struct uring_entry *entry;
	int r;

	entry = uring ? uring_entries_find(&uring->entries, unique) : NULL;
	if (!entry)
		return -ENOENT;
	job.queue = entry->queue;
	if (entry->place.record) {
		job.kept = uring->kept;
		job.number = entry->place.number;
	}
	r = start_worker(uring, &job);
	if (r < 0)
		return r;
	pthread_mutex_lock(&uring->lock);
	while (taking.result > 0)
		pthread_cond_wait(&uring->change, &uring->lock);
	pthread_mutex_unlock(&uring->lock);
	return taking.result;
}
