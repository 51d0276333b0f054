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
#include "union/uring_ring.h"

#define PARAMETER   "/sys/module/fuse/parameters/enable_uring"
#define THREADS_SUM 256 /* at first, of all queues */
#define THREADS_MIN 2   /* of a queue */

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

struct worker {
	struct uring *uring;
	struct uring_entry *entry;
	struct taking *taking; /* NULL: it gets an entry of its own */
	struct uring_ring ring;
	unsigned queue;
	bool first;     /* one of those that go together */
	bool committed; /* before its handler ended */
	void *data;     /* URING_REQUEST_MAX bytes: the request */
};

static _Thread_local struct worker *mine;

static int prepare(struct worker *worker)
{
	struct uring *uring = worker->uring;
	cpu_set_t cpu;
	int r = uring->server.setup();

	if (r < 0)
		return r;
	/* Where the asking process is; a CPU that is off has none. */
	CPU_ZERO(&cpu);
	CPU_SET(worker->queue, &cpu);
	(void)sched_setaffinity(0, sizeof(cpu), &cpu);
	worker->data = malloc(URING_REQUEST_MAX);
	if (!worker->data)
		return -ENOMEM;
	r = uring_ring_init(&worker->ring, uring->server.fd);
	if (r < 0)
		return r;
	if (worker->taking)
		worker->entry = uring_entries_take(
			&uring->entries, worker->taking->unique,
			worker->taking->error, worker);
	else
		worker->entry = uring_entry_new(&uring->entries, worker->queue,
						worker);
	if (worker->entry)
		return 0;
	uring_ring_done(&worker->ring);
	return worker->taking ? -ENOENT : -ENOMEM;
}

