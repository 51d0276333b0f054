/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that a killed server had named to the kernel (passthrough_open()) and
 * not noted any more. Nobody opens by such a number, and nobody gives it back:
 * the file would be in use, and its space, until the union is unmounted.
 *
 * The kernel counts the numbers up (fs/fuse/backing.c, 6.18: idr_alloc_cyclic),
 * so those are among the last.
 */
#ifndef UNION_LEAKED_BACKING_IDS_H
#define UNION_LEAKED_BACKING_IDS_H

#include "union/view/unionfs.h"

/* By the next server, before it serves: give back what no node has. */
void leaked_backing_ids_close(struct unionfs *fs);

#endif
