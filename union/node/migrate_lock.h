/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks that keep requests off a file that moves. Every request goes through
 * the lock of the node (or two) it names, shared, for as long as it is served.
 * A move of a file to another branch holds locks alone: those of the file, and
 * of the directories of its names. It does so for the moment in which the names
 * and the node change.
 *
 * So no request sees half of a move. No lookup finds the name neither at its
 * old nor at its new place. No write goes to a file that has just been copied.
 *
 * Locks are taken before every other lock. A thread that holds locks alone
 * waits for no request: it asks nothing of the kernel about the union.
 */
#ifndef UNION_MIGRATE_LOCK_H
#define UNION_MIGRATE_LOCK_H

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#define MIGRATE_LOCK_LOCKS       256
#define MIGRATE_LOCK_PATIENCE_MS 200 /* that a move makes others wait for */

struct migrate_lock {
	pthread_rwlock_t locks[MIGRATE_LOCK_LOCKS]; /* of nodes, by id */

	/*
	 * For migrate_lock_drain(): number of requests inside, by the phase in
	 * which they came.
	 */
	atomic_uint phase; /* 0 or 1 */
	atomic_uint inside[MIGRATE_LOCK_LOCKS][2];
	pthread_mutex_t drain;
};

/* The one or two locks of a request; -1: none. */
struct migrate_lock_pass {
	int first, second;
	unsigned phase;
};

int migrate_lock_init(struct migrate_lock *set); /* 0 or -ENOMEM */
void migrate_lock_done(struct migrate_lock *set);

/*
 * Pass the locks of a request's nodes (request.h): 0, 1 or 2.
 * migrate_lock_leave() gives them back.
 */
struct migrate_lock_pass migrate_lock_enter(struct migrate_lock *set,
					    const uint64_t *ids,
					    unsigned count);
void migrate_lock_leave(struct migrate_lock *set,
			struct migrate_lock_pass pass);

/*
 * Hold the locks of @ids alone. 0, or -EBUSY when the requests in them did
 * not end within MIGRATE_LOCK_PATIENCE_MS; or -ENOMEM. Then nothing is held.
 */
struct migrate_lock_hold {
	struct migrate_lock *set;
	uint64_t held[MIGRATE_LOCK_LOCKS / 64]; /* bits by lock */
	int first;      /* of them; it counts as inside there */
	unsigned phase; /* of that */
};
int migrate_lock_close(struct migrate_lock *set, const uint64_t *ids,
		       size_t count, struct migrate_lock_hold *ret);
void migrate_lock_open(
	struct migrate_lock_hold *hold); /* nothing held is fine */

/*
 * Wait until every request that is being served now, and every move that holds
 * locks, has ended. A request that comes later is neither waited for nor held
 * up. 0 or -EBUSY, after @patience_ms.
 */
int migrate_lock_drain(struct migrate_lock *set, int patience_ms);

#endif
