/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/copy/hold.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/uuid_name.h"
#include "blockd/copy/copy_guard.h"
#include "blockd/extent/extent.h"
#include "blockd/local/freeze.h"
#include "blockd/local/loopdev_users.h"

#define ENDED_MAX 256 /* ids that are remembered as over; ours */

struct hold {
	char id[UUID_TEXT_SIZE];
	struct extent **extents; /* owned, with a reference each */
	struct freeze **frozen;  /* owned; NULL for those that need none */
	size_t n;
	int64_t until_ms; /* clock_ms() */
	bool beginning;   /* nobody but who begins it may touch it */
	LIST_ENTRY(hold) in_list;
};

struct holds {
	pthread_mutex_t lock; /* guards all of this */
	pthread_cond_t changed;
	LIST_HEAD(hold_list, hold) list;
	char ended[ENDED_MAX][UUID_TEXT_SIZE]; /* a ring */
	unsigned ended_at;
	bool stopping;
	int frozen_fd; /* STATE/frozen */
	bool watched;  /* the thread that lets them lapse runs */
	pthread_t watcher;
};

static struct hold *find(struct holds *holds, const char *id)
{
	struct hold *hold;

	LIST_FOREACH (hold, &holds->list, in_list)
		if (strcmp(hold->id, id) == 0)
			return hold;
	return NULL;
}

static bool has_ended(const struct holds *holds, const char *id)
{
	for (size_t i = 0; i < ENDED_MAX; i++)
		if (strcmp(holds->ended[i], id) == 0)
			return true;
	return false;
}

/* Out of the list, and its id is over. The lock is held. */
static void hold_take_out(struct holds *holds, struct hold *hold)
{
	LIST_REMOVE(hold, in_list);
	memcpy(holds->ended[holds->ended_at], hold->id, sizeof(hold->id));
	holds->ended_at = (holds->ended_at + 1) % ENDED_MAX;
}

static void hold_free(struct hold *hold)
{
	for (size_t i = 0; i < hold->n; i++)
		extent_unref(hold->extents[i]);
	free(hold->extents);
	free(hold->frozen);
	free(hold);
}

/* Let the extents of a hold go and free it. It is out of the list. */
static void hold_let_go(struct hold *hold, size_t n_held)
{
	for (size_t i = 0; i < n_held; i++)
		gate_release(&hold->extents[i]->gate);
	for (size_t i = 0; i < hold->n; i++)
		if (hold->frozen[i])
			freeze_end(hold->frozen[i]);
	hold_free(hold);
}

/*
 * Tell whether the hold still lasts, also when its lapse has not been seen yet.
 */
static bool lasts(const struct hold *hold)
{
	return hold && !hold->beginning && clock_ms() < hold->until_ms;
}

/* ---- lapsing ---- */

/* The next that is to lapse; NULL: none. The lock is held. */
static struct hold *first_to_lapse(struct holds *holds)
{
	struct hold *hold, *first = NULL;

	LIST_FOREACH (hold, &holds->list, in_list)
		if (!hold->beginning &&
		    (!first || hold->until_ms < first->until_ms))
			first = hold;
	return first;
}

static void lapse(struct holds *holds, struct hold *hold)
{
	hold_take_out(holds, hold);
	pthread_mutex_unlock(&holds->lock);
	log_warning("the hold %s of %zu extents has lapsed: their writes go on",
		    hold->id, hold->n);
	hold_let_go(hold, hold->n);
	pthread_mutex_lock(&holds->lock);
}

static void *watch(void *context)
{
	struct holds *holds = context;

	pthread_mutex_lock(&holds->lock);
	while (!holds->stopping) {
		struct hold *first = first_to_lapse(holds);

		if (first && first->until_ms <= clock_ms()) {
			lapse(holds, first);
		} else if (first) {
			const struct timespec until = {
				.tv_sec = first->until_ms / 1000,
				.tv_nsec = first->until_ms % 1000 * 1000000,
			};

			(void)pthread_cond_timedwait(&holds->changed,
						     &holds->lock, &until);
		} else {
			(void)pthread_cond_wait(&holds->changed, &holds->lock);
		}
	}
	pthread_mutex_unlock(&holds->lock);
	return NULL;
}

/* The lock is held. */
static int need_watcher(struct holds *holds, struct error *err)
{
	int r;

	if (holds->watched)
		return 0;
	r = pthread_create(&holds->watcher, NULL, watch, holds);
	if (r != 0)
		return error_set(err, r, "start a thread: %s", strerror(r));
	holds->watched = true;
	return 0;
}

