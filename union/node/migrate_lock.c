/* SPDX-License-Identifier: Apache-2.0 */
#include "union/node/migrate_lock.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"

int migrate_lock_init(struct migrate_lock *set)
{
	pthread_rwlockattr_t attr;
	int i, r;

	r = pthread_rwlockattr_init(&attr);
	if (r)
		return -r;
	/* A move gets its turn, however many requests use the file. */
	(void)pthread_rwlockattr_setkind_np(
		&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
	for (i = 0; i < MIGRATE_LOCK_LOCKS; i++)
		pthread_rwlock_init(&set->locks[i], &attr);
	pthread_rwlockattr_destroy(&attr);
	atomic_init(&set->phase, 0);
	for (i = 0; i < MIGRATE_LOCK_LOCKS; i++) {
		atomic_init(&set->inside[i][0], 0);
		atomic_init(&set->inside[i][1], 0);
	}
	pthread_mutex_init(&set->drain, NULL);
	return 0;
}

void migrate_lock_done(struct migrate_lock *set)
{
	int i;

	for (i = 0; i < MIGRATE_LOCK_LOCKS; i++)
		pthread_rwlock_destroy(&set->locks[i]);
	pthread_mutex_destroy(&set->drain);
}

static int lock_of(uint64_t id)
{
	return (int)(id % MIGRATE_LOCK_LOCKS);
}

/* Count a request as inside; returns the phase for leave(). */
static unsigned come_in(struct migrate_lock *set, int lock)
{
	unsigned phase = atomic_load(&set->phase);

	atomic_fetch_add(&set->inside[lock][phase], 1);
	return phase;
}

static void go_out(struct migrate_lock *set, int lock, unsigned phase)
{
	atomic_fetch_sub(&set->inside[lock][phase], 1);
}

struct migrate_lock_pass migrate_lock_enter(struct migrate_lock *set,
					    const uint64_t *ids, unsigned count)
{
	struct migrate_lock_pass pass = {-1, -1, 0};
	int other;

	if (!count)
		return pass;
	pass.first = lock_of(ids[0]);
	if (count > 1 && lock_of(ids[1]) != pass.first)
		pass.second = lock_of(ids[1]);
	/* The lower lock is taken first, as everywhere. */
	if (pass.second >= 0 && pass.second < pass.first) {
		other = pass.first;
		pass.first = pass.second;
		pass.second = other;
	}
	(void)pthread_rwlock_rdlock(&set->locks[pass.first]);
	if (pass.second >= 0)
		(void)pthread_rwlock_rdlock(&set->locks[pass.second]);
	pass.phase = come_in(set, pass.first);
	return pass;
}

void migrate_lock_leave(struct migrate_lock *set, struct migrate_lock_pass pass)
{
	if (pass.first >= 0)
		go_out(set, pass.first, pass.phase);
	if (pass.second >= 0)
		(void)pthread_rwlock_unlock(&set->locks[pass.second]);
	if (pass.first >= 0)
		(void)pthread_rwlock_unlock(&set->locks[pass.first]);
}

static bool is_set(const uint64_t *bits, int i)
{
	return bits[i / 64] >> i % 64 & 1;
}

int migrate_lock_close(struct migrate_lock *set, const uint64_t *ids,
		       size_t count, struct migrate_lock_hold *ret)
{
	struct timespec deadline = clock_deadline(MIGRATE_LOCK_PATIENCE_MS);
	uint64_t wanted[MIGRATE_LOCK_LOCKS / 64] = {0};
	size_t i;
	int lock, r;

	memset(ret, 0, sizeof(*ret));
	ret->set = set;
	ret->first = -1;
	for (i = 0; i < count; i++)
		wanted[lock_of(ids[i]) / 64] |= UINT64_C(1)
						<< lock_of(ids[i]) % 64;
	for (lock = 0; lock < MIGRATE_LOCK_LOCKS; lock++) {
		if (!is_set(wanted, lock))
			continue;
		r = pthread_rwlock_clockwrlock(&set->locks[lock],
					       CLOCK_MONOTONIC, &deadline);
		if (r) {
			migrate_lock_open(ret);
			return r == ETIMEDOUT ? -EBUSY : -r;
		}
		ret->held[lock / 64] |= UINT64_C(1) << lock % 64;
		if (ret->first >= 0)
			continue;
		ret->first = lock;
		ret->phase = come_in(set, lock);
	}
	return 0;
}

void migrate_lock_open(struct migrate_lock_hold *hold)
{
	int lock;

	if (hold->first >= 0 && is_set(hold->held, hold->first))
		go_out(hold->set, hold->first, hold->phase);
	for (lock = MIGRATE_LOCK_LOCKS - 1; lock >= 0; lock--)
		if (is_set(hold->held, lock))
			(void)pthread_rwlock_unlock(&hold->set->locks[lock]);
	memset(hold->held, 0, sizeof(hold->held));
}

/* Wait a moment, unless it is after @deadline. */
static int nap_until(const struct timespec *deadline)
{
	const struct timespec nap = {.tv_nsec = 1000000};
	struct timespec now;

	(void)clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec > deadline->tv_sec || (now.tv_sec == deadline->tv_sec &&
					      now.tv_nsec >= deadline->tv_nsec))
		return -EBUSY;
	(void)nanosleep(&nap, NULL);
	return 0;
}

/* Wait until no request of @phase is inside; looks now and then. */
static int wait_for(struct migrate_lock *set, unsigned phase,
		    const struct timespec *deadline)
{
	int lock;

	for (lock = 0; lock < MIGRATE_LOCK_LOCKS; lock++)
		while (atomic_load(&set->inside[lock][phase]))
			if (nap_until(deadline) < 0)
				return -EBUSY;
	return 0;
}

/*
 * Wait until older requests of the other phase have left, then have new ones
 * come in that. So the requests waited for only become fewer.
 */
int migrate_lock_drain(struct migrate_lock *set, int patience_ms)
{
	struct timespec deadline = clock_deadline(patience_ms);
	unsigned phase;
	int r;

	/* ThreadSanitizer does not know pthread_mutex_clocklock(3). */
	while (pthread_mutex_trylock(&set->drain))
		if (nap_until(&deadline) < 0)
			return -EBUSY;
	phase = atomic_load(&set->phase);
	r = wait_for(set, !phase, &deadline);
	if (r == 0) {
		atomic_store(&set->phase, !phase);
		r = wait_for(set, phase, &deadline);
	}
	pthread_mutex_unlock(&set->drain);
	return r;
}
