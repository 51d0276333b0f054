/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/controller/observer.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "csi/controller/capacity_publish.h"
#include "volume/cluster/node_agent.h"
#include "volume/flow/health_check.h"
#include "volume/op/leader_election.h"
#include "volume/scrub/scrub.h"
#include "volume/store/store.h"

#define ELECTION "csi-controller"

struct observer {
	struct csi *csi;
	struct volume_election *lead;
	pthread_t thread;
	pthread_mutex_t lock; /* guards all below; innermost */
	pthread_cond_t wake;
	bool leading, asked, ending;
	bool room_changed; /* since the room was published */
	/* Errors of the last time, 0: none; of its own thread. */
	int check_failed, room_failed, scrub_failed;
};

/* ---- looking ---- */

static bool goes_on(void *observer_)
{
	struct observer *o = observer_;
	bool yes;

	pthread_mutex_lock(&o->lock);
	yes = o->leading && !o->ending;
	pthread_mutex_unlock(&o->lock);
	return yes;
}

static void observer_count(struct csi_metrics *m,
			   const struct volume_observation *seen)
{
	atomic_store(&m->volumes, seen->volumes);
	atomic_store(&m->abnormal, seen->abnormal);
	atomic_store(&m->capacity, seen->capacity);
	atomic_store(&m->nodes, seen->nodes);
	atomic_store(&m->nodes_silent, seen->silent);
}

/* Each sort of failure once, and its end. */
static void observer_report(int *failed, const char *what, int r,
			    const struct error *err)
{
	if (r == -ECANCELED || r == *failed)
		return;
	if (r < 0)
		log_warning("%s: failed (%s); trying again", what,
			    error_text(err));
	else
		log_info("%s: succeeds again", what);
	*failed = r;
}

static void observer_check(struct observer *o)
{
	struct volume_observation seen;
	struct error err = {0};
	int r = volume_health_check(o->csi->volumes, goes_on, o, &seen, &err);

	if (r == 0)
		observer_count(&o->csi->metrics, &seen);
	if (r == 0 && seen.changed > 0)
		log_info("volumes: %zu, %zu abnormal, %zu changed; nodes: "
			 "%zu, %zu silent",
			 seen.volumes, seen.abnormal, seen.changed, seen.nodes,
			 seen.silent);
	observer_report(&o->check_failed, "observing the volumes", r, &err);
}

static void observer_publish(struct observer *o)
{
	struct error err = {0};
	int r = capacity_publish(o->csi, &err);

	observer_report(&o->room_failed, "publishing the room for claims", r,
			&err);
}

/* Return when the next one is due; milliseconds of clock_ms(). */
static int64_t observer_scrub(struct observer *o)
{
	struct csi_metrics *m = &o->csi->metrics;
	struct volume_scrubbed seen;
	struct error err = {0};
	/* Another leader may have done it a moment ago. */
	int r = volume_scrub(o->csi->volumes, OBSERVER_SCRUB_S / 2, &seen,
			     &err);

	if (r == -EAGAIN) /* somebody does it now */
		return clock_ms() + OBSERVER_PERIOD_S * 1000;
	observer_report(&o->scrub_failed, "comparing records with extents", r,
			&err);
	if (r < 0)
		return clock_ms() + OBSERVER_PERIOD_S * 1000;
	if (seen.ran)
		log_info("scrub: orphans=%" PRIu64 " bytes=%" PRIu64
			 " missing=%" PRIu64 " silent nodes=%zu",
			 seen.orphans, seen.orphan_bytes, seen.missing,
			 seen.silent);
	atomic_store(&m->orphans, seen.orphans);
	atomic_store(&m->orphan_bytes, seen.orphan_bytes);
	atomic_store(&m->missing, seen.missing);
	atomic_store(&m->scrub_s, (uint64_t)seen.at_s);
	return clock_ms() + OBSERVER_SCRUB_S * 1000;
}

/* ---- when ---- */

/* Wait until @until_ms, or until asked, leading or ending changes. */
static void observer_sleep_until(struct observer *o, int64_t until_ms)
{
	const struct timespec t = {.tv_sec = until_ms / 1000,
				   .tv_nsec = until_ms % 1000 * 1000000};

	(void)pthread_cond_timedwait(&o->wake, &o->lock, &t);
}

/* When what is due next, clock_ms(). */
struct agenda {
	int64_t beat_ms;  /* lost nodes, and the room */
	int64_t look_ms;  /* the health of volumes */
	int64_t pause_ms; /* that, if it is asked for */
	int64_t room_ms;  /* the room, if it has changed */
	int64_t scrub_ms; /* after a check */
};

/* With the lock. */
static int64_t next_ms(const struct observer *o, const struct agenda *a)
{
	int64_t next = a->look_ms < a->beat_ms ? a->look_ms : a->beat_ms;

	if (o->asked && a->pause_ms < next)
		next = a->pause_ms;
	if (o->room_changed && a->room_ms < next)
		next = a->room_ms;
	return next;
}

