/* SPDX-License-Identifier: Apache-2.0 */
#include "blockd/copy/quiesce.h"

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
#include "base/dm/mapper.h"
#include "base/file.h"
#include "base/log.h"
#include "base/uuid_name.h"
#include "blockd/copy/copy_guard.h"
#include "blockd/extent/extent.h"
#include "blockd/extent/node_tables.h"
#include "blockd/local/freeze.h"
#include "blockd/local/loopdev_users.h"

#define ENDED_MAX 256 /* ids that are remembered as over; ours */

struct quiesce {
	char id[UUID_TEXT_SIZE];
	struct extent **extents;      /* owned, with a reference each */
	struct freeze **frozen;       /* owned; NULL for those that need none */
	struct freeze *above;         /* owned; the volume's device, or NULL */
	char device[MAPPER_NAME_MAX]; /* that one's UUID; "": none */
	bool *held;                   /* owned; those that their pool holds */
	size_t n;
	size_t n_closed;  /* gates, of the first ones */
	int64_t until_ms; /* clock_ms() */
	bool beginning;   /* nobody but who begins it may touch it */
	LIST_ENTRY(quiesce) in_list;
};

struct quiesces {
	pthread_mutex_t lock; /* guards all of this */
	pthread_cond_t changed;
	LIST_HEAD(quiesce_list, quiesce) list;
	char ended[ENDED_MAX][UUID_TEXT_SIZE]; /* a ring */
	unsigned ended_at;
	bool stopping;
	int frozen_fd; /* STATE/frozen */
	bool watched;  /* the thread that lets them lapse runs */
	pthread_t watcher;
};

static struct quiesce *find(struct quiesces *quiesces, const char *id)
{
	struct quiesce *quiesce;

	LIST_FOREACH (quiesce, &quiesces->list, in_list)
		if (strcmp(quiesce->id, id) == 0)
			return quiesce;
	return NULL;
}

static bool has_ended(const struct quiesces *quiesces, const char *id)
{
	for (size_t i = 0; i < ENDED_MAX; i++)
		if (strcmp(quiesces->ended[i], id) == 0)
			return true;
	return false;
}

/* Out of the list, and its id is over. The lock is held. */
static void quiesce_take_out(struct quiesces *quiesces, struct quiesce *quiesce)
{
	LIST_REMOVE(quiesce, in_list);
	memcpy(quiesces->ended[quiesces->ended_at], quiesce->id,
	       sizeof(quiesce->id));
	quiesces->ended_at = (quiesces->ended_at + 1) % ENDED_MAX;
}

static void quiesce_free(struct quiesce *quiesce)
{
	for (size_t i = 0; i < quiesce->n; i++)
		extent_unref(quiesce->extents[i]);
	free(quiesce->extents);
	free(quiesce->frozen);
	free(quiesce->held);
	free(quiesce);
}

/* An extent that is held has a user, so that it and its pool stay. */
static bool extent_release(const struct extent *extent)
{
	struct pool *pool = extent->pool->pool;

	return pool->ops->release(pool, extent->record.name) == 0;
}

/*
 * Let the extents of a quiesce go and free it. It is out of the list. False:
 * some were not held all the time.
 */
static bool quiesce_release(struct quiesce *quiesce)
{
	bool lasted = true;

	for (size_t i = 0; i < quiesce->n_closed; i++)
		gate_open(&quiesce->extents[i]->gate);
	for (size_t i = 0; i < quiesce->n; i++) {
		if (quiesce->held[i] && !extent_release(quiesce->extents[i]))
			lasted = false;
		if (quiesce->frozen[i] && !freeze_end(quiesce->frozen[i]))
			lasted = false;
	}
	/* A thaw writes to what lies below. */
	if (quiesce->above && !freeze_end(quiesce->above))
		lasted = false;
	quiesce_free(quiesce);
	return lasted;
}

/*
 * Tell whether the quiesce still lasts, also when its lapse has not been seen
 * yet.
 */
static bool lasts(const struct quiesce *quiesce)
{
	return quiesce && !quiesce->beginning && clock_ms() < quiesce->until_ms;
}

/* ---- lapsing ---- */

/* The next that is to lapse; NULL: none. The lock is held. */
static struct quiesce *first_to_lapse(struct quiesces *quiesces)
{
	struct quiesce *quiesce, *first = NULL;

