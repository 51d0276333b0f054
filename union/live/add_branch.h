/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A branch added to a union that is mounted and in use. Directories that the
 * kernel knows get their copy on the branch. What the kernel keeps of them (a
 * name as absent, a listing, attributes) is taken back where the branch makes
 * it untrue.
 */
#ifndef UNION_ADD_BRANCH_H
#define UNION_ADD_BRANCH_H

#include "union/config/branch_spec.h"
#include "union/view/unionfs.h"

/*
 * Add @spec to @fs, mounted at @mountpoint (absolute, resolved), after the
 * branches that are there. A branch that is there already with these flags is
 * fine; then the call does what an add that failed half way left undone.
 *
 * One thread at a time, not one that serves requests: the kernel may wait for
 * those before it takes something back.
 *
 * 0 and the branch's id. Errors that leave the union as before are those of
 * branch_open() and:
 *
 *	-EINVAL  the path may be no branch of this union, or the branch is
 *	         there with other flags
 *	-EBUSY   another union has the branch, or it needs a recovery that
 *	         only a mount does
 *
 * After any other error the branch is there, but part of what it holds may not
 * be seen; adding it once more goes on.
 */
int union_add_branch(struct unionfs *fs, const char *mountpoint,
		     const struct branch_spec *spec, unsigned *ret_id,
		     struct error *err);

#endif
