/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is open as the state memory has it (state.h), by its number. Without
 * that memory these do nothing.
 */
#ifndef UNION_OPEN_RECORD_H
#define UNION_OPEN_RECORD_H

#include "union/view/unionfs.h"

/* @flags: STATE_OPEN_DIR and the like. */
void open_record_new(struct unionfs *fs, uint64_t number,
		     const struct node *node, uint32_t flags);
void open_record_end(struct unionfs *fs, uint64_t number);

/*
 * Close what is open there, if it is: the kernel was never told. In a request
 * that names its node or the directory it was made in.
 */
void open_record_drop(struct unionfs *fs, uint64_t number);

/* All that was open is so again. 0, -ENOMEM or -EPROTO. */
int open_restore(struct unionfs *fs);

#endif
