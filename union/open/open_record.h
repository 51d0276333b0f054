/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of open files and directories in the state memory (state.h), by their
 * number. Without that memory these functions do nothing.
 */
#ifndef UNION_OPEN_RECORD_H
#define UNION_OPEN_RECORD_H

#include "union/view/unionfs.h"

/* @flags: STATE_OPEN_DIR and the like. */
void open_record_new(struct unionfs *fs, uint64_t number,
		     const struct node *node, uint32_t flags);
void open_record_end(struct unionfs *fs, uint64_t number);

/*
 * Close the file or directory of that number, if it is open: the kernel was
 * never told of it. In a request that names its node or the directory it was
 * made in.
 */
void open_record_drop(struct unionfs *fs, uint64_t number);

/* Open again all that was open. 0, -ENOMEM or -EPROTO. */
int open_restore(struct unionfs *fs);

#endif
