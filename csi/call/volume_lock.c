/* SPDX-License-Identifier: Apache-2.0 */
#include "csi/call/volume_lock.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

void volume_locks_init(struct volume_locks *locks)
{
	(void)pthread_mutex_init(&locks->lock, NULL);   /* cannot fail here */
	(void)pthread_cond_init(&locks->changed, NULL); /* nor here */
	locks->first = NULL;
}

void volume_locks_done(struct volume_locks *locks)
{
	assert(!locks->first);
	(void)pthread_cond_destroy(&locks->changed);
	(void)pthread_mutex_destroy(&locks->lock);
}

static const struct volume_lock *lock_find(const struct volume_locks *locks,
					   const char *name)
{
	const struct volume_lock *h = locks->first;

	while (h && strcmp(h->name, name) != 0)
		h = h->next;
	return h;
}

/* With the lock: until nothing of the background has @name. */
static const struct volume_lock *lock_wait(struct volume_locks *locks,
					   const char *name)
{
	const struct volume_lock *other;
	struct timespec end;

	(void)clock_gettime(CLOCK_MONOTONIC, &end); /* it is there */
	end.tv_sec += VOLUME_LOCK_WAIT_MS / 1000;
	while ((other = lock_find(locks, name)) && other->background)
		if (pthread_cond_clockwait(&locks->changed, &locks->lock,
					   CLOCK_MONOTONIC, &end) == ETIMEDOUT)
			break;
	return other;
}

const char *volume_lock_take(struct volume_locks *locks,
			     struct volume_lock *lock, const char *name,
			     const char *what)
{
	const struct volume_lock *other;
	const char *doing = NULL;

	pthread_mutex_lock(&locks->lock);
	other = lock->background ? lock_find(locks, name)
				 : lock_wait(locks, name);
	if (other) {
		doing = other->what;
	} else {
		(void)snprintf(lock->name, sizeof(lock->name), "%s", name);
		lock->what = what;
		lock->next = locks->first;
		locks->first = lock;
	}
	pthread_mutex_unlock(&locks->lock);
	return doing;
}

void volume_lock_release(struct volume_locks *locks, struct volume_lock *lock)
{
	struct volume_lock **at = &locks->first;

	pthread_mutex_lock(&locks->lock);
	while (*at != lock)
		at = &(*at)->next;
	*at = lock->next;
	pthread_cond_broadcast(&locks->changed);
	pthread_mutex_unlock(&locks->lock);
}
