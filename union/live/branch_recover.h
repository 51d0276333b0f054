/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings back branches that failed or turned read-only. A thread for each of
 * them, while it is so and no longer, tries its path now and then: at first
 * after HEAL_FIRST_MS, then twice as long each time up to HEAL_LAST_MS. What
 * is there is the branch again if it is the same directory of the same file
 * system (branch_identity.h), on whatever device, and can be read and, unless
 * it is ro, written. Another one in its place is refused and said so.
 *
 * A branch that comes back is announced as a new one is: what the kernel was
 * told without it is put right.
 */
#ifndef UNION_BRANCH_RECOVER_H
#define UNION_BRANCH_RECOVER_H

#include "union/view/unionfs.h"

#define HEAL_FIRST_MS 1000
#define HEAL_LAST_MS  60000
/* In place of HEAL_FIRST_MS for what failed to an earlier server. */
#define HEAL_AGAIN_MS 1
/* One that works that long begins with HEAL_FIRST_MS again. */
#define HEAL_CALM_MS 600000

/* Watch all branches of @fs. 0 or -errno. */
int branch_recover_start(struct unionfs *fs);

/* Call the branch as one that is to come back: 0 or -errno, or never. */
int branch_recover_try(const struct branch *branch);

/*
 * No more. True when no thread is left; one that hangs in a branch is not
 * waited for longer than a moment: what it uses must stay.
 */
bool branch_recover_stop(void);

#endif