	LIST_FOREACH (quiesce, &quiesces->list, in_list)
		if (!quiesce->beginning &&
		    (!first || quiesce->until_ms < first->until_ms))
			first = quiesce;
	return first;
}

static void lapse(struct quiesces *quiesces, struct quiesce *quiesce)
{
	quiesce_take_out(quiesces, quiesce);
	pthread_mutex_unlock(&quiesces->lock);
	log_warning(
		"the quiesce %s of %zu extents%s%s has lapsed: their writes go "
		"on",
		quiesce->id, quiesce->n, quiesce->device[0] ? " and " : "",
		quiesce->device);
	(void)quiesce_release(quiesce);
	pthread_mutex_lock(&quiesces->lock);
}

static void *watch(void *context)
{
	struct quiesces *quiesces = context;

	pthread_mutex_lock(&quiesces->lock);
	while (!quiesces->stopping) {
		struct quiesce *first = first_to_lapse(quiesces);

		if (first && first->until_ms <= clock_ms()) {
			lapse(quiesces, first);
		} else if (first) {
			const struct timespec until = {
				.tv_sec = first->until_ms / 1000,
				.tv_nsec = first->until_ms % 1000 * 1000000,
			};

			(void)pthread_cond_timedwait(&quiesces->changed,
						     &quiesces->lock, &until);
		} else {
			(void)pthread_cond_wait(&quiesces->changed,
						&quiesces->lock);
		}
	}
	pthread_mutex_unlock(&quiesces->lock);
	return NULL;
}

/* The lock is held. */
static int need_watcher(struct quiesces *quiesces, struct error *err)
{
	int r;

	if (quiesces->watched)
		return 0;
	r = pthread_create(&quiesces->watcher, NULL, watch, quiesces);
	if (r != 0)
		return error_set(err, r, "start a thread: %s", strerror(r));
	quiesces->watched = true;
	return 0;
}

/* ---- begin ---- */

static bool quiesce_has(const struct quiesce *quiesce,
			const struct extent *extent)
{
	for (size_t i = 0; i < quiesce->n; i++)
		if (quiesce->extents[i] == extent)
			return true;
	return false;
}

static bool quiesce_has_all(const struct quiesce *quiesce,
			    struct extent *const *extents, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!quiesce_has(quiesce, extents[i]))
			return false;
	return true;
}

static struct quiesce *quiesce_new(const char *id,
				   struct extent *const *extents, size_t n,
				   const char *device)
{
	struct quiesce *quiesce = calloc(1, sizeof(*quiesce));

	if (!quiesce)
		return NULL;
	quiesce->extents = calloc(n + 1, sizeof(struct extent *));
	quiesce->frozen = calloc(n + 1, sizeof(struct freeze *));
	quiesce->held = calloc(n + 1, sizeof(*quiesce->held));
	if (!quiesce->extents || !quiesce->frozen || !quiesce->held) {
		quiesce_free(quiesce);
		return NULL;
	}
	(void)snprintf(quiesce->id, sizeof(quiesce->id), "%s", id);
	(void)snprintf(quiesce->device, sizeof(quiesce->device), "%s", device);
	for (size_t i = 0; i < n; i++)
		quiesce->extents[i] = extent_ref(extents[i]);
	quiesce->n = n;
	quiesce->beginning = true;
	return quiesce;
}

/* One of that name is there: begin its time anew. The lock is held. */
static int quiesce_renew(struct quiesces *quiesces, struct quiesce *quiesce,
			 const struct quiesce *asked, unsigned timeout_ms,
			 struct error *err)
{
	if (quiesce->beginning)
		return error_set(err, EAGAIN,
				 "the quiesce %s is just beginning",
				 quiesce->id);
	if (quiesce->n != asked->n ||
	    !quiesce_has_all(quiesce, asked->extents, asked->n) ||
	    strcmp(quiesce->device, asked->device) != 0)
		return error_set(err, EEXIST,
				 "the quiesce %s is of other extents, or of "
				 "another device",
				 quiesce->id);
	quiesce->until_ms = clock_ms() + timeout_ms;
	for (size_t i = 0; i < quiesce->n; i++)
		if (quiesce->frozen[i])
			freeze_extend(quiesce->frozen[i], quiesce->until_ms);
	if (quiesce->above)
		freeze_extend(quiesce->above, quiesce->until_ms);
	(void)pthread_cond_signal(&quiesces->changed);
	return 0;
}

