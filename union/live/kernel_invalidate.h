/* SPDX-License-Identifier: Apache-2.0 */
/* Tell the node table and the kernel what a new branch changes. */
#ifndef UNION_KERNEL_INVALIDATE_H
#define UNION_KERNEL_INVALIDATE_H

#include "union/view/unionfs.h"

/*
 * Announce @branch, whose root is a copy of the union's already. Its
 * directories that the kernel knows from other branches get their copy there.
 * Then the kernel forgets what is no longer so: names of them as absent,
 * listings, attributes. The kernel keeps all else, and what is mounted inside
 * the union stays.
 *
 * Can be repeated. 0 or -errno. Called by a thread that serves no requests.
 */
int kernel_invalidate(struct unionfs *fs, struct branch *branch);

/*
 * Announce likewise a branch that had failed and is back. Lookups of the time
 * between did not see the branch, and its last changes may be lost.
 */
int kernel_invalidate_again(struct unionfs *fs, struct branch *branch);

#endif
