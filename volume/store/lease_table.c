/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/lease_table.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/parallel.h"

#define TRIES_MAX 5    /* somebody else takes or gives it back meanwhile */
#define AGAIN_MS  1000 /* before one that failed is tried again */
#define AT_ONCE   16   /* renewals: one that hangs keeps no other waiting */

enum held_state { HELD_TAKING, HELD, HELD_LOST };

struct held_lease {
	struct held_lease *next;
	char name[LEASE_NAME_SIZE]; /* of the Lease */
	enum held_state state;
	bool busy;        /* the renewer is asking the server about it */
	int64_t until_ms; /* of boot_ms(): safe to work until then */
	int64_t again_ms; /* of boot_ms(): no renewal is tried before */
	struct json_object *token;
};

struct lease_table {
	const struct lease_ops *ops;
	void *context;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t changed;
	struct held_lease *held;
	size_t count;
	pthread_t renewer;
	bool renewing; /* the thread was started */
	bool ending;
};

/*
 * Of a clock that goes on while the machine sleeps: others count that time,
 * too.
 */
static int64_t boot_ms(void)
{
	struct timespec now;

	(void)clock_gettime(CLOCK_BOOTTIME, &now); /* always there */
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- the table ---- */

static struct held_lease **held_lease_find(struct lease_table *leases,
					   const char *name)
{
	struct held_lease **at = &leases->held;

	while (*at && strcmp((*at)->name, name) != 0)
		at = &(*at)->next;
	return at;
}

static void held_lease_drop(struct lease_table *leases, const char *name)
{
	struct held_lease **at = held_lease_find(leases, name), *held = *at;

	*at = held->next;
	leases->count--;
	json_object_put(held->token);
	free(held);
}

/* An entry in state HELD_TAKING, which keeps other threads out. */
static int held_lease_add(struct lease_table *leases, const char *name,
			  const char *what, struct error *err)
{
	struct held_lease *held;

	if (*held_lease_find(leases, name))
		return error_set(err, EAGAIN,
				 "busy: process %d, this one, is at work on "
				 "'%s'; try again later",
				 getpid(), what);
	if (leases->count >= LEASES_MAX)
		return error_set(err, EAGAIN,
				 "busy: %d operations at once; try again later",
				 LEASES_MAX);
	held = calloc(1, sizeof(*held));
	if (!held)
		return error_set(err, ENOMEM, "out of memory");
	(void)strcpy(held->name, name);
	held->next = leases->held;
	leases->held = held;
	leases->count++;
	return 0;
}

/* ---- taking ---- */

static void *renew_all(void *leases);

static int renewer_start(struct lease_table *leases, struct error *err)
{
	int code = 0;

	if (!leases->renewing)
		code = pthread_create(&leases->renewer, NULL, renew_all,
				      leases);
	if (code)
		return error_set(err, code, "starting a thread: %s",
				 strerror(code));
	leases->renewing = true;
	return 0;
}

int lease_table_take(struct lease_table *leases, const char *name,
		     const char *what, const char *doing, struct error *err)
{
	struct json_object *token = NULL;
	int64_t asked_ms;
	struct held_lease *held;
	int r;

	(void)pthread_mutex_lock(&leases->lock);
	r = renewer_start(leases, err);
	if (r == 0)
		r = held_lease_add(leases, name, what, err);
	(void)pthread_mutex_unlock(&leases->lock);
	if (r < 0)
		return r;
	for (int i = 0; i < TRIES_MAX; i++) {
		asked_ms = boot_ms();
		r = leases->ops->take(leases->context, name, what, doing,
				      &token, err);
		if (r != -ESTALE && r != -ENOENT)
			break;
	}
	if (r == -ESTALE || r == -ENOENT)
		r = error_set(err, EAGAIN,
			      "busy: others are at work on '%s'; try again "
			      "later",
			      what);
	(void)pthread_mutex_lock(&leases->lock);
	held = *held_lease_find(leases, name);
	if (r < 0) {
		held_lease_drop(leases, name);
	} else {
		held->state = HELD;
		held->token = token;
		held->until_ms = asked_ms + LEASE_S * 1000;
		(void)pthread_cond_broadcast(&leases->changed);
	}
	(void)pthread_mutex_unlock(&leases->lock);
	return r;
}

/* ---- renewing ---- */

/* The server's answer about @held came: 0, or why it was not renewed. */
static void lease_renewed(struct held_lease *held, int r, int64_t asked_ms,
			  struct json_object *token)
{
	if (r == 0) {
		json_object_put(held->token);
		held->token = token;
		held->until_ms = asked_ms + LEASE_S * 1000;
	} else if (r == -ESTALE || r == -ENOENT || boot_ms() > held->until_ms) {
		held->state = HELD_LOST;
	} else {
		held->again_ms = boot_ms() + AGAIN_MS;
	}
}

/* Some that are to be renewed, busy and so in the table until they are. */
struct batch {
	struct lease_table *leases;
	struct held_lease *items[LEASES_MAX];
	size_t count;
};

static void renew_one(void *batch_, size_t index)
{
	struct batch *batch = batch_;
	struct lease_table *leases = batch->leases;
	struct held_lease *held = batch->items[index];
	struct json_object *token = NULL, *mine = NULL;
	int64_t asked_ms;
	int r;

	(void)pthread_mutex_lock(&leases->lock);
	asked_ms = boot_ms();
	(void)json_object_deep_copy(held->token, &mine, NULL);
	(void)pthread_mutex_unlock(&leases->lock);
	r = leases->ops->renew(leases->context, held->name, mine, &token);
	(void)pthread_mutex_lock(&leases->lock);
	lease_renewed(held, r, asked_ms, token);
	held->busy = false;
	(void)pthread_cond_broadcast(&leases->changed);
	(void)pthread_mutex_unlock(&leases->lock);
}

/* All whose time is a third over or more, and how long until the next is. */
static void take_due(struct lease_table *leases, struct batch *ret,
		     int64_t *ret_next_ms)
{
	int64_t lead_ms = (LEASE_S - LEASE_RENEW_S) * 1000;
	int64_t now = boot_ms();

	*ret_next_ms = LEASE_RENEW_S * 1000;
	ret->leases = leases;
	ret->count = 0;
	for (struct held_lease *held = leases->held; held; held = held->next) {
		int64_t left_ms = held->until_ms - lead_ms - now;

		if (held->state != HELD)
			continue;
		if (left_ms < held->again_ms - now)
			left_ms = held->again_ms - now;
		if (left_ms <= 0) {
			held->busy = true;
			ret->items[ret->count++] = held;
		} else if (left_ms < *ret_next_ms) {
			*ret_next_ms = left_ms;
		}
	}
}

static void lease_wait_ms(struct lease_table *leases, int64_t ms)
{
	struct timespec until;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += ms % 1000 * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	(void)pthread_cond_timedwait(&leases->changed, &leases->lock, &until);
}

static void *renew_all(void *context)
{
	struct lease_table *leases = context;
	struct batch batch;
	int64_t next_ms;

	(void)pthread_mutex_lock(&leases->lock);
	while (!leases->ending) {
		if (!leases->held) {
			(void)pthread_cond_wait(&leases->changed,
						&leases->lock);
			continue;
		}
		take_due(leases, &batch, &next_ms);
		if (batch.count == 0) {
			lease_wait_ms(leases, next_ms);
			continue;
		}
		(void)pthread_mutex_unlock(&leases->lock);
		parallel_run(batch.count, AT_ONCE, renew_one, &batch);
		(void)pthread_mutex_lock(&leases->lock);
	}
	(void)pthread_mutex_unlock(&leases->lock);
	return NULL;
}

/* ---- giving back ---- */

void lease_table_release(struct lease_table *leases, const char *name)
{
	struct json_object *token = NULL;
	struct held_lease *held;

	(void)pthread_mutex_lock(&leases->lock);
	while ((held = *held_lease_find(leases, name)) && held->busy)
		(void)pthread_cond_wait(&leases->changed, &leases->lock);
	if (held && held->state != HELD_TAKING) {
		if (held->state == HELD)
			token = json_object_get(held->token);
		held_lease_drop(leases, name);
	}
	(void)pthread_mutex_unlock(&leases->lock);
	/*
	 * However long that takes, who wants it next in this process takes it
	 * over meanwhile, and then it is not given back.
	 */
	if (token)
		leases->ops->give(leases->context, name, token);
	json_object_put(token);
}

int lease_table_check(struct lease_table *leases, const char *name,
		      const char *what, struct error *err)
{
	struct held_lease *held;
	bool lost;

	(void)pthread_mutex_lock(&leases->lock);
	held = *held_lease_find(leases, name);
	lost = held && (held->state == HELD_LOST ||
			(held->state == HELD && boot_ms() > held->until_ms));
	(void)pthread_mutex_unlock(&leases->lock);
	if (!lost)
		return 0;
	return error_set(err, ESTALE,
			 "the lease on '%s' was lost: it could not be renewed "
			 "within %d s, or was removed; repeat the command",
			 what, LEASE_S);
}

int lease_table_holds(struct lease_table *leases, const char *name,
		      const char *what, struct error *err)
{
	struct held_lease *held;
	bool ours;

	(void)pthread_mutex_lock(&leases->lock);
	held = *held_lease_find(leases, name);
	ours = held && held->state == HELD && boot_ms() <= held->until_ms;
	(void)pthread_mutex_unlock(&leases->lock);
	if (ours)
		return 0;
	return error_set(
		err, ESTALE,
		held ? "the lease on '%s' was lost: it could not be renewed "
		       "within %d s, or was removed"
		     : "the lease on '%s' is not ours (it is good for "
		       "%d s)",
		what, LEASE_S);
}

struct json_object *lease_table_token(struct lease_table *leases,
				      const char *name)
{
	struct json_object *copy = NULL;
	struct held_lease *held;

	(void)pthread_mutex_lock(&leases->lock);
	held = *held_lease_find(leases, name);
	if (held && held->state == HELD)
		(void)json_object_deep_copy(held->token, &copy, NULL);
	(void)pthread_mutex_unlock(&leases->lock);
	return copy;
}

/* ---- beginning and end ---- */

int lease_table_new(const struct lease_ops *ops, void *context,
		    struct lease_table **ret, struct error *err)
{
	struct lease_table *leases = calloc(1, sizeof(*leases));
	pthread_condattr_t monotonic;

	if (!leases)
		return error_set(err, ENOMEM, "out of memory");
	leases->ops = ops;
	leases->context = context;
	(void)pthread_mutex_init(&leases->lock, NULL);
	(void)pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&leases->changed, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);
	*ret = leases;
	return 0;
}

void lease_table_free(struct lease_table *leases)
{
	bool renewing;

	if (!leases)
		return;
	(void)pthread_mutex_lock(&leases->lock);
	leases->ending = true;
	renewing = leases->renewing;
	(void)pthread_cond_broadcast(&leases->changed);
	(void)pthread_mutex_unlock(&leases->lock);
	if (renewing)
		(void)pthread_join(leases->renewer, NULL);
	while (leases->held)
		held_lease_drop(leases, leases->held->name);
	(void)pthread_cond_destroy(&leases->changed);
	(void)pthread_mutex_destroy(&leases->lock);
	free(leases);
}