/* 1: @fresh is in the list; the lock is held. */
static int quiesce_enlist(struct quiesces *quiesces, struct quiesce *fresh,
			  unsigned timeout_ms, struct error *err)
{
	struct quiesce *there = find(quiesces, fresh->id);
	int r;

	if (there && (there->beginning || lasts(there)))
		return quiesce_renew(quiesces, there, fresh, timeout_ms, err);
	if (there || has_ended(quiesces, fresh->id))
		return error_set(err, ESTALE, "the quiesce %s is over",
				 fresh->id);
	r = need_watcher(quiesces, err);
	if (r < 0)
		return r;
	fresh->until_ms = clock_ms() + timeout_ms;
	LIST_INSERT_HEAD(&quiesces->list, fresh, in_list);
	return 1;
}

/* Two extents may lie below one device. */
static bool quiesce_has_frozen(const struct quiesce *quiesce,
			       const char *device)
{
	for (size_t i = 0; i < quiesce->n; i++)
		if (quiesce->frozen[i] &&
		    freeze_covers(quiesce->frozen[i], device))
			return true;
	return false;
}

/*
 * A local device bypasses the gate: freeze it. One without a file system or a
 * mapper device of ours can't be held, unless @alone.
 */
static int quiesce_local(struct quiesces *quiesces, struct quiesce *quiesce,
			 size_t i, const struct loopdev_users *local,
			 bool alone, struct error *err)
{
	const struct extent *extent = quiesce->extents[i];
	char device[LOCAL_NAME_MAX];
	int r = copy_guard_find_writer(extent, local, device, err);

	if (r < 1 || quiesce_has_frozen(quiesce, device))
		return r < 0 ? r : 0;
	r = freeze_begin(device, quiesces->frozen_fd, quiesce->until_ms,
			 &quiesce->frozen[i], err);
	if (alone && (r == -ENOENT || r == -EBUSY || r == -EOPNOTSUPP))
		return 0; /* of one instant it is all the same */
	if (r == -ENOENT)
		return error_set(err, EBUSY,
				 "extent '%s' is written by /dev/%s on this "
				 "node, which has no file system that could be "
				 "frozen",
				 extent->record.name, device);
	if (r < 0)
		(void)error_prefix(err, r,
				   "extent '%s': ", extent->record.name);
	return r;
}

static int quiesce_all_local(struct quiesces *quiesces, struct quiesce *quiesce,
			     bool alone, struct error *err)
{
	struct loopdev_users local;
	int r = loopdev_users_scan(&local, err);

	if (r < 0)
		return r;
	for (size_t i = 0; r == 0 && i < quiesce->n; i++)
		r = quiesce_local(quiesces, quiesce, i, &local, alone, err);
	loopdev_users_done(&local);
	return r;
}

/* Devices that do not pass the gate; what they wait for passes it. */
static int quiesce_hold(struct quiesce *quiesce, struct error *err)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < quiesce->n; i++) {
		const struct extent *extent = quiesce->extents[i];
		struct pool *pool = extent->pool->pool;

		r = pool->ops->hold
			    ? pool->ops->hold(pool, extent->record.name, err)
			    : 0;
		quiesce->held[i] = r == 1;
		if (r < 0)
			(void)error_prefix(
				err, r, "extent '%s': ", extent->record.name);
	}
	return r < 0 ? r : 0;
}

/* What takes longest first: a frozen file system is written out before. */
static int quiesce_all(struct quiesces *quiesces, struct quiesce *quiesce,
		       bool alone, struct error *err)
{
	int r = 0;

	if (quiesce->device[0])
		r = freeze_begin_mapper(quiesce->device, quiesces->frozen_fd,
					quiesce->until_ms, &quiesce->above,
					err);
	if (r == 0)
		r = quiesce_all_local(quiesces, quiesce, alone, err);
	if (r == 0)
		r = quiesce_hold(quiesce, err);
	if (r < 0)
		return r;
	for (; r == 0 && quiesce->n_closed < quiesce->n;
	     quiesce->n_closed += r == 0)
		r = gate_close(&quiesce->extents[quiesce->n_closed]->gate,
			       quiesce->until_ms);
	if (r < 0)
		return error_set(
			err, -r,
			"writes to extent '%s' that are under way did "
			"not end in time",
			quiesce->extents[quiesce->n_closed]->record.name);
	return 0;
}

