/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies of directories that a server was making or removing when it was
 * killed: are they there?
 */
#ifndef UNION_UNFINISHED_H
#define UNION_UNFINISHED_H

#include "union/view/unionfs.h"

/*
 * With the nodes of an earlier server, when the work directories were swept
 * and before the first request.
 */
void unfinished_copies(struct unionfs *fs);

#endif
