/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A branch belongs to one union, for as long as a process of it lives: what
 * another union finds in BRANCH_WORK_DIR is not a crash's, but in use. The lock
 * is one of flock(2) on that directory: exclusive, or shared by unions that
 * only read it. A supervisor keeps it for the next server (fd_store.h), so it
 * is free when all of them have ended, however they did. One that failed has
 * none, once it was tried whether it is back.
 */
#ifndef UNION_BRANCH_LOCK_H
#define UNION_BRANCH_LOCK_H

#include "union/branch/branch.h"

#define BRANCH_LOCK_MS 10000 /* one that was unmounted ends meanwhile */

/*
 * Lock @count @branches, which are open: exclusively but those that are
 * BRANCH_RO. Waits BRANCH_LOCK_MS for a union that ends. Nothing is made on one
 * that is BRANCH_RO; one without BRANCH_WORK_DIR, and no room for it, is not
 * locked, which is logged; so is a file system that has no such locks.
 *
 * 0; or -EBUSY with @err, which names who has one of them, or a branch in it or
 * around it; some may be locked then.
 */
int branch_lock(struct branch *const *branches, unsigned count,
		struct error *err);

/* The same for one that becomes writable, before it does. */
int branch_lock_to_write(struct branch *branch, struct error *err);

/* At once or not, by @root, its root; if it is not locked still. 0 or -EBUSY.
 */
int branch_lock_again(struct branch *branch, int root);

/*
 * As the server before had it: one that was killed and has not ended shares it,
 * and nobody else can have it until then. False: there is none.
 */
bool branch_lock_resume(struct branch *branch);

void branch_unlock(struct branch *branch);

#endif
