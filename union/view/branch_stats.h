/* SPDX-License-Identifier: Apache-2.0 */
/* Facts of a union's branches for policies (union/config/policy.h). */
#ifndef UNION_BRANCH_STATS_H
#define UNION_BRANCH_STATS_H

#include "union/view/unionfs.h"

/* Branches that a new name in @parent may go to, one after another. */
struct branch_stats {
	const struct policy *policy;
	struct policy_branch *rest; /* those not taken yet */
	unsigned count;
	bool filtered;     /* only those where something may be made are left */
	bool shared_known; /* of @rest: policy_branch.shared */
	struct policy_branch branches[BRANCH_MAX];
};

/*
 * Collect the facts of all branches that @policy needs. Cheap: free space is
 * that of the last second, and only POLICY_NEWEST looks at the copies of
 * @parent. Branches where nothing may be made are there, too, until the first
 * branch_stats_next().
 */
void branch_stats_begin(struct branch_stats *stats, struct unionfs *fs,
			const struct node *parent, const struct policy *policy);

/* Take the next branch to try; NULL: none is left. */
const struct policy_branch *branch_stats_next(struct branch_stats *stats,
					      struct unionfs *fs,
					      const struct node *parent);

/*
 * Get the facts of one branch without its directories. The caller fills in
 * has_parent, shared and changed_ns.
 */
void branch_stats_branch(const struct unionfs *fs, struct branch *branch,
			 int64_t now_ms, struct policy_branch *ret);

/* Make a random number for policy_next(). */
uint64_t branch_stats_random(void);

#endif
