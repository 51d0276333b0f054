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
#include "base/file.h"
#include "base/log.h"
#include "base/uuid_name.h"
#include "blockd/copy/quiesce_hold.h"
#include "blockd/local/freeze.h"

#define ENDED_MAX 256 /* ids that are remembered as over; ours */

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

/*
 * Tell whether the quiesce still lasts, also when its lapse has not been seen
 * yet.
 */
static bool lasts(const struct quiesce *quiesce)
{
	return quiesce && !quiesce->beginning && !quiesce->prepared &&
	       clock_ms() < quiesce->until_ms;
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
	if (!quiesce->prepared)
		log_warning("the quiesce %s of %zu extents%s%s has lapsed: "
			    "their writes go on",
			    quiesce->id, quiesce->n,
			    quiesce->device[0] ? " and " : "", quiesce->device);
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
	(void)pthread_cond_signal(&quiesces->changed);
	if (quiesce->prepared)
		return 0; /* it begins with the first time that it is sent */
	for (size_t i = 0; i < quiesce->n; i++)
		if (quiesce->frozen[i])
			freeze_extend(quiesce->frozen[i], quiesce->until_ms);
	if (quiesce->above)
		freeze_extend(quiesce->above, quiesce->until_ms);
	return 0;
}

/*
 * 1: the caller begins @quiesce, which is in the list: the one of that name
 * that was prepared, or the fresh one. The lock is held.
 */
static int quiesce_enlist(struct quiesces *quiesces, struct quiesce **quiesce,
			  unsigned timeout_ms, struct error *err)
{
	struct quiesce *fresh = *quiesce, *there = find(quiesces, fresh->id);
	int r;

	if (there && (there->beginning || there->prepared || lasts(there))) {
		r = quiesce_renew(quiesces, there, fresh, timeout_ms, err);
		if (r < 0 || !there->prepared)
			return r;
		quiesce_free(fresh);
		there->beginning = true;
		*quiesce = there;
		return 1;
	}
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

/* Let others see what was begun, or take it out. */
static int quiesce_settle(struct quiesces *quiesces, struct quiesce *quiesce,
			  int r)
{
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

int quiesce_begin(struct quiesces *quiesces, const char *id,
		  struct extent *const *extents, size_t n, const char *device,
		  unsigned timeout_ms, unsigned flags, struct error *err)
{
	struct quiesce *quiesce = quiesce_new(id, extents, n, device);
	bool fresh;
	int r;

	if (!quiesce)
		return error_set(err, ENOMEM, "out of memory");
	quiesce->alone = flags & QUIESCE_ALONE;
	pthread_mutex_lock(&quiesces->lock);
	r = quiesce_enlist(quiesces, &quiesce, timeout_ms, err);
	fresh = r == 1 && !quiesce->prepared;
	if (r == 1)
		quiesce->prepared = flags & QUIESCE_PREPARE;
	pthread_mutex_unlock(&quiesces->lock);
	if (r < 1) {
		quiesce_free(quiesce);
		return r;
	}
	r = fresh ? quiesce_prepare(quiesce, quiesces->frozen_fd, err) : 0;
	if (r == 0 && !(flags & QUIESCE_PREPARE))
		r = quiesce_hold(quiesce, err);
	return quiesce_settle(quiesces, quiesce, r);
}

/* ---- end ---- */

bool quiesce_end(struct quiesces *quiesces, const char *id)
{
	struct quiesce *quiesce;
	bool lasted, begun = false;

	pthread_mutex_lock(&quiesces->lock);
	quiesce = find(quiesces, id);
	if (!lasts(quiesce) &&
	    (!quiesce || quiesce->beginning || !quiesce->prepared))
		quiesce = NULL;
	if (quiesce) {
		begun = !quiesce->prepared;
		quiesce_take_out(quiesces, quiesce);
	}
	pthread_mutex_unlock(&quiesces->lock);
	lasted = quiesce && quiesce_release(quiesce);
	return begun && lasted;
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
