/* SPDX-License-Identifier: Apache-2.0 */
#include "union/uring.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "union/uring_cpus.h"
#include "union/uring_worker.h"

#define PARAMETER "/sys/module/fuse/parameters/enable_uring"

/* Those that are used from the beginning, and what others had used. */
static bool is_first(const struct uring *uring, unsigned number)
{
	const struct uring_kept *kept = uring->kept;

	return !kept || number < kept->header->first ||
	       atomic_load(&uring_kept_place(kept, number).record->used);
}

static int start_one(struct uring *uring, unsigned number)
{
	const struct uring_job job = {
		.queue = number % uring->queues,
		.first = true,
		.kept = uring->kept,
		.number = number,
	};

	pthread_mutex_lock(&uring->lock);
	uring->preparing++;
	pthread_mutex_unlock(&uring->lock);
	return uring_worker_start(uring, &job);
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
	uring->stage = r < 0 ? URING_OFF : URING_PREPARED;
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
	prepared = uring->stage == URING_PREPARED;
	pthread_mutex_unlock(&uring->lock);
	return prepared;
}

void uring_begin(struct uring *uring, bool wanted)
{
	if (!uring)
		return;
	pthread_mutex_lock(&uring->lock);
	if (uring->stage == URING_PREPARED) {
		uring->stage = wanted ? URING_ON : URING_OFF;
		atomic_store(&uring->begun, wanted);
		pthread_cond_broadcast(&uring->change);
	}
	pthread_mutex_unlock(&uring->lock);
}

bool uring_is_on(const struct uring *uring)
{
	return uring && atomic_load(&uring->on);
}

int uring_reply(struct uring *uring, const struct iovec *iov, int count)
{
	const struct fuse_out_header *out = iov[0].iov_base;
	struct uring_entry *mine = uring_worker_entry();
	int r;

	if (!uring || !atomic_load(&uring->begun))
		return -ENOENT;
	if (!out->unique) {
		if (mine)
			uring_worker_commit_early();
		return -ENOENT;
	}
	r = uring_entries_reply(&uring->entries, mine, iov, count);
	if (mine && r != -ENOENT)
		uring_worker_commit_kept();
	return r;
}

/* One that nobody uses, of that queue. False: all are used. */
static bool find_spare(const struct uring *uring, struct uring_job *job)
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
	struct uring_job job = {.queue = queue};

	if (uring->kept && !find_spare(uring, &job))
		return;
	if (uring_worker_start(uring, &job) < 0 && job.kept)
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
	struct uring_taking taking = {unique, error, 1};
	struct uring_job job = {.taking = &taking};
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
	r = uring_worker_start(uring, &job);
	if (r < 0)
		return r;
	pthread_mutex_lock(&uring->lock);
	while (taking.result > 0)
		pthread_cond_wait(&uring->change, &uring->lock);
	pthread_mutex_unlock(&uring->lock);
	return taking.result;
}
