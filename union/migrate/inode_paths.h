/* SPDX-License-Identifier: Apache-2.0 */
/* The names that a file has on its branch. */
#ifndef UNION_INODE_PATHS_H
#define UNION_INODE_PATHS_H

#include "union/migrate/migrate_file.h"

struct found_names {
	struct migrate_name *names; /* owned, with their directories held */
	unsigned count;
};

/*
 * Find all names of the file @file on @branch. For a file with one name that is
 * quick; for others the branch is searched.
 *
 * 0, and inode_paths_done() frees; -ENOENT: it has none; -ESTALE: they changed
 * meanwhile; -EMLINK: more than RELOCATE_NAMES_MAX.
 */
int inode_paths(struct unionfs *fs, const struct branch *branch,
		const struct handle *file, struct found_names *ret);
void inode_paths_done(struct unionfs *fs, struct found_names *found);

#endif