/* True: an entry has been taken, and a reply is in it. */
static bool tell_taken(struct worker *worker, int r)
{
	struct uring *uring = worker->uring;
	struct taking *taking = take_ptr(worker->taking);

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

static int enter(struct worker *worker)
{
	int r = uring_ring_register(&worker->ring, worker->entry);

	if (worker->first)
		registered(worker->uring, r);
	return r;
}

/* Reply and wait for the next request. */
static int next(struct worker *worker, uint64_t commit_id)
{
	atomic_uint *idle = &worker->uring->idle[worker->queue];
	int r;

	if (commit_id)
		uring_ring_commit(&worker->ring, worker->entry, commit_id);
	atomic_fetch_add(idle, 1);
	r = uring_ring_wait(&worker->ring);
	atomic_fetch_sub(idle, 1);
	return r;
}

static void refuse(struct worker *worker)
{
	struct fuse_out_header out = {
		.len = sizeof(out),
		.error = -EIO,
		.unique = worker->entry->unique,
	};
	const struct iovec iov = {&out, sizeof(out)};

	log_warning("io_uring: a request of the kernel has sizes that cannot "
		    "be");
	(void)uring_entries_reply(&worker->uring->entries, worker->entry, &iov,
				  1); /* it is there */
}

/* True: the entry is the worker's still, and @ret_commit_id of its reply. */
static bool serve(struct worker *worker, uint64_t *ret_commit_id)
{
	struct uring *uring = worker->uring;
	struct uring_entry *entry = worker->entry;
	int length = uring_entry_begin(entry, worker->data);

	worker->committed = false;
	if (length < 0)
		refuse(worker);
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
	if (!atomic_load(&uring->idle[worker->queue]))
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
	int r = commit_id ? 0 : enter(worker);
	bool goes_on = r == 0;

	mine = worker;
	while (goes_on) {
		r = next(worker, commit_id);
		goes_on = r == 0 && serve(worker, &commit_id);
	}
	mine = NULL;
	if (r < 0 && !is_end(r) && atomic_load(&worker->uring->on))
		log_error(r, "io_uring: a thread of queue %u ends: %s",
			  worker->queue, strerror(-r));
}

static void *thread_main(void *context)
{
	struct worker *worker = context;
	struct uring *uring = worker->uring;
	int r = prepare(worker);
	bool taken = tell_taken(worker, r);
	bool goes_on = worker->first ? meet(uring, r) : r == 0;

	if (goes_on)
		work(worker,
		     taken ? uring_entry_end(worker->entry, worker) : 0);
	else if (r < 0 && r != -ENOENT && !worker->first)
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

static int start_worker(struct uring *uring, unsigned queue, bool first,
			struct taking *taking)
{
	struct worker *worker = calloc(1, sizeof(*worker));
	int r;

	if (!worker)
		return -ENOMEM;
	worker->uring = uring;
	worker->queue = queue;
	worker->first = first;
	worker->taking = taking;
	r = start_thread(worker);
	if (r < 0)
		free(worker);
	return r;
}

static unsigned threads_of_queue(unsigned queues, unsigned threads)
{
	unsigned most = THREADS_SUM / queues;

	if (most < THREADS_MIN)
		most = THREADS_MIN;
	return threads < most ? threads : most;
}

/* All of them have what they need, or one has not. */
static int start_first(struct uring *uring, unsigned threads)
{
	unsigned i, started = 0;
	int r = 0;

	for (i = 0; i < uring->queues * threads && r == 0; i++) {
		pthread_mutex_lock(&uring->lock);
		uring->preparing++;
		pthread_mutex_unlock(&uring->lock);
		r = start_worker(uring, i % uring->queues, true, NULL);
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

int uring_check(bool survives, struct error *err)
{
	char yes = 'N';
	auto_close int fd = -1;

	if (survives)
		return error_set(err, EOPNOTSUPP,
				 "those of a ring would be lost when the "
				 "server of a union that survives is killed");
	fd = open(PARAMETER, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, EOPNOTSUPP,
				 "this kernel has no FUSE over io_uring");
	if (read(fd, &yes, 1) != 1 || yes != 'Y')
		return error_set(err, EOPNOTSUPP,
				 "it is off in this kernel: " PARAMETER
				 " is 'N'");
	return 0;
}

int uring_start(const struct uring_server *server, unsigned threads,
		struct uring **ret, struct error *err)
{
	struct uring *uring;
	int r, queues = uring_cpus_possible();

	*ret = NULL;
	if (queues < 0)
		return error_set(err, -queues, "count the CPUs: %s",
				 strerror(-queues));
	uring = calloc(1, sizeof(*uring));
	if (uring)
		uring->idle = calloc((size_t)queues, sizeof(*uring->idle));
	if (!uring || !uring->idle) {
		free(uring);
		return error_set(err, ENOMEM, "%s", strerror(ENOMEM));
	}
	uring->server = *server;
	uring->queues = (unsigned)queues;
	pthread_mutex_init(&uring->lock, NULL);
	pthread_cond_init(&uring->change, NULL);
	*ret = uring;
	r = start_first(uring, threads_of_queue(uring->queues, threads));
	return r < 0 ? error_set(err, -r, "prepare io_uring: %s", strerror(-r))
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
	uring_ring_commit(&worker->ring, worker->entry, commit_id);
	(void)uring_ring_flush(&worker->ring); /* else with the next wait */
}

int uring_reply(struct uring *uring, const struct iovec *iov, int count)
{
	const struct fuse_out_header *out = iov[0].iov_base;

	if (!uring || !atomic_load(&uring->begun))
		return -ENOENT;
	if (out->unique)
		return uring_entries_reply(
			&uring->entries, mine ? mine->entry : NULL, iov, count);
	if (mine)
		commit_early(mine);
	return -ENOENT;
}

void uring_more(struct uring *uring)
{
	unsigned i;

	for (i = 0; uring_is_on(uring) && i < uring->queues; i++)
		if (!atomic_load(&uring->idle[i]))
			/* Without, those there are must do. */
			(void)start_worker(uring, i, false, NULL);
}

int uring_answer(struct uring *uring, uint64_t unique, int error)
{
	struct taking taking = {unique, error, 1};
	int queue, r;

	queue = uring ? uring_entries_find(&uring->entries, unique) : -ENOENT;
	if (queue < 0)
		return queue;
	r = start_worker(uring, (unsigned)queue, false, &taking);
	if (r < 0)
		return r;
	pthread_mutex_lock(&uring->lock);
	while (taking.result > 0)
		pthread_cond_wait(&uring->change, &uring->lock);
	pthread_mutex_unlock(&uring->lock);
	return taking.result;
}