/* ---- begin ---- */

static bool holds_extent(const struct hold *hold, const struct extent *extent)
{
	for (size_t i = 0; i < hold->n; i++)
		if (hold->extents[i] == extent)
			return true;
	return false;
}

static bool holds_all(const struct hold *hold, struct extent *const *extents,
		      size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!holds_extent(hold, extents[i]))
			return false;
	return true;
}

static struct hold *hold_new(const char *id, struct extent *const *extents,
			     size_t n)
{
	struct hold *hold = calloc(1, sizeof(*hold));

	if (!hold)
		return NULL;
	hold->extents = calloc(n, sizeof(struct extent *));
	hold->frozen = calloc(n, sizeof(struct freeze *));
	if (!hold->extents || !hold->frozen) {
		hold_free(hold);
		return NULL;
	}
	(void)snprintf(hold->id, sizeof(hold->id), "%s", id);
	for (size_t i = 0; i < n; i++)
		hold->extents[i] = extent_ref(extents[i]);
	hold->n = n;
	hold->beginning = true;
	return hold;
}

/* One of that name is there: begin its time anew. The lock is held. */
static int hold_renew(struct holds *holds, struct hold *hold,
		      struct extent *const *extents, size_t n,
		      unsigned timeout_ms, struct error *err)
{
	if (hold->beginning)
		return error_set(err, EAGAIN, "the hold %s is just beginning",
				 hold->id);
	if (hold->n != n || !holds_all(hold, extents, n))
		return error_set(err, EEXIST, "the hold %s is of other extents",
				 hold->id);
	hold->until_ms = clock_ms() + timeout_ms;
	for (size_t i = 0; i < n; i++)
		if (hold->frozen[i])
			freeze_extend(hold->frozen[i], hold->until_ms);
	(void)pthread_cond_signal(&holds->changed);
	return 0;
}

/* 1: @fresh is in the list; the lock is held. */
static int hold_enlist(struct holds *holds, struct hold *fresh,
		       unsigned timeout_ms, struct error *err)
{
	struct hold *there = find(holds, fresh->id);
	int r;

	if (there && (there->beginning || lasts(there)))
		return hold_renew(holds, there, fresh->extents, fresh->n,
				  timeout_ms, err);
	if (there || has_ended(holds, fresh->id))
		return error_set(err, ESTALE, "the hold %s is over", fresh->id);
	r = need_watcher(holds, err);
	if (r < 0)
		return r;
	fresh->until_ms = clock_ms() + timeout_ms;
	LIST_INSERT_HEAD(&holds->list, fresh, in_list);
	return 1;
}

/*
 * A local device bypasses the gate: freeze the file system on it. A device
 * without one can't be held, unless @alone.
 */
static int hold_local(struct holds *holds, struct hold *hold, size_t i,
		      const struct loopdev_users *local, bool alone,
		      struct error *err)
{
	const struct extent *extent = hold->extents[i];
	char device[LOCAL_NAME_MAX];
	int r = copy_guard_find_writer(extent, local, device, err);

	if (r < 1)
		return r;
	r = freeze_begin(device, holds->frozen_fd, hold->until_ms,
			 &hold->frozen[i], err);
	if (alone && (r == -ENOENT || r == -EBUSY || r == -EOPNOTSUPP))
		return 0; /* of one instant it is all the same */
	if (r == -ENOENT)
		return error_set(err, EBUSY,
				 "extent '%s' is written by /dev/%s on this "
				 "node, which has no file system that could be "
				 "frozen",
				 extent->record.name, device);
	if (r < 0)
		(void)error_prefix(err, "extent '%s': ", extent->record.name);
	return r;
}

static int hold_all_local(struct holds *holds, struct hold *hold, bool alone,
			  struct error *err)
{
	struct loopdev_users local;
	int r = loopdev_users_scan(&local, err);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < hold->n; i++)
		r = hold_local(holds, hold, i, &local, alone, err);
	loopdev_users_done(&local);
	return r;
}

/* What takes longest first: a frozen file system is written out before. */
static int hold_all(struct holds *holds, struct hold *hold, bool alone,
		    size_t *n_held, struct error *err)
{
	int r = hold_all_local(holds, hold, alone, err);

	*n_held = 0;
	if (r < 0)
		return r;
	for (*n_held = 0; r == 0 && *n_held < hold->n; *n_held += r == 0)
		r = gate_hold(&hold->extents[*n_held]->gate, hold->until_ms);
	if (r < 0)
		return error_set(err, -r,
				 "writes to extent '%s' that are under way did "
				 "not end in time",
				 hold->extents[*n_held]->record.name);
	return 0;
}

