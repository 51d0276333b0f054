/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names that calls which have not come back may still make: of who waited for a
 * branch that hangs and was told EIO. The kernel, which was told before that
 * there is no such name, may ask for it to be made again: nobody makes it on
 * another branch, for then there might be two of it. It is EIO until no branch
 * is in doubt any more (branch_health.h).
 */
#ifndef UNION_PENDING_NAMES_H
#define UNION_PENDING_NAMES_H

#include <stdbool.h>
#include <stddef.h>

/*
 * @request is one of the kernel's, or whatever length of it is there: does it
 * change names? The one it is to make is pending then. Without memory that is
 * not noted.
 */
bool pending_names_add(const void *request, size_t length);

/* Is it to make one that is? */
bool pending_names_has(const void *request, size_t length);

#endif