int quiesce_begin(struct quiesces *quiesces, const char *id,
		  struct extent *const *extents, size_t n, const char *device,
		  unsigned timeout_ms, bool alone, struct error *err)
{
	struct quiesce *quiesce = quiesce_new(id, extents, n, device);
	int r;

	if (!quiesce)
		return error_set(err, ENOMEM, "out of memory");
	pthread_mutex_lock(&quiesces->lock);
	r = quiesce_enlist(quiesces, quiesce, timeout_ms, err);
	pthread_mutex_unlock(&quiesces->lock);
	if (r < 1) {
		quiesce_free(quiesce);
		return r;
	}
	r = quiesce_all(quiesces, quiesce, alone, err);
	pthread_mutex_lock(&quiesces->lock);
	quiesce->beginning = false;
	if (r < 0)
		LIST_REMOVE(quiesce, in_list);
	(void)pthread_cond_signal(&quiesces->changed);
	pthread_mutex_unlock(&quiesces->lock);
	if (r < 0)
		(void)quiesce_release(quiesce);
	return r;
}

/* ---- end ---- */

bool quiesce_end(struct quiesces *quiesces, const char *id)
{
	struct quiesce *quiesce;

	pthread_mutex_lock(&quiesces->lock);
	quiesce = find(quiesces, id);
	if (!lasts(quiesce))
		quiesce = NULL;
	if (quiesce)
		quiesce_take_out(quiesces, quiesce);
	pthread_mutex_unlock(&quiesces->lock);
	return quiesce && quiesce_release(quiesce);
}

void quiesces_end(struct quiesces *quiesces)
{
	struct quiesce *quiesce;

	pthread_mutex_lock(&quiesces->lock);
	while ((quiesce = first_to_lapse(quiesces))) {
		quiesce_take_out(quiesces, quiesce);
		(void)quiesce_release(quiesce);
	}
	pthread_mutex_unlock(&quiesces->lock);
}

int quiesce_check(struct quiesces *quiesces, const char *id,
		  struct extent *const *extents, size_t n, struct error *err)
{
	const struct quiesce *quiesce;
	int r = 0;

	pthread_mutex_lock(&quiesces->lock);
	quiesce = find(quiesces, id);
	if (!lasts(quiesce))
		r = error_set(err, ESTALE,
			      "there is no quiesce %.40s, or it has lapsed",
			      id);
	else if (!quiesce_has_all(quiesce, extents, n))
		r = error_set(err, ESTALE,
			      "the quiesce %s does not have all these extents",
			      id);
	pthread_mutex_unlock(&quiesces->lock);
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

int quiesces_new(const char *state_dir, struct quiesces **ret,
		 struct error *err)
{
	struct quiesces *quiesces = calloc(1, sizeof(*quiesces));
	pthread_condattr_t attributes;

	int r;

	if (!quiesces)
		return error_set(err, ENOMEM, "out of memory");
	r = open_notes(state_dir, &quiesces->frozen_fd, err);
	if (r < 0) {
		free(quiesces);
		return r;
	}
	LIST_INIT(&quiesces->list);
	/* These can't fail on Linux. */
	(void)pthread_mutex_init(&quiesces->lock, NULL);
	(void)pthread_condattr_init(&attributes);
	(void)pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&quiesces->changed, &attributes);
	(void)pthread_condattr_destroy(&attributes);
	*ret = quiesces;
	return 0;
}

void quiesces_free(struct quiesces *quiesces)
{
	struct quiesce *quiesce;

	if (!quiesces)
		return;
	pthread_mutex_lock(&quiesces->lock);
	quiesces->stopping = true;
	(void)pthread_cond_signal(&quiesces->changed);
	pthread_mutex_unlock(&quiesces->lock);
	if (quiesces->watched)
		(void)pthread_join(quiesces->watcher, NULL);
	while ((quiesce = LIST_FIRST(&quiesces->list))) {
		LIST_REMOVE(quiesce, in_list);
		(void)quiesce_release(quiesce);
	}
	fd_close(quiesces->frozen_fd);
	(void)pthread_cond_destroy(&quiesces->changed);
	(void)pthread_mutex_destroy(&quiesces->lock);
	free(quiesces);
}
