/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/store/kube/kube_lease.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/parallel.h"
#include "volume/store/kube/kube_lease_object.h"
#include "volume/store/kube/kube_object.h"

#define NAME_SIZE 160  /* bytes with NUL, "storagenode-NAME" */
#define TRIES_MAX 5    /* somebody else takes or gives it back meanwhile */
#define RENEW_MS  4000 /* for a renewal; two fit in the rest */
#define AGAIN_MS  1000 /* before one that failed is tried again */
#define AT_ONCE   16   /* renewals: one that hangs keeps no other waiting */

enum held_state { HELD_TAKING, HELD, HELD_LOST };

struct held_lease {
	struct held_lease *next;
	char name[NAME_SIZE]; /* of the Lease */
	enum held_state state;
	bool busy;        /* the renewer is asking the server about it */
	int64_t until_ms; /* of boot_ms(): safe to work until then */
	int64_t again_ms; /* of boot_ms(): no renewal is tried before */
	struct json_object *object; /* as last written */
};

struct kube_leases {
	struct kube_http *http;
	struct lease_who us;
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

static struct held_lease **held_lease_find(struct kube_leases *leases,
					   const char *name)
{
	struct held_lease **at = &leases->held;

	while (*at && strcmp((*at)->name, name) != 0)
		at = &(*at)->next;
	return at;
}

static void held_lease_drop(struct kube_leases *leases, const char *name)
{
	struct held_lease **at = held_lease_find(leases, name), *held = *at;

	*at = held->next;
	leases->count--;
	json_object_put(held->object);
	free(held);
}

/* An entry in state HELD_TAKING, which keeps other threads out. */
static int held_lease_add(struct kube_leases *leases, const char *name,
			  const char *what, struct error *err)
{
	struct held_lease *held;

	if (*held_lease_find(leases, name))
		return error_set(err, EAGAIN,
				 "busy: process %d, this one, is at work on "
				 "'%s'; try again later",
				 getpid(), what);
	if (leases->count >= KUBE_LEASES_MAX)
		return error_set(err, EAGAIN,
				 "busy: %d operations at once; try again later",
				 KUBE_LEASES_MAX);
	held = calloc(1, sizeof(*held));
	if (!held)
		return error_set(err, ENOMEM, "out of memory");
	(void)strcpy(held->name, name);
	held->next = leases->held;
	leases->held = held;
	leases->count++;
	return 0;
}

static int lease_name(const struct kube_resource *resource, const char *name,
		      char *ret, struct error *err)
{
	int r = kube_name_check(resource->kind, name, err);

	if (r == 0)
		(void)snprintf(ret, NAME_SIZE, "%s-%s", resource->singular,
			       name);
	return r;
}

/* ---- taking ---- */

/* @name NULL: of all. It always fits. */
static void lease_path(struct kube_leases *leases, const char *name, char *ret)
{
	(void)snprintf(ret, KUBE_PATH_SIZE,
		       "/apis/coordination.k8s.io/v1/namespaces/%s/leases%s%s",
		       kube_http_namespace(leases->http), name ? "/" : "",
		       name ? name : "");
}

/*
 * The lease that is there already, if its holder is no more. -ESTALE, -ENOENT:
 * somebody was faster, look again.
 */
static int take_over(struct kube_leases *leases, const char *name,
		     const char *what, const char *doing,
		     struct json_object **ret, struct error *err)
{
	struct json_object *object = NULL;
	char path[KUBE_PATH_SIZE];
	int r;

	lease_path(leases, name, path);
	r = kube_call(leases->http, "GET", path, NULL, true, &object, err);
	if (r == 0)
		r = lease_object_free_check(object, &leases->us,
					    kube_http_now(leases->http), what,
					    err);
	if (r == 0) {
		lease_object_fill(object, &leases->us,
				  kube_http_now(leases->http), doing);
		r = kube_call(leases->http, "PUT", path, object, false, ret,
			      err);
	}
	json_object_put(object);
	return r;
}

static int take_once(struct kube_leases *leases, const char *name,
		     const char *what, const char *doing,
		     struct json_object **ret, struct error *err)
{
	struct json_object *object = lease_object_new(name);
	char path[KUBE_PATH_SIZE];
	int r;

