/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/call/csi_holds.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void csi_holds_init(struct csi_holds *holds)
{
	(void)pthread_mutex_init(&holds->lock, NULL);   /* cannot fail here */
	(void)pthread_cond_init(&holds->changed, NULL); /* nor here */
	holds->first = NULL;
}

void csi_holds_done(struct csi_holds *holds)
{
	assert(!holds->first);
	(void)pthread_cond_destroy(&holds->changed);
	(void)pthread_mutex_destroy(&holds->lock);
}

static const struct csi_hold *find(const struct csi_holds *holds,
				   const char *name)
{
	const struct csi_hold *h = holds->first;

	while (h && strcmp(h->name, name) != 0)
		h = h->next;
	return h;
}

/* With the lock: until nothing of the background has @name. */
static const struct csi_hold *wait_for(struct csi_holds *holds,
				       const char *name)
{
	const struct csi_hold *other;
	struct timespec end;

	(void)clock_gettime(CLOCK_MONOTONIC, &end); /* it is there */
	end.tv_sec += CSI_HOLD_WAIT_MS / 1000;
	while ((other = find(holds, name)) && other->background)
		if (pthread_cond_clockwait(&holds->changed, &holds->lock,
					   CLOCK_MONOTONIC, &end) == ETIMEDOUT)
			break;
	return other;
}

const char *csi_hold_begin(struct csi_holds *holds, struct csi_hold *hold,
			   const char *name, const char *what)
{
	const struct csi_hold *other;
	const char *doing = NULL;

	pthread_mutex_lock(&holds->lock);
	other = hold->background ? find(holds, name) : wait_for(holds, name);
	if (other) {
		doing = other->what;
	} else {
		(void)snprintf(hold->name, sizeof(hold->name), "%s", name);
		hold->what = what;
		hold->next = holds->first;
		holds->first = hold;
	}
	pthread_mutex_unlock(&holds->lock);
	return doing;
}

void csi_hold_end(struct csi_holds *holds, struct csi_hold *hold)
{
	struct csi_hold **at = &holds->first;

	pthread_mutex_lock(&holds->lock);
	while (*at != hold)
		at = &(*at)->next;
	*at = hold->next;
	pthread_cond_broadcast(&holds->changed);
	pthread_mutex_unlock(&holds->lock);
}
