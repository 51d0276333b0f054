/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that may still be made by calls that have not come back. A caller
 * waited for a branch that hangs and was told EIO. The kernel was told before
 * that there is no such name, and may ask to make it again. Another branch must
 * not make it: there might be two of it. The name is EIO until no branch is in
 * doubt any more (branch_health.h).
 */
#ifndef UNION_PENDING_NAMES_H
#define UNION_PENDING_NAMES_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

struct pending;
extern _Atomic(struct pending *) pending_first; /* NULL: none is pending */

/*
 * Does @request change names? The name it is to make is pending then. @request
 * is one of the kernel's, or as much of one as there is. Without memory the
 * name is not noted.
 */
bool pending_names_add(const void *request, size_t length);

/* Is @request to make a pending name? The first function has no fast way. */
bool pending_names_find(const void *request, size_t length);
static inline bool pending_names_has(const void *request, size_t length)
{
	return atomic_load_explicit(&pending_first, memory_order_relaxed) &&
	       pending_names_find(request, length);
}

#endif
