/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bring back branches that failed or turned read-only. Each such branch has a
 * thread while it is so. The thread tries the branch's path now and then: at
 * first after HEAL_FIRST_MS, then twice as long each time up to HEAL_LAST_MS.
 *
 * The directory at the path is the branch again if it is the same directory of
 * the same file system (branch_identity.h), on whatever device. It must be
 * readable and, unless the branch is ro, writable. Another directory in its
 * place is refused, which is logged.
 *
 * A branch that comes back is shown as a new one is: what the kernel was
 * told without it is put right.
 */
#ifndef UNION_BRANCH_RECOVER_H
#define UNION_BRANCH_RECOVER_H

#include "union/view/unionfs.h"

#define HEAL_FIRST_MS 1000
#define HEAL_LAST_MS  60000
/* In place of HEAL_FIRST_MS for a branch that failed to an earlier server. */
#define HEAL_AGAIN_MS 1
/* A branch that worked that long begins with HEAL_FIRST_MS again. */
#define HEAL_CALM_MS 600000

/* Watch all branches of @fs. 0 or -errno. */
int branch_recover_start(struct unionfs *fs);

/*
 * Test @branch as it is tested before it comes back into use. 0 or -errno.
 * Hangs as long as the branch does.
 */
int branch_recover_try(const struct branch *branch);

/*
 * End. True when no thread is left. A thread that hangs in a branch is waited
 * for no longer than a moment: false, and what the thread uses must stay.
 */
bool branch_recover_stop(void);

#endif
