/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which branches work. Whoever calls a branch reports what came back; after an
 * error that may say that the branch is no longer there it is tried, and
 * marked failed or read-only if it is. From then on nobody calls a failed
 * branch: a directory's copy there is passed over (node_first(), copy_next()),
 * a file there is EIO. It is branch_recover.h that finds out when it is back.
 *
 * A directory that is looked up while a branch is failed may have a copy
 * there that is not known: it is in doubt, as the whole branch is until what
 * is on it was announced after its return. A name that is found nowhere else
 * is then not said to be absent.
 *
 * One union a process, so what is asked all the time is kept here, by id.
 */
#ifndef UNION_BRANCH_HEALTH_H
#define UNION_BRANCH_HEALTH_H

#include "union/branch/branch.h"

/* EIO, ESHUTDOWN, EUCLEAN, EBADMSG, ENODEV, ENXIO, ETIMEDOUT: of a branch, or
 * of one object. */
bool branch_is_failure(int r);

/*
 * @r is what a call to @branch gave (0 or -errno). If it is such a one, or
 * EROFS, the branch itself is tried (branch_try.h): it has failed, or is
 * read-only, when that says so. Else it is the error of what was called alone.
 * Returns @r.
 */
int branch_report(struct branch *branch, int r);

/* Failed by @error, a positive errno, whatever was called. */
void branch_fail(struct branch *branch, int error);

/* It turned read-only, or not. */
void branch_set_turned_ro(struct branch *branch, bool ro);

/*
 * It is back, on the descriptor @root_fd (borrowed) of its root. Still in
 * doubt until branch_trust().
 */
void branch_revive(struct branch *branch, int root_fd, dev_t device);

/* All that is on it is known as before. Not while it is failed. */
void branch_trust(struct branch *branch);

/*
 * Doubts outlive this server: branch_doubt_mark() is at @mark from now on (0
 * there: there was none before), borrowed; NULL: they do not.
 */
void branch_keep_doubt_mark(_Atomic uint32_t *mark);

extern atomic_ullong branch_failed_set[BRANCH_MAX / 64];
extern atomic_uint branch_doubted; /* failed, or not trusted yet */

static inline bool branch_usable(unsigned id)
{
	return !(atomic_load_explicit(&branch_failed_set[id / 64],
				      memory_order_acquire) >>
			 id % 64 &
		 1);
}

/* Neither failed nor read-only by itself? */
static inline bool branch_is_well(const struct branch *branch)
{
	return branch_usable(branch->id) && !atomic_load(&branch->turned_ro);
}

static inline bool branch_any_doubted(void)
{
	return atomic_load(&branch_doubted) > 0;
}

/*
 * What marks a directory that is in doubt now; it means nothing once no
 * branch is in doubt any more. Never 0.
 */
unsigned branch_doubt_mark(void);

/* How many are failed now, or have turned read-only; failures so far. */
struct branches_ill {
	unsigned failed, read_only;
	unsigned long failures;
};
struct branches_ill branch_table_ill(const struct branch_table *table);

/* Called at each failure and turn to read-only, by who met it. */
void branch_health_watch(void (*changed)(struct branch *branch));

#endif
