/* SPDX-License-Identifier: Apache-2.0 */
#include "union/policy.h"

#include <string.h>

#include "base/cleanup.h"
#include "union/branch.h"

static bool more_free(const struct policy_branch *a,
		      const struct policy_branch *b)
{
	return a->available > b->available;
}

static bool first_found(const struct policy_branch *a,
			const struct policy_branch *b)
{
	return a->id < b->id;
}

static bool existing_path(const struct policy_branch *a,
			  const struct policy_branch *b)
{
	if (a->has_parent != b->has_parent)
		return a->has_parent;
	return more_free(a, b);
}

static bool local_first(const struct policy_branch *a,
			const struct policy_branch *b)
{
	if ((a->flags ^ b->flags) & BRANCH_LOCAL)
		return a->flags & BRANCH_LOCAL;
	return more_free(a, b);
}

static const struct policy policies[] = {
	{"mfs", "the branch with the most free space", more_free},
	{"ff", "the first branch with room", first_found},
	{"epmfs", "branches that hold the directory first, most free space",
	 existing_path},
	{"local", "branches flagged local first, most free space", local_first},
};

const struct policy *policy_at(unsigned i)
{
	return i < array_size(policies) ? &policies[i] : NULL;
}

const struct policy *policy_find(const char *name)
{
	unsigned i;

	for (i = 0; i < array_size(policies); i++)
		if (strcmp(policies[i].name, name) == 0)
			return &policies[i];
	return NULL;
}

static bool goes_before(const struct policy *policy, uint64_t min_free,
			const struct policy_branch *a,
			const struct policy_branch *b)
{
	bool a_room = a->available && a->available >= min_free;
	bool b_room = b->available && b->available >= min_free;

	if (a_room != b_room)
		return a_room;
	return a_room ? policy->before(a, b) : more_free(a, b);
}

unsigned policy_order(const struct policy *policy, uint64_t min_free,
		      struct policy_branch *branches, unsigned count)
{
	struct policy_branch one;
	unsigned i, j, n = 0;

	/* By insertion: stable, and nearly always a handful. */
	for (i = 0; i < count; i++) {
		one = branches[i];
		if (one.flags & BRANCH_RO)
			continue;
		for (j = n;
		     j && goes_before(policy, min_free, &one, &branches[j - 1]);
		     j--)
			branches[j] = branches[j - 1];
		branches[j] = one;
		n++;
	}
	return n;
}
