/* SPDX-License-Identifier: Apache-2.0 */
/* The process that a request comes from. */
#ifndef UNION_CALLER_H
#define UNION_CALLER_H

#include "union/view/unionfs.h"

/*
 * Has the caller @capability (CAP_SYS_ADMIN and the like)? A capability of a
 * caller that is not root here does not count.
 */
bool caller_has(const struct request *request, int capability);
bool caller_is_admin(const struct request *request);

/* Is the caller of the group @gid? Supplementary groups count. */
bool caller_is_in_group(const struct request *request, gid_t gid);

#endif
