/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "blockd/raw/dev/raw_users.h"

/* ---- who looks at maps ---- */

/*
 * Count first, then look whether the phase is still the same. So a thread that
 * ends the phase afterwards sees the count.
 */
unsigned raw_users_enter(struct raw_users *users)
{
	for (;;) {
		unsigned phase = atomic_load(&users->phase) & 1;

		atomic_fetch_add(&users->inside[phase], 1);
		if ((atomic_load(&users->phase) & 1) == phase)
			return phase;
		raw_users_leave(users, phase);
	}
}

void raw_users_leave(struct raw_users *users, unsigned phase)
{
	if (atomic_fetch_sub(&users->inside[phase], 1) != 1 ||
	    (atomic_load(&users->phase) & 1) == phase)
		return;
	/* The last of a phase that has ended: the cleaner may wait for it. */
	(void)pthread_mutex_lock(&users->lock);
	(void)pthread_cond_broadcast(&users->left);
	(void)pthread_mutex_unlock(&users->lock);
}

/* Wait for all that look now. Of the cleaner only: one phase at a time. */
static void raw_users_settle(struct raw_users *users)
{
	unsigned old;

	(void)pthread_mutex_lock(&users->lock);
	old = atomic_fetch_add(&users->phase, 1) & 1;
	while (atomic_load(&users->inside[old]))
		(void)pthread_cond_wait(&users->left, &users->lock);
	(void)pthread_mutex_unlock(&users->lock);
}

/* ---- the cleaner ---- */

static int clean_round(struct raw_users *users, bool wait, struct error *err)
{
	struct raw_store *store = users->store;
	struct raw_leaving leaving;
	int r = raw_store_commit(store, raw_store_newest(store), err);

	if (r == 0 && raw_store_leave(store, &leaving)) {
		raw_users_settle(users);
		raw_store_left(store, &leaving);
	} else if (wait) {
		raw_users_settle(users);
	}
	return r;
}

void raw_requests_again(struct raw_request_list *list)
{
	struct raw_request *request;

	while ((request = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, request, waiting);
		loop_post(request->loop, &request->again);
	}
}

/* Lock held, let go of meanwhile. */
static void do_round(struct raw_users *users)
{
	struct raw_request_list starving;
	uint64_t asked = users->asked;
	struct error err = {0};
	bool wait = users->settle;
	int r;

	users->settle = false;
	TAILQ_INIT(&starving);
	TAILQ_CONCAT(&starving, &users->starving, waiting);
	(void)pthread_mutex_unlock(&users->lock);
	r = clean_round(users, wait, &err);
	if (r < 0 && users->broken)
		users->broken(users->context, &err);
	(void)pthread_mutex_lock(&users->lock);
	users->result = r;
	users->why = err;
	users->cleaned = asked;
	users->due = true;
	(void)pthread_cond_broadcast(&users->clean);
	raw_requests_again(&starving);
}

/* Lock held, let go of meanwhile. So that no commit has to wait for one. */
static void do_checkpoint(struct raw_users *users)
{
	struct error err = {0};
	int r = 0;

	users->due = false;
	(void)pthread_mutex_unlock(&users->lock);
	if (raw_store_filling(users->store))
		r = raw_store_checkpoint_ahead(users->store, &err);
	if (r < 0 && raw_store_broken(users->store, &err) && users->broken)
		users->broken(users->context, &err);
	(void)pthread_mutex_lock(&users->lock);
}

static void *cleaner_run(void *context)
{
	struct raw_users *users = context;

	(void)pthread_mutex_lock(&users->lock);
	while (!users->stopping) {
		if (users->due)
			do_checkpoint(users);
		else if (users->cleaned != users->asked)
			do_round(users);
		else
			(void)pthread_cond_wait(&users->ask, &users->lock);
	}
	(void)pthread_mutex_unlock(&users->lock);
	return NULL;
}

/* Lock held. Returns the round that will have done it. */
static uint64_t ask(struct raw_users *users)
{
	users->asked++;
	(void)pthread_cond_signal(&users->ask);
	return users->asked;
}

static void log_fills(void *context)
{
	raw_users_clean(context);
}

void raw_users_clean(struct raw_users *users)
{
	(void)pthread_mutex_lock(&users->lock);
	(void)ask(users);
	(void)pthread_mutex_unlock(&users->lock);
}

