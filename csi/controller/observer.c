/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/controller/observer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "volume/cluster/node_agent.h"
#include "volume/flow/health_check.h"
#include "volume/op/leader_election.h"
#include "volume/store/store.h"

#define ELECTION "csi-controller"

struct observer {
	struct csi *csi;
	struct volume_election *lead;
	pthread_t thread;
	pthread_mutex_t lock; /* guards all below; innermost */
	pthread_cond_t wake;
	bool leading, asked, ending;
	int failed; /* errno of the last failure; its own thread */
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
static void observer_report(struct observer *o, int r, const struct error *err)
{
	if (r == -ECANCELED || r == o->failed)
		return;
	if (r < 0)
		log_warning("volumes cannot be observed (%s); trying again "
			    "in %d s",
			    error_text(err), OBSERVER_PERIOD_S);
	else
		log_info("volumes are observed again");
	o->failed = r;
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
	observer_report(o, r, &err);
}

/* ---- when ---- */

/* Wait until @until_ms, or until asked, leading or ending changes. */
static void observer_sleep_until(struct observer *o, int64_t until_ms)
{
	const struct timespec t = {.tv_sec = until_ms / 1000,
				   .tv_nsec = until_ms % 1000 * 1000000};

	(void)pthread_cond_timedwait(&o->wake, &o->lock, &t);
}

/* Until there is something to do: false when the observer ends. */
static bool wait_for_work(struct observer *o, int64_t beat_ms, int64_t look_ms,
			  int64_t pause_ms)
{
	bool goes;

	pthread_mutex_lock(&o->lock);
	while (!o->ending) {
		int64_t next = look_ms < beat_ms ? look_ms : beat_ms;

		if (o->asked && pause_ms < next)
			next = pause_ms;
		if (!o->leading)
			(void)pthread_cond_wait(&o->wake, &o->lock);
		else if (clock_ms() >= next)
			break;
		else
			observer_sleep_until(o, next);
	}
	goes = !o->ending;
	pthread_mutex_unlock(&o->lock);
	return goes;
}

static bool take_asked(struct observer *o)
{
	bool asked;

	pthread_mutex_lock(&o->lock);
	asked = o->asked;
	o->asked = false;
	pthread_mutex_unlock(&o->lock);
	return asked;
}

static void *observer_run(void *observer_)
{
	struct observer *o = observer_;
	int64_t beat_ms = 0, look_ms = 0, pause_ms = 0;

	while (wait_for_work(o, beat_ms, look_ms, pause_ms)) {
		if (clock_ms() >= beat_ms) {
			/*
			 * Trouble is told by the next check, which needs the
			 * store too.
			 */
			(void)volume_node_observe(o->csi->volumes, NULL);
			beat_ms = clock_ms() + STORE_BEAT_S * 1000;
		}
		if (clock_ms() < look_ms &&
		    (clock_ms() < pause_ms || !take_asked(o)))
			continue;
		observer_check(o);
		pause_ms = clock_ms() + OBSERVER_PAUSE_S * 1000;
		look_ms = clock_ms() + OBSERVER_PERIOD_S * 1000;
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