/* Until there is something to do: false when the observer ends. */
static bool wait_for_work(struct observer *o, const struct agenda *a)
{
	bool goes;

	pthread_mutex_lock(&o->lock);
	while (!o->ending) {
		if (!o->leading)
			(void)pthread_cond_wait(&o->wake, &o->lock);
		else if (clock_ms() >= next_ms(o, a))
			break;
		else
			observer_sleep_until(o, next_ms(o, a));
	}
	goes = !o->ending;
	pthread_mutex_unlock(&o->lock);
	return goes;
}

/* Read a flag that other threads set, and clear it. */
static bool take(struct observer *o, bool *flag)
{
	bool was;

	pthread_mutex_lock(&o->lock);
	was = *flag;
	*flag = false;
	pthread_mutex_unlock(&o->lock);
	return was;
}

/* Look for lost nodes when it is time, and publish the room then, too. */
static void observer_beat(struct observer *o, struct agenda *a)
{
	bool due = clock_ms() >= a->beat_ms;

	if (due) {
		/*
		 * Trouble is told by the next check, which needs the store
		 * too.
		 */
		(void)volume_node_observe(o->csi->volumes, NULL);
		a->beat_ms = clock_ms() + STORE_BEAT_S * 1000;
	}
	if (!due && clock_ms() < a->room_ms)
		return;
	if (take(o, &o->room_changed) || due)
		observer_publish(o);
	a->room_ms = clock_ms() + OBSERVER_ROOM_S * 1000;
}

static void *observer_run(void *observer_)
{
	struct observer *o = observer_;
	struct agenda a = {0};

	while (wait_for_work(o, &a)) {
		observer_beat(o, &a);
		if (clock_ms() < a.look_ms &&
		    (clock_ms() < a.pause_ms || !take(o, &o->asked)))
			continue;
		observer_check(o);
		a.pause_ms = clock_ms() + OBSERVER_PAUSE_S * 1000;
		a.look_ms = clock_ms() + OBSERVER_PERIOD_S * 1000;
		if (goes_on(o) && clock_ms() >= a.scrub_ms)
			a.scrub_ms = observer_scrub(o);
	}
	return NULL;
}

static void observer_leads(void *observer_, bool leading, const char *text)
{
	struct observer *o = observer_;
	bool changed;

	pthread_mutex_lock(&o->lock);
	changed = o->leading != leading;
	o->leading = leading;
	o->asked = o->asked || leading;
	pthread_cond_signal(&o->wake);
	pthread_mutex_unlock(&o->lock);
	atomic_store(&o->csi->metrics.leads, leading);
	if (changed || !leading)
		log_info("%s: %s", leading ? "leading" : "not leading", text);
}

/* ---- begin and end ---- */

static void observer_free(struct observer *o)
{
	pthread_cond_destroy(&o->wake);
	pthread_mutex_destroy(&o->lock);
	free(o);
}

int observer_start(struct csi *csi, struct observer **ret, struct error *err)
{
	struct observer *o = calloc(1, sizeof(*o));
	pthread_condattr_t monotonic;
	int r;

	if (!o)
		return error_set(err, ENOMEM, "out of memory");
	o->csi = csi;
	pthread_mutex_init(&o->lock, NULL);
	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(&o->wake, &monotonic);
	pthread_condattr_destroy(&monotonic);
	r = pthread_create(&o->thread, NULL, observer_run, o);
	if (r != 0) {
		observer_free(o);
		return error_set(err, r, "no thread for the observer");
	}
	r = volume_election_join(csi->volumes, ELECTION, observer_leads, o,
				 &o->lead, err);
	if (r < 0) {
		observer_stop(o);
		return r;
	}
	atomic_store(&csi->metrics.elects, true);
	*ret = o;
	return 0;
}

void observer_look(struct observer *o)
{
	if (!o)
		return;
	pthread_mutex_lock(&o->lock);
	o->asked = true;
	pthread_cond_signal(&o->wake);
	pthread_mutex_unlock(&o->lock);
}

void observer_room_changed(struct observer *o)
{
	if (!o)
		return;
	pthread_mutex_lock(&o->lock);
	o->room_changed = true;
	pthread_cond_signal(&o->wake);
	pthread_mutex_unlock(&o->lock);
}

void observer_stop(struct observer *o)
{
	if (!o)
		return;
	pthread_mutex_lock(&o->lock);
	o->ending = true;
	pthread_cond_signal(&o->wake);
	pthread_mutex_unlock(&o->lock);
	(void)pthread_join(o->thread, NULL); /* it is one, and ours */
	volume_election_leave(o->lead);
	observer_free(o);
}
