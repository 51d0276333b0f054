/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Policies, which choose the branch of a new name: the branch tried first, and
 * the next when that one has no room. Pure: the caller gives the facts of the
 * branches and the random number.
 */
#ifndef UNION_POLICY_H
#define UNION_POLICY_H

#include <stdbool.h>
#include <stdint.h>

/* Rule that chooses one of the branches left. */
enum policy_choice {
	POLICY_FIRST,       /* the first one */
	POLICY_ALL,         /* too; a new directory is made on all of them */
	POLICY_MOST_FREE,   /* available bytes */
	POLICY_LEAST_FREE,  /* available bytes */
	POLICY_LEAST_USED,  /* used bytes */
	POLICY_LEAST_SHARE, /* used bytes of all it has */
	POLICY_WEIGHTED,    /* at random, by available bytes */
	POLICY_RANDOM,      /* at random, all alike */
	POLICY_NEWEST,      /* whose copy of the directory changed last */
	POLICY_LOCAL,       /* BRANCH_LOCAL, then POLICY_MOST_FREE */
};

/* Set of branches that come before the others, for any choice. */
enum policy_scope {
	POLICY_ANYWHERE,
	POLICY_EXISTING, /* those that have the directory */
	POLICY_SHARED,   /* those that have most of the path to it */
};

struct policy {
	const char *name;
	const char *help;
	enum policy_scope scope;
	enum policy_choice choice;
};

struct policy_branch {
	unsigned id;        /* its place in the table */
	unsigned flags;     /* BRANCH_LOCAL and the like */
	bool has_parent;    /* the directory of the new name is on it */
	unsigned shared;    /* leading names of its path that are, too */
	int64_t changed_ns; /* mtime of the directory there; INT64_MIN: none */
	uint64_t available; /* bytes */
	uint64_t used;      /* bytes */
	uint64_t min_free;  /* bytes; with less it is a last choice */
};

/* Find a policy by its name; NULL: there is none. */
const struct policy *policy_find(const char *name);

/* Get the @i-th policy, NULL past the last; the first is the default. */
const struct policy *policy_at(unsigned i);

/* Has the branch its minimum of free space? */
bool policy_has_room(const struct policy_branch *branch);

/*
 * Drop the branches where nothing may be made: read-only, NC. Returns the
 * number of those left.
 */
unsigned policy_filter(struct policy_branch *branches, unsigned count);

/*
 * Bring the branch to try next to the front of @branches. They are those left
 * by policy_filter(), without those tried already. Branches without room come
 * last, the one with most room first. So no policy makes a create fail while
 * any branch has room. Of equal branches the lowest id is chosen.
 *
 * @count   at least 1
 * @random  all its bits; the policies "at random" and no other look at it
 */
void policy_next(const struct policy *policy, struct policy_branch *branches,
		 unsigned count, uint64_t random);

#endif