	lease_object_fill(object, &leases->us, kube_http_now(leases->http),
			  doing);
	lease_path(leases, NULL, path);
	r = kube_call(leases->http, "POST", path, object, false, ret, err);
	json_object_put(object);
	return r == -EEXIST ? take_over(leases, name, what, doing, ret, err)
			    : r;
}

static void *renew_all(void *leases);

static int renewer_start(struct kube_leases *leases, struct error *err)
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

int kube_lease_take(struct kube_leases *leases,
		    const struct kube_resource *resource, const char *name,
		    const char *doing, struct error *err)
{
	struct json_object *object = NULL;
	char full[NAME_SIZE];
	int64_t asked_ms;
	struct held_lease *held;
	int r = lease_name(resource, name, full, err);

	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&leases->lock);
	r = renewer_start(leases, err);
	if (r == 0)
		r = held_lease_add(leases, full, name, err);
	(void)pthread_mutex_unlock(&leases->lock);
	if (r < 0)
		return r;
	for (int i = 0; i < TRIES_MAX; i++) {
		asked_ms = boot_ms();
		r = take_once(leases, full, name, doing, &object, err);
		if (r != -ESTALE && r != -ENOENT)
			break;
	}
	if (r == -ESTALE || r == -ENOENT)
		r = error_set(err, EAGAIN,
			      "busy: others are at work on '%s'; try again "
			      "later",
			      name);
	(void)pthread_mutex_lock(&leases->lock);
	held = *held_lease_find(leases, full);
	if (r < 0) {
		held_lease_drop(leases, full);
	} else {
		held->state = HELD;
		held->object = object;
		held->until_ms = asked_ms + KUBE_LEASE_S * 1000;
		(void)pthread_cond_broadcast(&leases->changed);
	}
	(void)pthread_mutex_unlock(&leases->lock);
	return r;
}

/* ---- renewing ---- */

/* The server's answer about @held came: 0, or why it was not renewed. */
static void lease_renewed(struct held_lease *held, int r, int64_t asked_ms,
			  struct json_object *object)
{
	if (r == 0) {
		json_object_put(held->object);
		held->object = object;
		held->until_ms = asked_ms + KUBE_LEASE_S * 1000;
	} else if (r == -ESTALE || r == -ENOENT || boot_ms() > held->until_ms) {
		held->state = HELD_LOST;
	} else {
		held->again_ms = boot_ms() + AGAIN_MS;
	}
}

/* Takes @object, the lease as last seen. */
static int renew_once(struct kube_leases *leases, const char *path,
		      struct json_object *object, struct json_object **ret)
{
	int r;

	lease_object_renew(object, kube_http_now(leases->http));
	r = kube_call_within(leases->http, "PUT", path, object, true, RENEW_MS,
			     ret, NULL);
	json_object_put(object);
	if (r != -ESTALE)
		return r;
	/*
	 * Written by another, or by us and the answer was lost; or removed:
	 * a Lease is made by a PUT too, but not one of this uid.
	 */
	object = NULL;
	r = kube_call_within(leases->http, "GET", path, NULL, true, RENEW_MS,
			     &object, NULL);
	if (r < 0)
		return r == -ENOENT ? r : -EHOSTUNREACH;
	r = -ESTALE;
	if (strcmp(kube_text(object, "spec", "holderIdentity"),
		   leases->us.identity) == 0) {
		lease_object_renew(object, kube_http_now(leases->http));
		r = kube_call_within(leases->http, "PUT", path, object, true,
				     RENEW_MS, ret, NULL);
	}
	json_object_put(object);
	return r;
}

/* Some that are to be renewed, busy and so in the table until they are. */
struct batch {
	struct kube_leases *leases;
	struct held_lease *items[KUBE_LEASES_MAX];
	size_t count;
};

static void renew_one(void *batch_, size_t index)
{
	struct batch *batch = batch_;
	struct kube_leases *leases = batch->leases;
	struct held_lease *held = batch->items[index];
	struct json_object *object = NULL, *mine = NULL;
	char path[KUBE_PATH_SIZE];
	int64_t asked_ms;
	int r;

	(void)pthread_mutex_lock(&leases->lock);
	asked_ms = boot_ms();
	lease_path(leases, held->name, path);
	(void)json_object_deep_copy(held->object, &mine, NULL);
	(void)pthread_mutex_unlock(&leases->lock);
	r = renew_once(leases, path, mine, &object);
	(void)pthread_mutex_lock(&leases->lock);
	lease_renewed(held, r, asked_ms, object);
	held->busy = false;
	(void)pthread_cond_broadcast(&leases->changed);
	(void)pthread_mutex_unlock(&leases->lock);
}

