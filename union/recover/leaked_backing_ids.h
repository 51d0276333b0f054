/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that a killed server had named to the kernel (passthrough_open())
 * without noting the number. Nobody opens by such a number, and nobody gives it
 * back. The file and its space would be in use until the union is unmounted.
 *
 * The kernel counts the numbers up (fs/fuse/backing.c, 6.18: idr_alloc_cyclic),
 * so those are among the last.
 */
#ifndef UNION_LEAKED_BACKING_IDS_H
#define UNION_LEAKED_BACKING_IDS_H

#include "union/view/unionfs.h"

/*
 * Give back the numbers that no node has. By the next server, before it serves.
 */
void leaked_backing_ids_close(struct unionfs *fs);

#endif
