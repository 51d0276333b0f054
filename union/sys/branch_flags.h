/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Flags that a union keeps of its branches: numbers that are also in records.
 */
#ifndef UNION_BRANCH_FLAGS_H
#define UNION_BRANCH_FLAGS_H

#include <stdint.h>

#define BRANCH_MAX 256

/* Flags of a branch. */
#define BRANCH_LOCAL    1u   /* its storage is on this node */
#define BRANCH_RO       2u   /* nothing is changed on it */
#define BRANCH_NC       4u   /* no new name goes there that may go elsewhere */
#define BRANCH_DRAINING 8u   /* as that, and its files leave it: see drain.h */
#define BRANCH_GONE     16u  /* nothing is on it, and it is asked no more */
#define BRANCH_LEAVING  32u  /* as that, but BRANCH_WORK_DIR is there still */
#define BRANCH_ABSENT   64u  /* as that: its disk was not mounted, or is lost */
#define BRANCH_HELD     128u /* BRANCH_RO, as long as the union is read-only */

#define BRANCH_MIN_FREE_UNION UINT64_MAX /* branch.min_free: the union's */

#endif
