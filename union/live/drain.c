/* SPDX-License-Identifier: Apache-2.0 */
#include "union/live/drain.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "union/branch/branch_work.h"
#include "union/branch/dir_fd.h"
#include "union/branch/intent.h"
#include "union/change/act_as.h"
#include "union/live/remove_branch.h"
#include "union/migrate/drain_dir.h"
#include "union/migrate/drain_walk.h"
#include "union/sys/copy_data.h"

#define MARK     BRANCH_WORK_DIR "/draining" /* holds the rate, as text */
#define SLICE_MS 50 /* of waiting, before the next look whether to stop */

struct drain {
	struct drain_progress progress; /* guarded by drains.lock */
	bool was_nc;                    /* flag BRANCH_NC, to go back to */
	bool settled; /* no request opens a file as undrained */
};

struct drains {
	struct unionfs *fs;
	const char *mountpoint;
	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t change;
	bool started, ending;
	bool working; /* without the lock */
	pthread_t thread;
	struct drain *items[BRANCH_MAX]; /* by branch; NULL: never drained */
};

/* The drain that the thread works on. */
struct drain_work {
	struct drains *drains;
	struct branch *branch;
	struct drain *drain;
	int64_t start_ms; /* of the pass, for the rate */
	uint64_t bytes;   /* since then */
	uint64_t moved;   /* files, in this pass */
};

struct drains *drains_new(struct unionfs *fs, const char *mountpoint)
{
	struct drains *drains = calloc(1, sizeof(*drains));
	pthread_condattr_t attr;

	if (!drains)
		return NULL;
	drains->fs = fs;
	drains->mountpoint = mountpoint;
	pthread_mutex_init(&drains->lock, NULL);
	pthread_condattr_init(&attr);
	(void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC); /* is one */
	pthread_cond_init(&drains->change, &attr);
	pthread_condattr_destroy(&attr);
	return drains;
}

/*
 * Does the drain go on? Nothing leaves a branch that is read-only. With the
 * lock held.
 */
static bool goes_on(const struct branch *branch, const struct drain *drain)
{
	return drain && drain->progress.draining &&
	       !(branch->flags & BRANCH_RO);
}

/* With the lock held. */
static void wait_ms(struct drains *drains, int ms)
{
	struct timespec at = clock_deadline(ms);

	(void)pthread_cond_timedwait(&drains->change, &drains->lock, &at);
}

static bool drain_is_stopped(void *context)
{
	struct drain_work *work = context;
	bool stopped;

	pthread_mutex_lock(&work->drains->lock);
	stopped = work->drains->ending || !goes_on(work->branch, work->drain);
	pthread_mutex_unlock(&work->drains->lock);
	return stopped;
}

/* Wait as long as the rate demands after @bytes more. */
static int keep_rate(void *context, uint64_t bytes)
{
	struct drain_work *work = context;
	struct drains *drains = work->drains;
	uint64_t rate;
	int64_t due;
	int r = 0;

	pthread_mutex_lock(&drains->lock);
	work->bytes += bytes;
	for (;;) {
		rate = work->drain->progress.rate;
		if (drains->ending || !goes_on(work->branch, work->drain)) {
			r = -ECANCELED;
			break;
		}
		due = rate ? (int64_t)((double)work->bytes * 1000 /
				       (double)rate)
			   : 0;
		if (clock_ms() - work->start_ms >= due)
			break;
		wait_ms(drains, SLICE_MS);
	}
	pthread_mutex_unlock(&drains->lock);
	return r;
}

static void less(uint64_t *from, uint64_t by)
{
	*from -= by < *from ? by : *from;
}

static void drain_met(void *context, const char *name, uint64_t bytes, int r)
{
	struct drain_work *work = context;
	struct drain_progress *p = &work->drain->progress;
	char quoted[NAME_MAX + 3];

	pthread_mutex_lock(&work->drains->lock);
	if (r == 0) {
		work->moved++;
		p->files_moved++;
		p->bytes_moved += bytes;
		less(&p->files_left, 1);
		less(&p->bytes_left, bytes);
	} else if (r == -EBUSY || r == -ESTALE) {
		p->busy++;
	} else {
		p->failed++;
		(void)snprintf(
			p->error, sizeof(p->error), "%.180s: %s",
			log_quote(quoted, sizeof(quoted), name, strlen(name)),
			r == -EEXIST ? "another branch has the name"
				     : strerror(-r));
	}
	pthread_mutex_unlock(&work->drains->lock);
}

static void begin_pass(struct drain_work *work)
{
	struct drain_progress *p = &work->drain->progress;
	uint64_t files = 0, bytes = 0;
	int r = drain_count(work->branch, &files, &bytes);

	pthread_mutex_lock(&work->drains->lock);
	p->files_left = files;
	p->bytes_left = bytes;
	p->busy = p->failed = 0;
	p->error[0] = '\0';
	if (r < 0)
		(void)snprintf(p->error, sizeof(p->error), "%s", strerror(-r));
	pthread_mutex_unlock(&work->drains->lock);
	work->start_ms = clock_ms();
	work->bytes = work->moved = 0;
}

