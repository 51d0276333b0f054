/* SPDX-License-Identifier: Apache-2.0 */
#include "union/sys/dir_offset.h"

#include <assert.h>

#include "union/sys/branch_flags.h"

/* From the highest bit: merged, rounded, the branch, its own offset. */
#define ROUNDED     (INT64_C(1) << 61)
#define BRANCH_BITS 8
#define OWN_BITS    53
#define OWN_MASK    ((INT64_C(1) << OWN_BITS) - 1)
#define ROUND_BITS  (63 - OWN_BITS)

static_assert(BRANCH_MAX <= 1 << BRANCH_BITS, "each has a number");
static_assert(OWN_BITS + BRANCH_BITS + 2 == 63, "an offset is positive");

int64_t dir_offset_on(unsigned branch, int64_t own)
{
	int64_t on = (int64_t)branch << OWN_BITS;

	return own <= OWN_MASK ? on | own : on | ROUNDED | own >> ROUND_BITS;
}

bool dir_offset_is_merged(int64_t offset)
{
	return offset & DIR_OFFSET_MERGED;
}

unsigned dir_offset_branch(int64_t offset)
{
	return (unsigned)(offset >> OWN_BITS) & ((1u << BRANCH_BITS) - 1);
}

int64_t dir_offset_own(int64_t offset)
{
	int64_t own = offset & OWN_MASK;

	return offset & ROUNDED ? own << ROUND_BITS : own;
}