/* All whose time is a third over or more, and how long until the next is. */
static void take_due(struct kube_leases *leases, struct batch *ret,
		     int64_t *ret_next_ms)
{
	int64_t lead_ms = (KUBE_LEASE_S - KUBE_LEASE_RENEW_S) * 1000;
	int64_t now = boot_ms();

	*ret_next_ms = KUBE_LEASE_RENEW_S * 1000;
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

static void lease_wait_ms(struct kube_leases *leases, int64_t ms)
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
	struct kube_leases *leases = context;
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

/*
 * Delete the lease as we wrote it last, so never one that another took
 * meanwhile.
 */
static void delete_exactly(struct kube_leases *leases, const char *name,
			   struct json_object *object)
{
	struct json_object *options = kube_object_deletion(object);
	char path[KUBE_PATH_SIZE];

	lease_path(leases, name, path);
	/* A lease that cannot be given back expires. */
	(void)kube_call_within(leases->http, "DELETE", path, options, true,
			       RENEW_MS, NULL, NULL);
	json_object_put(options);
}

void kube_lease_release(struct kube_leases *leases,
			const struct kube_resource *resource, const char *name)
{
	struct json_object *object = NULL;
	char full[NAME_SIZE];
	struct held_lease *held;

	if (lease_name(resource, name, full, NULL) < 0)
		return;
	(void)pthread_mutex_lock(&leases->lock);
	while ((held = *held_lease_find(leases, full)) && held->busy)
		(void)pthread_cond_wait(&leases->changed, &leases->lock);
	if (held && held->state != HELD_TAKING) {
		if (held->state == HELD)
			object = json_object_get(held->object);
		held_lease_drop(leases, full);
	}
	(void)pthread_mutex_unlock(&leases->lock);
	/*
	 * However long that takes, who wants it next in this process takes it
	 * over meanwhile, and then it is not deleted.
	 */
	if (object)
		delete_exactly(leases, full, object);
	json_object_put(object);
}

int kube_lease_check(struct kube_leases *leases,
		     const struct kube_resource *resource, const char *name,
		     struct error *err)
{
	char full[NAME_SIZE];
	struct held_lease *held;
	bool lost;
	int r = lease_name(resource, name, full, err);

	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&leases->lock);
	held = *held_lease_find(leases, full);
	lost = held && (held->state == HELD_LOST ||
			(held->state == HELD && boot_ms() > held->until_ms));
	(void)pthread_mutex_unlock(&leases->lock);
	if (!lost)
		return 0;
	return error_set(err, ESTALE,
			 "the lease on '%s' was lost: it could not be renewed "
			 "within %d s, or was removed; repeat the command",
			 name, KUBE_LEASE_S);
}

int kube_lease_holds(struct kube_leases *leases,
		     const struct kube_resource *resource, const char *name,
		     struct error *err)
{
	char full[NAME_SIZE];
	struct held_lease *held;
	bool ours;
	int r = lease_name(resource, name, full, err);

	if (r < 0)
		return r;
	(void)pthread_mutex_lock(&leases->lock);
	held = *held_lease_find(leases, full);
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
		name, KUBE_LEASE_S);
}

/* ---- beginning and end ---- */

int kube_leases_new(struct kube_http *http, struct kube_leases **ret,
		    struct error *err)
{
	struct kube_leases *leases = calloc(1, sizeof(*leases));
	pthread_condattr_t monotonic;
	int r;

	if (!leases)
		return error_set(err, ENOMEM, "out of memory");
	leases->http = http;
	(void)pthread_mutex_init(&leases->lock, NULL);
	(void)pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&leases->changed, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);
	r = lease_who_make(&leases->us, err);
	if (r < 0) {
		kube_leases_free(leases);
		return r;
	}
	*ret = leases;
	return 0;
}

void kube_leases_free(struct kube_leases *leases)
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
