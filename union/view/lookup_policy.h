/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which of several files of one name is seen. The policy of getattr says it,
 * when the name is looked up; a directory on the lowest branch that has the
 * name is seen whatever the policy.
 */
#ifndef UNION_LOOKUP_POLICY_H
#define UNION_LOOKUP_POLICY_H

#include "union/view/lookup.h"

/* Is it always the one on the lowest branch? */
bool lookup_policy_is_lowest(const struct unionfs *fs);

/*
 * Bring the one of @hits (lowest branch first) that is seen to the front; the
 * others keep their order.
 *
 * @known  the name that they all have: of those that the kernel knows, one is
 *         what it means by that. NULL: it asks.
 */
void lookup_policy_order(struct unionfs *fs, struct hit *hits, int count,
			 const char *known);

#endif