/* Detach the branch. With fs->branch_changes: not while the drain is told to
 * stop. */
static int remove_drained(struct drain_work *work, struct error *err)
{
	bool draining;

	pthread_mutex_lock(&work->drains->lock);
	draining = goes_on(work->branch, work->drain);
	pthread_mutex_unlock(&work->drains->lock);
	if (!draining)
		return error_set(err, ECANCELED, "it was told to stop");
	return union_remove_branch(work->drains->fs, work->branch, err);
}

/* Detach the branch, on which nothing is left. False: try again. */
static bool detach_branch(struct drain_work *work)
{
	struct drains *drains = work->drains;
	struct error err = {0};
	int r;

	pthread_mutex_lock(&drains->fs->branch_changes);
	r = remove_drained(work, &err);
	pthread_mutex_lock(&drains->lock);
	if (r == 0)
		work->drain->progress.draining = false;
	else
		(void)snprintf(work->drain->progress.error, DRAIN_ERROR_MAX,
			       "%.*s", DRAIN_ERROR_MAX - 1, error_text(&err));
	pthread_mutex_unlock(&drains->lock);
	pthread_mutex_unlock(&drains->fs->branch_changes);
	if (r == 0)
		log_info("'%s': branch %u, '%s', was drained and detached",
			 drains->mountpoint, work->branch->id,
			 work->branch->path);
	return r == 0;
}

/* Do one pass. True: what is left needs a pause before the next. */
static bool pass(struct drains *drains, unsigned id)
{
	struct copy_pace pace = {.step = keep_rate};
	struct drain_work work = {.drains = drains,
				  .branch = drains->fs->branches.items[id],
				  .drain = drains->items[id]};
	struct drain_walk walk = {.fs = drains->fs,
				  .branch = work.branch,
				  .pace = &pace,
				  .stopped = drain_is_stopped,
				  .met = drain_met,
				  .context = &work};
	int64_t left;

	pace.context = &work;
	/* A file opened before the flag was there may be passed through. It is
	 * counted as open only when that request has ended. */
	if (!work.drain->settled &&
	    migrate_lock_drain(&drains->fs->migrate_lock,
			       LIVE_REMOVE_PATIENCE_MS) < 0)
		return true;
	work.drain->settled = true;
	begin_pass(&work);
	left = drain_walk(&walk);
	if (left == 0)
		return !detach_branch(&work);
	if (left < 0 && left != -ECANCELED) {
		pthread_mutex_lock(&drains->lock);
		(void)snprintf(work.drain->progress.error, DRAIN_ERROR_MAX,
			       "%s", strerror((int)-left));
		pthread_mutex_unlock(&drains->lock);
	}
	return !work.moved;
}

static void *drain_main(void *context)
{
	struct drains *drains = context;
	unsigned id;
	bool any, pause;
	int r = act_as_thread_setup();

	act_as_thread_unlimited();
	if (r < 0)
		log_warning("'%s': files that are moved may get a wrong mode "
			    "for a moment",
			    drains->mountpoint);
	pthread_mutex_lock(&drains->lock);
	while (!drains->ending) {
		any = false;
		pause = true;
		for (id = 0; id < BRANCH_MAX && !drains->ending; id++) {
			if (!drains->items[id] ||
			    !goes_on(drains->fs->branches.items[id],
				     drains->items[id]))
				continue;
			any = true;
			drains->working = true;
			pthread_mutex_unlock(&drains->lock);
			dir_fd_changes_begin();
			pause = pass(drains, id) && pause;
			dir_fd_changes_end();
			pthread_mutex_lock(&drains->lock);
			drains->working = false;
			pthread_cond_broadcast(&drains->change);
		}
		if (drains->ending)
			break;
		if (!any)
			pthread_cond_wait(&drains->change, &drains->lock);
		else if (pause)
			wait_ms(drains, DRAIN_PAUSE_MS);
	}
	pthread_mutex_unlock(&drains->lock);
	return NULL;
}

void drains_pause(struct drains *drains)
{
	if (!drains)
		return;
	pthread_mutex_lock(&drains->lock);
	while (drains->working)
		pthread_cond_wait(&drains->change, &drains->lock);
	pthread_mutex_unlock(&drains->lock);
}

void drains_free(struct drains *drains)
{
	unsigned i;

	if (!drains)
		return;
	pthread_mutex_lock(&drains->lock);
	drains->ending = true;
	pthread_cond_broadcast(&drains->change);
	pthread_mutex_unlock(&drains->lock);
	if (drains->started)
		(void)pthread_join(drains->thread, NULL); /* is ours */
	for (i = 0; i < BRANCH_MAX; i++)
		free(drains->items[i]);
	pthread_cond_destroy(&drains->change);
	pthread_mutex_destroy(&drains->lock);
	free(drains);
}

