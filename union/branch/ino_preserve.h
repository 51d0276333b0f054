/* SPDX-License-Identifier: Apache-2.0 */
/*
 * st_ino of files that moved to another branch: it stays the same. The moved
 * file carries its number as INODE_NUMBER_XATTR. A stub stays on the first
 * branch, an empty file in BRANCH_WORK_DIR. That file system gives the number
 * to no other file meanwhile. The stub goes with the file. For a directory
 * whose first copy went the stub is that copy, which is empty by then.
 *
 * Files are asked for the attribute only on branches with such files, which
 * have a mark in their BRANCH_WORK_DIR.
 *
 * A branch's place in the numbers that it gives is its id, or the one that a
 * note on it says. A file system may take over what another one has, while the
 * union is mounted. It then gets an id after all others, but at the next mount
 * the other one's place in the list. With a note its numbers stay, and are none
 * that the other one gave (inode_number.h: turns). The note is the file
 * INO_PLACE_FILE in BRANCH_WORK_DIR, the text "PLACE TURN" and a newline, 0 to
 * 255 both. The program that adds the branch writes the note before.
 */
#ifndef UNION_INO_PRESERVE_H
#define UNION_INO_PRESERVE_H

#include "union/branch/branch.h"
#include "union/sys/handle.h"
#include "union/sys/inode_number.h"

#define INO_PRESERVE_NAME_MAX 32
#define INO_PLACE_FILE        "place"

/*
 * Look, at a mount or when @branch is added or is back, whether files moved
 * there, and for its note of a place.
 */
void ino_preserve_look(struct branch *branch);

/* The union's number of the inode @ino of @branch. */
static inline uint64_t branch_number(const struct branch *branch, uint64_t ino)
{
	return inode_number_of_turn(branch->place, branch->turn, ino);
}

/* Mark the branch durably before a file moves there. 0 or -errno. */
int ino_preserve_mark(struct branch *branch);

/*
 * Get st_ino of @name in @dirfd (@name "": @dirfd itself), which is no
 * directory; @ino is that of the branch. 0 or -errno.
 */
int ino_preserve_ask(const struct branch *branch, int dirfd, const char *name,
		     uint64_t ino, uint64_t *ret);
static inline int ino_preserve_read(const struct branch *branch, int dirfd,
				    const char *name, uint64_t ino,
				    uint64_t *ret)
{
	if (atomic_load(&branch->has_numbers))
		return ino_preserve_ask(branch, dirfd, name, ino, ret);
	*ret = branch_number(branch, ino);
	return 0;
}

/*
 * Make the stub's name in BRANCH_WORK_DIR; @ret: INO_PRESERVE_NAME_MAX bytes.
 */
void ino_preserve_name(uint64_t number, char *ret);

/* Is the inode @handle of @branch nothing but the stub that keeps @number? */
bool ino_preserve_is_stub(const struct branch *branch, uint64_t number,
			  const struct handle *handle);

/*
 * Remove the stub of the file @fd (may be O_PATH) of @branch, which has gone
 * and was found by its last name.
 */
void ino_preserve_end(const struct branch_table *table, unsigned branch,
		      int fd);

/*
 * Remove the copy @name in @dirfd on @branch of a directory that has others;
 * @number is the directory's. Nobody uses the copy meanwhile. 0; -ENOTEMPTY;
 * -errno.
 */
int ino_preserve_remove_copy(const struct branch *branch, int dirfd,
			     const char *name, uint64_t number);

/*
 * Do the same after the directory @fd (may be O_PATH), its last copy, has gone.
 */
void ino_preserve_end_dir(const struct branch_table *table, int fd);

#endif
