/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which names a directory has on which branch, kept for directories in use,
 * so that it can be said of a branch that does not answer that it has no such
 * name. Eight bytes a name: a hash of it and the branch. A name is in it as
 * often as it was put there, and what is not there is never left out: a hash
 * that two names share costs no more than a needless "maybe".
 *
 * A directory made by us begins empty and known. Another is read when names
 * are looked up in it: at first only if it is small, the larger the more
 * lookups there were. The kernel locks a directory for lookups in it against
 * all that changes names in it, so a reading misses nothing and meets no name
 * that is put here at the same time; the exception is clone_dir(), which says
 * when it begins and ends to make one: nothing is read meanwhile.
 *
 * Whoever makes a name on a branch says so before, by name_filter_add(), and
 * after the directory was made there: nothing is noted of one that is not
 * known.
 */
#ifndef UNION_NAME_FILTER_H
#define UNION_NAME_FILTER_H

#include "union/view/unionfs.h"

#define NAME_FILTER_READ_FIRST 4096 /* entries read at the first lookup */
#define NAME_FILTER_CHECK_EVERY \
	64                    /* questions of a thread, then one of more: */
#define NAME_FILTER_CHECKED 8 /* branches that are asked as well, in turn */

/* @dir has no names on @branch yet, but those that are added from now on. */
void name_filter_begin(struct unionfs *fs, const struct node *dir,
		       unsigned branch);

/* @name is going to be on @branch. */
void name_filter_add(struct unionfs *fs, const struct node *dir,
		     const char *name, unsigned branch);

/*
 * The same, but without the kernel's lock of @dir, which stays a node until
 * name_filter_make_end(), called in any case. @made: it is there now.
 */
void name_filter_make_begin(struct unionfs *fs, const struct node *dir,
			    const char *name, unsigned branch);
void name_filter_make_end(struct unionfs *fs, const struct node *dir,
			  const char *name, unsigned branch, bool made);

/* It was, and has gone. */
void name_filter_remove(struct unionfs *fs, const struct node *dir,
			const char *name, unsigned branch);

/* May @name be in the copy of @dir on @branch? True when it is not known. */
bool name_filter_may_have(const struct node *dir, const char *name,
			  unsigned branch);

/*
 * The branches on which @dir may have @name, as bits: all of which not every
 * name is known, and those that have it. Now and then some of the others,
 * so that name_filter_confirm() can find who does not keep to the rules.
 *
 * @count  branches of the union
 */
void name_filter_where(const struct node *dir, unsigned count, const char *name,
		       uint64_t ret[BRANCH_MAX / 64]);

static inline bool name_filter_is_in(const uint64_t *set, unsigned branch)
{
	return set[branch / 64] >> branch % 64 & 1;
}

/*
 * @name was found there. If that was not known somebody did not say so: that
 * is logged, and nothing is known any more of @dir.
 */
void name_filter_confirm(const struct node *dir, const char *name,
			 unsigned branch);

/* A name is looked up in @dir: read what is not known of it, if it is time. */
void name_filter_learn(struct unionfs *fs, const struct node *dir);

/* The node @id is no more, or what is known of it is not to be relied on. */
void name_filter_forget(uint64_t id);
void name_filter_forget_all(void);

/* What is on @branch may not be what was there: nothing is known of it. */
void name_filter_forget_branch(unsigned branch);

#endif
