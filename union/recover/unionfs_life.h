/* SPDX-License-Identifier: Apache-2.0 */
/* A union begins and ends. */
#ifndef UNION_UNIONFS_LIFE_H
#define UNION_UNIONFS_LIFE_H

#include "union/view/unionfs.h"

/* Begin: the branches' roots become the root node. 0, or -errno with @err. */
int unionfs_init(struct unionfs *fs, struct error *err);
void unionfs_done(struct unionfs *fs);

#endif
