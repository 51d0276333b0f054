/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of the file that is seen, of several with one name. The policy of
 * getattr chooses, when the name is looked up. A directory on the lowest branch
 * that has the name is seen with any policy.
 */
#ifndef UNION_LOOKUP_POLICY_H
#define UNION_LOOKUP_POLICY_H

#include "union/view/lookup.h"

/* Is always the file on the lowest branch seen? */
bool lookup_policy_is_lowest(const struct unionfs *fs);

/*
 * Bring the one of @hits (lowest branch first) that is seen to the front; the
 * others keep their order.
 *
 * @known  the name that they all have: the kernel means a file that it knows
 *         already, if one is among them. NULL: the kernel asks for the name.
 */
void lookup_policy_order(struct unionfs *fs, struct hit *hits, int count,
			 const char *known);

#endif
