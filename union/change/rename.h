/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of a rename, between the files that do it. */
#ifndef UNION_RENAME_H
#define UNION_RENAME_H

#include "union/change/rename_parts.h"
#include "union/view/lookup.h"

/* One rename: where a name was found and where it goes. */
struct rename_args {
	struct unionfs *fs;
	struct request *request;
	struct node *from_dir, *to_dir;
	const char *from_name, *to_name;
	struct hit *from, *to;
	int from_count, to_count; /* to_count 0: the target is new */
	unsigned flags;
	bool all; /* hidden files of the old name go, too; else they appear */
};

/*
 * Rename as the members say, but for from, to, their counts and all: these are
 * set here. 0 or -errno, as renameat2(2).
 */
int rename_name(struct rename_args *m);

/* Get the hit on @branch, or NULL. */
const struct hit *rename_hit_on(const struct hit *hits, int count,
				unsigned branch);

/* Is hits[i] seen at the name, or a part of the directory seen there? */
bool rename_is_seen(const struct hit *hits, int i);

/*
 * Add the files that the first of @hits hides to @gone, the highest branch
 * first. There is room for @count more.
 */
void rename_add_hidden(struct unionfs *fs, const struct hit *hits, int count,
		       const char *name, struct rename_gone *gone,
		       int *gone_count);

/*
 * Note the names before they are there, but after the directories they are in
 * have been cloned: a clone begins with no names.
 */
void rename_note_names(const struct rename_args *m);

/*
 * Rename a directory and all its copies. The caller has fs->tree for writing.
 */
int rename_dir(const struct rename_args *m);

/* Exchange two names on any branches (RENAME_EXCHANGE). fs->tree likewise. */
int rename_exchange(const struct rename_args *m);

#endif
