/* SPDX-License-Identifier: Apache-2.0 */
#include "union/config/policy.h"

#include <string.h>

#include "base/cleanup.h"
#include "union/sys/branch_flags.h"

#define ROW(name, scope, choice, help)                      \
	{                                                   \
		name, help, POLICY_##scope, POLICY_##choice \
	}

static const struct policy policies[] = {
	ROW("pfrd", ANYWHERE, WEIGHTED,
	    "at random; twice the free space, twice the chance"),
	ROW("mfs", ANYWHERE, MOST_FREE, "the branch with the most free space"),
	ROW("lfs", ANYWHERE, LEAST_FREE,
	    "with the least that is at least minfreespace"),
	ROW("lus", ANYWHERE, LEAST_USED, "with the least used space"),
	ROW("lup", ANYWHERE, LEAST_SHARE, "with the least used percentage"),
	ROW("ff", ANYWHERE, FIRST, "the first branch with room"),
	ROW("rand", ANYWHERE, RANDOM, "at random"),
	ROW("newest", EXISTING, NEWEST,
	    "where the directory changed last, then the first"),
	ROW("all", ANYWHERE, ALL, "as ff; directories on all branches"),
	ROW("local", ANYWHERE, LOCAL,
	    "branches flagged local first, most free space"),
	ROW("epall", EXISTING, ALL,
	    "as epff; directories on all branches with their parent"),
	ROW("epff", EXISTING, FIRST,
	    "branches that hold the directory first, as ff"),
	ROW("eplfs", EXISTING, LEAST_FREE, "the same, as lfs"),
	ROW("eplus", EXISTING, LEAST_USED, "the same, as lus"),
	ROW("eplup", EXISTING, LEAST_SHARE, "the same, as lup"),
	ROW("epmfs", EXISTING, MOST_FREE, "the same, as mfs"),
	ROW("eppfrd", EXISTING, WEIGHTED, "the same, as pfrd"),
	ROW("eprand", EXISTING, RANDOM, "the same, as rand"),
	ROW("msplfs", SHARED, LEAST_FREE,
	    "branches with most of the path first, as lfs"),
	ROW("msplus", SHARED, LEAST_USED, "the same, as lus"),
	ROW("msplup", SHARED, LEAST_SHARE, "the same, as lup"),
	ROW("mspmfs", SHARED, MOST_FREE, "the same, as mfs"),
	ROW("msppfrd", SHARED, WEIGHTED, "the same, as pfrd"),
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

bool policy_has_room(const struct policy_branch *branch)
{
	return branch->available && branch->available >= branch->min_free;
}

unsigned policy_filter(struct policy_branch *branches, unsigned count)
{
	unsigned i, n = 0;

	for (i = 0; i < count; i++)
		if (!(branches[i].flags & (BRANCH_RO | BRANCH_NC)))
			branches[n++] = branches[i];
	return n;
}

/* Branches of a higher group are tried before all of a lower one. */
static uint64_t policy_group(const struct policy *policy,
			     const struct policy_branch *branch)
{
	if (!policy_has_room(branch))
		return 0;
	if (policy->scope == POLICY_EXISTING)
		return 1 + branch->has_parent;
	if (policy->scope == POLICY_SHARED)
		return 1 + (uint64_t)branch->shared;
	return 1;
}

static int compare_space(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

/* used / (used + available), as whole numbers that cannot overflow. */
static int compare_share(const struct policy_branch *a,
			 const struct policy_branch *b)
{
	__extension__ typedef unsigned __int128 wide;
	wide left = (wide)a->used * b->available;
	wide right = (wide)b->used * a->available;

	return left < right ? -1 : left > right;
}

/* Less than 0: @a before @b, 0: no matter. */
static int prefer(enum policy_choice choice, const struct policy_branch *a,
		  const struct policy_branch *b)
{
	int local = !!(b->flags & BRANCH_LOCAL) - !!(a->flags & BRANCH_LOCAL);

	switch (choice) {
	case POLICY_MOST_FREE: return compare_space(b->available, a->available);
	case POLICY_LEAST_FREE:
		return compare_space(a->available, b->available);
	case POLICY_LEAST_USED: return compare_space(a->used, b->used);
	case POLICY_LEAST_SHARE: return compare_share(a, b);
	case POLICY_NEWEST:
		return (a->changed_ns < b->changed_ns) -
		       (a->changed_ns > b->changed_ns);
	case POLICY_LOCAL:
		return local ? local
			     : compare_space(b->available, a->available);
	case POLICY_FIRST:
	case POLICY_ALL:
	case POLICY_WEIGHTED:
	case POLICY_RANDOM: break;
	}
	return 0;
}

/* Chances of a branch; those of 256 branches add up in 64 bits. */
static uint64_t weight_of(enum policy_choice choice,
			  const struct policy_branch *branch)
{
	return choice == POLICY_RANDOM ? 1 : (branch->available >> 9) + 1;
}

struct draw {
	const struct policy *policy;
	uint64_t group;
	bool random;
};

static unsigned choose_random(const struct draw *draw,
			      const struct policy_branch *branches,
			      unsigned count, uint64_t random)
{
	uint64_t sum = 0, at;
	unsigned i, last = 0;

	for (i = 0; i < count; i++)
		if (policy_group(draw->policy, &branches[i]) == draw->group)
			sum += weight_of(draw->policy->choice, &branches[i]);
	at = sum ? random % sum : 0; /* the group has one at least */
	for (i = 0; i < count; i++) {
		if (policy_group(draw->policy, &branches[i]) != draw->group)
			continue;
		last = i;
		sum = weight_of(draw->policy->choice, &branches[i]);
		if (at < sum)
			break;
		at -= sum;
	}
	return last;
}

static unsigned choose_best(const struct draw *draw,
			    const struct policy_branch *branches,
			    unsigned count)
{
	enum policy_choice choice = draw->group ? draw->policy->choice
						: POLICY_MOST_FREE;
	unsigned i, best = count;
	int order;

	for (i = 0; i < count; i++) {
		if (policy_group(draw->policy, &branches[i]) != draw->group)
			continue;
		order = best == count
				? -1
				: prefer(choice, &branches[i], &branches[best]);
		if (order < 0 || (!order && branches[i].id < branches[best].id))
			best = i;
	}
	return best;
}

void policy_next(const struct policy *policy, struct policy_branch *branches,
		 unsigned count, uint64_t random)
{
	struct draw draw = {.policy = policy};
	struct policy_branch one;
	uint64_t group;
	unsigned i, best;

	for (i = 0; i < count; i++) {
		group = policy_group(policy, &branches[i]);
		if (group > draw.group)
			draw.group = group;
	}
	draw.random = draw.group && (policy->choice == POLICY_WEIGHTED ||
				     policy->choice == POLICY_RANDOM);
	best = draw.random ? choose_random(&draw, branches, count, random)
			   : choose_best(&draw, branches, count);
	one = branches[best];
	branches[best] = branches[0];
	branches[0] = one;
}
