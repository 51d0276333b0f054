/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of directories that a server was making or removing when it was
 * killed.
 */
#ifndef UNION_UNFINISHED_H
#define UNION_UNFINISHED_H

#include "union/view/unionfs.h"

/*
 * Find out whether those copies are there. With the nodes of an earlier server,
 * after the work directories were swept and before the first request.
 */
void unfinished_copies(struct unionfs *fs);

#endif
