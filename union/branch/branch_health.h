/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The health of branches. Each caller of a branch reports the result. After an
 * error that may mean that the branch is gone, the branch is tried, and marked
 * failed or read-only if it is. From then on nobody calls a failed branch. A
 * directory's copy there is passed over (node_first(), copy_next()), a file
 * there is EIO. branch_recover.h finds out when the branch is back.
 *
 * A directory that is looked up while a branch is failed may have an unknown
 * copy there: the directory is in doubt. A branch that returns is in
 * doubt until the union shows its content again. Meanwhile a name that is found
 * nowhere else is not said to be absent.
 */
#ifndef UNION_BRANCH_HEALTH_H
#define UNION_BRANCH_HEALTH_H

#include "union/branch/branch.h"
#include "union/branch/branch_failed.h"

/*
 * Report @r, the result of a call to @branch (0 or -errno). For a failure or
 * EROFS the branch itself is tried (branch_try.h). By the result it has failed,
 * is read-only, or only the object of the call has an error. Returns @r.
 */
int branch_report_error(struct branch *branch, int r);
static inline int branch_report(struct branch *branch, int r)
{
	return r < 0 ? branch_report_error(branch, r) : r;
}

/* Mark the branch failed by @error, a positive errno, without a try. */
void branch_fail(struct branch *branch, int error);

/* Note that the branch turned read-only, or is so no more. */
void branch_set_turned_ro(struct branch *branch, bool ro);

/*
 * Note that the branch is back, on the descriptor @root_fd (borrowed) of its
 * root. It stays in doubt until branch_trust().
 */
void branch_revive(struct branch *branch, int root_fd, dev_t device);

/*
 * Trust the branch: its whole content is known as before. Not while it is
 * failed.
 */
void branch_trust(struct branch *branch);

/*
 * Let doubts outlive this server: branch_doubt_mark() is at @mark from now on,
 * borrowed. 0 there: there was none before. NULL: doubts do not outlive it.
 */
void branch_keep_doubt_mark(_Atomic uint32_t *mark);

/* Is the branch neither failed nor read-only by itself? */
static inline bool branch_is_well(const struct branch *branch)
{
	return branch_usable(branch->id) && !atomic_load(&branch->turned_ro);
}

/*
 * Get a mark for directories that are in doubt now. It means nothing once no
 * branch is in doubt any more. Never 0.
 */
unsigned branch_doubt_mark(void);

/*
 * Numbers of branches that are failed, or have turned read-only; failures so
 * far.
 */
struct branches_ill {
	unsigned failed, read_only;
	unsigned long failures;
};
struct branches_ill branch_table_ill(const struct branch_table *table);

/*
 * Set the function called at each failure and turn to read-only, by the thread
 * that met it.
 */
void branch_health_watch(void (*changed)(struct branch *branch));

#endif
