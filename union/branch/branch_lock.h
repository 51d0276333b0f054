/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks that give a branch to one union, for as long as a process of that
 * lives. A file that another union finds in BRANCH_WORK_DIR is in use then, not
 * left by a crash. The lock is one of flock(2) on that directory: exclusive, or
 * shared by unions that only read it. A supervisor keeps it for the next server
 * (fd_store.h). So it is free when all processes have ended, in any way. A
 * failed branch has no lock, once it was tried whether it is back.
 */
#ifndef UNION_BRANCH_LOCK_H
#define UNION_BRANCH_LOCK_H

#include "union/branch/branch.h"

#define BRANCH_LOCK_MS 10000 /* an unmounted union ends meanwhile */

/*
 * Lock @count @branches, which are open: shared if BRANCH_RO, else exclusively.
 * Waits BRANCH_LOCK_MS for a union that ends. Nothing is made on a branch that
 * is BRANCH_RO. A branch without BRANCH_WORK_DIR, and no room for it, is not
 * locked, which is logged. The same holds for a file system without such locks.
 *
 * 0; or -EBUSY with @err, which names the union that has one of them, or a
 * branch in it or around it. Some may be locked then.
 */
int branch_lock(struct branch *const *branches, unsigned count,
		struct error *err);

/* Lock a branch exclusively before it becomes writable. */
int branch_lock_to_write(struct branch *branch, struct error *err);

/* Lock a branch again by @root, its root, if it is not locked still, without
 * waiting. 0 or -EBUSY.
 */
int branch_lock_again(struct branch *branch, int root);

/*
 * Take over the lock of the server before. A server that was killed and has not
 * ended shares it, and nobody else can have it until then. False: there is
 * none.
 */
bool branch_lock_resume(struct branch *branch);

void branch_unlock(struct branch *branch);

#endif
