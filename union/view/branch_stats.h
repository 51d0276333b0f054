/* SPDX-License-Identifier: Apache-2.0 */
/* What policies are told of the branches of a union (union/config/policy.h). */
#ifndef UNION_BRANCH_STATS_H
#define UNION_BRANCH_STATS_H

#include "union/view/unionfs.h"

/* The branches a new name in @parent may go to, one after another. */
struct branch_stats {
	const struct policy *policy;
	struct policy_branch *rest; /* those not taken yet */
	unsigned count;
	bool shared_known; /* of @rest: policy_branch.shared */
	struct policy_branch branches[BRANCH_MAX];
};

/*
 * Ask for what @policy needs to know of all branches. Cheap: free space is
 * that of the last second, and only POLICY_NEWEST looks at the copies of
 * @parent. Branches where nothing may be made are there, too, until
 * branch_stats_filter() drops them.
 */
void branch_stats_begin(struct branch_stats *survey, struct unionfs *fs,
			const struct node *parent, const struct policy *policy);
void branch_stats_filter(struct branch_stats *survey);

/* The next branch to try, or NULL: there is none left. */
const struct policy_branch *branch_stats_next(struct branch_stats *survey,
					      struct unionfs *fs,
					      const struct node *parent);

/*
 * What is known of one branch without its directories: has_parent, shared and
 * changed_ns are for the caller to fill in.
 */
void branch_stats_branch(const struct unionfs *fs, struct branch *branch,
			 int64_t now_ms, struct policy_branch *ret);

/* For policy_next(). */
uint64_t branch_stats_random(void);

#endif
