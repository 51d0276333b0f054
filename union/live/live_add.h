/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A branch added to a union that is mounted and in use. Directories the
 * kernel knows get their copy on it, and what the kernel keeps of them (a
 * name as absent, a listing, attributes) is taken back where the branch
 * makes it untrue.
 */
#ifndef UNION_LIVE_ADD_H
#define UNION_LIVE_ADD_H

#include "union/config/branch_spec.h"
#include "union/view/unionfs.h"

/*
 * Add @spec to @fs, mounted at @mountpoint (absolute, resolved), after the
 * branches that are there. A branch that is there already with these flags
 * is fine; what an add that failed half way left undone is then done.
 *
 * One thread at a time, not one that serves requests: the kernel may wait
 * for those before it takes something back.
 *
 * 0 and its id; -EINVAL for a path that may be no branch of this union or
 * other flags than it has, -EBUSY for a branch that another union has, or that
 * needs a recovery which is done at a mount only, and what branch_open() says;
 * the union is then as before. Any other error: the branch is there, part of
 * what it holds may not be seen; adding it once more goes on.
 */
int live_add(struct unionfs *fs, const char *mountpoint,
	     const struct branch_spec *spec, unsigned *ret_id,
	     struct error *err);

#endif
