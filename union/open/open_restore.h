/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open files and directories of an earlier server, by their records
 * (open_table.h).
 */
#ifndef UNION_OPEN_RESTORE_H
#define UNION_OPEN_RESTORE_H

#include "union/view/unionfs.h"

/* Open again all that was open. 0, -ENOMEM or -EPROTO. */
int open_restore(struct unionfs *fs);

/*
 * Close the file or directory of that number, if it is open: the kernel was
 * never told of it. In a request that names its node or the directory it was
 * made in.
 */
void open_drop(struct unionfs *fs, uint64_t number);

#endif
