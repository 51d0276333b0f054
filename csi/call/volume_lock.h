/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One operation at a time on one volume in this process: the second is refused,
 * not queued (CSI: ABORTED). Only a repair in the background is waited for.
 * Leases of the store keep other processes out.
 */
#ifndef CSI_VOLUME_LOCK_H
#define CSI_VOLUME_LOCK_H

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
	pthread_mutex_t lock;   /* guards @first; innermost */
	pthread_cond_t changed; /* a lock was released */
	struct volume_lock *first;
};

void volume_locks_init(struct volume_locks *locks);
void volume_locks_done(struct volume_locks *locks);

/*
 * Take @name until volume_lock_release(). The caller owns @lock, which stays in
 * place meanwhile, and sets its @background.
 *
 * Returns NULL, or what another call does with that name.
 */
const char *volume_lock_take(struct volume_locks *locks,
			     struct volume_lock *lock, const char *name,
			     const char *what);
void volume_lock_release(struct volume_locks *locks, struct volume_lock *lock);

#endif
