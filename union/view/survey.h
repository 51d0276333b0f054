/* SPDX-License-Identifier: Apache-2.0 */
/* What policies are told of the branches of a union (union/config/policy.h). */
#ifndef UNION_SURVEY_H
#define UNION_SURVEY_H

#include "union/view/unionfs.h"

/* The branches a new name in @parent may go to, one after another. */
struct survey {
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
 * survey_filter() drops them.
 */
void survey_begin(struct survey *survey, struct unionfs *fs,
		  const struct node *parent, const struct policy *policy);
void survey_filter(struct survey *survey);

/* The next branch to try, or NULL: there is none left. */
const struct policy_branch *survey_next(struct survey *survey,
					struct unionfs *fs,
					const struct node *parent);

/*
 * What is known of one branch without its directories: has_parent, shared and
 * changed_ns are for the caller to fill in.
 */
void survey_branch(const struct unionfs *fs, struct branch *branch,
		   int64_t now_ms, struct policy_branch *ret);

/* For policy_next(). */
uint64_t survey_random(void);

#endif
