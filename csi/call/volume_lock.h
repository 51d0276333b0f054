/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One operation at a time on one volume in this process: the second is
 * refused, not queued (CSI: ABORTED). Only what nobody has called for, a
 * repair, is waited for. Other processes are kept out by the store's leases.
 */
#ifndef VOLUME_LOCK_H
#define VOLUME_LOCK_H

#include <pthread.h>
#include <stdbool.h>

#include "volume/record/volume_record.h"

struct volume_lock {
	struct volume_lock *next;
	const char *what; /* "CreateVolume"; borrowed for ever */
	char name[RECORD_NAME_SIZE];
	bool background; /* others wait for it, VOLUME_LOCK_WAIT_MS at most */
};

#define VOLUME_LOCK_WAIT_MS 20000

struct volume_locks {
	pthread_mutex_t lock;   /* guards @first; no other is taken inside */
	pthread_cond_t changed; /* one has ended */
	struct volume_lock *first;
};

void volume_locks_init(struct volume_locks *locks);
void volume_locks_done(struct volume_locks *locks);

/*
 * Take @name until volume_lock_release(). @lock is the caller's and stays where
 * it is meanwhile; its @background is set by the caller. NULL, or what another
 * one is doing with that name.
 */
const char *volume_lock_take(struct volume_locks *locks,
			     struct volume_lock *lock, const char *name,
			     const char *what);
void volume_lock_release(struct volume_locks *locks, struct volume_lock *lock);

#endif