/* Have a thread, and a place for the branch. With the lock held. */
static int make_ready(struct drains *drains, unsigned id)
{
	int r = 0;

	if (!drains->items[id])
		drains->items[id] = calloc(1, sizeof(struct drain));
	if (!drains->items[id])
		return -ENOMEM;
	if (!drains->started)
		r = -pthread_create(&drains->thread, NULL, drain_main, drains);
	drains->started = r == 0;
	return r;
}

/* Remove the mark after the error @r, unless the drain is from before. */
static int forget_mark(const struct branch *branch, int r)
{
	if (!(branch->flags & BRANCH_DRAINING))
		(void)unlinkat(branch->root_fd, MARK, 0); /* @r counts */
	return r;
}

/* Write durably what the next mount finds: the drain as it is now. */
static int write_mark(const struct branch *branch, uint64_t rate)
{
	auto_close int work = branch_work_dir(branch), fd = -1;
	char text[32];
	int n = snprintf(text, sizeof(text), "%llu\n",
			 (unsigned long long)rate);

	if (work < 0)
		return work;
	fd = openat(branch->root_fd, MARK,
		    O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC,
		    0600);
	if (fd < 0)
		return -errno;
	/* On a full branch the mark stays empty: then no rate is noted. */
	if (write(fd, text, (size_t)n) < 0 && errno != ENOSPC &&
	    errno != EDQUOT)
		return forget_mark(branch, -errno);
	if (fsync(fd) < 0)
		return forget_mark(branch, -errno);
	return intent_sync_dir(work);
}

static int set_draining(struct drains *drains, struct branch *branch,
			uint64_t rate)
{
	struct drain *drain;
	int r;

	pthread_mutex_lock(&drains->lock);
	r = make_ready(drains, branch->id);
	if (r == 0) {
		drain = drains->items[branch->id];
		if (!drain->progress.draining) {
			memset(drain, 0, sizeof(*drain));
			drain->was_nc = branch->flags & BRANCH_NC;
		}
		drain->progress.draining = true;
		drain->progress.rate = rate;
		atomic_fetch_or(&branch->flags, BRANCH_NC | BRANCH_DRAINING);
		pthread_cond_broadcast(&drains->change);
	}
	pthread_mutex_unlock(&drains->lock);
	return r;
}

int drain_start(struct drains *drains, struct branch *branch, uint64_t rate,
		struct error *err)
{
	struct unionfs *fs = drains->fs;
	int r;

	if (branch->flags & BRANCH_RO)
		return error_set(err, EROFS,
				 "branch '%s' is read-only: nothing leaves it",
				 branch->path);
	if (!drain_target(fs, branch, 0, false, 0))
		return error_set(err, ENOTEMPTY,
				 "no other branch takes the files of '%s'",
				 branch->path);
	r = write_mark(branch, rate);
	if (r == 0)
		r = set_draining(drains, branch, rate);
	return r < 0 ? error_set(err, -r, "drain branch '%s': %s", branch->path,
				 strerror(-r))
		     : 0;
}

int drain_stop(struct drains *drains, struct branch *branch, struct error *err)
{
	struct drain *drain;
	bool was;

	pthread_mutex_lock(&drains->lock);
	drain = drains->items[branch->id];
	was = drain && drain->progress.draining;
	if (was) {
		drain->progress.draining = false;
		atomic_fetch_and(
			&branch->flags,
			~(BRANCH_DRAINING | (drain->was_nc ? 0 : BRANCH_NC)));
		pthread_cond_broadcast(&drains->change);
	}
	pthread_mutex_unlock(&drains->lock);
	if (!was)
		return error_set(err, EINVAL,
				 "branch '%s' is not being drained",
				 branch->path);
	if (unlinkat(branch->root_fd, MARK, 0) < 0 && errno != ENOENT)
		return error_set(err, errno, "branch '%s': remove '%s': %s",
				 branch->path, MARK, strerror(errno));
	return 0;
}

void drain_get(struct drains *drains, const struct branch *branch,
	       struct drain_progress *ret)
{
	memset(ret, 0, sizeof(*ret));
	pthread_mutex_lock(&drains->lock);
	if (drains->items[branch->id])
		*ret = drains->items[branch->id]->progress;
	pthread_mutex_unlock(&drains->lock);
}

static void resume(struct drains *drains, struct branch *branch)
{
	auto_close int fd = openat(branch->root_fd, MARK,
				   O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	char text[32] = "";
	int r;

	if (fd < 0)
		return;
	/* An empty mark was cut short: then there is no rate. */
	if (read(fd, text, sizeof(text) - 1) < 0)
		return;
	r = set_draining(drains, branch, strtoull(text, NULL, 10));
	if (r < 0)
		log_warning("branch '%s' was being drained, and is not now: %s",
			    branch->path, strerror(-r));
	else
		log_info("'%s': the drain of branch %u, '%s', continues",
			 drains->mountpoint, branch->id, branch->path);
}

void drains_resume(struct drains *drains)
{
	unsigned i;

	for (i = 0; i < drains->fs->branches.count; i++)
		if (!(drains->fs->branches.items[i]->flags & BRANCH_RO))
			resume(drains, drains->fs->branches.items[i]);
}
