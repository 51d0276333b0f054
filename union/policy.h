/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a new name goes: a policy orders the branches, and the creation is
 * tried on each in turn until one has room. Pure.
 */
#ifndef UNION_POLICY_H
#define UNION_POLICY_H

#include <stdbool.h>
#include <stdint.h>

struct policy_branch {
	unsigned id;        /* its place in the table */
	unsigned flags;     /* BRANCH_LOCAL, BRANCH_RO */
	bool has_parent;    /* the directory of the new name is on it */
	uint64_t available; /* bytes */
};

struct policy {
	const char *name;
	const char *help;
	/* Is @a preferred to @b? Both can be written to and have room. */
	bool (*before)(const struct policy_branch *a,
		       const struct policy_branch *b);
};

/* NULL when there is none of that name. */
const struct policy *policy_find(const char *name);

/* The @i-th policy, NULL past the last. */
const struct policy *policy_at(unsigned i);

/*
 * Sort @branches, best first, and drop those with BRANCH_RO. Branches with
 * less than @min_free bytes come last, the one with most room first: what a
 * policy wants is never a reason to fail while any branch has room. Equals
 * stay in the order of their ids. Returns how many are left.
 */
unsigned policy_order(const struct policy *policy, uint64_t min_free,
		      struct policy_branch *branches, unsigned count);

#endif
