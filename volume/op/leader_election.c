/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/op/leader_election.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "volume/op/context.h"

struct volume_election {
	struct store *store; /* borrowed */
	char name[RECORD_NAME_SIZE];
	volume_election_changed changed;
	void *context;
	int last;         /* why we do not lead, as last reported; 1: not yet */
	pthread_t thread; /* all but volume_election_leads() and _stop() */
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t wake;
	bool leading;
	bool ending;
};

static void election_report(struct volume_election *election, bool leading,
			    const char *text)
{
	(void)pthread_mutex_lock(&election->lock);
	election->leading = leading;
	(void)pthread_mutex_unlock(&election->lock);
	if (election->changed)
		election->changed(election->context, leading, text);
}

static void election_give_up(struct volume_election *election, const char *why)
{
	election_report(election, false, why);
	/* Also one that was lost: only then can it be taken again. */
	election->store->ops->release(election->store, STORE_LEASE_LEADER,
				      election->name);
}

/* Returns how long to wait, in ms. */
static unsigned election_check(struct volume_election *election)
{
	struct error err = {0};
	int r = election->store->ops->holds(election->store, STORE_LEASE_LEADER,
					    election->name, &err);

	if (r == 0)
		return VOLUME_ELECTION_CHECK_MS;
	election_give_up(election, error_text(&err));
	return 0;
}

static unsigned election_try(struct volume_election *election)
{
	struct error err = {0};
	unsigned chance = 0;
	int r = election->store->ops->lease(election->store, STORE_LEASE_LEADER,
					    election->name, "leading", &err);

	if (r == 0) {
		election->last = 0;
		election_report(election, true, "leading");
		return VOLUME_ELECTION_CHECK_MS;
	}
	if (r != election->last)
		election_report(election, false, error_text(&err));
	election->last = r;
	(void)getrandom(&chance, sizeof(chance), 0); /* or no chance */
	return VOLUME_ELECTION_TRY_MS + chance % (VOLUME_ELECTION_TRY_MS / 2);
}

/* With the lock held. */
static void election_wait(struct volume_election *election, unsigned ms)
{
	struct timespec until;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	(void)pthread_cond_timedwait(&election->wake, &election->lock, &until);
}

static void *election_run(void *context)
{
	struct volume_election *election = context;
	bool leading;

	(void)pthread_mutex_lock(&election->lock);
	while (!election->ending) {
		unsigned ms;

		leading = election->leading;
		(void)pthread_mutex_unlock(&election->lock);
		ms = leading ? election_check(election)
			     : election_try(election);
		(void)pthread_mutex_lock(&election->lock);
		if (!election->ending && ms > 0)
			election_wait(election, ms);
	}
	leading = election->leading;
	(void)pthread_mutex_unlock(&election->lock);
	if (leading)
		election_give_up(election, "stopping");
	return NULL;
}

static void lead_free(struct volume_election *election)
{
	(void)pthread_cond_destroy(&election->wake);
	(void)pthread_mutex_destroy(&election->lock);
	free(election);
}

int volume_election_join(struct volume_context *ctx, const char *name,
			 volume_election_changed changed, void *context,
			 struct volume_election **ret, struct error *err)
{
	struct volume_election *election;
	pthread_condattr_t monotonic;
	int r = name_check("election", name, err);

	if (r < 0)
		return r;
	election = calloc(1, sizeof(*election));
	if (!election)
		return error_set(err, ENOMEM, "out of memory");
	election->store = ctx->store;
	memcpy(election->name, name, strlen(name) + 1);
	election->changed = changed;
	election->context = context;
	election->last = 1;
	(void)pthread_mutex_init(&election->lock, NULL);
	(void)pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&election->wake, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);
	r = pthread_create(&election->thread, NULL, election_run, election);
	if (r != 0) {
		lead_free(election);
		return error_set(err, r, "starting a thread: %s", strerror(r));
	}
	*ret = election;
	return 0;
}

bool volume_election_leads(struct volume_election *election)
{
	bool leading;

	(void)pthread_mutex_lock(&election->lock);
	leading = election->leading;
	(void)pthread_mutex_unlock(&election->lock);
	return leading &&
	       election->store->ops->holds(election->store, STORE_LEASE_LEADER,
					   election->name, NULL) == 0;
}

void volume_election_leave(struct volume_election *election)
{
	if (!election)
		return;
	(void)pthread_mutex_lock(&election->lock);
	election->ending = true;
	(void)pthread_cond_broadcast(&election->wake);
	(void)pthread_mutex_unlock(&election->lock);
	(void)pthread_join(election->thread, NULL);
	lead_free(election);
}
