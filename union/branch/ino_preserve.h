/* SPDX-License-Identifier: Apache-2.0 */
/*
 * st_ino of files that moved to another branch: it stays what it was. The
 * moved file carries it as INODE_NUMBER_XATTR, and what is left of the file
 * on its first branch, an empty one in BRANCH_WORK_DIR, keeps that file
 * system from giving the number to another. That stub goes with the file. Of a
 * directory whose first copy went the stub is that copy, which is empty by
 * then.
 *
 * Of files only branches that have such files are asked for the attribute; a
 * mark in their BRANCH_WORK_DIR says so.
 */
#ifndef UNION_INO_PRESERVE_H
#define UNION_INO_PRESERVE_H

#include "union/branch/branch.h"
#include "union/sys/handle.h"

#define INO_PRESERVE_NAME_MAX 32

/* At a mount, or when it is added: has @branch files that moved there? */
void ino_preserve_look(struct branch *branch);

/* One is about to move there: mark it, durably. 0 or -errno. */
int ino_preserve_mark(struct branch *branch);

/*
 * st_ino of @name in @dirfd (@name "": @dirfd itself), which is no directory;
 * @ino is that of the branch. 0 or -errno.
 */
int ino_preserve_read(const struct branch *branch, int dirfd, const char *name,
		      uint64_t ino, uint64_t *ret);

/* The stub's name in BRANCH_WORK_DIR; @ret: INO_PRESERVE_NAME_MAX bytes. */
void ino_preserve_name(uint64_t number, char *ret);

/* Is the inode @handle of @branch nothing but the stub that keeps @number? */
bool ino_preserve_is_stub(const struct branch *branch, uint64_t number,
			  const struct handle *handle);

/*
 * The file @fd (may be O_PATH) of @branch, found by its last name, has gone:
 * so may the stub that keeps its number.
 */
void ino_preserve_end(const struct branch_table *table, unsigned branch,
		      int fd);

/*
 * The copy @name in @dirfd on @branch of a directory that has others goes;
 * @number is the directory's. Nobody uses it meanwhile. 0; -ENOTEMPTY; -errno.
 */
int ino_preserve_remove_copy(const struct branch *branch, int dirfd,
			     const char *name, uint64_t number);

/* The directory @fd (may be O_PATH), its last copy, has gone: as above. */
void ino_preserve_end_dir(const struct branch_table *table, int fd);

#endif
