/* SPDX-License-Identifier: Apache-2.0 */
#include "volume/op/lead.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "volume/op/context.h"

struct volume_lead {
	struct store *store; /* borrowed */
	char name[RECORD_NAME_SIZE];
	volume_lead_changed changed;
	void *context;
	int last;             /* why we do not lead, as we told; 1: not yet */
	pthread_t thread;     /* all but volume_lead_is() and _stop() */
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t wake;
	bool leading;
	bool ending;
};

static void tell(struct volume_lead *lead, bool leading, const char *text)
{
	(void)pthread_mutex_lock(&lead->lock);
	lead->leading = leading;
	(void)pthread_mutex_unlock(&lead->lock);
	if (lead->changed)
		lead->changed(lead->context, leading, text);
}

static void give_up(struct volume_lead *lead, const char *why)
{
	tell(lead, false, why);
	/* Also one that was lost: only then can it be taken again. */
	lead->store->ops->release(lead->store, STORE_LEASE_LEADER, lead->name);
}

/* Returns how long to wait, in ms. */
static unsigned check(struct volume_lead *lead)
{
	struct error err = {0};
	int r = lead->store->ops->holds(lead->store, STORE_LEASE_LEADER,
					lead->name, &err);

	if (r == 0)
		return VOLUME_LEAD_CHECK_MS;
	give_up(lead, error_text(&err));
	return 0;
}

static unsigned try_to_lead(struct volume_lead *lead)
{
	struct error err = {0};
	unsigned chance = 0;
	int r = lead->store->ops->lease(lead->store, STORE_LEASE_LEADER,
					lead->name, "leading", &err);

	if (r == 0) {
		lead->last = 0;
		tell(lead, true, "leading");
		return VOLUME_LEAD_CHECK_MS;
	}
	if (r != lead->last)
		tell(lead, false, error_text(&err));
	lead->last = r;
	(void)getrandom(&chance, sizeof(chance), 0); /* or no chance */
	return VOLUME_LEAD_TRY_MS + chance % (VOLUME_LEAD_TRY_MS / 2);
}

/* With the lock held. */
static void wait_ms(struct volume_lead *lead, unsigned ms)
{
	struct timespec until;

	(void)clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000;
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	(void)pthread_cond_timedwait(&lead->wake, &lead->lock, &until);
}

static void *run(void *context)
{
	struct volume_lead *lead = context;
	bool leading;

	(void)pthread_mutex_lock(&lead->lock);
	while (!lead->ending) {
		unsigned ms;

		leading = lead->leading;
		(void)pthread_mutex_unlock(&lead->lock);
		ms = leading ? check(lead) : try_to_lead(lead);
		(void)pthread_mutex_lock(&lead->lock);
		if (!lead->ending && ms > 0)
			wait_ms(lead, ms);
	}
	leading = lead->leading;
	(void)pthread_mutex_unlock(&lead->lock);
	if (leading)
		give_up(lead, "stopping");
	return NULL;
}

static void lead_free(struct volume_lead *lead)
{
	(void)pthread_cond_destroy(&lead->wake);
	(void)pthread_mutex_destroy(&lead->lock);
	free(lead);
}

int volume_lead_start(struct volume_context *ctx, const char *name,
		      volume_lead_changed changed, void *context,
		      struct volume_lead **ret, struct error *err)
{
	struct volume_lead *lead;
	pthread_condattr_t monotonic;
	int r = name_check("election", name, err);

	if (r < 0)
		return r;
	lead = calloc(1, sizeof(*lead));
	if (!lead)
		return error_set(err, ENOMEM, "out of memory");
	lead->store = ctx->store;
	memcpy(lead->name, name, strlen(name) + 1);
	lead->changed = changed;
	lead->context = context;
	lead->last = 1;
	(void)pthread_mutex_init(&lead->lock, NULL);
	(void)pthread_condattr_init(&monotonic);
	(void)pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	(void)pthread_cond_init(&lead->wake, &monotonic);
	(void)pthread_condattr_destroy(&monotonic);
	r = pthread_create(&lead->thread, NULL, run, lead);
	if (r != 0) {
		lead_free(lead);
		return error_set(err, r, "starting a thread: %s", strerror(r));
	}
	*ret = lead;
	return 0;
}

bool volume_lead_is(struct volume_lead *lead)
{
	bool leading;

	(void)pthread_mutex_lock(&lead->lock);
	leading = lead->leading;
	(void)pthread_mutex_unlock(&lead->lock);
	return leading &&
	       lead->store->ops->holds(lead->store, STORE_LEASE_LEADER,
				       lead->name, NULL) == 0;
}

void volume_lead_stop(struct volume_lead *lead)
{
	if (!lead)
		return;
	(void)pthread_mutex_lock(&lead->lock);
	lead->ending = true;
	(void)pthread_cond_broadcast(&lead->wake);
	(void)pthread_mutex_unlock(&lead->lock);
	(void)pthread_join(lead->thread, NULL);
	lead_free(lead);
}