static int clean_and_wait(struct raw_users *users, bool settle_too,
			  struct error *err)
{
	uint64_t round;
	int r;

	(void)pthread_mutex_lock(&users->lock);
	users->settle = users->settle || settle_too;
	round = ask(users);
	while (users->cleaned < round)
		(void)pthread_cond_wait(&users->clean, &users->lock);
	r = users->result;
	if (r < 0 && err)
		*err = users->why;
	(void)pthread_mutex_unlock(&users->lock);
	return r;
}

int raw_users_clean_now(struct raw_users *users, struct error *err)
{
	return clean_and_wait(users, false, err);
}

int raw_users_settle_now(struct raw_users *users, struct error *err)
{
	return clean_and_wait(users, true, err);
}

void raw_users_starve(struct raw_users *users, struct raw_request *request)
{
	(void)pthread_mutex_lock(&users->lock);
	TAILQ_INSERT_TAIL(&users->starving, request, waiting);
	(void)ask(users);
	(void)pthread_mutex_unlock(&users->lock);
}

/* ---- clusters that are becoming written ---- */

struct raw_fill *raw_users_find_fill(struct raw_users *users, uint32_t object,
				     uint64_t cluster, uint64_t count)
{
	struct raw_fill *fill;

	LIST_FOREACH (fill, &users->fills, in_users)
		if (fill->object == object && fill->cluster < cluster + count &&
		    cluster < fill->cluster + fill->count)
			return fill;
	return NULL;
}

void raw_users_fill_end(struct raw_users *users, struct raw_fill *fill)
{
	(void)pthread_mutex_lock(&users->lock);
	LIST_REMOVE(fill, in_users);
	raw_requests_again(&fill->waiting);
	(void)pthread_mutex_unlock(&users->lock);
}

/* ---- life ---- */

void raw_users_join(struct raw_users *users)
{
	(void)pthread_mutex_lock(&users->lock);
	users->devices++;
	(void)pthread_mutex_unlock(&users->lock);
}

void raw_users_part(struct raw_users *users)
{
	(void)pthread_mutex_lock(&users->lock);
	users->devices--;
	(void)pthread_cond_broadcast(&users->closed);
	(void)pthread_mutex_unlock(&users->lock);
}

static void users_done(struct raw_users *users)
{
	(void)pthread_cond_destroy(&users->clean);
	(void)pthread_cond_destroy(&users->ask);
	(void)pthread_cond_destroy(&users->closed);
	(void)pthread_cond_destroy(&users->left);
	(void)pthread_mutex_destroy(&users->lock);
	free(users->path);
	free(users);
}

int raw_users_new(const struct raw_users_options *options,
		  struct raw_users **ret, struct error *err)
{
	struct raw_users *users = calloc(1, sizeof(*users));
	int r;

	if (!users)
		return error_set(err, ENOMEM, "out of memory");
	users->store = options->store;
	users->path = strdup(options->path);
	users->flags = options->flags;
	users->broken = options->broken;
	users->fault = options->fault;
	users->open_medium = options->open_medium;
	users->context = options->context;
	LIST_INIT(&users->fills);
	TAILQ_INIT(&users->starving);
	(void)pthread_mutex_init(&users->lock, NULL);
	(void)pthread_cond_init(&users->closed, NULL);
	(void)pthread_cond_init(&users->left, NULL);
	(void)pthread_cond_init(&users->ask, NULL);
	(void)pthread_cond_init(&users->clean, NULL);
	r = users->path
		    ? pthread_create(&users->cleaner, NULL, cleaner_run, users)
		    : ENOMEM;
	if (r) {
		users_done(users);
		return error_set(err, r, "start the cleaner of a pool: %s",
				 strerror(r));
	}
	raw_store_on_filling(users->store, log_fills, users);
	*ret = users;
	return 0;
}

void raw_users_free(struct raw_users *users)
{
	if (!users)
		return;
	raw_store_on_filling(users->store, NULL, NULL);
	(void)pthread_mutex_lock(&users->lock);
	while (users->devices)
		(void)pthread_cond_wait(&users->closed, &users->lock);
	assert(LIST_EMPTY(&users->fills) && TAILQ_EMPTY(&users->starving));
	users->stopping = true;
	(void)pthread_cond_signal(&users->ask);
	(void)pthread_mutex_unlock(&users->lock);
	(void)pthread_join(users->cleaner, NULL);
	users_done(users);
}