int holds_begin(struct holds *holds, const char *id,
		struct extent *const *extents, size_t n, unsigned timeout_ms,
		bool alone, struct error *err)
{
	struct hold *hold = hold_new(id, extents, n);
	size_t n_held;
	int r;

	if (!hold)
		return error_set(err, ENOMEM, "out of memory");
	pthread_mutex_lock(&holds->lock);
	r = hold_enlist(holds, hold, timeout_ms, err);
	pthread_mutex_unlock(&holds->lock);
	if (r < 1) {
		hold_free(hold);
		return r;
	}
	r = hold_all(holds, hold, alone, &n_held, err);
	pthread_mutex_lock(&holds->lock);
	hold->beginning = false;
	if (r < 0)
		LIST_REMOVE(hold, in_list);
	(void)pthread_cond_signal(&holds->changed);
	pthread_mutex_unlock(&holds->lock);
	if (r < 0)
		hold_let_go(hold, n_held);
	return r;
}

/* ---- end ---- */

bool holds_end(struct holds *holds, const char *id)
{
	struct hold *hold;

	pthread_mutex_lock(&holds->lock);
	hold = find(holds, id);
	if (!lasts(hold))
		hold = NULL;
	if (hold)
		hold_take_out(holds, hold);
	pthread_mutex_unlock(&holds->lock);
	if (!hold)
		return false;
	hold_let_go(hold, hold->n);
	return true;
}

void holds_end_all(struct holds *holds)
{
	struct hold *hold;

	pthread_mutex_lock(&holds->lock);
	while ((hold = first_to_lapse(holds))) {
		hold_take_out(holds, hold);
		hold_let_go(hold, hold->n);
	}
	pthread_mutex_unlock(&holds->lock);
}

int holds_check(struct holds *holds, const char *id,
		struct extent *const *extents, size_t n, struct error *err)
{
	const struct hold *hold;
	int r = 0;

	pthread_mutex_lock(&holds->lock);
	hold = find(holds, id);
	if (!lasts(hold))
		r = error_set(err, ESTALE,
			      "there is no hold %.40s, or it has lapsed", id);
	else if (!holds_all(hold, extents, n))
		r = error_set(err, ESTALE,
			      "the hold %s does not have all these extents",
			      id);
	pthread_mutex_unlock(&holds->lock);
	return r;
}

/* ---- life ---- */

static int open_notes(const char *state_dir, int *ret_fd, struct error *err)
{
	char path[PATH_MAX];
	int fd, r;

	if ((size_t)snprintf(path, sizeof(path), "%s/frozen", state_dir) >=
	    sizeof(path))
		return error_set(err, ENAMETOOLONG, "'%.256s...' is too long",
				 state_dir);
	r = dir_make(path, 0700, err);
	if (r < 0)
		return r;
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return error_set(err, errno, "open '%s': %s", path,
				 strerror(errno));
	freeze_thaw_left(fd);
	*ret_fd = fd;
	return 0;
}

int holds_new(const char *state_dir, struct holds **ret, struct error *err)
{
	struct holds *holds = calloc(1, sizeof(*holds));
	pthread_condattr_t attributes;

	int r;

	if (!holds)
		return error_set(err, ENOMEM, "out of memory");
	r = open_notes(state_dir, &holds->frozen_fd, err);
	if (r < 0) {
		free(holds);
		return r;
	}
	LIST_INIT(&holds->list);
	/* These can't fail on Linux. */
	(void)pthread_mutex_init(&holds->lock, NULL);
	(void)pthread_condattr_init(&attributes);
	(void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&holds->changed, &attributes);
	(void)pthread_condattr_destroy(&attributes);
	*ret = holds;
	return 0;
}

void holds_free(struct holds *holds)
{
	struct hold *hold;

	if (!holds)
		return;
	pthread_mutex_lock(&holds->lock);
	holds->stopping = true;
	(void)pthread_cond_signal(&holds->changed);
	pthread_mutex_unlock(&holds->lock);
	if (holds->watched)
		(void)pthread_join(holds->watcher, NULL);
	while ((hold = LIST_FIRST(&holds->list))) {
		LIST_REMOVE(hold, in_list);
		hold_let_go(hold, hold->n);
	}
	fd_close(holds->frozen_fd);
	(void)pthread_cond_destroy(&holds->changed);
	(void)pthread_mutex_destroy(&holds->lock);
	free(holds);
}
