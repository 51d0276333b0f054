/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The names of a directory on each branch, kept for directories in use. They
 * tell that a branch that does not answer has no such name. A name takes eight
 * bytes: a hash of it and the branch. Names are counted: what was added twice
 * is removed twice. A name on a branch is never missing. A hash that two names
 * share costs a needless "maybe", no more.
 *
 * A directory made by the server begins empty and known. Any other directory
 * is read after lookups in it. The more lookups there were, the larger a
 * directory may be that is read.
 *
 * The kernel locks a directory for lookups in it against all changes of names
 * in it. So a reading misses nothing and meets no name that is put here at the
 * same time. The exception is clone_dir(), which says when it begins and ends
 * to make a directory: nothing is read meanwhile.
 *
 * A caller that makes a name on a branch calls name_filter_add() before. When
 * the name is a directory's, it calls name_filter_begin() after. Nothing is
 * noted of a directory that is not known.
 */
#ifndef UNION_NAME_FILTER_H
#define UNION_NAME_FILTER_H

#include "union/view/unionfs.h"

#define NAME_FILTER_READ_FIRST 4096 /* entries read at the first lookup */
/* After so many questions a thread asks branches that need not be asked. */
#define NAME_FILTER_CHECK_EVERY 64
#define NAME_FILTER_CHECKED     8 /* such branches, in turn */

/* Begin @dir on @branch as known and empty, but for names added from now on. */
void name_filter_begin(struct unionfs *fs, const struct node *dir,
		       unsigned branch);

/* Note that @name is going to be on @branch. */
void name_filter_add(const struct node *dir, const char *name, unsigned branch);

/*
 * Do the same without the kernel's lock of @dir. @dir stays a node until
 * name_filter_make_end(), which is called in any case. @made: the name is there
 * now.
 */
void name_filter_make_begin(struct unionfs *fs, const struct node *dir,
			    const char *name, unsigned branch);
void name_filter_make_end(struct unionfs *fs, const struct node *dir,
			  const char *name, unsigned branch, bool made);

/* Note that a name that was there has gone. */
void name_filter_remove(const struct node *dir, const char *name,
			unsigned branch);

/* May @name be in the copy of @dir on @branch? True when it is not known. */
bool name_filter_may_have(const struct node *dir, const char *name,
			  unsigned branch);

/*
 * Get the branches on which @dir may have @name, as bits: those that have it,
 * and those of which not every name is known. Now and then some others are
 * added, so that name_filter_confirm() can find a caller that breaks the rules.
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
 * Note that @name was found there. If that was not known, a caller broke the
 * rules: that is logged, and nothing is known any more of @dir.
 */
void name_filter_confirm(const struct node *dir, const char *name,
			 unsigned branch);

/* Read the unknown copies of @dir at a lookup in it, if it is time. */
void name_filter_learn(struct unionfs *fs, const struct node *dir);

/*
 * Forget the node @id, which is no more, or whose names are not to be relied
 * on.
 */
void name_filter_forget(uint64_t id);
void name_filter_forget_all(void);

/* Forget the names on @branch, whose content may have changed. */
void name_filter_forget_branch(unsigned branch);

#endif
